/* SPDX-License-Identifier: Apache-2.0
 *
 * What the cases share: inputs, device memory, comparison.
 *
 * A case runs an operation on a backend, and its reference (double) and the same
 * loops in float ("plain") on the host. It passes when
 *   (a) the normalised mean square error is below the limit of the case, that of
 *       each row below ten times the limit (or four times the worst of plain), and
 *   (b) the largest error, relative to the largest number of its row, is at most
 *       twice that of plain and eight units in the last place (few numbers may
 *       leave plain a lucky maximum)
 * and, for what works row by row, when each row computed alone (or, where many tokens
 * have a kernel of their own, among as few as that takes) has the same bits.
 * plain is the reference's own source, included with `double` meaning float.
 *
 * Inputs are noise with outliers, a row of zeros and a row at the format's
 * extremes, from a fixed seed.
 */
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "tests/worse.h"

struct kernel_test {
	struct backend *b;
	const char *name;    /* "cpu, 3 threads" */
	struct arena arena;  /* host memory of the running case */
	void **device;
	size_t n_device;
	uint64_t random;
	bool is_fast;        /* the CPU's fast path, which rounds inputs of linear */
	bool has_bf16_pairs; /* … and to bf16 where the weights are that */
	int32_t tile_from;   /* from so many tokens on another kernel works, whose sums
			      * have another order; 0: never */
	bool is_partial;     /* .hip kernels: no experts in some shapes; cases leave those
			      * out */
	double slack;        /* so much more may the largest error be, for the order of
			      * sums of what is compared */
	bool is_cut;         /* v_dot2 and v_wmma cut: HALOD_GFX11=adder=silicon */
	int32_t n_cut;       /* terms of the case's sums that they add; kernel_test_reset: 0 */
	bool is_variant;     /* int4 or tiles in another shape: formats that neither has
			      * are left out */
	enum quant other; /* of experts: see kernel_mixed_case; 0: they have one format */
	int32_t lora;     /* of experts: see kernel_adapted_case; 0: no adapters */
	bool is_once;        /* rows are not computed again alone */
	int every;           /* the backend takes one case of so many; 0: all */
	unsigned n_asked;    /* calls of kernel_takes; begins at the backend's number */
};

/* True if HALOD_CHECK=short says that time is short, as under a sanitizer. */
bool kernel_is_short(void);

/* False if HALOD_CHECK=quant=NAME says that cases of other formats are not wanted. */
bool kernel_wants(enum quant q);

/* Is the next case of a table taken? HALOD_CHECK=every=N takes one of N, else one of kernel_every.
 * Backends of one program begin at different numbers, so each takes other cases. */
extern int kernel_every; /* 1, or what the program sets */
bool kernel_takes(struct kernel_test *kt);

/* Between cases: give memory back, restart the noise. */
void kernel_test_reset(struct kernel_test *kt);

uint32_t kernel_random(struct kernel_test *kt);
/* About normal, deviation 1. */
float kernel_noise(struct kernel_test *kt);
/* (rows, cols) f32 on the host: noise times scale; every 97th element 50 times as
 * large; row 1, where there is one, all zero; row 2 between 1e-30 and 1e4. */
float *kernel_rows(struct kernel_test *kt, size_t rows, size_t cols, float scale);
float *kernel_zeros(struct kernel_test *kt, size_t n);
int32_t *kernel_ints(struct kernel_test *kt, size_t n);
/* (n_tok, n_freq, 2) f32 on the host: cosine and sine of each position's angles, of base
 * 10,000. One number more, so that it is never empty. */
float *kernel_rope(struct kernel_test *kt, const int32_t *position, int32_t n_tok,
		   int32_t n_freq);

/* Two sequences of n_ctx positions, in pages of which the first is the last in memory. */
struct kernel_pages {
	int32_t n_pages, max_pages, n_tok; /* n_tok: of both */
	int32_t *seq_of, *position, *slot, *table;
};
struct kernel_pages kernel_two_seqs(struct kernel_test *kt, int32_t n_ctx, int32_t page_size);

/* A weight on the host; group 0: one scale a row. Row 1 is zero; row 2, where asked
 * for, holds the least and the greatest numbers of the format (what comes out of it
 * is so large that it hides the errors of the others). Formats after INT4 hold any
 * bits; GPTQ that is_asymmetric has the older zero points. */
struct weight_kind {
	enum quant quant;
	int32_t group;
	bool is_asymmetric;
	enum dtype scale_type;
	int more; /* sum of KIND_... */
};
enum {
	KIND_EXTREMES = 1, /* row 2, see above */
	KIND_TURNS = 2,    /* integers: inputs take their groups in turns, not in runs */
	KIND_BACK = 4,     /* in turns, from the last group to the first */
	KIND_FACTORS = 8,  /* integers: each input has a factor, a power of two */
};
struct weight kernel_weight(struct kernel_test *kt, struct weight_kind kind, int32_t n,
			    int32_t k);
const char *kernel_kind_name(struct weight_kind kind); /* static */

/* Device copies; given back by kernel_test_reset. */
void *kernel_upload(struct kernel_test *kt, const void *host, size_t n_bytes);
struct weight kernel_upload_weight(struct kernel_test *kt, const struct weight *host);
/* Host copy of n floats of device memory. */
float *kernel_download(struct kernel_test *kt, const void *device, size_t n);

#define UPLOAD(kt, p, n) kernel_upload(kt, p, (n) * sizeof *(p))

/* Activations, in the backend's act_type. round: in place, to what that type can say
 * (the reference must see what the kernel sees), and to at most `most`. */
void kernel_act_round(struct kernel_test *kt, float *x, size_t n, float most);
void *kernel_act_upload(struct kernel_test *kt, const float *x, size_t n);
float *kernel_act_download(struct kernel_test *kt, const void *device, size_t n);
/* x (rows, K) as linear of weight w sees it, where the backend rounds that: blocks of
 * 32 (of columns by group) to whole multiples of their largest / 127, of its largest /
 * 16256 for K up to 512, before integers and codes of up to 8 bits; before bf16 and FP8
 * to bf16, for K up to 512 to a sum of two.
 * A copy, or x itself. */
const float *kernel_linear_round(struct kernel_test *kt, const struct weight *w,
				 const float *x, size_t rows);
/* The same in the backend's kv_type. */
void kernel_kv_round(struct kernel_test *kt, float *x, size_t n, float most);
void *kernel_kv_upload(struct kernel_test *kt, const float *x, size_t n);
float *kernel_kv_download(struct kernel_test *kt, const void *device, size_t n);

/* Results of a reference and of plain (n floats each), where another backend had the same
 * inputs (kernel_known.c). The key is that of x (n_x), of how many random numbers the
 * inputs took, of the backend's types, and of `what`, which tells the rest. kernel_recall:
 * false where they are to be computed; then kernel_keep takes copies. */
uint64_t kernel_key(const struct kernel_test *kt, const char *what, const float *x, size_t n_x);
bool kernel_recall(uint64_t key, float *ref, float *plain, size_t n);
void kernel_keep(uint64_t key, const float *ref, const float *plain, size_t n);

/* The relative error that silicon's adder may add to sums of kt->n_cut terms; 0 with another adder.
 * plain: the largest error of a plain evaluation, before any rounding to halves. */
double kernel_cut(const struct kernel_test *kt, double plain);
/* Sum of squared errors over that of squares, (rows, cols). */
double kernel_mean_square(const float *got, const float *ref, size_t rows, size_t cols);
/* Compare (rows, cols); states facts under `what`. Where the result is an activation
 * kernel_act_compare also rounds plain, which alone may exceed the limit then. */
void kernel_compare(struct kernel_test *kt, const float *got, const float *ref,
		    const float *plain, size_t rows, size_t cols, double limit,
		    const char *what);
void kernel_act_compare(struct kernel_test *kt, const float *got, const float *ref,
			float *plain, size_t rows, size_t cols, double limit,
			const char *what);
void kernel_kv_compare(struct kernel_test *kt, const float *got, const float *ref,
		       float *plain, size_t rows, size_t cols, double limit,
		       const char *what);
/* TAP; kernel_test.c keeps the count. */
bool kernel_ok(bool pass, const char *fmt, ...) PRINTF_LIKE(2, 3);
int kernel_done(void); /* exit status */
/* State it where the operation did not return OK. */
void kernel_ran(struct kernel_test *kt, enum status st, const char *what);
/* Counts in *n_wrong where the n floats differ in any bit. */
/* How many rows `row` of t is to be computed among to compare bits; the first of them
 * goes to *first. */
int32_t kernel_company(const struct kernel_test *kt, int32_t row, int32_t t,
		       int32_t *first);
void kernel_same(struct kernel_test *kt, const float *row_alone, const float *row,
		 size_t n, int *n_wrong);

/* attention_ref in float (case_attention.c). */
void attention_plain(const struct attention_args *a);

void case_attention(struct kernel_test *kt);
void case_attention_fused(struct kernel_test *kt);
void case_compress(struct kernel_test *kt); /* and hyper_split, hyper_spread */
void case_delta(struct kernel_test *kt); /* causal_conv, delta_rule, gated_norm, gates */
void case_hyper(struct kernel_test *kt); /* hyper-connections, ngram_gate, index_* */
void case_kv_bytes(struct kernel_test *kt);
void case_linear(struct kernel_test *kt);
void case_logits_top(struct kernel_test *kt);
void case_lora(struct kernel_test *kt); /* lora_add */
void case_mla(struct kernel_test *kt); /* head_linear, mla_rope_kv */
void case_moe_experts(struct kernel_test *kt);
void case_moe_router(struct kernel_test *kt);
void case_qk_norm_rope_kv(struct kernel_test *kt);
void case_rms_norm(struct kernel_test *kt);
void case_rope_table(struct kernel_test *kt);
void case_vision(struct kernel_test *kt); /* layer_norm, gelu, clip */
void case_rows(struct kernel_test *kt); /* embed_rows, gather_rows, kv_copy */
void case_act_mul(struct kernel_test *kt);
