/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed keys beside windows, and doubly stochastic streams: blocks within pages and over
 * several, that a step fills in part, the first of a sequence, and heads of odd sizes.
 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define rope_tail_ref rope_tail_plain
#define compress_ref compress_plain
#define see_rows_ref see_rows_plain
#define hyper_low_ref hyper_low_unused
#define hyper_mix_ref hyper_mix_unused
#define hyper_add_ref hyper_add_unused
#define hyper_split_ref hyper_split_plain
#define hyper_spread_ref hyper_spread_plain
#include "kernels/ops/compress_ref.c"
#include "kernels/ops/hyper_ref.c"
#undef rope_tail_ref
#undef compress_ref
#undef see_rows_ref
#undef hyper_low_ref
#undef hyper_mix_ref
#undef hyper_add_ref
#undef hyper_split_ref
#undef hyper_spread_ref
#include "tests/kernel/plain_end.h"

struct block_shape {
	int32_t n_ctx, dim, ratio, n_series, page_size, n_freq, window, top;
};

/* Two sequences, the angles of their positions, and the pages' rows of blocks. */
struct block_world {
	struct kernel_pages seqs;
	float *rope;
	struct row_pages pages;
};

static struct block_world world_of(struct kernel_test *kt, const struct block_shape *s)
{
	int32_t each = MAX(1, s->page_size / s->ratio);
	struct block_world w = {.seqs = kernel_two_seqs(kt, s->n_ctx, s->page_size),
				.pages = {.type = DTYPE_F32, .page_size = s->page_size,
					  .page_rows = s->page_size + each,
					  .first_row = s->page_size, .n_rows = each}};
	w.rope = kernel_rope(kt, w.seqs.position, w.seqs.n_tok, s->n_freq);
	return w;
}

/* h heads of each token to y; or without heads one of each token to its row. */
static void rope_tail_case(struct kernel_test *kt, const struct block_shape *s, int32_t h,
			   bool normalises, bool is_back)
{
	struct block_world w = world_of(kt, s);
	size_t dim = (size_t)s->dim, heads = h ? (size_t)h : 1;
	size_t n = (size_t)w.seqs.n_tok * heads * dim;
	size_t n_out = h ? n : (size_t)(w.seqs.n_pages * w.pages.page_rows) * dim;
	float *x = kernel_rows(kt, (size_t)w.seqs.n_tok * heads, dim, 1), *y[2];
	float *norm = kernel_rows(kt, 1, dim, 1);
	kernel_act_round(kt, x, n, 100);
	struct rope_tail_args a = {
		.n_tok = w.seqs.n_tok, .n_heads = (int32_t)heads, .dim = s->dim,
		.n_freq = s->n_freq, .normalises = normalises, .is_back = is_back, .eps = 1e-6f,
		.x = x, .norm = h ? NULL : norm, .rope = w.rope, .slot = w.seqs.slot,
		.to = w.pages}, on = a;
	for (int i = 0; i < 2; i++) {
		y[i] = kernel_zeros(kt, n_out);
		a.y = h ? y[i] : NULL;
		a.to.rows = y[i];
		i == 0 ? rope_tail_ref(&a) : rope_tail_plain(&a);
	}
	on.x = kernel_act_upload(kt, x, n);
	on.norm = h ? NULL : UPLOAD(kt, norm, dim);
	on.rope = UPLOAD(kt, w.rope, (size_t)w.seqs.n_tok * (size_t)(2 * s->n_freq));
	on.slot = UPLOAD(kt, w.seqs.slot, (size_t)w.seqs.n_tok);
	on.to.type = kt->b->kv_type;
	on.y = h ? (void *)(uintptr_t)on.x : NULL; /* in place */
	on.to.rows = h ? NULL : kernel_kv_upload(kt, kernel_zeros(kt, n_out), n_out);
	kernel_ran(kt, kt->b->ops->rope_tail(kt->b, &on), "rope_tail");
	char what[80];
	snprintf(what, sizeof what, "rope_tail H=%d D=%d%s", h, s->dim, is_back ? ", back" : "");
	if (h)
		kernel_act_compare(kt, kernel_act_download(kt, on.y, n), y[0], y[1], n / dim, dim,
				   1e-11, what);
	else
		kernel_kv_compare(kt, kernel_kv_download(kt, on.to.rows, n_out), y[0], y[1],
				  n_out / dim, dim, 1e-11, what);
}

/* The step in the parts [0, cut) and [cut, n_tok). */
static void compress_case(struct kernel_test *kt, const struct block_shape *s, bool has_norm)
{
	struct block_world w = world_of(kt, s);
	size_t dim = (size_t)s->dim, wide = dim * (size_t)s->n_series, n = (size_t)w.seqs.n_tok;
	size_t n_in = (size_t)(w.seqs.n_pages * s->page_size) * wide;
	size_t act = dtype_bytes(kt->b->act_type);
	size_t n_out = (size_t)(w.seqs.n_pages * w.pages.page_rows) * dim;
	float *value = kernel_rows(kt, n, wide, 1), *gate = kernel_rows(kt, n, wide, 0.1f);
	float *bias = kernel_rows(kt, (size_t)s->ratio, wide, 0.1f), *out[2];
	float *norm = kernel_rows(kt, 1, dim, 1);
	for (int i = 0; i < 2; i++) {
		kernel_act_round(kt, i ? gate : value, n * wide, 20);
		kernel_kv_round(kt, i ? gate : value, n * wide, 20);
	}
	for (size_t i = 0; i < (size_t)s->ratio * wide; i++)
		bias[i] = fmaxf(-20, fminf(bias[i], 20));
	struct compress_args a = {
		.n_tok = w.seqs.n_tok, .dim = s->dim, .ratio = s->ratio, .n_series = s->n_series,
		.n_freq = s->n_freq, .eps = 1e-6f, .value = value, .gate = gate, .bias = bias,
		.norm = has_norm ? norm : NULL, .rope = w.rope, .slot = w.seqs.slot,
		.seq_of = w.seqs.seq_of, .position = w.seqs.position, .page_table = w.seqs.table,
		.max_pages_per_seq = w.seqs.max_pages, .to = w.pages}, on = a;
	for (int i = 0; i < 2; i++) {
		a.values = kernel_zeros(kt, n_in);
		a.gates = kernel_zeros(kt, n_in);
		a.to.rows = out[i] = kernel_zeros(kt, n_out);
		i == 0 ? compress_ref(&a) : compress_plain(&a);
	}
	const char *value_on = kernel_act_upload(kt, value, n * wide);
	const char *gate_on = kernel_act_upload(kt, gate, n * wide);
	const float *rope_on = UPLOAD(kt, w.rope, n * (size_t)(2 * s->n_freq));
	const int32_t *slot_on = UPLOAD(kt, w.seqs.slot, n), *seq_on = UPLOAD(kt, w.seqs.seq_of, n);
	const int32_t *position_on = UPLOAD(kt, w.seqs.position, n);
	on.bias = UPLOAD(kt, bias, (size_t)s->ratio * wide);
	on.norm = has_norm ? UPLOAD(kt, norm, dim) : NULL;
	on.page_table = UPLOAD(kt, w.seqs.table, (size_t)w.seqs.n_pages);
	on.values = kernel_kv_upload(kt, kernel_zeros(kt, n_in), n_in);
	on.gates = kernel_kv_upload(kt, kernel_zeros(kt, n_in), n_in);
	on.to.type = kt->b->kv_type;
	on.to.rows = kernel_kv_upload(kt, kernel_zeros(kt, n_out), n_out);
	size_t cut = (size_t)(s->ratio * 2 + 1);
	for (int i = 0; i < 2; i++) {
		size_t first = i ? cut : 0;
		on.n_tok = (int32_t)(i ? n - cut : cut);
		on.value = value_on + first * wide * act;
		on.gate = gate_on + first * wide * act;
		on.rope = rope_on + first * (size_t)(2 * s->n_freq);
		on.slot = slot_on + first;
		on.seq_of = seq_on + first;
		on.position = position_on + first;
		kernel_ran(kt, kt->b->ops->compress(kt->b, &on), "compress");
	}
	char what[80];
	snprintf(what, sizeof what, "compress D=%d, blocks of %d in pages of %d%s", s->dim,
		 s->ratio, s->page_size, has_norm ? "" : ", no norm");
	kernel_kv_compare(kt, kernel_kv_download(kt, on.to.rows, n_out), out[0], out[1],
			  n_out / dim, dim, 1e-10, what);
}

/* ratio 0: the window alone. chosen: some blocks alone. */
static void see_case(struct kernel_test *kt, const struct block_shape *s, int32_t ratio,
		     bool is_chosen)
{
	struct block_world w = world_of(kt, s);
	size_t n = (size_t)w.seqs.n_tok, n_chosen = n * (size_t)(s->top + 1);
	int32_t width = s->window + s->n_ctx / s->ratio;
	size_t n_table = n * (size_t)width;
	int32_t *table = kernel_ints(kt, n_table), *last = kernel_ints(kt, n);
	int32_t *chosen = kernel_ints(kt, n_chosen), *chosen_last = kernel_ints(kt, n);
	for (size_t i = 0; i < n_table; i++)
		table[i] = -7;
	for (size_t i = 0; i < n_chosen; i++)
		chosen[i] = (int32_t)(i * 5 % (size_t)(w.seqs.n_pages * w.pages.n_rows));
	for (size_t t = 0; t < n; t++) {
		int32_t seen = w.seqs.position[t] + 1, k = MIN(s->top, seen / s->ratio);
		chosen_last[t] = k * s->ratio + seen % s->ratio - 1;
	}
	struct see_rows_args a = {
		.n_tok = w.seqs.n_tok, .window = s->window, .ratio = ratio,
		.max_pages_per_seq = w.seqs.max_pages, .width = width, .seq_of = w.seqs.seq_of,
		.position = w.seqs.position, .page_table = w.seqs.table,
		.chosen = is_chosen ? chosen : NULL, .chosen_last = chosen_last,
		.chosen_pitch = s->top + 1, .of = w.pages, .table = table, .last = last}, on = a;
	on.seq_of = UPLOAD(kt, w.seqs.seq_of, n);
	on.position = UPLOAD(kt, w.seqs.position, n);
	on.page_table = UPLOAD(kt, w.seqs.table, (size_t)w.seqs.n_pages);
	on.chosen = is_chosen ? UPLOAD(kt, chosen, n_chosen) : NULL;
	on.chosen_last = UPLOAD(kt, chosen_last, n);
	on.table = UPLOAD(kt, table, n_table);
	on.last = UPLOAD(kt, last, n);
	see_rows_ref(&a);
	kernel_ran(kt, kt->b->ops->see_rows(kt->b, &on), "see_rows");
	kernel_ok(memcmp(kernel_download(kt, on.last, n), last, n * sizeof *last) == 0 &&
			  memcmp(kernel_download(kt, on.table, n_table), table,
				 n_table * sizeof *table) == 0,
		  "%s: see_rows, blocks of %d in pages of %d%s", kt->name, ratio, s->page_size,
		  is_chosen ? ", chosen" : "");
}

static float *within(struct kernel_test *kt, size_t rows, size_t cols, float most)
{
	float *x = kernel_rows(kt, rows, cols, 1);
	for (size_t i = 0; i < rows * cols; i++)
		x[i] = fmaxf(-most, fminf(x[i], most));
	return x;
}

static void streams_case(struct kernel_test *kt, int32_t t, int32_t n, int32_t dim, bool is_last)
{
	size_t rows = (size_t)t, s = (size_t)n, d = (size_t)dim, wide = is_last ? s : (2 + s) * s;
	size_t n_gates = rows * (1 + s) * s, n_x = rows * s * d;
	float *mix = within(kt, rows, wide, 8), *base = within(kt, 1, wide, 2);
	float scale[3] = {1.25f, 0.75f, 0.5f}, *y[2], *gates[2], *out[2];
	float *x = within(kt, rows * s, d, 100), *part = within(kt, rows, d, 100);
	float *filled = kernel_rows(kt, rows, d, 1);
	struct hyper_split_args a = {.n_tok = t, .n_streams = n, .dim = dim, .n_iters = 20,
				     .eps = 1e-6f, .mix = mix, .scale = scale, .base = base,
				     .x = x}, on = a;
	for (int i = 0; i < 2; i++) {
		a.y = y[i] = kernel_zeros(kt, rows * d);
		gates[i] = kernel_zeros(kt, n_gates);
		a.gates = is_last ? NULL : gates[i];
		a.sum = NULL;
		i == 0 ? hyper_split_ref(&a) : hyper_split_plain(&a);
	}
	on.mix = UPLOAD(kt, mix, rows * wide);
	on.scale = UPLOAD(kt, scale, ARRAY_LEN(scale));
	on.base = UPLOAD(kt, base, wide);
	on.x = UPLOAD(kt, x, n_x);
	on.y = UPLOAD(kt, filled, rows * d);
	on.sum = is_last ? NULL : UPLOAD(kt, filled, rows * d);
	on.gates = is_last ? NULL : UPLOAD(kt, kernel_zeros(kt, n_gates), n_gates);
	kernel_ran(kt, kt->b->ops->hyper_split(kt->b, &on), "hyper_split");
	char what[80];
	snprintf(what, sizeof what, "hyper_split T=%d S=%d D=%d", t, n, dim);
	kernel_compare(kt, kernel_download(kt, on.y, rows * d), y[0], y[1], rows, d, 1e-11, what);
	if (is_last)
		return;
	kernel_compare(kt, kernel_download(kt, on.gates, n_gates), gates[0], gates[1], rows,
		       (1 + s) * s, 1e-11, what);
	kernel_ok(memcmp(kernel_download(kt, on.sum, rows * d), kernel_zeros(kt, rows * d),
			 rows * d * sizeof *x) == 0, "%s: %s: then nothing is added", kt->name,
		  what);
	struct hyper_spread_args p = {.n_tok = t, .n_streams = n, .dim = dim, .gates = gates[0],
				      .y = part}, p_on = p;
	for (int i = 0; i < 2; i++) {
		p.x = out[i] = memcpy(kernel_zeros(kt, n_x), x, n_x * sizeof *x);
		i == 0 ? hyper_spread_ref(&p) : hyper_spread_plain(&p);
	}
	p_on.gates = UPLOAD(kt, gates[0], n_gates);
	p_on.y = UPLOAD(kt, part, rows * d);
	p_on.x = UPLOAD(kt, x, n_x);
	kernel_ran(kt, kt->b->ops->hyper_spread(kt->b, &p_on), "hyper_spread");
	kernel_compare(kt, kernel_download(kt, p_on.x, n_x), out[0], out[1], rows * s, d, 1e-11,
		       "hyper_spread");
}

void case_compress(struct kernel_test *kt)
{
	static const struct block_shape shapes[] = {
		{75, 16, 4, 2, 16, 4, 24, 5},  /* blocks in pages, that overlap */
		{70, 24, 32, 1, 16, 12, 9, 1}, /* blocks of two pages */
		{41, 130, 8, 2, 8, 1, 64, 3},  /* a block a page; a window beyond the start */
	};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		const struct block_shape *s = &shapes[i];
		rope_tail_case(kt, s, 3, true, false);
		rope_tail_case(kt, s, 2, false, true);
		rope_tail_case(kt, s, 0, true, false);
		kernel_test_reset(kt);
		compress_case(kt, s, true);
		compress_case(kt, s, false);
		kernel_test_reset(kt);
		see_case(kt, s, s->ratio, false);
		see_case(kt, s, s->ratio, true);
		see_case(kt, s, 0, false);
		kernel_test_reset(kt);
	}
	streams_case(kt, 3, 4, 70, false);
	streams_case(kt, 2, 3, 301, false);
	streams_case(kt, 2, 16, 40, false);
	streams_case(kt, 3, 4, 70, true);
	kernel_test_reset(kt);
}
