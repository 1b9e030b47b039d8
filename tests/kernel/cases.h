/* SPDX-License-Identifier: Apache-2.0
 *
 * Single cases of linear and of experts, for programs that make their own lists.
 */
#pragma once
#include "tests/kernel/kernel_test.h"

enum { MAX_LINEAR_OUT = 4 };

struct linear_case {
	struct weight_kind kind;
	int32_t t, k, n[MAX_LINEAR_OUT]; /* n 0: fewer outputs */
	bool has_bias, adds;
	bool to_act; /* the result is an activation */
};

/* With a norm before and an activation behind. */
struct fused_case {
	struct weight_kind kind;
	int32_t t, k, n[MAX_LINEAR_OUT];
	bool has_bias;
	const struct activation *act;
};

enum { NO_ROUTER, BF16_ROUTER, SAME_ROUTER };

enum { CLAMPED = 1, GELU = 2, RELU = 3, CLIPPED = 4 };
struct experts_case {
	struct weight_kind kind;
	int32_t t, d, f, e, u;
	int act;          /* 0: silu; CLAMPED, with biases; others */
	int32_t shared;   /* width of the shared expert; 0: none */
	int shared_router; /* its router: none, in bfloat16, or of `kind` */
};

/* State facts; the caller resets kt behind each. */
void kernel_linear_case(struct kernel_test *kt, const struct linear_case *c);
void kernel_fused_case(struct kernel_test *kt, const struct fused_case *c);
void kernel_experts_case(struct kernel_test *kt, const struct experts_case *c);
/* Up, the shared expert's up, and every second down are of another format. */
void kernel_mixed_case(struct kernel_test *kt, const struct experts_case *c, enum quant other);
/* With adapters of the routed experts, of up to `rank`. */
void kernel_adapted_case(struct kernel_test *kt, const struct experts_case *c, int32_t rank);
/* Of tokens that the operation normalises and routes itself. */
enum routing_rule { SOFTMAX, SIGMOID, SHIFTED };
void kernel_routed_case(struct kernel_test *kt, const struct experts_case *c,
			enum routing_rule rule);

/* Cases that reach each kernel of linear and of experts, in each way that it can be
 * called: for the HIP backend as fibers_run has made it. */
void forms_int4(struct kernel_test *kt);       /* int4_axes: of linear_int4.def */
void forms_route(struct kernel_test *kt);      /* int4_axes: of linear_int4.def */
void forms_tile(struct kernel_test *kt);       /* tile */
void forms_rows(struct kernel_test *kt);       /* few tokens, formats beside int4 */
void forms_any(struct kernel_test *kt);        /* what has no kernel of its own */
void forms_experts_tile(struct kernel_test *kt);
void forms_experts_few(struct kernel_test *kt);
