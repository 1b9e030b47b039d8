/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention to windows and compressed keys, and doubly stochastic streams. The .hip files
 * describe the grids.
 */
#include "backend/hip/hip_launch.h"
#include "kernels/attention/compress_launch.h"

enum { HYPER_THREADS = 256 };

static struct row_pages_launch pages_of(const struct row_pages *p)
{
	return (struct row_pages_launch){p->rows, p->page_size, p->page_rows, p->first_row,
					 p->n_rows};
}

static enum status hip_compress_check(struct backend *b, int32_t dim, enum dtype type,
				      bool is_stored)
{
	if (is_stored && type != DTYPE_F16)
		return hip_refuse(hip_of(b), "compressed keys of %s", dtype_name(type));
	if (dim > COMPRESS_MAX_DIM || dim % 2)
		return hip_refuse(hip_of(b), "compressed keys of %d elements", (int)dim);
	return OK;
}

enum status hip_rope_tail(struct backend *b, const struct rope_tail_args *a)
{
	struct rope_tail_launch l = {
		.n_heads = a->n_heads, .dim = a->dim, .n_freq = a->n_freq,
		.normalises = a->normalises, .eps = a->eps, .sign = a->is_back ? -1 : 1,
		.x = a->x, .norm = a->normalises ? a->norm : NULL, .rope = a->rope, .y = a->y,
		.slot = a->slot, .to = pages_of(&a->to)};
	struct hip_grid g = {a->n_heads, a->n_tok, COMPRESS_THREADS, 0};
	enum status st = hip_compress_check(b, a->dim, a->to.type, !a->y);
	return st == OK ? LAUNCH(hip_of(b), PLAIN("rope_tail_kernel"), g, ARG(l)) : st;
}

enum status hip_compress(struct backend *b, const struct compress_args *a)
{
	struct compress_launch l = {
		.dim = a->dim, .ratio = a->ratio, .n_series = a->n_series, .n_freq = a->n_freq,
		.max_pages_per_seq = a->max_pages_per_seq, .eps = a->eps, .value = a->value,
		.gate = a->gate, .bias = a->bias, .norm = a->norm, .rope = a->rope,
		.slot = a->slot, .seq_of = a->seq_of, .position = a->position,
		.page_table = a->page_table, .values = a->values, .gates = a->gates,
		.to = pages_of(&a->to)};
	struct hip_grid put = {DIV_UP(a->n_series * a->dim, COMPRESS_THREADS), a->n_tok,
			       COMPRESS_THREADS, 0};
	struct hip_grid fill = {a->n_tok, 1, COMPRESS_THREADS, 0};
	enum status st = hip_compress_check(b, a->dim, a->to.type, true);
	if (st == OK)
		st = LAUNCH(hip_of(b), PLAIN("compress_put_kernel"), put, ARG(l));
	return st == OK ? LAUNCH(hip_of(b), PLAIN("compress_fill_kernel"), fill, ARG(l)) : st;
}

enum status hip_see_rows(struct backend *b, const struct see_rows_args *a)
{
	struct see_rows_launch l = {
		.window = a->window, .ratio = a->ratio,
		.max_pages_per_seq = a->max_pages_per_seq, .width = a->width,
		.chosen_pitch = a->chosen_pitch, .seq_of = a->seq_of, .position = a->position,
		.page_table = a->page_table, .chosen = a->chosen, .chosen_last = a->chosen_last,
		.of = pages_of(&a->of), .table = a->table, .last = a->last};
	struct hip_grid g = {a->n_tok, 1, COMPRESS_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("see_rows_kernel"), g, ARG(l));
}

enum status hip_hyper_split(struct backend *b, const struct hyper_split_args *a)
{
	struct hyper_split_args v = *a;
	struct hip_grid g = {DIV_UP(a->dim, HYPER_THREADS), a->n_tok, HYPER_THREADS, 0};
	if (a->n_streams > HYPER_MAX_STREAMS)
		return hip_refuse(hip_of(b), "%d residual streams", (int)a->n_streams);
	int32_t n_gates = (1 + a->n_streams) * a->n_streams;
	int32_t wide = a->gates ? n_gates + a->n_streams : a->n_streams;
	return LAUNCH(hip_of(b), PLAIN("hyper_split_kernel"), g, ARG(v.dim), ARG(v.n_streams),
		      ARG(v.n_iters), ARG(v.eps), ARG(v.mix), ARG(v.scale), ARG(v.base),
		      ARG(v.x), ARG(v.y), ARG(v.sum), ARG(v.gates), ARG(wide), ARG(n_gates));
}

enum status hip_hyper_spread(struct backend *b, const struct hyper_spread_args *a)
{
	struct hyper_spread_args v = *a;
	struct hip_grid g = {DIV_UP(a->dim, HYPER_THREADS), a->n_tok, HYPER_THREADS, 0};
	if (a->n_streams > HYPER_MAX_STREAMS)
		return hip_refuse(hip_of(b), "%d residual streams", (int)a->n_streams);
	return LAUNCH(hip_of(b), PLAIN("hyper_spread%d_kernel", a->n_streams <= 4 ? 4 : 16), g,
		      ARG(v.dim), ARG(v.n_streams), ARG(v.gates), ARG(v.y), ARG(v.x));
}
