/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections, gates of n-grams, and the indexer of sparse attention. The .hip files
 * describe the grids.
 */
#include <math.h>

#include "backend/hip/hip_launch.h"
#include "kernels/attention/index_launch.h"

enum { HYPER_THREADS = 256 };

enum status hip_hyper_low(struct backend *b, const struct hyper_low_args *a)
{
	struct hyper_low_args v = *a;
	uint64_t n = (uint64_t)a->n_tok * (uint64_t)a->dim;
	float part = 1 / (float)a->n_streams;
	struct hip_grid g = {(int32_t)DIV_UP(n, HYPER_THREADS), 1,
			     HYPER_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("hyper_low_kernel"), g, ARG(n), ARG(part), ARG(v.x),
		      ARG(v.y));
}

enum status hip_hyper_mix(struct backend *b, const struct hyper_mix_args *a)
{
	struct hyper_mix_args v = *a;
	float part = 1 / (float)a->n_streams;
	struct hip_grid g = {DIV_UP(a->dim, HYPER_THREADS), a->n_tok, HYPER_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("hyper_mix_kernel"), g, ARG(v.dim), ARG(v.n_streams),
		      ARG(part), ARG(v.gate), ARG(v.n), ARG(v.y), ARG(v.x));
}

enum status hip_hyper_add(struct backend *b, const struct hyper_add_args *a)
{
	struct hyper_add_args v = *a;
	float part = 1 / (float)a->n_streams;
	struct hip_grid g = {DIV_UP(a->dim, HYPER_THREADS), a->n_tok, HYPER_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("hyper_add_kernel"), g, ARG(v.dim), ARG(v.n_streams),
		      ARG(part), ARG(v.gate), ARG(v.y), ARG(v.x));
}

enum status hip_ngram_gate(struct backend *b, const struct ngram_gate_args *a)
{
	struct ngram_gate_args v = *a;
	float scale = (float)(1 / sqrt(a->dim));
	struct hip_grid g = {a->n_tok * a->n_streams, 1, HYPER_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("ngram_gate_kernel"), g, ARG(v.dim), ARG(v.n_streams),
		      ARG(scale), ARG(v.key), ARG(v.query), ARG(v.value), ARG(v.gated),
		      ARG(v.x));
}

static enum status check_key(struct backend *b, int32_t dim, enum dtype type)
{
	if (type != DTYPE_F16)
		return hip_refuse(hip_of(b), "an indexer's keys of %s", dtype_name(type));
	if (dim > INDEX_MAX_KEY || dim % 8)
		return hip_refuse(hip_of(b), "an indexer with heads of %d", (int)dim);
	return OK;
}

enum status hip_index_keys(struct backend *b, const struct index_keys_args *a)
{
	struct index_keys_launch l = {
		.n_tok = a->n_tok, .dim = a->dim, .ratio = a->ratio, .row = a->row,
		.n_freq = a->n_freq, .eps = a->eps, .key = a->key, .norm = a->norm, .bias = a->bias,
		.rope = a->rope, .slot = a->slot, .keys = a->keys, .blocks = a->blocks};
	struct hip_grid put = {DIV_UP(a->dim, INDEX_PUT_THREADS), a->n_tok,
			       INDEX_PUT_THREADS, 0};
	struct hip_grid fill = {DIV_UP(a->n_tok, INDEX_FILL_WAVES), 1, INDEX_FILL_WAVES * 32,
				0};
	enum status st = check_key(b, a->dim, a->type);
	if (st == OK && a->ratio > 1)
		st = LAUNCH(hip_of(b), PLAIN("index_put_kernel"), put, ARG(l));
	return st == OK ? LAUNCH(hip_of(b), PLAIN("index_fill_kernel"), fill, ARG(l)) : st;
}

enum status hip_index_choose(struct backend *b, const struct index_choose_args *a)
{
	enum { MOST_LDS = 48 << 10 };
	int32_t n_tok = a->n_tok;
	struct index_choose_launch l = {
		.n_heads = a->n_heads, .dim = a->dim, .ratio = a->ratio, .row = a->row,
		.top = a->top, .max_pages_per_seq = a->max_pages_per_seq,
		.page_size = a->page_size, .n_work = a->n_ctx_max / a->ratio, .q = a->q,
		.weight = a->weight,
		.blocks = a->blocks, .seq_of = a->seq_of, .position = a->position,
		.page_table = a->page_table, .work = (uint32_t *)a->work, .table = a->table,
		.last = a->last};
	struct hip_grid score = {DIV_UP(l.n_work, INDEX_SCORE_THREADS),
				 DIV_UP(n_tok, INDEX_TOKENS), INDEX_SCORE_THREADS, 0};
	struct hip_grid choose = {n_tok, 1, INDEX_THREADS, INDEX_LDS(a->top)};
	enum status st = check_key(b, a->dim, a->type);
	if (st == OK && choose.lds_bytes > MOST_LDS)
		return hip_refuse(hip_of(b), "an indexer that chooses %d blocks", (int)a->top);
	if (st == OK && l.n_work > a->top)
		st = LAUNCH(hip_of(b), PLAIN("index_score_kernel"), score, ARG(l), ARG(n_tok));
	return st == OK ? LAUNCH(hip_of(b), PLAIN("index_choose_kernel"), choose, ARG(l)) : st;
}
