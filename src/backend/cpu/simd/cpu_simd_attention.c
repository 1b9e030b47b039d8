/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of up to CPU_QUERIES queries with a common key and value head, over a range
 * of positions (online softmax: Milakov and Gimelshein, 2018; Dao et al., FlashAttention,
 * 2022).
 *
 * Positions come in blocks of at most 16 within a page, at multiples of 16. So a query's
 * numbers depend on its position alone. Up to four queries are computed together over a
 * block. If they do not all see the same part of the block, only those of one token are
 * computed together.
 */
#include "backend/cpu/simd/cpu_simd_attention.h"

#include <math.h>

#include "backend/cpu/cpu_kv.h"
#include "base/alloc.h"

#if !CPU_AVX512
enum { BLOCK = 16, N_VEC = BLOCK / VL, TOGETHER = 4 };

/* Keys and values of one block of positions, k_pitch and v_pitch bytes apart. */
struct attention_rows {
	const char *k, *v;
	size_t k_pitch, v_pitch; /* bytes */
	int dim, v_dim, n;
	bool is_half;
	const uint16_t *k_scale, *v_scale; /* (n): k and v are bytes (kv_bytes.h); else NULL */
};

VINLINE vf load_whole(const char *p, bool is_half)
{
	return is_half ? vf_of_f16(vhalf_load((const void *)p))
		       : vf_load((const void *)p);
}

/* Load the first n < VL elements, then zeros. */
static vf load_rest(const char *p, int n, bool is_half)
{
	char room[4 * VL] = {0};
	memcpy(room, p, (size_t)n * (is_half ? 2 : 4));
	return load_whole(room, is_half);
}

/* --- scores ---------------------------------------------------------------------- */

/* p[j][i ..] = scale q[j] . k[i ..] for four positions; q is padded with zeros. */
VINLINE void score_four(const struct attention_rows *r, const float *const *q, int n_q, int i,
			float scale, bool is_half, float (*p)[BLOCK])
{
	vf acc[TOGETHER][4] = {{{0}}};
	const char *row[4];
	const size_t size = is_half ? 2 : 4;
	for (int j = 0; j < 4; j++)
		row[j] = r->k + (size_t)MIN(i + j, r->n - 1) * r->k_pitch;
	int d = 0;
	for (; d + VL <= r->dim; d += VL) {
CPU_UNROLL(4)
		for (int k = 0; k < 4; k++) {
			vf key = load_whole(row[k] + (size_t)d * size, is_half);
CPU_UNROLL(4)
			for (int j = 0; j < n_q; j++)
				acc[j][k] = vf_fma(key, vf_load(q[j] + d), acc[j][k]);
		}
	}
	if (d < r->dim)
		for (int k = 0; k < 4; k++) {
			vf key = load_rest(row[k] + (size_t)d * size, r->dim - d,
					   is_half);
			for (int j = 0; j < n_q; j++)
				acc[j][k] = vf_fma(key, vf_load(q[j] + d), acc[j][k]);
		}
CPU_UNROLL(4)
	for (int j = 0; j < n_q; j++)
		vec4_store(p[j] + i, vf_sums(acc[j]) * vec4_all(scale));
}

/* --- weights --------------------------------------------------------------------- */

static void scale_state(struct cpu_state *s, float factor, int v_dim)
{
	for (int d = 0; d < v_dim; d += VL) /* acc is padded to vectors */
		vf_store(s->acc + d, vf_load(s->acc + d) * vf_all(factor));
}

VINLINE void weigh(struct cpu_state *s, float *p, int lo, int hi, int v_dim)
{
	float factor = cpu_weigh(s, p, N_VEC, lo, hi);
	if (factor != 1)
		scale_state(s, factor, v_dim);
}

/* --- values ---------------------------------------------------------------------- */

enum { WIDE = 4 }; /* vectors of values at a time */

VINLINE void add_part(const struct attention_rows *r, float *const *acc, int n_q, int lo, int hi,
		      int d, int n_vec, bool is_half, const float (*p)[BLOCK])
{
	vf sum[TOGETHER][WIDE];
	const size_t size = is_half ? 2 : 4;
CPU_UNROLL(4)
	for (int j = 0; j < n_q; j++)
CPU_UNROLL(4)
		for (int c = 0; c < n_vec; c++)
			sum[j][c] = vf_load(acc[j] + d + VL * c);
	for (int i = lo; i < hi; i++) {
		const char *v = r->v + (size_t)i * r->v_pitch + (size_t)d * size;
CPU_UNROLL(4)
		for (int c = 0; c < n_vec; c++) {
			vf value = load_whole(v + (size_t)(VL * c) * size, is_half);
CPU_UNROLL(4)
			for (int j = 0; j < n_q; j++)
				sum[j][c] = vf_fma(value, vf_all(p[j][i]), sum[j][c]);
		}
	}
CPU_UNROLL(4)
	for (int j = 0; j < n_q; j++)
CPU_UNROLL(4)
		for (int c = 0; c < n_vec; c++)
			vf_store(acc[j] + d + VL * c, sum[j][c]);
}

/* acc (padded to VL) += p[i] v[i], for i in [lo, hi). */
VINLINE void add_values(const struct attention_rows *r, float *const *acc, int n_q, int lo,
			int hi, bool is_half, const float (*p)[BLOCK])
{
	int d = 0;
	for (; d + VL * WIDE <= r->v_dim; d += VL * WIDE)
		add_part(r, acc, n_q, lo, hi, d, WIDE, is_half, p);
	for (; d + VL <= r->v_dim; d += VL)
		add_part(r, acc, n_q, lo, hi, d, 1, is_half, p);
	if (d == r->v_dim)
		return;
	const size_t size = is_half ? 2 : 4;
	for (int i = lo; i < hi; i++) {
		vf value = load_rest(r->v + (size_t)i * r->v_pitch + (size_t)d * size,
				     r->v_dim - d, is_half);
		for (int j = 0; j < n_q; j++)
			vf_store(acc[j] + d, vf_fma(value, vf_all(p[j][i]),
						    vf_load(acc[j] + d)));
	}
}

/* --- blocks ---------------------------------------------------------------------- */

VINLINE void some(const struct attention_rows *r, struct cpu_query *const *query, int n_q, int lo,
		  int hi, float scale, bool is_half)
{
	float p[TOGETHER][BLOCK] __attribute__((aligned(64)));
	const float *q[TOGETHER];
	float *acc[TOGETHER];
	for (int j = 0; j < n_q; j++) {
		q[j] = query[j]->q;
		acc[j] = query[j]->state.acc;
		for (int i = 0; i < BLOCK; i += VL)
			vf_store(p[j] + i, vf_all(0));
	}
	for (int i = lo / 4 * 4; i < hi; i += 4)
		score_four(r, q, n_q, i, scale, is_half, p);
	for (int j = 0; j < n_q; j++)
		weigh(&query[j]->state, p[j], lo, hi, r->v_dim);
	add_values(r, acc, n_q, lo, hi, is_half, (const void *)p);
}

#define DEFINE(n, half) \
	static void some_##n##_##half(const struct attention_rows *r, struct cpu_query *const *q, \
				      int lo, int hi, float scale) \
	{ \
		some(r, q, n, lo, hi, scale, half); \
	}
DEFINE(1, 0) DEFINE(2, 0) DEFINE(3, 0) DEFINE(4, 0)
#if CPU_AVX2
DEFINE(1, 1) DEFINE(2, 1) DEFINE(3, 1) DEFINE(4, 1)
#else
#define some_1_1 NULL
#define some_2_1 NULL
#define some_3_1 NULL
#define some_4_1 NULL
#endif

/* Process all queries of u over the positions [s0, s0 + r->n). */
static void block(const struct cpu_attend *u, const struct attention_rows *r, int32_t s0)
{
	typedef void one(const struct attention_rows *r, struct cpu_query *const *q, int lo, int hi,
			 float scale);
	static one *const ones[2][TOGETHER] = {
		{some_1_0, some_2_0, some_3_0, some_4_0},
		{some_1_1, some_2_1, some_3_1, some_4_1}};
	struct cpu_query *set[TOGETHER];
	int n = 0, lo = 0, hi = 0;
	for (int i = 0; i < u->n; i++) {
		struct cpu_query *q = &u->query[i];
		int its_lo = q->first > s0 ? q->first - s0 : 0;
		int its_hi = MIN(r->n, q->position + 1 - s0);
		if (its_lo >= its_hi)
			continue;
		if (n == TOGETHER || (n && (its_lo != lo || its_hi != hi))) {
			ones[r->is_half][n - 1](r, set, lo, hi, u->scale);
			n = 0;
		}
		lo = its_lo;
		hi = its_hi;
		set[n++] = q;
	}
	if (n)
		ones[r->is_half][n - 1](r, set, lo, hi, u->scale);
}

/* Where the keys and values of a sequence are. */
struct place {
	const struct cpu_attend *u;
	const char *values;
	int v_pitch;
	size_t bytes; /* bytes of one number */
};

/* Find the rows of the positions from s0 to the end of the block, page or range (`to`).
 * Returns the number of positions of the block in this page. */
static int32_t rows_at(const struct place *l, int32_t s0, int32_t to, struct attention_rows *r)
{
	const struct cpu_attend *u = l->u;
	int32_t size = u->kv->page_size, offset = s0 % size;
	int32_t n = MIN(BLOCK - s0 % BLOCK, size - offset);
	int32_t slot = u->table[s0 / size] * size + offset;
	r->n = MIN(n, to - s0);
	r->k = (const char *)u->kv->k +
	       kv_pages_at(u->kv, u->n_kv_heads, u->dim, slot, u->g) * l->bytes;
	r->v = l->values +
	       kv_pages_at(u->kv, u->n_kv_heads, l->v_pitch, slot, u->g) * l->bytes;
	if (u->kv->type == DTYPE_I8) {
		size_t row = kv_pages_row(u->kv, u->n_kv_heads, slot, u->g);
		r->k_scale = u->kv->k_scale + row;
		r->v_scale = u->kv->v_scale + row;
	}
	return n;
}

/* Converts bytes to floats in room: (2, BLOCK, KV_PAGES_WIDEST). */
static void widen(struct attention_rows *r, float *room)
{
	float *values = room + BLOCK * KV_PAGES_WIDEST;
	cpu_kv_widen((const uint8_t *)r->k, r->k_scale, r->n, r->dim, room);
	cpu_kv_widen((const uint8_t *)r->v, r->v_scale, r->n, r->v_dim, values);
	r->k = (const char *)room;
	r->v = (const char *)values;
	r->k_pitch *= sizeof(float);
	r->v_pitch *= sizeof(float);
}

VINLINE void fetch(const char *p, size_t n_bytes)
{
	for (size_t at = 0; at < n_bytes; at += 64)
		__builtin_prefetch(p + at);
}

/* Like rows_at, and prefetches the rows. A head's rows in a page are contiguous, but too
 * few for the processor to predict, and the next page is elsewhere. */
static int32_t rows_ahead(const struct place *l, int32_t s0, int32_t to, struct attention_rows *r)
{
	int32_t n = rows_at(l, s0, to, r);
	fetch(r->k, (size_t)r->n * r->k_pitch);
	if (l->u->kv->v)
		fetch(r->v, (size_t)r->n * r->v_pitch);
	return n;
}

void ISA(cpu_attend)(const struct cpu_attend *u, int32_t from, int32_t to)
{
	const struct kv_pages *kv = u->kv;
	const struct place l = {.u = u, .values = kv->v ? kv->v : kv->k,
				.v_pitch = kv->v ? u->v_dim : u->dim,
				.bytes = dtype_bytes(kv->type)};
	struct attention_rows next = {.k_pitch = (size_t)u->dim * l.bytes,
			    .v_pitch = (size_t)l.v_pitch * l.bytes, .dim = u->dim,
			    .v_dim = u->v_dim, .is_half = kv->type == DTYPE_F16};
	float room[2 * BLOCK * KV_PAGES_WIDEST] __attribute__((aligned(64)));
	int32_t s0 = from / BLOCK * BLOCK, n;
	if (s0 < to)
		n = rows_ahead(&l, s0, to, &next);
	while (s0 < to) {
		struct attention_rows r = next;
		int32_t s1 = s0 + n;
		if (s1 < to)
			n = rows_ahead(&l, s1, to, &next);
		if (r.k_scale)
			widen(&r, room);
		if (s0 + r.n > from)
			block(u, &r, s0);
		s0 = s1;
	}
}
#endif

/* Join the state of other positions into s. */
void ISA(cpu_attend_join)(struct cpu_state *s, const struct cpu_state *other, int v_dim)
{
	if (!(other->sum > 0 || isnan(other->sum)))
		return;
	float max = other->max > s->max ? other->max : s->max;
	float mine = s->sum > 0 ? vf_exp(vf_all(s->max - max))[0] : 0;
	float its = vf_exp(vf_all(other->max - max))[0];
	s->sum = s->sum * mine + other->sum * its;
	for (int d = 0; d < v_dim; d += VL)
		vf_store(s->acc + d, vf_load(s->acc + d) * vf_all(mine) +
					     vf_load(other->acc + d) * vf_all(its));
	s->max = max;
}
