/* SPDX-License-Identifier: Apache-2.0
 *
 * An indexer, which chooses what attention sees. Its keys lie in pages as those of attention
 * do. `ratio` neighbouring positions are a block; P is a multiple of it. A block's key is the
 * mean of its keys, normalised and rotated by the angle of its first position; or compress.h makes
 * it. Where a block is one position, only keys of blocks are kept.
 *
 *   index_keys    puts the step's keys in their pages, and the keys of blocks that they fill
 *   index_choose  scores the full blocks that a token sees:
 *
 *     score[b] = sum_h weight[h] max(0, q[h] . key[b])
 *
 * and takes the `top` best, of equal ones the earlier, or all where there are no more. The
 * positions of its last block, where that is not full, are chosen too. The result is a page
 * table of pages of `ratio` positions, in the order of positions. Attention then takes the chosen
 * positions for the whole sequence.
 *
 * Source: modeling_qwen4_exp.py of Hugging Face Transformers, Qwen4ExpTextQSAIndexer. There
 * scores are divided by sqrt(K), which changes no choice, and have no weights. Weights, and keys
 * with a layer norm, are those of modeling_deepseek_v32.py, DeepseekV32Indexer.
 */
#pragma once
#include "kernels/ops/kv_pages.h"

struct index_keys_args {
	int32_t n_tok, dim, ratio;
	int32_t row;         /* elements from a token's key to the next token's */
	int32_t n_freq;      /* rotated pairs, as in qk_norm_rope_kv */
	float eps;
	const void *key;     /* (T, row) act, of which K are the key */
	const float *norm;   /* (K) f32 */
	const float *bias;   /* (K) f32 of a layer norm; NULL: the norm is as rms_norm's */
	const float *rope;   /* (T, n_freq, 2) f32: of the first position of t's block */
	const int32_t *slot; /* (T) page * P + offset; all different */
	enum dtype type;     /* kv */
	int32_t page_size;   /* P */
	void *keys;          /* (n_pages, P, K) kv; NULL with ratio 1 */
	void *blocks;        /* (n_pages, P / ratio, K) kv */
};

struct index_choose_args {
	int32_t n_tok, n_heads, dim, ratio;
	int32_t row;               /* elements from a token's queries to the next token's */
	int32_t top;               /* most blocks that are chosen */
	int32_t max_pages_per_seq;
	int32_t n_ctx_max;         /* host: all positions are below this */
	const void *q;             /* (T, row) act, of which (H, K) are the queries */
	const float *weight;       /* (T, H) f32, of either sign; NULL: 1 */
	enum dtype type;           /* kv */
	int32_t page_size;
	const void *blocks;        /* the output of index_keys */
	const int32_t *seq_of;     /* (T) */
	const int32_t *position;   /* (T) */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	float *work;               /* (T, n_ctx_max / ratio) scores, or their sort keys */
	int32_t *table;            /* (T, top + 1); unused entries stay unchanged */
	int32_t *last;             /* (T) number of chosen positions, minus 1 */
};

/* The page of `ratio` positions that has block b of a sequence with this page table. */
static inline int32_t index_page(const int32_t *table, int32_t page_size, int32_t ratio,
				 int32_t b)
{
	int32_t each = page_size / ratio;
	return table[b / each] * each + b % each;
}

void index_keys_ref(const struct index_keys_args *a);
void index_choose_ref(const struct index_choose_args *a);
