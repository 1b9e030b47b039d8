/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences of several lengths in one call, their pages in no order: decode (one
 * token at the end), prefill (all), a chunk in the middle.
 */
#include "base/map.h"
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define attention_ref attention_plain
#include "kernels/ops/attention_ref.c"
#undef attention_ref
#include "tests/kernel/plain_end.h"

enum { MAX_SEQS = 4, FULL = -1 };

struct shape {
	int32_t h, g, k, p;
	struct {
		int32_t from, to; /* positions of the step's tokens; to 0: no more */
	} seq[MAX_SEQS];
	/* Of q: large makes one position win, small lets the sinks (no weight that they
	 * leave may be below e^-87, where kernels may stop). */
	float sharpness;
	int32_t window;
	bool has_sinks;
	int32_t v_dim;   /* 0: k */
	bool v_is_k;     /* no values: the first v_dim of the keys */
	int32_t sight;   /* what a token sees behind itself. 0: nothing; FULL: all, or a window as
			  * wide as before; else in images[sight - 1] */
	int32_t n_launches; /* of a backend that launches kernels; 0: any number */
	bool is_chunked;
};

/* Positions of an image in each sequence, whose tokens see each other. */
static const struct {
	int32_t first, n;
} images[] = {{20, 50}, {33, 70}, {4080, 40}};

static const struct shape cases[] = {
	{8, 2, 64, 16, {{99, 100}}, 1, 0, false, 0, false, false, 0, false},
	{8, 2, 64, 16, {{0, 1}}, 1, 0, false, 0, false, false, 0, false},
	{4, 4, 128, 16, {{0, 37}, {50, 51}, {16, 32}, {15, 17}},
	 1, 0, false, 0, false, false, 0, false},
	{6, 2, 30, 5, {{3, 20}, {0, 5}, {40, 41}}, 1, 0, false, 0, false, false, 0, false},
	{2, 1, 256, 32, {{0, 3}, {700, 701}}, 1, 0, false, 0, false, false, 0, false},
	{4, 2, 64, 16, {{60, 70}, {511, 512}}, 30, 0, false, 0, false, false, 0, false},
	{1, 1, 7, 1, {{0, 9}}, 1, 0, false, 0, false, false, 0, false},
	{8, 2, 64, 16, {{0, 37}, {50, 51}, {16, 32}, {15, 17}},
	 1, 16, false, 0, false, false, 0, false},
	{4, 2, 30, 5, {{3, 20}, {0, 5}, {40, 41}}, 1, 7, false, 0, false, false, 0, false},
	{2, 1, 128, 32, {{0, 3}, {700, 701}}, 1, 511, false, 0, false, false, 0, false},
	{2, 2, 64, 16, {{0, 20}}, 1, 1, false, 0, false, false, 0, false}, /* itself alone */
	{8, 2, 64, 16, {{0, 37}, {50, 51}, {16, 32}, {15, 17}},
	 1e-4f, 0, true, 0, false, false, 0, false},
	{8, 2, 64, 16, {{0, 37}, {300, 301}}, 1e-4f, 16, true, 0, false, false, 0, false},
	{2, 2, 64, 16, {{0, 5}}, 1, 1, true, 0, false, false, 0, false},
	{4, 2, 96, 16, {{0, 37}, {50, 51}}, 1, 0, false, 64, false, false, 0, false},
	{2, 1, 32, 16, {{0, 3}, {90, 91}}, 1, 0, false, 64, false, false, 0, false},
	{4, 1, 96, 16, {{0, 37}, {50, 51}, {15, 17}}, 1, 0, false, 64, true, false, 0, false},
	{16, 1, 576, 16, {{0, 3}, {200, 201}}, 1, 0, false, 512, true, false, 0, false},
	/* across the ranges that the CPU cuts positions into, in few tiles and many */
	{.h = 4, .g = 1, .k = 64, .p = 16, .seq = {{1090, 1100}}, .sharpness = 1},
	{.h = 32, .g = 1, .k = 40, .p = 16, .seq = {{500, 540}, {1200, 1201}},
	 .sharpness = 4, .window = 600},
	/* long: several segments of several blocks, a tile before and after that begins */
	{4, 1, 64, 16, {{2036, 2052}, {4099, 4100}}, 1, 0, false, 0, false, false, 0, false},
	{2, 1, 128, 64, {{2500, 2501}, {2299, 2303}}, 1, 333, true, 0, false, false, 0, false},
	/* groups that are no power of two, or beyond what shares a reading */
	{10, 2, 64, 16, {{3, 30}, {70, 71}}, 1, 0, false, 0, false, false, 0, false},
	{24, 1, 32, 16, {{3, 8}, {70, 71}}, 1, 0, true, 0, false, false, 0, false},
	{2, 1, 512, 16, {{0, 3}, {130, 131}}, 1, 0, false, 0, false, false, 0, false},
	/* where segments of the HIP backend grow: past 64 and 144 of the smallest */
	{2, 1, 64, 16, {{4090, 4100}, {9215, 9217}}, 1, 0, false, 0, false, false, 0, false},
	/* heads that their kernel has room beside, more than a tile of tokens */
	{6, 2, 96, 16, {{0, 70}, {129, 130}}, 1, 0, false, 0, false, false, 0, false},
	{6, 2, 96, 16, {{10, 75}, {129, 130}}, 4, 40, true, 0, false, false, 0, false},
	{4, 2, 192, 16, {{30, 70}, {99, 100}}, 1, 0, false, 128, false, false, 0, false},
	/* heads whose rows two waves share, in several tiles and segments of several blocks */
	{16, 2, 256, 16, {{290, 333}, {30, 37}}, 1, 0, false, 0, false, false, 0, false},
	{8, 1, 200, 16, {{4090, 4103}, {99, 100}}, 1, 97, true, 0, false, false, 0, false},
	/* a window that begins within a block, and that is wider than one */
	{8, 1, 128, 16, {{120, 200}, {333, 334}}, 1, 33, true, 0, false, false, 0, false},
	{8, 1, 128, 16, {{120, 200}, {333, 334}}, 1, 97, false, 0, false, false, 0, false},
	/* few tokens behind a long cache: segments of a tile of tokens, and their merge */
	{.h = 8, .g = 1, .k = 128, .p = 16, .seq = {{1290, 1299}}, .sharpness = 1,
	 .n_launches = 2},
	{.h = 8, .g = 1, .k = 64, .p = 16, .seq = {{1100, 1103}, {77, 78}, {1090, 1100}, {0, 2}},
	 .sharpness = 1},
	{.h = 8, .g = 1, .k = 256, .p = 16, .seq = {{1201, 1206}}, .sharpness = 1,
	 .n_launches = 2},
	{.h = 2, .g = 1, .k = 192, .p = 16, .seq = {{1500, 1503}}, .sharpness = 1,
	 .window = 1100, .v_dim = 128, .n_launches = 2},
	/* in one window segments begin before the first token's, and become longer */
	{.h = 4, .g = 1, .k = 64, .p = 16, .seq = {{4093, 4099}, {2000, 2001}},
	 .sharpness = 1e-4f, .window = 1500, .has_sinks = true},
	{.h = 8, .g = 1, .k = 96, .p = 16, .seq = {{4090, 4102}}, .sharpness = 1,
	 .window = 1024, .n_launches = 2},
	{.h = 4, .g = 1, .k = 64, .p = 16, .seq = {{9211, 9219}}, .sharpness = 1,
	 .n_launches = 2},
	/* one token a tile, several, and heads beyond what shares a reading */
	{.h = 16, .g = 1, .k = 576, .p = 16, .seq = {{1100, 1102}}, .sharpness = 1, .v_dim = 512,
	 .v_is_k = true, .n_launches = 2},
	{.h = 4, .g = 1, .k = 576, .p = 16, .seq = {{1100, 1105}}, .sharpness = 1, .v_dim = 512,
	 .v_is_k = true, .n_launches = 2},
	{.h = 24, .g = 1, .k = 32, .p = 16, .seq = {{1400, 1404}, {1500, 1502}},
	 .sharpness = 1, .has_sinks = true},
	{.h = 6, .g = 2, .k = 30, .p = 5, .seq = {{1030, 1040}}, .sharpness = 4,
	 .n_launches = 2},
	{.h = 2, .g = 1, .k = 512, .p = 16, .seq = {{1200, 1203}}, .sharpness = 1,
	 .n_launches = 2},
	/* decode whose segments a launch of its own merges */
	{.h = 2, .g = 1, .k = 64, .p = 16, .seq = {{8200, 8201}}, .sharpness = 1,
	 .has_sinks = true, .n_launches = 2},
	/* many sequences of one token (HIP: here four workgroups are many): of one segment, of
	 * several, with a window and sinks; values in keys; heads beyond what shares a reading */
	{.h = 12, .g = 2, .k = 256, .p = 4, .seq = {{40, 41}, {0, 1}, {300, 301}, {127, 128}},
	 .sharpness = 1},
	{.h = 8, .g = 2, .k = 64, .p = 16, .seq = {{63, 64}, {700, 701}, {4100, 4101}},
	 .sharpness = 1, .window = 500, .has_sinks = true},
	{.h = 40, .g = 2, .k = 96, .p = 5, .seq = {{200, 201}, {31, 32}}, .sharpness = 4},
	{.h = 16, .g = 1, .k = 576, .p = 1, .seq = {{130, 131}, {7, 8}, {64, 65}, {90, 91}},
	 .sharpness = 1, .v_dim = 512, .v_is_k = true},
	/* chunks: of less than a block, of several, of many segments; tokens of two chunks */
	{.h = 4, .g = 2, .k = 64, .p = 16, .seq = {{20, 70}, {0, 9}, {63, 64}, {64, 65}},
	 .sharpness = 1, .window = 16, .is_chunked = true},
	{.h = 5, .g = 1, .k = 128, .p = 16, .seq = {{250, 270}, {511, 512}, {512, 513}},
	 .sharpness = 1, .window = 256, .is_chunked = true},
	{.h = 2, .g = 1, .k = 64, .p = 64, .seq = {{8180, 8201}, {8191, 8192}}, .sharpness = 1,
	 .window = 4096, .is_chunked = true},
	/* vision towers */
	{.h = 4, .g = 4, .k = 72, .p = 16, .seq = {{0, 100}, {0, 40}}, .sharpness = 1,
	 .sight = FULL},
	{.h = 2, .g = 2, .k = 64, .p = 64, .seq = {{0, 1100}}, .sharpness = 1,
	 .sight = FULL},
	{.h = 2, .g = 2, .k = 80, .p = 16, .seq = {{0, 70}}, .sharpness = 4, .sight = FULL},
	/* images in prompts, also behind a window; tokens of other sequences beside them */
	{.h = 8, .g = 2, .k = 256, .p = 16, .seq = {{9, 90}, {50, 51}, {0, 20}}, .sharpness = 1,
	 .sight = 1},
	{.h = 4, .g = 1, .k = 64, .p = 16, .seq = {{0, 150}, {120, 121}}, .sharpness = 1,
	 .window = 40, .sight = 2},
	{.h = 4, .g = 2, .k = 128, .p = 16, .seq = {{4070, 4140}}, .sharpness = 1,
	 .has_sinks = true, .sight = 3},
	/* an encoder's window, to both sides */
	{.h = 3, .g = 1, .k = 32, .p = 16, .seq = {{0, 100}, {0, 7}, {0, 1}}, .sharpness = 1,
	 .sight = FULL, .window = 9},
	{.h = 2, .g = 2, .k = 64, .p = 16, .seq = {{0, 1100}}, .sharpness = 1,
	 .sight = FULL, .window = 300},
};

struct input {
	int32_t n_tok, n_seq, n_ctx_max, max_pages, n_pages;
	float *q, *k, *v, *sinks; /* v, sinks: NULL where there are none */
	int32_t *seq_of, *position, *first_tok, *table, *last_seen;
};

/* No numbers where no token of the step looks: after it, and before its window. */
static void spoil(const struct shape *s, const struct input *in, int32_t b)
{
	int32_t from = s->seq[b].from, to = s->seq[b].to;
	int32_t first = s->window && from >= s->window ? from - s->window + 1 : 0;
	first = s->is_chunked ? from - from % s->window : first;
	int32_t v_dim = s->v_dim ? s->v_dim : s->k;
	for (int32_t i = 0; i < in->max_pages * s->p * s->g; i++) {
		int32_t at = i / s->g, page = in->table[b * in->max_pages + at / s->p];
		size_t row = (size_t)((page * s->g + i % s->g) * s->p + at % s->p);
		if (at >= first && at < to)
			continue;
		for (int32_t d = 0; d < s->k; d++)
			in->k[row * (size_t)s->k + (size_t)d] = NAN;
		for (int32_t d = 0; in->v && d < v_dim; d++)
			in->v[row * (size_t)v_dim + (size_t)d] = NAN;
	}
}

/* Of the token at position p of sequence b. */
static int32_t last_seen(const struct shape *s, int32_t b, int32_t p)
{
	int32_t last = s->seq[b].to - 1;
	if (s->sight > 0) {
		int32_t from = images[s->sight - 1].first, end = from + images[s->sight - 1].n;
		return p >= from && p < end ? MIN(last, end - 1) : p;
	}
	return s->window ? MIN(last, p + s->window - 1) : last;
}

static struct input make(struct kernel_test *kt, const struct shape *s)
{
	struct input in = {0};
	for (; in.n_seq < MAX_SEQS && s->seq[in.n_seq].to; in.n_seq++) {
		in.n_tok += s->seq[in.n_seq].to - s->seq[in.n_seq].from;
		in.n_ctx_max = MAX(in.n_ctx_max, s->seq[in.n_seq].to);
	}
	in.max_pages = in.n_ctx_max / s->p + 2;
	in.n_pages = in.n_seq * in.max_pages;
	size_t t = (size_t)in.n_tok;
	size_t n_rows = (size_t)in.n_pages * (size_t)(s->g * s->p);
	in.q = kernel_rows(kt, t * (size_t)s->h, (size_t)s->k, s->sharpness);
	in.k = kernel_rows(kt, n_rows, (size_t)s->k, 1);
	if (!s->v_is_k)
		in.v = kernel_rows(kt, n_rows, (size_t)(s->v_dim ? s->v_dim : s->k), 1);
	kernel_act_round(kt, in.q, t * (size_t)(s->h * s->k), 6e4f);
	kernel_kv_round(kt, in.k, n_rows * (size_t)s->k, 6e4f);
	if (in.v)
		kernel_kv_round(kt, in.v, n_rows * (size_t)(s->v_dim ? s->v_dim : s->k),
				6e4f);
	if (s->has_sinks)
		in.sinks = kernel_zeros(kt, (size_t)s->h);
	for (int32_t h = 0; in.sinks && h < s->h; h++)
		in.sinks[h] = kernel_noise(kt) * 3;
	in.seq_of = kernel_ints(kt, t);
	in.position = kernel_ints(kt, t);
	if (s->sight)
		in.last_seen = kernel_ints(kt, t);
	in.first_tok = kernel_ints(kt, (size_t)in.n_seq + 1);
	in.table = kernel_ints(kt, (size_t)in.n_pages);
	for (int32_t b = 0, at = 0; b < in.n_seq; b++) {
		for (int32_t p = s->seq[b].from; p < s->seq[b].to; p++, at++) {
			in.seq_of[at] = b;
			in.position[at] = p;
			if (in.last_seen)
				in.last_seen[at] = last_seen(s, b, p);
		}
		in.first_tok[b + 1] = at;
	}
	for (int32_t i = 0; i < in.n_pages; i++) /* a permutation: 1009 is prime */
		in.table[i] = (int32_t)((int64_t)i * 1009 % in.n_pages);
	for (int32_t b = 0; b < in.n_seq; b++)
		spoil(s, &in, b);
	return in;
}

static struct attention_args args(const struct shape *s, const struct input *in)
{
	return (struct attention_args){
		.n_tok = in->n_tok, .n_seq = in->n_seq, .n_heads = s->h,
		.n_kv_heads = s->g, .head_dim = s->k,
		.max_pages_per_seq = in->max_pages, .n_ctx_max = in->n_ctx_max,
		.window = s->window, .last_seen = in->last_seen,
		.is_chunked = s->is_chunked,
		.scale = (float)(1 / sqrt(s->k)), .q = in->q,
		.kv = {.k = in->k, .v = in->v, .type = DTYPE_F32, .page_size = s->p},
		.seq_of = in->seq_of,
		.position = in->position, .first_tok = in->first_tok,
		.page_table = in->table, .sinks = in->sinks, .v_dim = s->v_dim};
}

static struct attention_args upload(struct kernel_test *kt, const struct shape *s,
				    const struct input *in)
{
	struct attention_args a = args(s, in);
	size_t t = (size_t)in->n_tok, nq = t * (size_t)(s->h * s->k);
	size_t n = (size_t)in->n_pages * (size_t)(s->g * s->p * s->k);
	a.q = kernel_act_upload(kt, in->q, nq);
	a.kv.type = kt->b->kv_type;
	a.kv.k = kernel_kv_upload(kt, in->k, n);
	if (in->v)
		a.kv.v = kernel_kv_upload(kt, in->v, n / (size_t)s->k *
						     (size_t)attention_v_dim(&a));
	if (in->sinks)
		a.sinks = UPLOAD(kt, in->sinks, (size_t)s->h);
	a.seq_of = UPLOAD(kt, in->seq_of, t);
	a.position = UPLOAD(kt, in->position, t);
	if (in->last_seen)
		a.last_seen = UPLOAD(kt, in->last_seen, t);
	a.first_tok = UPLOAD(kt, in->first_tok, (size_t)in->n_seq + 1);
	a.page_table = UPLOAD(kt, in->table, (size_t)in->n_pages);
	nq = t * (size_t)(s->h * attention_v_dim(&a));
	a.y = kernel_act_upload(kt, kernel_zeros(kt, nq), nq);
	return a;
}

/* What an operation finds in variables that it has not set: it is not to matter. */
__attribute__((noinline)) static void leave_nan_on_stack(void)
{
	volatile float left[1 << 17];
	for (size_t i = 0; i < ARRAY_LEN(left); i++)
		left[i] = NAN;
}

/* got (T, H * v_dim) is what `a` made. What a token sees decides its bits, not how it is told. */
static void check_text(struct kernel_test *kt, const struct attention_args *a,
		       const struct input *in, const float *got, const char *what)
{
	struct attention_args text = *a;
	size_t row = (size_t)(a->n_heads * attention_v_dim(a));
	int wrong = 0, n = 0;
	text.last_seen = NULL;
	kernel_ran(kt, kt->b->ops->attention(kt->b, &text), what);
	const float *again = kernel_act_download(kt, a->y, (size_t)in->n_tok * row);
	for (int32_t t = 0; t < in->n_tok; t++) {
		if (in->last_seen[t] != in->position[t])
			continue;
		kernel_same(kt, again + (size_t)t * row, got + (size_t)t * row, row, &wrong);
		n++;
	}
	kernel_ok(n > 0 && wrong == 0, "%s: %s: %d tokens that see none behind them have the "
		  "bits of text", kt->name, what, n);
}

static void one_case(struct kernel_test *kt, const struct shape *s)
{
	struct input in = make(kt, s);
	struct attention_args a = args(s, &in);
	int32_t v_dim = attention_v_dim(&a);
	size_t row = (size_t)(s->h * v_dim), n = (size_t)in.n_tok * row;
	float *ref = kernel_zeros(kt, n), *plain = kernel_zeros(kt, n);
	uint64_t key = hash_bytes(kernel_key(kt, "attention", in.q, (size_t)in.n_tok *
					     (size_t)(s->h * s->k)), s, sizeof *s);
	if (!kernel_recall(key, ref, plain, n)) {
		a.y = ref;
		attention_ref(&a);
		a.y = plain;
		attention_plain(&a);
		kernel_keep(key, ref, plain, n);
	}
	struct attention_args on = upload(kt, s, &in);
	leave_nan_on_stack();
	bool runs, is_again;
	kt->b->n_step_launches = 0;
	kernel_ran(kt, kt->b->ops->step_begin(kt->b, 0, &runs), "step");
	kernel_ran(kt, kt->b->ops->attention(kt->b, &on), "attention");
	kernel_ran(kt, kt->b->ops->step_end(kt->b, &is_again), "step");
	int launches = kt->b->n_step_launches;
	float *got = kernel_act_download(kt, on.y, n);
	kt->n_cut = s->k + in.n_ctx_max; /* of a score, and of the values */
	char what[120];
	snprintf(what, sizeof what,
		 "attention T=%d B=%d S=%d H=%d G=%d K=%d V=%d%s P=%d W=%d%s%s", in.n_tok,
		 in.n_seq, in.n_ctx_max, s->h, s->g, s->k, v_dim,
		 s->v_is_k ? " of K" : "", s->p, s->window, s->has_sinks ? " sinks" : "",
		 in.last_seen ? " seen from before" : "");
	kernel_act_compare(kt, got, ref, plain, (size_t)(in.n_tok * s->h), (size_t)v_dim,
			   1e-11, what);
	if (launches && s->n_launches)
		kernel_ok(launches == s->n_launches, "%s: %s: %d launches of %d", kt->name, what,
			  launches, s->n_launches);

	if (in.last_seen)
		check_text(kt, &on, &in, got, what);
	int wrong = 0;
	for (int32_t t = 0; t < in.n_tok; t += 1 + in.n_tok / 4) {
		struct input one = in;
		int32_t first[2] = {0, 1}, zero = 0;
		one.n_tok = one.n_seq = 1;
		one.n_ctx_max = (in.last_seen ? in.last_seen : in.position)[t] + 1;
		one.q = in.q + (size_t)t * (size_t)(s->h * s->k);
		one.position = in.position + t;
		one.last_seen = in.last_seen ? in.last_seen + t : NULL;
		one.seq_of = &zero;
		one.first_tok = first;
		one.table = in.table + in.seq_of[t] * in.max_pages;
		struct attention_args alone = upload(kt, s, &one);
		/* The table is only that sequence's; do not upload beyond it. */
		alone.page_table = UPLOAD(kt, one.table, (size_t)in.max_pages);
		kernel_ran(kt, kt->b->ops->attention(kt->b, &alone), what);
		kernel_same(kt, kernel_act_download(kt, alone.y, row), got + (size_t)t * row,
			    row, &wrong);
	}
	kernel_ok(wrong == 0, "%s: %s: tokens alone have the same bits", kt->name, what);
}

/* Work memory keeps what the last call has left. 4,100 positions have 33 segments, and 4,700
 * have 37: what the last four of these left there is not a part of the others' sum. */
static void check_left(struct kernel_test *kt)
{
	struct shape few = {4, 2, 64, 16, {{4100, 4101}}, .sharpness = 1}, more = few;
	more.seq[0].from = 4700;
	more.seq[0].to = 4701;
	struct input in = make(kt, &few), nan = make(kt, &more);
	size_t n = (size_t)(few.h * few.k);
	for (size_t i = 0; i < n; i++)
		nan.q[i] = NAN;
	struct attention_args a = upload(kt, &few, &in), left = upload(kt, &more, &nan);
	kernel_ran(kt, kt->b->ops->attention(kt->b, &a), "attention");
	const float *first = kernel_act_download(kt, a.y, n);
	kernel_ran(kt, kt->b->ops->attention(kt->b, &left), "attention of NaN");
	kernel_ran(kt, kt->b->ops->attention(kt->b, &a), "attention");
	const float *again = kernel_act_download(kt, a.y, n);
	int wrong = 0;
	kernel_same(kt, again, first, n, &wrong);
	for (size_t i = 0; i < n; i++)
		wrong += !isfinite(first[i]);
	kernel_ok(wrong == 0, "%s: attention S=4101 behind more segments of NaN", kt->name);
}

void case_attention(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		one_case(kt, &cases[i]);
		if (i == 0)
			check_left(kt);
		kernel_test_reset(kt);
	}
}
