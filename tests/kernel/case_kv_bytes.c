/* SPDX-License-Identifier: Apache-2.0
 *
 * A KV cache in 8 bits (kernels/ops/kv_bytes.h): qk_norm_rope_kv writes it, attention reads
 * it, in one operation or two, kv_copy copies it. The rows that a step writes, and those
 * that no token sees, hold no numbers before.
 */
#include "tests/kernel/kernel_test.h"

enum { MAX_SEQS = 4 };

struct shape {
	int32_t h, g, k, n_freq, p; /* heads, key heads, their size, pairs, page */
	bool has_norms;
	int32_t window;
	struct {
		int32_t from, to; /* positions of the step's tokens; to 0: no more */
	} seq[MAX_SEQS];
	int32_t n_launches;         /* of a backend that launches kernels; 0: any number */
	float scale;                /* of keys and values; 0: 1 */
};

static const struct shape cases[] = {
	/* decode: borders of pages, blocks and segments; heads of all kernels */
	{8, 1, 128, 64, 16, true, 0, {{0, 1}, {15, 16}, {16, 17}, {31, 32}}, 1, 0},
	{4, 2, 128, 64, 16, true, 0, {{63, 64}, {64, 65}, {127, 128}, {200, 201}}, 1, 0},
	{5, 1, 64, 16, 5, true, 0, {{95, 96}, {96, 97}, {3, 4}}, 1, 0},
	{4, 2, 96, 48, 16, false, 0, {{63, 64}, {65, 66}}, 1, 0},
	{4, 2, 80, 0, 8, true, 0, {{31, 32}, {64, 65}}, 1, 0},
	{16, 2, 256, 32, 16, true, 0, {{31, 32}, {96, 97}, {127, 128}, {300, 301}}, 1, 0},
	{24, 1, 64, 32, 16, true, 0, {{40, 41}, {100, 101}}, 1, 0},
	{8, 1, 64, 32, 16, true, 16, {{0, 1}, {15, 16}, {16, 17}, {80, 81}}, 1, 0},
	{2, 1, 128, 64, 5, true, 100, {{99, 100}, {230, 231}}, 1, 0},
	{2, 1, 64, 13, 16, true, 0, {{40, 41}, {7, 8}}, 2, 0}, /* not in one launch */
	/* long: several segments, which a launch of its own merges in the second */
	{4, 1, 64, 32, 32, true, 0, {{2047, 2048}, {4000, 4001}}, 1, 0},
	{8, 1, 128, 64, 16, true, 0, {{4200, 4201}}, 2, 0},
	/* prompts, alone and beside a decode; chunks; windows */
	{8, 2, 64, 32, 16, true, 0, {{0, 37}, {50, 51}, {16, 32}, {15, 17}}, 0, 0},
	{4, 1, 128, 64, 16, true, 0, {{30, 110}, {130, 131}}, 0, 0},
	{6, 2, 96, 48, 5, false, 40, {{10, 75}, {129, 130}}, 0, 0},
	{16, 2, 256, 64, 16, true, 0, {{40, 83}, {30, 37}}, 0, 0},
	{4, 2, 112, 56, 16, true, 0, {{0, 20}}, 0, 0},
	/* few tokens behind a long cache */
	{8, 1, 128, 64, 16, true, 0, {{1290, 1299}}, 0, 0},
	{8, 1, 64, 32, 16, true, 0, {{1100, 1103}, {77, 78}, {1090, 1100}}, 0, 0},
	{4, 1, 64, 32, 16, true, 1024, {{4090, 4102}}, 0, 0},
	/* small numbers: scales that are subnormal, and that vanish */
	{4, 2, 64, 32, 16, false, 0, {{0, 9}, {20, 21}}, 0, 1e-3f},
	{4, 2, 64, 32, 16, false, 0, {{20, 21}}, 0, 1e-7f},
};

struct cache {
	uint8_t *bytes;  /* (rows, K) */
	uint16_t *scale; /* (rows) */
};

struct input {
	int32_t n_tok, n_seq, max_pages, n_pages, n_ctx_max;
	size_t nq, nkv, rows, dim;
	float *q, *k, *v, *norms, *rope;
	struct cache keys, values;
	int32_t *seq_of, *position, *first_tok, *table, *slot;
};

/* In place, what the backend's act can say of numbers from -4 to 4: so no weight of a softmax
 * is so near another that rounding decides. */
static void bound(struct kernel_test *kt, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = fminf(fmaxf(x[i], -4), 4);
	kernel_act_round(kt, x, n, 4);
}

static void place(struct kernel_test *kt, const struct shape *s, struct input *in)
{
	for (; in->n_seq < MAX_SEQS && s->seq[in->n_seq].to; in->n_seq++) {
		in->n_ctx_max = MAX(in->n_ctx_max, s->seq[in->n_seq].to);
		in->n_tok += s->seq[in->n_seq].to - s->seq[in->n_seq].from;
	}
	in->max_pages = in->n_ctx_max / s->p + 2;
	in->n_pages = in->n_seq * in->max_pages;
	in->seq_of = kernel_ints(kt, (size_t)in->n_tok);
	in->position = kernel_ints(kt, (size_t)in->n_tok);
	in->slot = kernel_ints(kt, (size_t)in->n_tok);
	in->first_tok = kernel_ints(kt, (size_t)in->n_seq + 1);
	in->table = kernel_ints(kt, (size_t)in->n_pages);
	for (int32_t i = 0; i < in->n_pages; i++) /* a permutation: 1009 is prime */
		in->table[i] = (int32_t)((int64_t)i * 1009 % in->n_pages);
	for (int32_t b = 0, t = 0; b < in->n_seq; b++) {
		for (int32_t p = s->seq[b].from; p < s->seq[b].to; p++, t++) {
			in->seq_of[t] = b;
			in->position[t] = p;
			in->slot[t] = in->table[b * in->max_pages + p / s->p] * s->p +
				      p % s->p;
		}
		in->first_tok[b + 1] = t;
	}
}

/* Rows in 8 bits. Those that a token of the step sees are numbers; the others have scales
 * that are none. */
static struct cache make_cache(struct kernel_test *kt, const struct shape *s,
			       const struct input *in)
{
	struct kv_pages kv = {.page_size = s->p};
	float *x = kernel_rows(kt, in->rows, in->dim, s->scale ? s->scale : 1);
	struct cache c = {arena_alloc(&kt->arena, in->rows * in->dim),
			  arena_alloc(&kt->arena, in->rows * sizeof *c.scale)};
	memset(c.bytes, 0, in->rows * in->dim);
	for (size_t r = 0; r < in->rows; r++)
		c.scale[r] = KV_BYTES_NAN;
	bound(kt, x, in->rows * in->dim);
	for (int32_t b = 0; b < in->n_seq; b++) {
		int32_t from = s->seq[b].from;
		int32_t first = s->window && from >= s->window ? from - s->window + 1 : 0;
		for (int32_t i = first * s->g; i < from * s->g; i++) {
			int32_t at = i / s->g;
			int32_t slot = in->table[b * in->max_pages + at / s->p] * s->p +
				       at % s->p;
			size_t row = kv_pages_row(&kv, s->g, slot, i % s->g);
			kv_bytes_ref(x + row * in->dim, s->k, c.bytes + row * in->dim,
				     c.scale + row);
		}
	}
	return c;
}

static struct input make(struct kernel_test *kt, const struct shape *s)
{
	struct input in = {.dim = (size_t)s->k};
	place(kt, s, &in);
	size_t t = (size_t)in.n_tok;
	float scale = s->scale ? s->scale : 1;
	in.rows = (size_t)(in.n_pages * s->g * s->p);
	in.nq = t * (size_t)s->h * in.dim;
	in.nkv = t * (size_t)s->g * in.dim;
	in.q = kernel_rows(kt, t * (size_t)s->h, in.dim, 1);
	in.k = kernel_rows(kt, t * (size_t)s->g, in.dim, scale);
	in.v = kernel_rows(kt, t * (size_t)s->g, in.dim, scale);
	bound(kt, in.q, in.nq);
	bound(kt, in.k, in.nkv);
	bound(kt, in.v, in.nkv);
	in.keys = make_cache(kt, s, &in);
	in.values = make_cache(kt, s, &in);
	in.norms = kernel_rows(kt, 1, 2 * in.dim, 1);
	in.rope = kernel_rope(kt, in.position, in.n_tok, s->n_freq);
	return in;
}

/* --- on the device ------------------------------------------------------------------- */

struct upload {
	struct qk_norm_rope_kv_args fused;
	struct attention_args a;
};

static struct kv_pages upload_pages(struct kernel_test *kt, const struct shape *s,
				    const struct input *in)
{
	size_t n = in->rows * in->dim;
	struct kv_pages kv = {.k = kernel_upload(kt, in->keys.bytes, n),
			      .v = kernel_upload(kt, in->values.bytes, n),
			      .k_scale = UPLOAD(kt, in->keys.scale, in->rows),
			      .v_scale = UPLOAD(kt, in->values.scale, in->rows),
			      .type = DTYPE_I8, .page_size = s->p};
	if (kt->b->widens_kv) {
		uint16_t *nan = arena_alloc(&kt->arena, n * sizeof *nan);
		for (size_t i = 0; i < n; i++)
			nan[i] = KV_BYTES_NAN;
		kv.wide_k = UPLOAD(kt, nan, n);
		kv.wide_v = UPLOAD(kt, nan, n);
	}
	return kv;
}

static struct upload upload(struct kernel_test *kt, const struct shape *s,
			    const struct input *in)
{
	size_t t = (size_t)in->n_tok;
	struct upload u;
	void *q = kernel_act_upload(kt, in->q, in->nq);
	struct kv_pages kv = upload_pages(kt, s, in);
	u.fused = (struct qk_norm_rope_kv_args){
		.n_tok = in->n_tok, .n_heads = s->h, .n_kv_heads = s->g, .head_dim = s->k,
		.n_freq = s->n_freq, .eps = 1e-6f, .q = q,
		.k = kernel_act_upload(kt, in->k, in->nkv),
		.v = kernel_act_upload(kt, in->v, in->nkv),
		.rope = UPLOAD(kt, in->rope, t * (size_t)s->n_freq * 2 + 1),
		.slot = UPLOAD(kt, in->slot, t), .kv = kv};
	if (s->has_norms) {
		u.fused.q_norm = UPLOAD(kt, in->norms, in->dim);
		u.fused.k_norm = UPLOAD(kt, in->norms + in->dim, in->dim);
	}
	u.a = (struct attention_args){
		.n_tok = in->n_tok, .n_seq = in->n_seq, .n_heads = s->h,
		.n_kv_heads = s->g, .head_dim = s->k, .max_pages_per_seq = in->max_pages,
		.n_ctx_max = in->n_ctx_max, .window = s->window,
		.scale = (float)(1 / sqrt(s->k)), .q = q, .kv = kv,
		.seq_of = UPLOAD(kt, in->seq_of, t),
		.position = UPLOAD(kt, in->position, t),
		.first_tok = UPLOAD(kt, in->first_tok, (size_t)in->n_seq + 1),
		.page_table = UPLOAD(kt, in->table, (size_t)in->n_pages),
		.y = kernel_act_upload(kt, kernel_zeros(kt, in->nq), in->nq)};
	return u;
}

static void *download(struct kernel_test *kt, const void *device, size_t n)
{
	void *host = arena_alloc(&kt->arena, n);
	kernel_ran(kt, kt->b->ops->download(kt->b, host, device, n), "download");
	kernel_ran(kt, kt->b->ops->sync(kt->b, NULL), "sync");
	return host;
}

static struct cache download_cache(struct kernel_test *kt, const struct input *in,
				   const void *bytes, const uint16_t *scale)
{
	return (struct cache){download(kt, bytes, in->rows * in->dim),
			      download(kt, scale, in->rows * sizeof *scale)};
}

/* --- against the reference ----------------------------------------------------------- */

/* The numbers that a cache stands for, as the backend rounds them. */
static float *numbers(struct kernel_test *kt, const struct input *in, const struct cache *c)
{
	float *x = kernel_zeros(kt, in->rows * in->dim);
	for (size_t i = 0; i < in->rows * in->dim; i++)
		x[i] = kv_bytes_value(c->bytes[i], c->scale[i / in->dim]);
	kernel_act_round(kt, x, in->rows * in->dim, 6e4f);
	return x;
}

/* Rows that a step has written: half a step of the scale from the reference's, and the
 * largest of the row becomes the largest byte. Others stay as they were. */
static void compare_rows(struct kernel_test *kt, const struct input *in, const float *ref,
			 const struct cache *before, const struct cache *c, const char *what)
{
	double worst = 0;
	bool stays = true, has_most = true;
	for (size_t r = 0; r < in->rows; r++) {
		const float *x = ref + r * in->dim;
		const uint8_t *bytes = c->bytes + r * in->dim;
		double step = (double)blocks_f16(c->scale[r]), most = 0;
		int largest = 0;
		if (isnan(x[0])) { /* not written */
			stays &= c->scale[r] == before->scale[r] &&
				 memcmp(bytes, before->bytes + r * in->dim, in->dim) == 0;
			continue;
		}
		for (size_t d = 0; d < in->dim; d++) {
			most = fmax(most, fabs((double)x[d]));
			largest = MAX(largest, abs(bytes[d] - KV_BYTES_ZERO));
		}
		/* An act of 16 bits is rounded before, and the scale is of what that gave. */
		double slack = kt->b->act_type == DTYPE_F16 ? 0x1p-9 * most + 0x1p-24 : 0;
		double size = most / KV_BYTES_MOST;
		has_most &= fabs(step - size) <= 0x1p-9 * size + 0x1p-24 &&
			    (most < 0x1p-14 || largest >= 126);
		for (size_t d = 0; d < in->dim && step > 0; d++)
			worst = worse_of(worst, (fabs((bytes[d] - KV_BYTES_ZERO) * step -
						  (double)x[d]) - slack) / step);
	}
	kernel_ok(stays, "%s: %s: other rows stay", kt->name, what);
	kernel_ok(has_most, "%s: %s: scales are of the largest", kt->name, what);
	/* The scale is rounded by 2^-11 at most, 127 times that is 0.062. */
	kernel_ok(worst <= 0.57, "%s: %s: at most %.3f steps off", kt->name, what, worst);
}

/* Transformed queries: rounded before and behind the transform, each by 2^-11 of the row's size. */
static void compare_queries(struct kernel_test *kt, const struct input *in, const float *ref,
			    const void *device, const char *what)
{
	const float *got = kernel_act_download(kt, device, in->nq);
	double worst = 0;
	for (size_t r = 0; r < in->nq; r += in->dim) {
		double squares = 0;
		for (size_t d = 0; d < in->dim; d++)
			squares += (double)ref[r + d] * (double)ref[r + d];
		for (size_t d = 0; d < in->dim; d++)
			worst = worse_of(worst, fabs((double)got[r + d] - (double)ref[r + d]) /
						    (sqrt(squares) + 1e-30));
	}
	double most = kt->b->act_type == DTYPE_F16 ? 0x1p-10 : 1e-6;
	kernel_ok(worst <= most, "%s: %s: queries are rotated, %.3g off", kt->name, what, worst);
}

static void compare_cache(struct kernel_test *kt, const struct shape *s,
			  const struct input *in, const struct kv_pages *kv,
			  const void *device_q, const char *what)
{
	size_t n = in->rows * in->dim;
	float *q = kernel_zeros(kt, in->nq), *k = kernel_zeros(kt, n), *v = kernel_zeros(kt, n);
	char text[160];
	for (size_t i = 0; i < n; i++)
		k[i] = v[i] = NAN;
	memcpy(q, in->q, in->nq * sizeof *q);
	struct qk_norm_rope_kv_args a = {
		.n_tok = in->n_tok, .n_heads = s->h, .n_kv_heads = s->g, .head_dim = s->k,
		.n_freq = s->n_freq, .eps = 1e-6f, .q = q, .k = in->k, .v = in->v,
		.q_norm = s->has_norms ? in->norms : NULL,
		.k_norm = s->has_norms ? in->norms + in->dim : NULL, .rope = in->rope,
		.slot = in->slot,
		.kv = {.k = k, .v = v, .type = DTYPE_F32, .page_size = s->p}};
	qk_norm_rope_kv_ref(&a);
	for (size_t r = 0; r < in->rows; r++)
		if (!isnan(k[r * in->dim]))
			kv_bytes_hadamard_ref(k + r * in->dim, s->k);
	for (size_t i = 0; i < in->nq; i += in->dim)
		kv_bytes_hadamard_ref(q + i, s->k);
	compare_queries(kt, in, q, device_q, what);
	struct cache keys = download_cache(kt, in, kv->k, kv->k_scale);
	struct cache values = download_cache(kt, in, kv->v, kv->v_scale);
	snprintf(text, sizeof text, "%s, keys", what);
	compare_rows(kt, in, k, &in->keys, &keys, text);
	snprintf(text, sizeof text, "%s, values", what);
	compare_rows(kt, in, v, &in->values, &values, text);
}

/* Attention in double, of the queries and the cache that the first operation left. */
static void compare_y(struct kernel_test *kt, const struct input *in,
		      struct attention_args a, const float *got, const char *what)
{
	float *ref = kernel_zeros(kt, in->nq), *plain = kernel_zeros(kt, in->nq);
	struct cache keys = download_cache(kt, in, a.kv.k, a.kv.k_scale);
	struct cache values = download_cache(kt, in, a.kv.v, a.kv.v_scale);
	a.q = kernel_act_download(kt, a.q, in->nq);
	a.kv = (struct kv_pages){.k = numbers(kt, in, &keys), .v = numbers(kt, in, &values),
				 .type = DTYPE_F32, .page_size = a.kv.page_size};
	a.seq_of = in->seq_of, a.position = in->position, a.first_tok = in->first_tok;
	a.page_table = in->table;
	a.y = ref;
	attention_ref(&a);
	a.y = plain;
	attention_plain(&a);
	/* Each number of a transformed query is a sum of the row: scores are larger than what they
	 * end as, and the plain evaluation may be lucky. */
	kt->slack = 0x1p-20;
	kt->n_cut = a.head_dim + a.n_ctx_max;
	kernel_act_compare(kt, got, ref, plain, (size_t)(a.n_tok * a.n_heads),
			   (size_t)a.head_dim, 3e-11, what);
	kt->slack = 0;
}

/* --- against each other -------------------------------------------------------------- */

static bool is_same_cache(struct kernel_test *kt, const struct input *in,
			  const struct kv_pages *x, const struct kv_pages *y)
{
	size_t n = in->rows * in->dim, s = in->rows * sizeof *x->k_scale;
	return memcmp(download(kt, x->k, n), download(kt, y->k, n), n) == 0 &&
	       memcmp(download(kt, x->v, n), download(kt, y->v, n), n) == 0 &&
	       memcmp(download(kt, x->k_scale, s), download(kt, y->k_scale, s), s) == 0 &&
	       memcmp(download(kt, x->v_scale, s), download(kt, y->v_scale, s), s) == 0;
}

/* Tokens of the step, each in a step of its own that reads the same cache. */
static void compare_alone(struct kernel_test *kt, const struct shape *s,
			  const struct input *in, const struct attention_args *all,
			  const float *y, const char *what)
{
	size_t row = (size_t)(s->h * s->k);
	int32_t first[2] = {0, 1};
	int wrong = 0;
	for (int32_t t = 0; t < in->n_tok; t += 1 + in->n_tok / 5) {
		struct attention_args a = *all;
		a.n_tok = a.n_seq = 1;
		a.n_ctx_max = in->position[t] + 1;
		a.q = (const char *)a.q + (size_t)t * row * dtype_bytes(kt->b->act_type);
		a.position += t;
		a.seq_of = UPLOAD(kt, first, 1);
		a.first_tok = UPLOAD(kt, first, 2);
		a.page_table += in->seq_of[t] * in->max_pages;
		a.y = kernel_act_upload(kt, kernel_zeros(kt, row), row);
		kernel_ran(kt, kt->b->ops->attention(kt->b, &a), what);
		kernel_same(kt, kernel_act_download(kt, a.y, row), y + (size_t)t * row, row,
			    &wrong);
	}
	kernel_ok(wrong == 0, "%s: %s: tokens alone have the same bits", kt->name, what);
}

static void compare_fused(struct kernel_test *kt, const struct shape *s,
			  const struct input *in, const struct upload *two, const float *y,
			  const char *what)
{
	struct upload one = upload(kt, s, in);
	bool runs, is_again;
	one.a.fused = &one.fused;
	kt->b->n_step_launches = 0;
	kernel_ran(kt, kt->b->ops->step_begin(kt->b, 0, &runs), what);
	kernel_ran(kt, kt->b->ops->attention(kt->b, &one.a), what);
	kernel_ran(kt, kt->b->ops->step_end(kt->b, &is_again), what);
	int launches = kt->b->n_step_launches;
	float *fused = kernel_act_download(kt, one.a.y, in->nq);
	kernel_ok(memcmp(fused, y, in->nq * sizeof *y) == 0, "%s: %s: y as of two operations",
		  kt->name, what);
	kernel_ok(is_same_cache(kt, in, &one.a.kv, &two->a.kv), "%s: %s: so is the cache",
		  kt->name, what);
	if (launches && s->n_launches)
		kernel_ok(launches == s->n_launches, "%s: %s: %d launches of %d", kt->name,
			  what, launches, s->n_launches);
}

static void one_case(struct kernel_test *kt, const struct shape *s)
{
	struct input in = make(kt, s);
	struct upload u = upload(kt, s, &in);
	char what[140];
	snprintf(what, sizeof what, "KV in bytes T=%d B=%d S=%d H=%d G=%d K=%d freq %d P=%d W=%d",
		 in.n_tok, in.n_seq, in.n_ctx_max, s->h, s->g, s->k, s->n_freq, s->p, s->window);
	kernel_ran(kt, kt->b->ops->qk_norm_rope_kv(kt->b, &u.fused), what);
	compare_cache(kt, s, &in, &u.fused.kv, u.fused.q, what);
	kernel_ran(kt, kt->b->ops->attention(kt->b, &u.a), what);
	float *y = kernel_act_download(kt, u.a.y, in.nq);
	compare_y(kt, &in, u.a, y, what);
	compare_fused(kt, s, &in, &u, y, what);
	compare_alone(kt, s, &in, &u.a, y, what);
}

/* An infinity or NaN makes its own row no number, and no other row. */
static void test_no_number(struct kernel_test *kt)
{
	const struct shape s = {2, 2, 64, 0, 16, false, 0, {{0, 3}}, 0, 0};
	struct input in = make(kt, &s);
	struct kv_pages at = {.page_size = s.p};
	in.k[5] = NAN;                  /* token 0, head 0 */
	in.v[in.dim + 63] = INFINITY;   /* token 0, head 1 */
	struct upload u = upload(kt, &s, &in);
	kernel_ran(kt, kt->b->ops->qk_norm_rope_kv(kt->b, &u.fused), "qk_norm_rope_kv");
	struct cache keys = download_cache(kt, &in, u.a.kv.k, u.a.kv.k_scale);
	struct cache values = download_cache(kt, &in, u.a.kv.v, u.a.kv.v_scale);
	for (int32_t t = 0; t < 3; t++)
		for (int32_t g = 0; g < 2; g++) {
			size_t row = kv_pages_row(&at, 2, in.slot[t], g);
			kernel_ok(isnan(blocks_f16(keys.scale[row])) == (t == 0 && g == 0) &&
				  isnan(blocks_f16(values.scale[row])) == (t == 0 && g == 1),
				  "%s: KV in bytes, no number: token %d, head %d", kt->name, t,
				  g);
		}
}

static void test_copy(struct kernel_test *kt, int32_t page)
{
	const struct shape s = {2, 2, 64, 0, page, false, 0, {{8 * page, 8 * page + 1}}, 0, 0};
	struct input in = make(kt, &s);
	struct kv_pages kv = upload_pages(kt, &s, &in);
	struct kv_copy_args a = {2, s.k, 3, 1, kv}, ref = a;
	kernel_ran(kt, kt->b->ops->kv_copy(kt->b, &a), "kv_copy");
	struct cache keys = download_cache(kt, &in, kv.k, kv.k_scale);
	struct cache values = download_cache(kt, &in, kv.v, kv.v_scale);
	ref.kv = (struct kv_pages){.k = in.keys.bytes, .v = in.values.bytes,
				   .k_scale = in.keys.scale, .v_scale = in.values.scale,
				   .type = DTYPE_I8, .page_size = page};
	kv_copy_ref(&ref);
	size_t n = in.rows * in.dim;
	kernel_ok(memcmp(keys.bytes, in.keys.bytes, n) == 0 &&
		  memcmp(values.bytes, in.values.bytes, n) == 0 &&
		  memcmp(keys.scale, in.keys.scale, in.rows * 2) == 0 &&
		  memcmp(values.scale, in.values.scale, in.rows * 2) == 0,
		  "%s: kv_copy of bytes, pages of %d", kt->name, page);
}

void case_kv_bytes(struct kernel_test *kt)
{
	if (kt->b->lacks_int8_kv)
		return;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		one_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
	test_no_number(kt);
	test_copy(kt, 16);
	test_copy(kt, 3);
	kernel_test_reset(kt);
}
