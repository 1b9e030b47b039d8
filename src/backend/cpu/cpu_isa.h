/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of the fast path. The sources cpu_simd_*.c are compiled once for each
 * instruction set, with its compiler flags, and fill one of these tables. cpu_create
 * chooses the best table for the processor. Thread: any.
 *
 * Each loop computes a row's numbers in an order that depends on the row alone, so rule 4
 * of kernels/README.md holds within one table. Between two tables, integer sums agree
 * exactly and float sums agree within rounding.
 */
#pragma once
#include "backend/cpu/cpu_panels.h"
#include "kernels/ops/kv_pages.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"

#define CPU_TOK 12      /* most tokens in a tile of activations */
#define CPU_BLOCK 32    /* activations that share a scale */
#define CPU_DOT_ROWS 4  /* rows of a weight that `dots` takes at once */
#define CPU_DOT_TOK 6   /* inputs that `dots` takes at once */
#define CPU_TILES 8     /* most tiles that are multiplied by a panel at once */

/* Types of weights that `dots` reads. */
enum cpu_number {
	CPU_F32, CPU_F16, CPU_BF16,
};

/* Most elements of a head; most queries of a cpu_attend; floats of all its queries, with
 * 16 floats of padding each. */
enum { CPU_MAX_HEAD = 1024, CPU_QUERIES = 48, CPU_QUERY_ROOM = 16 * (CPU_MAX_HEAD + 16) };

/* The softmax state of a query: its largest score so far, the sum of weights relative to
 * that, and the weighted sum of values. */
struct cpu_state {
	float max, sum;
	float *acc; /* (v_dim, padded to 16) */
};

struct cpu_query {
	const float *q;          /* (K), padded with zeros to 16 */
	int32_t first, position; /* first and last position that it sees */
	struct cpu_state state;
};

/* Queries of one sequence that share a key and value head. */
struct cpu_attend {
	const struct kv_pages *kv;
	const int32_t *table; /* page table of the sequence */
	int32_t n_kv_heads, dim, v_dim, g;
	float scale;
	int n; /* number of queries */
	struct cpu_query *query;
};

/* n rounded up to the vector size of any instruction set, in floats. */
#define CPU_PADDED(n) (((size_t)(n) + 15) / 16 * 16)

/* The delta rule for two rows of a head's state (kernels/ops/delta_rule.h), over n_tok
 * tokens. */
#define CPU_DELTA_MAX 512 /* most elements K */
#define CPU_DELTA_KEY(k) (2 * CPU_PADDED(k) + 16)
struct cpu_delta {
	int32_t n_tok, dim; /* dim: K, elements of a key */
	/* (n_tok, CPU_DELTA_KEY(K)): for each token the query, the key, and their
	 * product. Both are scaled to length 1 and padded with zeros (CPU_PADDED); the
	 * query is also divided by sqrt(K). */
	const float *keys;
	const float (*gates)[2]; /* (n_tok): decay factor exp(g), and beta */
	/* (n_tok, CPU_PADDED(K)): a decay factor for each element, in place of gates'; or NULL */
	const float *keeps;
	const float *v;          /* value of the first row; v_row floats from token to token */
	float *y;                /* output of the first row; y_row floats from token to token */
	size_t v_row, y_row;
	bool is_space;           /* Mamba-2's rule: keys as they are, beta the step … */
	float skip;              /* … and y += skip v */
};

/* The convolution of 16 neighbouring channels (kernels/ops/causal_conv.h). */
#define CPU_CONV_MAX 16 /* largest width W */
struct cpu_conv {
	int32_t n_tok, width;
	const float *x; /* (n_tok, 16); x_row floats from token to token */
	float *y;
	size_t x_row, y_row;
	float weight[CPU_CONV_MAX][16], bias[16];
};

/* How inputs of K elements are rounded to 8 bits. */
struct cpu_rounding {
	int32_t k; /* elements; a multiple of CPU_BLOCK */
	int planes; /* 1, or 2 for twice the bits: see cpu_isa.quantize */
	bool is_halved; /* the tile stores sums of 16 columns, not of 32 */
	const int32_t *order; /* (K): column order as in struct cpu_panels, or NULL */
	const float *in_scale; /* (K): factor of each element before it is rounded, or NULL */
};

/* Contiguous tiles of inputs. */
struct cpu_tiles {
	const void *at;
	int n, n_x[CPU_TILES]; /* inputs (or places, with two planes) of each tile */
};

struct cpu_isa {
	const char *name; /* as in "avx512_bf16" */
	enum dtype kv_type;
	bool has_bf16_pairs; /* multiplies pairs of bf16 by one instruction */
	bool packs_bf16;     /* has panels of bf16; otherwise `dots` takes such rows */

	/* --- integers: panels times activations rounded to 8 bits ------------- */

	/* int32 words of integers in a tile, for one block of one token. After them come
	 * the negative sum of the integers (two sums if is_halved) and the scale. */
	int q_words;
	/* Round K elements each of x[0 .. n_x) to whole multiples of (largest magnitude
	 * of the block) / 127, and store them in the tile (K / 32, words, n_x). With two
	 * planes the steps are largest / 16256; the integer q = 128 high + low takes
	 * places 2 j and 2 j + 1 of a tile of 2 n_x. n_x * planes is at most CPU_TOK. A
	 * block with an infinity or NaN gives NaN. */
	void (*quantize)(const struct cpu_rounding *r, const float *const *x, int n_x,
			 int32_t *tile);
	/* out[t][j][r] = row r of the panel times input j of tile t. */
	void (*panel)(const struct cpu_panels *w, int32_t i_panel,
		      const struct cpu_tiles *t, float (*out)[CPU_TOK][CPU_PANEL_ROWS]);

	/* --- e4m3 and bf16: panels times activations as floats, or as bf16 if
	 * has_bf16_pairs --- */

	/* Copy x[0 .. n_x) of K elements to a tile of words: floats (K padded with zeros
	 * to a multiple of four; n_x), or pairs of bf16 (half as many; n_x). With two
	 * planes (pairs only), the rounding error of each pair is stored in the next
	 * place. */
	void (*spread)(const float *const *x, int n_x, int32_t k, int planes, void *tile);

	/* --- floats: weights of F32, F16, BF16 rows ---------------------------- */

	/* Bytes of one input of K elements in the format of `dots`; and the conversion of
	 * K floats to that format. */
	size_t (*input_bytes)(int32_t k);
	void (*input)(const float *x, int32_t k, void *out);
	/* out[j][r] = w[r] . x[j] over K elements. w: n_w <= CPU_DOT_ROWS rows of type m.
	 * x: n_x <= CPU_DOT_TOK inputs, `pitch` bytes apart. fetches: prefetch the rows
	 * after these. */
	void (*dots)(enum cpu_number m, const void *const *w, int n_w, const void *x,
		     size_t pitch, int n_x, int32_t k, bool fetches,
		     float (*out)[CPU_DOT_ROWS]);

	/* --- attention -------------------------------------------------------- */

	/* Add the positions [from, to) to the states. */
	void (*attend)(const struct cpu_attend *u, int32_t from, int32_t to);
	/* Join another state of the same query, over other positions, into s. */
	void (*attend_join)(struct cpu_state *s, const struct cpu_state *other,
			    int v_dim);

	/* --- gated delta nets -------------------------------------------------- */

	/* Update the rows by all tokens: from (2, K) gives `to`. from NULL: zeros. */
	void (*delta)(const struct cpu_delta *d, const float *from, float *to);
	/* window (W - 1, 16): the inputs before the first token; on return the last W - 1
	 * inputs. */
	void (*conv)(const struct cpu_conv *c, float (*window)[16]);
	/* y /= 1 + exp(-gate): the output gate. */
	void (*sigmoid_mul)(const float *gate, size_t n, float *y);

	/* --- row operations of kernels/ops/{rms_norm,qk_norm_rope_kv,act_mul}.h
	 * ---------- */

	/* y = x / sqrt(mean(x^2) + eps) * weight; y may be x. */
	void (*norm)(const float *x, int n, float eps, const float *weight, float *y);
	/* Rotate the pairs x[i], x[n + i]; rope: (n, 2) cosine and sine. */
	void (*rotate)(float *x, int n, const float *rope);
	/* y = act(gate) * up; y may be gate or up. */
	void (*act_mul)(const struct activation *act, const float *gate, const float *up,
			size_t n, float *y);
	/* Convert floats to binary16, clamped to +-65504. NULL if the cache is F32. */
	void (*to_half)(const float *x, int32_t n, uint16_t *out);
};

extern const struct cpu_isa cpu_isa_portable;
#ifdef CPU_HAS_X86
extern const struct cpu_isa cpu_isa_avx2, cpu_isa_avx512, cpu_isa_avx512_bf16;
#endif

/* Find a table by name, or the best one for "auto". E_UNSUPPORTED: the processor or this
 * build lacks it. E_CONFIG: unknown name. */
enum status cpu_isa_find(const char *name, const struct cpu_isa **out,
			 struct fail *fail) MUST_USE;
