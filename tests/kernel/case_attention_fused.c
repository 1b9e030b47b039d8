/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention that is told what comes before it (attention_args.fused): the bits of the
 * output and of the cache are those of the two operations, and where sequences have one
 * token each, a backend that launches kernels launches one. The rows of the cache that
 * the step writes hold no numbers before.
 */
#include "tests/kernel/kernel_test.h"

enum { MAX_SEQS = 5 };

struct shape {
	int32_t h, g, k, n_freq, p; /* heads, key heads, their size, pairs, page */
	bool has_norms;
	int32_t q_pitch;            /* 0: queries in place */
	int32_t window;
	bool has_sinks;
	int32_t n_launches;         /* of all of it */
	int32_t n_tok;              /* of the first sequence */
	int32_t position[MAX_SEQS]; /* of a sequence's last token, and -1 */
};

static const struct shape cases[] = {
	/* borders of pages, blocks (32) and segments (64, two of them are one), before and after */
	{8, 1, 128, 64, 16, true, 0, 0, false, 1, 1, {0, 15, 16, 31, 32}},
	{4, 2, 128, 64, 16, true, 0, 0, false, 1, 1, {63, 64, 95, 96, 127}},
	{4, 2, 64, 32, 64, false, 0, 0, false, 1, 1, {128, 5, 31, 63, 200}},
	/* groups of heads: of one, of more than waves, of all rows, of more */
	{2, 2, 64, 32, 16, true, 0, 0, false, 1, 1, {33, -1}},
	{5, 1, 128, 64, 16, true, 0, 0, false, 1, 1, {40, 70, -1}},
	{32, 2, 64, 16, 8, true, 0, 0, true, 1, 1, {65, 3, -1}},
	{24, 1, 64, 32, 16, true, 0, 0, true, 1, 1, {32, 100, -1}},
	/* heads that are rotated in part, or not; narrower than their kernel's; wide */
	{4, 1, 128, 32, 16, true, 0, 0, false, 1, 1, {77, -1}},
	{4, 1, 128, 10, 16, false, 0, 0, false, 1, 1, {50, -1}},
	{2, 1, 64, 0, 16, true, 0, 0, false, 1, 1, {36, -1}},
	{4, 2, 80, 40, 16, false, 0, 0, false, 1, 1, {31, 64, -1}},
	{4, 2, 96, 48, 16, true, 0, 0, false, 1, 1, {63, 65, -1}},
	{16, 2, 256, 32, 16, true, 512, 0, false, 1, 1, {31, 96, -1}},
	{4, 2, 256, 128, 32, false, 0, 0, true, 1, 1, {32, 64, 128, 255, -1}},
	{2, 1, 192, 96, 16, true, 0, 0, false, 1, 1, {60, 125, -1}},
	/* queries with more beside them, a window, sinks, pages of no power of two */
	{8, 2, 64, 8, 16, true, 128, 0, false, 1, 1, {66, 20, -1}},
	{8, 1, 64, 32, 16, true, 0, 16, true, 1, 1, {0, 15, 16, 64, 80}},
	{2, 1, 128, 64, 5, true, 0, 100, false, 1, 1, {99, 100, 230, -1}},
	{2, 2, 64, 32, 16, true, 0, 1, true, 1, 1, {64, 9, -1}},
	/* segments of more than two blocks */
	{4, 1, 64, 32, 32, true, 0, 0, false, 2, 1, {2047, 4095, 4096, -1}},
	/* what has no kernel of its own, and steps with more tokens */
	{4, 2, 30, 15, 5, true, 0, 0, false, 2, 1, {40, 7, -1}},
	{4, 2, 64, 13, 16, true, 0, 0, false, 2, 1, {40, -1}},
	{4, 2, 64, 32, 16, true, 65, 0, false, 2, 1, {40, -1}},
	{2, 1, 512, 64, 16, true, 0, 0, false, 2, 1, {20, -1}},
	{4, 2, 64, 32, 16, true, 0, 0, false, 3, 3, {40, 64, -1}},
	{4, 2, 64, 32, 16, true, 0, 0, false, 2, 5, {69, -1}},
};

struct input {
	int32_t n_tok, n_seq, max_pages, n_pages, n_ctx_max;
	size_t nq, n_from, nkv, n_cache; /* elements */
	float *q, *k, *v, *k_pages, *v_pages, *norms, *rope, *sinks;
	int32_t *seq_of, *position, *first_tok, *table, *slot;
};

/* Which tokens there are, and where they lie. */
static void place(struct kernel_test *kt, const struct shape *s, struct input *in)
{
	for (; in->n_seq < MAX_SEQS && s->position[in->n_seq] >= 0; in->n_seq++)
		in->n_ctx_max = MAX(in->n_ctx_max, s->position[in->n_seq] + 1);
	in->n_tok = in->n_seq - 1 + s->n_tok;
	in->max_pages = in->n_ctx_max / s->p + 2;
	in->n_pages = in->n_seq * in->max_pages;
	in->seq_of = kernel_ints(kt, (size_t)in->n_tok);
	in->position = kernel_ints(kt, (size_t)in->n_tok);
	in->slot = kernel_ints(kt, (size_t)in->n_tok);
	in->first_tok = kernel_ints(kt, (size_t)in->n_seq + 1);
	in->table = kernel_ints(kt, (size_t)in->n_pages);
	/* A permutation: 1009 is prime. Page 0 is behind the last sequence's tokens. */
	for (int32_t i = 0; i < in->n_pages; i++)
		in->table[i] = (int32_t)((int64_t)(i + 1) * 1009 % in->n_pages);
	for (int32_t b = 0, t = 0; b < in->n_seq; b++) {
		int32_t n = b ? 1 : s->n_tok;
		for (int32_t i = 0; i < n; i++, t++) {
			int32_t p = s->position[b] - (n - 1) + i;
			in->seq_of[t] = b;
			in->position[t] = p;
			in->slot[t] = in->table[b * in->max_pages + p / s->p] * s->p +
				      p % s->p;
		}
		in->first_tok[b + 1] = t;
	}
}

static struct input make(struct kernel_test *kt, const struct shape *s)
{
	struct input in = {0};
	place(kt, s, &in);
	size_t t = (size_t)in.n_tok, dim = (size_t)s->k;
	/* Weights that sinks leave are numbers still. */
	float scale = s->has_sinks ? 0.1f : 1;
	size_t pitch = (size_t)(s->q_pitch ? s->q_pitch : s->k);
	size_t rows = (size_t)(in.n_pages * s->g * s->p);
	in.nq = t * (size_t)s->h * dim;
	in.n_from = t * (size_t)s->h * pitch;
	in.nkv = t * (size_t)s->g * dim;
	in.n_cache = rows * dim;
	in.q = kernel_rows(kt, t * (size_t)s->h, pitch, scale);
	in.k = kernel_rows(kt, t * (size_t)s->g, dim, 1);
	in.v = kernel_rows(kt, t * (size_t)s->g, dim, 1);
	in.k_pages = kernel_rows(kt, rows, dim, 1);
	in.v_pages = kernel_rows(kt, rows, dim, 1);
	kernel_act_round(kt, in.q, in.n_from, 4e4f);
	kernel_act_round(kt, in.k, in.nkv, 4e4f);
	kernel_act_round(kt, in.v, in.nkv, 6e4f);
	kernel_kv_round(kt, in.k_pages, in.n_cache, 6e4f);
	kernel_kv_round(kt, in.v_pages, in.n_cache, 6e4f);
	struct kv_pages kv = {.page_size = s->p};
	/* What no token sees is no number: kernels may read page 0 for what is not there. */
	for (size_t i = 0; i < (size_t)(s->g * s->p) * dim; i++)
		in.k_pages[i] = in.v_pages[i] = NAN;
	for (int32_t i = 0; i < in.n_tok * s->g; i++) {
		size_t at = kv_pages_at(&kv, s->g, s->k, in.slot[i / s->g], i % s->g);
		for (size_t d = 0; d < dim; d++)
			in.k_pages[at + d] = in.v_pages[at + d] = NAN;
	}
	in.norms = kernel_rows(kt, 1, 2 * dim, scale);
	in.rope = kernel_rope(kt, in.position, in.n_tok, s->n_freq);
	in.sinks = s->has_sinks ? kernel_rows(kt, 1, (size_t)s->h, 1) : NULL;
	return in;
}

/* On the device, of one way to do it. */
struct upload {
	struct qk_norm_rope_kv_args fused;
	struct attention_args a;
};

static struct upload upload(struct kernel_test *kt, const struct shape *s,
			    const struct input *in)
{
	size_t t = (size_t)in->n_tok, dim = (size_t)s->k;
	struct upload u;
	void *q = kernel_act_upload(kt, in->q, in->n_from);
	struct kv_pages kv = {.k = kernel_kv_upload(kt, in->k_pages, in->n_cache),
			      .v = kernel_kv_upload(kt, in->v_pages, in->n_cache),
			      .type = kt->b->kv_type, .page_size = s->p};
	u.fused = (struct qk_norm_rope_kv_args){
		.n_tok = in->n_tok, .n_heads = s->h, .n_kv_heads = s->g, .head_dim = s->k,
		.n_freq = s->n_freq, .eps = 1e-6f, .q = q,
		.k = kernel_act_upload(kt, in->k, in->nkv),
		.v = kernel_act_upload(kt, in->v, in->nkv),
		.rope = UPLOAD(kt, in->rope, t * (size_t)s->n_freq * 2 + 1),
		.slot = UPLOAD(kt, in->slot, t), .kv = kv};
	if (s->has_norms) {
		u.fused.q_norm = UPLOAD(kt, in->norms, dim);
		u.fused.k_norm = UPLOAD(kt, in->norms + dim, dim);
	}
	if (s->q_pitch) {
		u.fused.q_from = q;
		u.fused.q_pitch = s->q_pitch;
		u.fused.q = kernel_act_upload(kt, kernel_zeros(kt, in->nq), in->nq);
	}
	u.a = (struct attention_args){
		.n_tok = in->n_tok, .n_seq = in->n_seq, .n_heads = s->h,
		.n_kv_heads = s->g, .head_dim = s->k, .max_pages_per_seq = in->max_pages,
		.n_ctx_max = in->n_ctx_max, .window = s->window,
		.scale = (float)(1 / sqrt(s->k)), .q = u.fused.q, .kv = kv,
		.seq_of = UPLOAD(kt, in->seq_of, t),
		.position = UPLOAD(kt, in->position, t),
		.first_tok = UPLOAD(kt, in->first_tok, (size_t)in->n_seq + 1),
		.page_table = UPLOAD(kt, in->table, (size_t)in->n_pages),
		.y = kernel_act_upload(kt, kernel_zeros(kt, in->nq), in->nq),
		.sinks = in->sinks ? UPLOAD(kt, in->sinks, (size_t)s->h) : NULL};
	return u;
}

/* The same in double, of the queries and the cache that the first operation left. */
static void compare(struct kernel_test *kt, const struct input *in, struct attention_args a,
		    const float *got, const char *what)
{
	float *ref = kernel_zeros(kt, in->nq), *plain = kernel_zeros(kt, in->nq);
	a.q = kernel_act_download(kt, a.q, in->nq);
	a.kv = (struct kv_pages){.k = kernel_kv_download(kt, a.kv.k, in->n_cache),
				 .v = kernel_kv_download(kt, a.kv.v, in->n_cache),
				 .type = DTYPE_F32, .page_size = a.kv.page_size};
	a.seq_of = in->seq_of, a.position = in->position, a.first_tok = in->first_tok;
	a.page_table = in->table, a.sinks = in->sinks;
	a.y = ref;
	attention_ref(&a);
	a.y = plain;
	attention_plain(&a);
	kt->n_cut = a.head_dim + a.n_ctx_max;
	kernel_act_compare(kt, got, ref, plain, (size_t)(a.n_tok * a.n_heads),
			   (size_t)a.head_dim, 1e-11, what);
}

static bool is_same(const float *x, const float *y, size_t n)
{
	return memcmp(x, y, n * sizeof *x) == 0;
}

static void one_case(struct kernel_test *kt, const struct shape *s)
{
	struct input in = make(kt, s);
	struct upload two = upload(kt, s, &in), one = upload(kt, s, &in);
	char what[140];
	snprintf(what, sizeof what,
		 "fused attention T=%d B=%d S=%d H=%d G=%d K=%d freq %d pitch %d P=%d W=%d%s",
		 in.n_tok, in.n_seq, in.n_ctx_max, s->h, s->g, s->k, s->n_freq, s->q_pitch,
		 s->p, s->window, s->has_sinks ? " sinks" : "");
	kernel_ran(kt, kt->b->ops->qk_norm_rope_kv(kt->b, &two.fused), what);
	kernel_ran(kt, kt->b->ops->attention(kt->b, &two.a), what);
	one.a.fused = &one.fused;
	bool runs, is_again;
	kt->b->n_step_launches = 0;
	kernel_ran(kt, kt->b->ops->step_begin(kt->b, 0, &runs), what);
	kernel_ran(kt, kt->b->ops->attention(kt->b, &one.a), what);
	kernel_ran(kt, kt->b->ops->step_end(kt->b, &is_again), what);
	float *y = kernel_act_download(kt, one.a.y, in.nq);
	kernel_ok(is_same(y, kernel_act_download(kt, two.a.y, in.nq), in.nq),
		  "%s: %s: y as of two operations", kt->name, what);
	kernel_ok(is_same(kernel_kv_download(kt, one.a.kv.k, in.n_cache),
			  kernel_kv_download(kt, two.a.kv.k, in.n_cache), in.n_cache),
		  "%s: %s: so are the keys", kt->name, what);
	kernel_ok(is_same(kernel_kv_download(kt, one.a.kv.v, in.n_cache),
			  kernel_kv_download(kt, two.a.kv.v, in.n_cache), in.n_cache),
		  "%s: %s: and the values", kt->name, what);
	if (kt->b->n_step_launches)
		kernel_ok(kt->b->n_step_launches == s->n_launches, "%s: %s: %d launches of %d",
			  kt->name, what, kt->b->n_step_launches, s->n_launches);
	/* The others are case_attention.c's. Behind a long cache the merge is a launch. */
	if (s->n_launches == 1 || in.n_ctx_max > 4096)
		compare(kt, &in, two.a, y, what);
}

void case_attention_fused(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		one_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
}
