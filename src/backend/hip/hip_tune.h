/* SPDX-License-Identifier: Apache-2.0
 *
 * What was measured to be fastest on a chip: <arch>.tune, a text file beside the code
 * object, written by `haloctl kernels tune`. A line:
 *   int4 N K NAME   the row of linear_int4.def for weights of N outputs (all that one
 *                   launch takes) and K inputs
 *   tile N K NAME   the row of linear_tile.def for the same at many tokens
 *   moe-up F D NAME, moe-down D F NAME  the rows of moe_quad.def for experts of width F
 *   linear-tiles M  from so many tokens on linear works in tiles, where it can
 *   expert-tiles M  the same of moe_experts
 *   # …             a comment
 * A line that names what is not there is left out with a word in the log: it can cost
 * speed and nothing else. Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"

enum hip_tune_op { HIP_TUNE_INT4, HIP_TUNE_TILE, HIP_TUNE_MOE_UP, HIP_TUNE_MOE_DOWN };

struct hip_tune_row {
	enum hip_tune_op op;
	int32_t n, k, choice; /* choice: row of the .def file */
};

/* Of this text, malloc'ed to h->tune; what: its name in the log. */
void hip_tune_read(struct hip *h, struct str text, const char *what);
/* -1: nothing was measured. */
int hip_tune_find(const struct hip *h, enum hip_tune_op op, int32_t n, int32_t k);
/* Does <arch>.tune lie where the code object does? Then read it. */
void hip_tune_open(struct hip *h, const struct backend_opts *o);
