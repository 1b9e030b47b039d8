/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of the fast path. The sources cpu_simd_*.c are compiled once for
 * each instruction set, with its flags, and fill one of these tables; cpu_create
 * takes the best that the processor has. Thread: any.
 *
 * Every loop computes a row's numbers in an order that depends on the row alone, so
 * that rule 4 of kernels/README.md holds within one table. Between two tables the
 * sums of integers agree exactly, those of floats within rounding.
 */
#pragma once
#include "backend/cpu/cpu_panels.h"
#include "kernels/ops/kv_pages.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"

#define CPU_TOK 12      /* tokens of a tile of quantized activations */
#define CPU_BLOCK 32    /* activations of one scale */
#define CPU_DOT_ROWS 4  /* rows of a weight that dots go along together */
#define CPU_DOT_TOK 6   /* inputs, likewise */
#define CPU_TILES 8     /* tiles that a panel is multiplied with at once, at most */

/* How the numbers of a weight are read by dots. */
enum cpu_number {
	CPU_F32, CPU_F16, CPU_BF16,
};

/* Queries of a cpu_attend, at most; and the floats of all of them, each with 16 more. */
enum { CPU_MAX_HEAD = 1024, CPU_QUERIES = 48, CPU_QUERY_ROOM = 16 * (CPU_MAX_HEAD + 16) };

/* What a query has seen: its largest score, the sum of the weights relative to it, and
 * the weighted values. */
struct cpu_state {
	float max, sum;
	float *acc; /* (v_dim, padded to 16) */
};

struct cpu_query {
	const float *q;          /* (K, padded by zeros to 16) */
	int32_t first, position; /* what it sees, both included */
	struct cpu_state state;
};

/* Queries of one sequence with a head of keys and values in common. */
struct cpu_attend {
	const struct kv_pages *kv;
	const int32_t *table; /* the sequence's pages */
	int32_t n_kv_heads, dim, v_dim, g;
	float scale;
	int n; /* queries */
	struct cpu_query *query;
};

/* Floats that hold n, padded to a vector of any instruction set. */
#define CPU_PADDED(n) (((size_t)(n) + 15) / 16 * 16)

/* Two rows of a head's memory (kernels/ops/delta_rule.h), and the tokens that go through. */
#define CPU_DELTA_MAX 512 /* K */
#define CPU_DELTA_KEY(k) (2 * CPU_PADDED(k) + 16)
struct cpu_delta {
	int32_t n_tok, dim; /* K */
	/* (n_tok, CPU_DELTA_KEY(K)): the query over sqrt(K) and the key, both made of
	 * length 1 before and padded by zeros (CPU_PADDED), and their product. */
	const float *keys;
	const float (*gates)[2]; /* (n_tok): exp(g), beta */
	const float *v;          /* of the first row, v_row floats from token to token */
	float *y;                /* likewise */
	size_t v_row, y_row;
};

/* 16 channels, one beside the other, of kernels/ops/causal_conv.h. */
#define CPU_CONV_MAX 8 /* W */
struct cpu_conv {
	int32_t n_tok, width;
	const float *x; /* (n_tok, 16), x_row floats from token to token */
	float *y;
	size_t x_row, y_row;
	float weight[CPU_CONV_MAX][16];
};

/* How inputs of K are rounded to 8 bits. */
struct cpu_rounding {
	int32_t k; /* a multiple of CPU_BLOCK */
	int planes; /* 1, or 2: see cpu_isa.quantize */
	bool is_halved; /* a tile has the sums of 16 columns, not of 32 */
	const int32_t *order; /* (K), as of struct cpu_panels, or NULL */
};

/* Tiles of inputs, one behind the other. */
struct cpu_tiles {
	const void *at;
	int n, n_x[CPU_TILES]; /* inputs of each (places, where each takes two) */
};

struct cpu_isa {
	const char *name; /* "avx512_bf16" */
	enum dtype kv_type;
	bool has_bf16_pairs; /* multiplies pairs of bf16 in one instruction */
	bool packs_bf16;     /* has panels of bf16; else rows go to `dots` */

	/* --- integers: panels times activations rounded to 8 bits ------------- */

	/* int32 words of integers that a tile has for a block of a token. Behind them
	 * are one negative sum, or two if they are halved, and the scale. */
	int q_words;
	/* Rounds K elements each of x[0 .. n_x) to whole multiples of the block's
	 * largest / 127, into the tile (K / 32, words, n_x). With two planes: of the
	 * largest / 16256, the integer q = 128 high + low in the places 2 j and 2 j + 1
	 * of a tile of 2 n_x. n_x * planes is at most CPU_TOK. A block with an infinity
	 * or NaN gives NaN. */
	void (*quantize)(const struct cpu_rounding *r, const float *const *x, int n_x,
			 int32_t *tile);
	/* out[t][j][r] = row r of the panel times input j of tile t. */
	void (*panel)(const struct cpu_panels *w, int32_t i_panel,
		      const struct cpu_tiles *t, float (*out)[CPU_TOK][CPU_PANEL_ROWS]);

	/* --- e4m3 and bf16: panels times activations as floats, or rounded to bf16 if
	 * has_bf16_pairs --- */

	/* x[0 .. n_x) of K into a tile of words: floats (K, rounded up to a multiple of
	 * four by zeros; n_x), or pairs of bf16 (half of that; n_x). With two planes
	 * (pairs only) what rounding leaves is in the place behind. */
	void (*spread)(const float *const *x, int n_x, int32_t k, int planes, void *tile);

	/* --- floats: weights of F32, F16, BF16 rows ---------------------------- */

	/* Bytes of one input of K as `dots` takes it, and K floats to it. */
	size_t (*input_bytes)(int32_t k);
	void (*input)(const float *x, int32_t k, void *out);
	/* out[j][r] = w[r] . x[j] over K elements; w: rows of numbers m, as
	 * many as n_w <= CPU_DOT_ROWS; x: n_x <= CPU_DOT_TOK inputs, `pitch` bytes
	 * apart. fetches: the rows behind these are asked for on the way. */
	void (*dots)(enum cpu_number m, const void *const *w, int n_w, const void *x,
		     size_t pitch, int n_x, int32_t k, bool fetches,
		     float (*out)[CPU_DOT_ROWS]);

	/* --- attention -------------------------------------------------------- */

	/* Adds the positions [from, to) to the states. */
	void (*attend)(const struct cpu_attend *u, int32_t from, int32_t to);
	/* Adds what another state of the same query has seen. */
	void (*attend_join)(struct cpu_state *s, const struct cpu_state *other,
			    int v_dim);

	/* --- gated delta nets -------------------------------------------------- */

	/* from (2, K) through the tokens to `to`; from NULL: zeros. */
	void (*delta)(const struct cpu_delta *d, const float *from, float *to);
	/* window (W - 1): the inputs before the first token; left: those before the one
	 * after the last. */
	void (*conv)(const struct cpu_conv *c, float (*window)[16]);
	/* y /= 1 + exp(-gate) */
	void (*sigmoid_mul)(const float *gate, size_t n, float *y);

	/* --- rows: as kernels/ops/{rms_norm,qk_norm_rope_kv,act_mul}.h say ----- */

	/* y = x / sqrt(mean of x^2 + eps) * weight; y may be x. */
	void (*norm)(const float *x, int n, float eps, const float *weight, float *y);
	/* Turns the pairs x[i], x[n + i]; rope: (n, 2) cos and sin. */
	void (*rotate)(float *x, int n, const float *rope);
	/* y may be gate or up. */
	void (*act_mul)(const struct activation *act, const float *gate, const float *up,
			size_t n, float *y);
	/* Floats to binary16, held within +-65504; NULL where the cache is F32. */
	void (*to_half)(const float *x, int32_t n, uint16_t *out);
};

extern const struct cpu_isa cpu_isa_portable;
#ifdef CPU_HAS_X86
extern const struct cpu_isa cpu_isa_avx2, cpu_isa_avx512, cpu_isa_avx512_bf16;
#endif

/* "auto", or one by name. E_UNSUPPORTED where the processor or this build lacks it,
 * E_CONFIG where there is no such name. */
enum status cpu_isa_find(const char *name, const struct cpu_isa **out,
			 struct fail *fail) MUST_USE;
