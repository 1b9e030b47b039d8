/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation of a real model's step, ready to be queued: for measuring, tuning, and
 * for telling which launches it makes. Weights are random; there are as many copies of
 * them as it takes that none is in a cache when its turn comes. Thread: engine's.
 */
#pragma once
#include "backend/backend.h"

enum case_op { CASE_LINEAR, CASE_EXPERTS, CASE_ROUTER, CASE_ATTENTION, CASE_NORM };

/* The letters of kernels/README.md. */
struct case_shape {
	const char *model, *part; /* "qwen3-8b", "qkv" */
	enum case_op op;
	enum quant quant;         /* of linear: INT4 or BF16 */
	int32_t k;                /* linear, experts, router, norm: D. attention: K */
	int32_t n[LINEAR_MAX_OUT]; /* linear: outputs of each weight; 0: no more */
	bool adds;                /* linear: to the residual stream */
	int32_t experts, used, f; /* experts, router */
	int32_t heads, kv_heads;  /* attention */
};

const struct case_shape *case_shape_at(size_t i); /* NULL past the last */

struct kernel_case;

struct case_opts {
	int32_t group;     /* of int4: 32, 128 */
	bool is_asymmetric;
	int32_t n_tok;
	int32_t depth;     /* attention: positions seen by the last token */
	size_t cold_bytes; /* copies of the weights add up to at least this */
	bool is_null;      /* nothing runs: one copy, of no particular bits */
};

/* E_NOMEM, E_UNSUPPORTED (backend_why). */
enum status kernel_case_create(struct backend *b, const struct case_shape *s,
			       const struct case_opts *o, struct kernel_case **out,
			       struct fail *fail) MUST_USE;
void kernel_case_destroy(struct kernel_case *c);
/* Queue it once, on copy i (modulo their number). */
enum status kernel_case_queue(struct kernel_case *c, int i) MUST_USE;
int kernel_case_copies(const struct kernel_case *c);
/* Bytes of weights or cache that one run must read, and operations it must do. */
double kernel_case_bytes(const struct kernel_case *c);
double kernel_case_flops(const struct kernel_case *c);
