/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections, gates of n-grams, and an indexer: sizes of heads and of streams that
 * fill no vector, blocks that a step fills in part, scores that are equal, and contexts with
 * fewer blocks than may be chosen, or with more than a workgroup holds.
 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define hyper_low_ref hyper_low_plain
#define hyper_mix_ref hyper_mix_plain
#define hyper_add_ref hyper_add_plain
#define hyper_split_ref hyper_split_unused /* case_compress.c */
#define hyper_spread_ref hyper_spread_unused
#define ngram_gate_ref ngram_gate_plain
#define index_keys_ref index_keys_plain
#define index_choose_ref index_choose_plain
#include "kernels/ops/hyper_ref.c"
#include "kernels/ops/index_ref.c"
#include "kernels/ops/ngram_gate_ref.c"
#undef hyper_low_ref
#undef hyper_mix_ref
#undef hyper_add_ref
#undef hyper_split_ref
#undef hyper_spread_ref
#undef ngram_gate_ref
#undef index_keys_ref
#undef index_choose_ref
#include "tests/kernel/plain_end.h"

/* (rows, cols) between -most and most: inputs of gates, and what norms leave. */
static float *within(struct kernel_test *kt, size_t rows, size_t cols, float most)
{
	float *x = kernel_rows(kt, rows, cols, 2);
	for (size_t i = 0; i < rows * cols; i++)
		x[i] = fmaxf(-most, fminf(x[i], most));
	return x;
}

static float *copy(struct kernel_test *kt, const float *x, size_t n)
{
	return memcpy(kernel_zeros(kt, n), x, n * sizeof *x);
}

static void low_case(struct kernel_test *kt, int32_t t, int32_t r, int32_t s)
{
	size_t n = (size_t)(t * r);
	float *x = within(kt, (size_t)t, (size_t)r, 30), *ref = kernel_zeros(kt, n);
	float *plain = kernel_zeros(kt, n);
	struct hyper_low_args a = {t, r, s, x, ref}, p = {t, r, s, x, plain}, on = a;
	hyper_low_ref(&a);
	hyper_low_plain(&p);
	on.x = UPLOAD(kt, x, n);
	on.y = kernel_act_upload(kt, plain, n);
	kernel_ran(kt, kt->b->ops->hyper_low(kt->b, &on), "hyper_low");
	kernel_act_compare(kt, kernel_act_download(kt, on.y, n), ref, plain, (size_t)t,
			   (size_t)r, 1e-12, "hyper_low");
}

static void mix_case(struct kernel_test *kt, int32_t t, int32_t s, int32_t d, bool is_last)
{
	size_t n = (size_t)(t * d), wide = n * (size_t)s;
	float *gate = within(kt, (size_t)(t * s), (size_t)d, 30), *x[3], *y[3] = {0};
	float *in = kernel_rows(kt, (size_t)(t * s), (size_t)d, 1);
	kernel_act_round(kt, in, wide, 1000);
	for (int i = 0; i < 3; i++) {
		x[i] = kernel_rows(kt, (size_t)t, (size_t)d, 1); /* is written over */
		y[i] = is_last ? NULL : kernel_zeros(kt, n);
	}
	struct hyper_mix_args a = {t, s, d, gate, in, y[0], x[0]}, on = a;
	hyper_mix_ref(&a);
	a.y = y[1], a.x = x[1];
	hyper_mix_plain(&a);
	on.gate = UPLOAD(kt, gate, wide);
	on.n = kernel_act_upload(kt, in, wide);
	on.x = UPLOAD(kt, x[2], n);
	on.y = is_last ? NULL : kernel_act_upload(kt, y[2], n);
	kernel_ran(kt, kt->b->ops->hyper_mix(kt->b, &on), "hyper_mix");
	float *got = kernel_download(kt, on.x, n);
	char what[80];
	snprintf(what, sizeof what, "hyper_mix T=%d S=%d D=%d%s", t, s, d,
		 is_last ? ", the last" : "");
	if (is_last) {
		kernel_compare(kt, got, x[0], x[1], (size_t)t, (size_t)d, 1e-12, what);
		return;
	}
	kernel_act_compare(kt, kernel_act_download(kt, on.y, n), y[0], y[1], (size_t)t,
			   (size_t)d, 1e-12, what);
	kernel_ok(memcmp(got, x[0], n * sizeof *got) == 0, "%s: %s: then nothing is added",
		  kt->name, what);
}

static void add_case(struct kernel_test *kt, int32_t t, int32_t s, int32_t d, bool has_gate)
{
	size_t n = (size_t)(t * d), wide = n * (size_t)s;
	float *gate = within(kt, (size_t)t, (size_t)s, 30);
	float *y = kernel_rows(kt, (size_t)t, (size_t)d, 1);
	float *x = kernel_rows(kt, (size_t)(t * s), (size_t)d, 1);
	float *ref = copy(kt, x, wide), *plain = copy(kt, x, wide);
	struct hyper_add_args a = {t, s, d, has_gate ? gate : NULL, y, ref}, on = a;
	hyper_add_ref(&a);
	a.x = plain;
	hyper_add_plain(&a);
	on.gate = has_gate ? UPLOAD(kt, gate, (size_t)(t * s)) : NULL;
	on.y = UPLOAD(kt, y, n);
	on.x = UPLOAD(kt, x, wide);
	kernel_ran(kt, kt->b->ops->hyper_add(kt->b, &on), "hyper_add");
	char what[80];
	snprintf(what, sizeof what, "hyper_add T=%d S=%d D=%d%s", t, s, d,
		 has_gate ? "" : ", to begin with");
	kernel_compare(kt, kernel_download(kt, on.x, wide), ref, plain, (size_t)(t * s),
		       (size_t)d, 1e-12, what);
}

static void ngram_case(struct kernel_test *kt, int32_t t, int32_t s, int32_t d)
{
	size_t n = (size_t)(t * d), rows = (size_t)(t * s), wide = n * (size_t)s;
	float *key = within(kt, rows, (size_t)d, 8), *query = within(kt, rows, (size_t)d, 8);
	float *value = kernel_rows(kt, (size_t)t, (size_t)d, 1);
	float *x = kernel_rows(kt, rows, (size_t)d, 1), *sum[2], *gated[2];
	kernel_act_round(kt, key, wide, 10);
	kernel_act_round(kt, query, wide, 10);
	struct ngram_gate_args a = {t, s, d, key, query, value, NULL, NULL}, on = a;
	for (int i = 0; i < 2; i++) {
		a.gated = gated[i] = kernel_zeros(kt, wide);
		a.x = sum[i] = copy(kt, x, wide);
		i == 0 ? ngram_gate_ref(&a) : ngram_gate_plain(&a);
	}
	on.key = kernel_act_upload(kt, key, wide);
	on.query = kernel_act_upload(kt, query, wide);
	on.value = UPLOAD(kt, value, n);
	on.x = UPLOAD(kt, x, wide);
	on.gated = UPLOAD(kt, x, wide);
	kernel_ran(kt, kt->b->ops->ngram_gate(kt->b, &on), "ngram_gate");
	char what[80];
	snprintf(what, sizeof what, "ngram_gate T=%d S=%d D=%d", t, s, d);
	kernel_compare(kt, kernel_download(kt, on.gated, wide), gated[0], gated[1], rows,
		       (size_t)d, 1e-11, what);
	kernel_compare(kt, kernel_download(kt, on.x, wide), sum[0], sum[1], rows, (size_t)d,
		       1e-11, what);
}

/* --- the indexer --------------------------------------------------------------------- */

struct index_shape {
	int32_t n_ctx, n_heads, dim, ratio, page_size, top, n_freq;
	bool is_weighed; /* heads have weights, keys a layer norm */
};

/* The step's keys, in the parts [0, cut) and [cut, n_tok). Returns what the backend's blocks
 * are, and leaves them at *on_blocks. */
static float *keys_case(struct kernel_test *kt, const struct index_shape *s,
			const struct kernel_pages *w, void **on_blocks)
{
	size_t dim = (size_t)s->dim, row = dim * (size_t)(s->n_heads + 1), n = (size_t)w->n_tok;
	size_t n_keys = (size_t)(w->n_pages * s->page_size) * dim;
	size_t n_blocks = n_keys / (size_t)s->ratio;
	size_t n_rope = n * (size_t)(2 * s->n_freq), act = dtype_bytes(kt->b->act_type);
	float *x = kernel_rows(kt, n, row, 1), *norm = kernel_rows(kt, 1, dim, 1), *blocks[2];
	float *rope = kernel_zeros(kt, n_rope);
	for (size_t i = 0; i < n_rope; i++)
		rope[i] = i % 2 ? sinf((float)i) : cosf((float)(i + 1));
	kernel_act_round(kt, x, n * row, 100);
	kernel_kv_round(kt, x, n * row, 100);
	/* Blocks that are alike. */
	for (size_t b = 2; b < 9 && (b + 1) * (size_t)s->ratio <= (size_t)s->n_ctx; b += 2)
		memcpy(x + b * (size_t)s->ratio * row, x + row * (size_t)s->ratio,
		       (size_t)s->ratio * row * sizeof *x);
	struct index_keys_args a = {
		.n_tok = w->n_tok, .dim = s->dim, .ratio = s->ratio, .row = (int32_t)row,
		.n_freq = s->n_freq, .eps = 1e-6f, .key = x, .norm = norm, .rope = rope,
		.slot = w->slot, .type = DTYPE_F32, .page_size = s->page_size}, on = a;
	const float *bias = kernel_rows(kt, 1, dim, 1);
	a.bias = s->is_weighed ? bias : NULL;
	for (int i = 0; i < 2; i++) {
		a.keys = kernel_zeros(kt, n_keys);
		a.blocks = blocks[i] = kernel_zeros(kt, n_blocks);
		i == 0 ? index_keys_ref(&a) : index_keys_plain(&a);
	}
	const char *x_on = kernel_act_upload(kt, x, n * row);
	const float *rope_on = UPLOAD(kt, rope, n_rope);
	const int32_t *slot_on = UPLOAD(kt, w->slot, n);
	on.norm = UPLOAD(kt, norm, dim);
	on.bias = s->is_weighed ? UPLOAD(kt, bias, dim) : NULL;
	on.type = kt->b->kv_type;
	on.keys = kernel_kv_upload(kt, kernel_zeros(kt, n_keys), n_keys);
	on.blocks = kernel_kv_upload(kt, kernel_zeros(kt, n_blocks), n_blocks);
	int32_t cut = s->ratio * 2 + 1;
	for (int i = 0; i < 2; i++) {
		size_t first = i ? (size_t)cut : 0;
		on.n_tok = i ? w->n_tok - cut : cut;
		on.key = x_on + first * row * act;
		on.rope = rope_on + first * (size_t)(2 * s->n_freq);
		on.slot = slot_on + first;
		kernel_ran(kt, kt->b->ops->index_keys(kt->b, &on), "index_keys");
	}
	char what[80];
	snprintf(what, sizeof what, "index_keys K=%d, blocks of %d", s->dim, s->ratio);
	float *got = kernel_kv_download(kt, on.blocks, n_blocks);
	kernel_kv_compare(kt, got, blocks[0], blocks[1], n_blocks / dim, dim, 1e-11, what);
	*on_blocks = on.blocks;
	return got;
}

/* a: on the host; on: the backend's, which gets the rest of its memory here. */
static void choose_case(struct kernel_test *kt, struct index_choose_args *a,
			struct index_choose_args *on)
{
	size_t n = (size_t)a->n_tok, n_table = n * (size_t)(a->top + 1);
	size_t n_work = n * (size_t)(a->n_ctx_max / a->ratio + 1);
	int wrong = 0;
	for (size_t i = 0; i < n_table; i++)
		a->table[i] = -7;
	on->work = UPLOAD(kt, kernel_zeros(kt, n_work), n_work);
	on->table = UPLOAD(kt, a->table, n_table);
	on->last = UPLOAD(kt, a->last, n);
	index_choose_ref(a);
	kernel_ran(kt, kt->b->ops->index_choose(kt->b, on), "index_choose");
	const float *got = kernel_download(kt, on->table, n_table);
	kernel_ok(memcmp(kernel_download(kt, on->last, n), a->last, n * sizeof *a->last) == 0,
		  "%s: index_choose of %d: so many positions", kt->name, a->top);
	for (size_t i = 0; i < n_table; i++)
		wrong += memcmp(&got[i], &a->table[i], sizeof *a->table) != 0;
	kernel_ok(wrong == 0, "%s: index_choose of %d, blocks of %d, H=%d: %d wrong", kt->name,
		  a->top, a->ratio, a->n_heads, wrong);
}

static void index_case(struct kernel_test *kt, const struct index_shape *s)
{
	struct kernel_pages w = kernel_two_seqs(kt, s->n_ctx, s->page_size);
	void *on_blocks;
	float *blocks = keys_case(kt, s, &w, &on_blocks);
	size_t n = (size_t)w.n_tok, row = (size_t)(s->dim * (s->n_heads + 1));
	size_t n_table = n * (size_t)(s->top + 1), n_work = (size_t)(s->n_ctx / s->ratio + 1);
	float *q = kernel_rows(kt, n, row, 1);
	kernel_act_round(kt, q, n * row, 100);
	/* All scores 0: the first blocks are chosen. */
	memset(q + (size_t)(s->n_ctx - 1) * row, 0, row * sizeof *q);
	int32_t *table = kernel_ints(kt, n_table), *last = kernel_ints(kt, n);
	struct index_choose_args a = {
		.n_tok = w.n_tok, .n_heads = s->n_heads, .dim = s->dim, .ratio = s->ratio,
		.row = (int32_t)row, .top = s->top, .max_pages_per_seq = w.max_pages,
		.n_ctx_max = s->n_ctx, .q = q, .type = DTYPE_F32, .page_size = s->page_size,
		.blocks = blocks, .seq_of = w.seq_of, .position = w.position,
		.page_table = w.table, .work = kernel_zeros(kt, n * n_work), .table = table,
		.last = last}, on = a;
	const float *weight = kernel_rows(kt, n, (size_t)s->n_heads, 1);
	if (s->is_weighed) {
		a.weight = weight;
		on.weight = UPLOAD(kt, weight, n * (size_t)s->n_heads);
	}
	on.q = kernel_act_upload(kt, q, n * row);
	on.type = kt->b->kv_type;
	on.blocks = on_blocks;
	on.seq_of = UPLOAD(kt, w.seq_of, n);
	on.position = UPLOAD(kt, w.position, n);
	on.page_table = UPLOAD(kt, w.table, (size_t)w.n_pages);
	choose_case(kt, &a, &on);
}

/* Two tokens behind more blocks than a workgroup of the HIP kernel holds in registers. Numbers
 * are small integers: scores are exact, and many are equal. */
static void many_blocks(struct kernel_test *kt, int32_t n_blocks)
{
	enum { DIM = 8, HEADS = 2, TOP = 300, PAGE = 4, TOKENS = 2 };
	size_t n_keys = (size_t)n_blocks * DIM, n_q = TOKENS * HEADS * DIM;
	int32_t n_pages = n_blocks / PAGE, position[TOKENS] = {n_blocks - 1, n_blocks - 6};
	int32_t *seq_of = kernel_ints(kt, TOKENS), *pages = kernel_ints(kt, (size_t)n_pages);
	int32_t *table = kernel_ints(kt, TOKENS * (TOP + 1)), *last = kernel_ints(kt, TOKENS);
	float *blocks = kernel_zeros(kt, n_keys), *q = kernel_zeros(kt, n_q);
	for (size_t i = 0; i < n_keys; i++)
		blocks[i] = roundf(3 * kernel_noise(kt));
	for (size_t i = 0; i < n_q; i++)
		q[i] = roundf(3 * kernel_noise(kt));
	for (int32_t i = 0; i < n_pages; i++)
		pages[i] = n_pages - 1 - i;
	struct index_choose_args a = {
		.n_tok = TOKENS, .n_heads = HEADS, .dim = DIM, .ratio = 1, .row = HEADS * DIM,
		.top = TOP, .max_pages_per_seq = n_pages, .n_ctx_max = n_blocks, .q = q,
		.type = DTYPE_F32, .page_size = PAGE, .blocks = blocks, .seq_of = seq_of,
		.position = position, .page_table = pages,
		.work = kernel_zeros(kt, TOKENS * (size_t)n_blocks), .table = table,
		.last = last}, on = a;
	on.q = kernel_act_upload(kt, q, n_q);
	on.type = kt->b->kv_type;
	on.blocks = kernel_kv_upload(kt, blocks, n_keys);
	on.seq_of = UPLOAD(kt, seq_of, TOKENS);
	on.position = UPLOAD(kt, position, TOKENS);
	on.page_table = UPLOAD(kt, pages, (size_t)n_pages);
	choose_case(kt, &a, &on);
}

void case_hyper(struct kernel_test *kt)
{
	static const struct index_shape shapes[] = {
		{75, 8, 16, 4, 16, 8, 4, false}, {70, 3, 24, 8, 32, 3, 12, false},
		{560, 2, 64, 2, 64, 200, 16, false}, {90, 4, 32, 1, 16, 20, 4, true},
		{100, 3, 128, 4, 16, 9, 32, true},
	};
	low_case(kt, 3, 37, 4);
	mix_case(kt, 3, 4, 70, false);
	mix_case(kt, 2, 3, 301, true);
	add_case(kt, 4, 4, 70, true);
	add_case(kt, 2, 3, 301, false);
	kernel_test_reset(kt);
	ngram_case(kt, 4, 4, 66);
	ngram_case(kt, 2, 2, 640);
	kernel_test_reset(kt);
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		if (!kernel_is_short() || shapes[i].n_ctx < 500)
			index_case(kt, &shapes[i]);
		kernel_test_reset(kt);
	}
	many_blocks(kt, 33000);
	kernel_test_reset(kt);
}
