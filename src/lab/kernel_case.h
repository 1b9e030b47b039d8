/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation of a real model's step, ready to be queued: for measuring, tuning, and
 * for telling which launches it makes. Weights are random; there are as many copies of
 * them as it takes that none is in a cache when its turn comes. Thread: engine's.
 */
#pragma once
#include "backend/backend.h"
#include "ctl/options.h"

enum case_op {
	CASE_LINEAR,
	CASE_FFN_UP, /* linear of gate and up with the norm before it and silu behind it: not
		      * CASE_LINEAR, so that nothing is tuned by the same weights twice */
	CASE_EXPERTS, CASE_ROUTER, CASE_ATTENTION, CASE_NORM,
	CASE_TOP     /* logits_top, which a step does with what its head has written */
};

/* The letters of kernels/README.md. */
struct case_shape {
	const char *model, *part; /* "qwen3-8b", "qkv" */
	enum case_op op;
	enum quant quant;         /* of linear: INT4, INT8 (a scale a row) or BF16 */
	int32_t k;                /* linear, experts, router, norm: D. attention: K */
	int32_t n[LINEAR_MAX_OUT]; /* linear: outputs of each weight; 0: no more. top: V */
	bool adds;                /* linear: to the residual stream */
	int32_t experts, used, f; /* experts, router */
	int32_t heads, kv_heads;  /* attention */
};

const struct case_shape *case_shape_at(size_t i); /* NULL past the last */
/* No model's: small enough to run without a GPU, and only where it is named. */
#define CASE_TINY "tiny"

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
/* Bytes of weights, cache or logits that one run must read, and operations it must do. */
double kernel_case_bytes(const struct kernel_case *c);
double kernel_case_flops(const struct kernel_case *c);

/* What the commands that measure cases ask for. */
struct case_args {
	struct backend_opts backend;
	const char *model, *part; /* NULL: of all */
	int64_t group, cold_mb, repeat;
};
#define CASE_DEFAULTS {.backend = {.name = "hip"}, .group = 32, .cold_mb = 512, .repeat = 7}
#define CASE_OPTIONS(a) \
	{"model", 'm', OPTION_TEXT, &(a).model, 0, 0, "NAME", \
	 "only shapes of this model (qwen3-30b-a3b, …)"}, \
	{"part", 'p', OPTION_TEXT, &(a).part, 0, 0, "NAME", \
	 "only this part (qkv, experts, …)"}, \
	{"group", 'g', OPTION_INT, &(a).group, 32, 128, "N", \
	 "group of the int4 weights: 32, 64, 128 (32)"}, \
	{"cold-mb", 0, OPTION_INT, &(a).cold_mb, 1, 65536, "N", \
	 "MiB of weights to go through (512): more than caches hold"}, \
	{"repeat", 'r', OPTION_INT, &(a).repeat, 1, 1000, "N", \
	 "runs of which the median counts (7)"}, \
	{"hip-library", 0, OPTION_TEXT, &(a).backend.hip_library, 0, 0, "FILE", \
	 "the HIP runtime (libamdhip64.so of the system)"}, \
	{"hip-kernels", 0, OPTION_TEXT, &(a).backend.kernel_dir, 0, 0, "DIR", \
	 "where the code objects are"}
/* As options_parse, of a set with CASE_OPTIONS. */
bool case_args_parse(const struct option_set *set, const struct case_args *a, int argc,
		     char **argv, int *out_exit);
/* Of the model and the part that were asked for? */
bool case_args_want(const struct case_args *a, const struct case_shape *s);
