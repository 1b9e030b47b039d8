/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps recorded as graphs: see hip_graph.c. Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"

enum status hip_step_begin(struct backend *b, uint64_t key, bool *out_run);
enum status hip_step_end(struct backend *b);
/* Is a step being captured? Then `what` cannot be: it is refused and the recording
 * will be thrown away. */
bool hip_graph_is_open(struct hip *h, const char *what);
/* Memory that graphs may hold the address of is going away. */
void hip_graph_clear(struct hip *h);
