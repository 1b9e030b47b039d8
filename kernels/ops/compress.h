/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention to a window and to compressed keys (DeepSeek-V4). Keys are values, too. A layer's
 * pages hold rows of D numbers: P of tokens, then E of blocks. A block is `ratio` neighbouring
 * positions of a sequence. Its row is in the page of its last position. Attention takes rows as
 * pages of one position (attention.h).
 *
 *   rope_tail   normalises each head, if wanted, and rotates its last 2 n_freq elements:
 *               (a, b) = (h[2i], h[2i+1]) of these becomes (a cos - b sin, b cos + a sin);
 *               with is_back it rotates by the negative angle
 *   compress    puts the values and gates of the step's tokens into pages. For each block that
 *               these tokens fill:
 *
 *     p = softmax_j(gate[j] + bias[j]), for each element by itself
 *     row = rotated(norm(sum_j p[j] value[j]))
 *
 *     over the positions j of the block; without a norm the row is the rotated sum. With two
 *     series, elements [0, D) of a token count in the block after its own, and [D, 2 D) in its
 *     own. So a sum has 2 ratio terms, but only `ratio` in a sequence's first block
 *   see_rows    the rows that a token sees: those of its window, in order, then those of
 *               blocks that end at its position or before: all, or the chosen ones
 *
 * Source: modeling_deepseek_v4.py of Hugging Face Transformers, DeepseekV4HCACompressor,
 * DeepseekV4CSACompressor and apply_rotary_pos_emb. Without a norm it is get_pooled_states of
 * modeling_glm5_next.py.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/kv_pages.h"

/* The rows of a layer's pages. In each page the rows of tokens come first, then
 * those of blocks. */
struct row_pages {
	void *rows;         /* (n_pages, page_rows, D) kv */
	enum dtype type;    /* kv */
	int32_t page_size;  /* P: tokens */
	int32_t page_rows;  /* P + E, or E where tokens have no rows */
	int32_t first_row;  /* index in a page of the first row of blocks */
	int32_t n_rows;     /* E: P / ratio, at least 1. P divides ratio, or ratio divides P */
};

/* The row of the token in `slot` (page * P + offset). */
static inline size_t row_pages_token(const struct row_pages *p, int32_t slot)
{
	return (size_t)(slot / p->page_size) * (size_t)p->page_rows +
	       (size_t)(slot % p->page_size);
}

/* The row of the block whose last position is in `slot`. */
static inline size_t row_pages_block(const struct row_pages *p, int32_t slot)
{
	int32_t offset = slot % p->page_size;
	return (size_t)(slot / p->page_size) * (size_t)p->page_rows + (size_t)p->first_row +
	       (size_t)(offset * p->n_rows / p->page_size);
}

struct rope_tail_args {
	int32_t n_tok, n_heads, dim, n_freq;
	bool normalises, is_back;
	float eps;
	const void *x;       /* (T, H, D) act */
	const float *norm;   /* (D) f32; NULL: without weights */
	const float *rope;   /* (T, n_freq, 2) f32 */
	/* (T, H, D) act, may be x; NULL: written to the tokens' rows, with H = 1 */
	void *y;
	const int32_t *slot; /* (T) all different; read if y is NULL */
	struct row_pages to;
};

struct compress_args {
	int32_t n_tok, dim, ratio, n_series, n_freq;
	float eps;
	const void *value, *gate;  /* (T, n_series D) act */
	const float *bias;         /* (ratio, n_series D) f32 */
	const float *norm;         /* (D) f32, or NULL */
	const float *rope;         /* (T, n_freq, 2) f32: of the first position of t's block */
	const int32_t *slot;       /* (T) all different */
	const int32_t *seq_of, *position; /* (T) */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	int32_t max_pages_per_seq;
	void *values, *gates;      /* (n_pages, P, n_series D) kv */
	struct row_pages to;
};

struct see_rows_args {
	int32_t n_tok, window;
	int32_t ratio;             /* positions of a block; 0: only the window is seen */
	int32_t max_pages_per_seq;
	int32_t width;             /* entries of a row of table; any token's rows must fit */
	const int32_t *seq_of, *position, *page_table; /* as above */
	/* The result of index_choose for blocks of `ratio`; NULL: all blocks are seen. */
	const int32_t *chosen;     /* (T, chosen_pitch) page * E + number in the page */
	const int32_t *chosen_last;
	int32_t chosen_pitch;
	struct row_pages of;       /* its rows and type are not read */
	int32_t *table;            /* (T, width); unused entries stay unchanged */
	int32_t *last;             /* (T) number of the token's rows, minus 1 */
};

void rope_tail_ref(const struct rope_tail_args *a);
void compress_ref(const struct compress_args *a);
void see_rows_ref(const struct see_rows_args *a);
