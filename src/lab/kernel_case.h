/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation of a real model's step, ready to be queued: for measuring, tuning, and
 * listing its launches. Weights are random (case_weight.h). There are enough copies of them
 * that a copy is in no cache when its turn comes. Thread: engine's.
 */
#pragma once
#include "backend/backend.h"
#include "ctl/options.h"

enum case_op {
	CASE_LINEAR,
	CASE_FFN_UP, /* linear of gate and up with norm and silu; separate from
		      * CASE_LINEAR, so that tuning does not use the same weights twice */
	CASE_EXPERTS, CASE_ROUTER, CASE_ATTENTION, CASE_NORM,
	CASE_TOP     /* logits_top, for logits just written by the head */
};

/* The shape of a case, in the letters of kernels/README.md. */
struct case_shape {
	const char *model, *part; /* as in "qwen3-8b", "qkv" */
	enum case_op op;
	enum quant quant;         /* of the weights; see case_weight.h for scales */
	int32_t k; /* inputs: D for linear, experts, router, norm; K for attention */
	int32_t n[LINEAR_MAX_OUT]; /* linear: outputs of each weight, then 0; top: V */
	bool adds;                /* linear: adds to the residual stream */
	int32_t experts, used, f; /* E, U, F of experts and router */
	int32_t heads, kv_heads;  /* H, G of attention */
};

const struct case_shape *case_shape_at(size_t i); /* NULL past the last shape */
/* True if the shape's weights may have any format: a copy of it may have another `quant`. */
bool case_shape_takes_formats(const struct case_shape *s);
/* Parts that are compared in several formats if none is named. */
#define CASE_FORMAT_PARTS "gate-up,ffn-up,down,experts"
/* The name of a shape of no real model. It is small enough to run without a GPU, and is
 * used only if named. */
#define CASE_TINY "tiny"

struct kernel_case;

struct case_opts {
	int32_t group;     /* group of int4: 32 or 128 */
	bool is_asymmetric;
	int32_t n_tok;
	int32_t depth;     /* attention: positions that the last token sees */
	size_t cold_bytes; /* all copies of the weights together have at least this size */
	bool is_null;      /* nothing is executed: one copy, contents undefined */
};

/* E_NOMEM; E_UNSUPPORTED: see backend_why. */
enum status kernel_case_create(struct backend *b, const struct case_shape *s,
			       const struct case_opts *o, struct kernel_case **out,
			       struct fail *fail) MUST_USE;
void kernel_case_destroy(struct kernel_case *c);
/* Queue the operation once, on copy i modulo the number of copies. */
enum status kernel_case_queue(struct kernel_case *c, int i) MUST_USE;
int kernel_case_copies(const struct kernel_case *c);
/* Bytes that one run must read (weights, cache or logits), and its arithmetic operations. */
double kernel_case_bytes(const struct kernel_case *c);
double kernel_case_flops(const struct kernel_case *c);

/* Common arguments of the commands that measure cases. */
struct case_args {
	struct backend_opts backend;
	const char *model, *part; /* names separated by commas; NULL: all */
	int64_t group, cold_mb, repeat;
};
#define CASE_DEFAULTS {.backend = {.name = "hip"}, .group = 32, .cold_mb = 512, .repeat = 7}
#define CASE_OPTIONS(a) \
	{"model", 'm', OPTION_TEXT, &(a).model, 0, 0, "NAME,…", \
	 "only shapes of these models (qwen3-30b-a3b, …)"}, \
	{"part", 'p', OPTION_TEXT, &(a).part, 0, 0, "NAME,…", \
	 "only these parts (qkv, experts, …)"}, \
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
/* Like options_parse, for an option set that includes CASE_OPTIONS. */
bool case_args_parse(const struct option_set *set, const struct case_args *a, int argc,
		     char **argv, int *out_exit);
/* True if the shape's model and part are among those asked for. */
bool case_args_want(const struct case_args *a, const struct case_shape *s);
