/* SPDX-License-Identifier: Apache-2.0
 *
 * The fastest measured kernels of a chip: <arch>.tune, a text file beside the code
 * object, written by `haloctl kernels tune`. A line:
 *   int4 N K NAME   the row of linear_int4.def for weights with N outputs
 *                   (the sum over one launch) and K inputs
 *   tile N K NAME M   the row of linear_tile.def for these at up to M tokens; without M at
 *                   any number
 *   moe-tile F D NAME M  the same of moe_tile.def for experts of width F
 *   linear-tiles M  smallest number of tokens for which linear uses tiles
 *   expert-tiles M  smallest number of tokens for which moe_experts uses tiles
 *   # …             a comment
 * A line that names an unknown row is ignored with a message in the log. That can cost
 * speed but nothing else. Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"

enum hip_tune_op {
	HIP_TUNE_INT4,
	HIP_TUNE_TILE,
	HIP_TUNE_MOE_TILE,
};

struct hip_tune_row {
	enum hip_tune_op op;
	int32_t n, k, choice; /* choice: index of the row in the .def file */
	int32_t most;         /* most tokens for this row; INT32_MAX: any number */
};

/* Parse the text of a tune file into h->tune (malloc'ed); what: the file's name in the
 * log. */
void hip_tune_read(struct hip *h, struct str text, const char *what);
/* What a row is for: an operation on weights with N outputs and K inputs. */
struct hip_tune_key {
	enum hip_tune_op op;
	int32_t n, k;
	int32_t n_tok;
};
/* Of the measured rows for the key's tokens or more, the one for the fewest; -1: none. */
int hip_tune_find(const struct hip *h, struct hip_tune_key key);
/* Bytes that decide what the kernels compute: their sum goes into backend.arithmetic. */
void hip_tune_note(struct hip *h, struct str bytes);
/* Read <arch>.tune if it exists beside the code object. */
void hip_tune_open(struct hip *h, const struct backend_opts *o);
