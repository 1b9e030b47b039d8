/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention with 32 vectors of 16 floats (AVX-512). Positions come in blocks of BLOCK, at
 * multiples of BLOCK. So a query's numbers depend on its position alone. A block's keys
 * and values are loaded, and keys transposed, once for all queries (up to 48 of a
 * prompt):
 *
 *   k  (K, 16)      16 positions, a panel of the block
 *   v  (BLOCK, 16)  16 columns of the values
 *
 * No sum crosses the lanes of a vector. The order is the same for one query and for many.
 *
 * TRIED     keys and values, or values alone, as pairs of bf16: prefill of 512 tokens is
 *           up to 5 % faster, but on small models the mean |delta logprob| to the exact
 *           way is 2 to 40 times as large.
 */
#include "backend/cpu/simd/cpu_simd_attention.h"

#if CPU_AVX512
#include "backend/cpu/cpu_kv.h"
#include "base/alloc.h"

enum { BLOCK = 64, PANELS = BLOCK / VL, STEP = 32 /* elements of a head between prefetches */ };

/* Addresses of the positions of a block; [lo, hi) are in range. Bytes have scales. */
struct wide_rows {
	const char *k[BLOCK], *v[BLOCK];
	float k_scale[BLOCK], v_scale[BLOCK];
	int lo, hi;
};

/* A group of up to CPU_TOK queries. */
struct head_group {
	struct cpu_query *query;
	int n;
	float *q;               /* (K padded to an even number; n), transposed */
	float (*acc)[CPU_ROWS]; /* (chunks, n) sums of values */
	/* Part of the block that each query sees, and that any of them sees. */
	int lo[CPU_TOK], hi[CPU_TOK], first, end;
	float p[CPU_TOK][BLOCK] __attribute__((aligned(64)));
};

struct key_run {
	const struct cpu_attend *u;
	int n_chunks, n_groups;
	struct head_group group[CPU_QUERIES / CPU_TOK];
	vf k[CPU_MAX_HEAD], v[BLOCK];
	float q[CPU_QUERY_ROOM];
	float acc[CPU_QUERY_ROOM / CPU_ROWS][CPU_ROWS] __attribute__((aligned(64)));
};

/* --- a block ---------------------------------------------------------------------- */

/* Load the first n elements of a vector; the rest are 0. scale: that of bytes; a row of bytes is
 * whole vectors. */
VINLINE __m512 load_some(const char *p, int n, enum dtype type, float scale)
{
	__mmask16 mask = n < VL ? (__mmask16)((1u << n) - 1) : (__mmask16)0xFFFF;
	if (type == DTYPE_I8) {
		__m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
		__m512i q = _mm512_sub_epi32(bytes, _mm512_set1_epi32(KV_BYTES_ZERO));
		return _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(scale));
	}
	return type == DTYPE_F16 ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p))
				 : _mm512_maskz_loadu_ps(mask, p);
}

/* dtype_bytes, known when this is compiled. */
VINLINE int size_of(enum dtype type)
{
	return type == DTYPE_I8 ? 1 : type == DTYPE_F16 ? 2 : 4;
}

/* Prefetch one STEP of a row. A head's rows in a page are contiguous, but too few for the
 * processor to predict, and the next page is elsewhere. Prefetches are issued one by one
 * between other work, because many at once would wait for each other. */
VINLINE void fetch(const char *row, int d, enum dtype type)
{
	if (!row)
		return;
	__builtin_prefetch(row + d * size_of(type), 0, 2);
	if (type == DTYPE_F32)
		__builtin_prefetch(row + d * 4 + CPU_LINE, 0, 2);
}

/* Load and transpose the keys of a panel's 16 positions; zeros for missing positions. */
VINLINE void transpose_keys(const struct wide_rows *r, const struct wide_rows *next, int panel,
			    int dim, enum dtype type, vf *out)
{
	const size_t size = (size_t)size_of(type);
	for (int d = 0; d < dim; d += VL) {
		__m512i v[VL];
CPU_UNROLL(16)
		for (int i = 0; i < VL; i++) {
			const char *row = r->k[VL * panel + i];
			if (d % STEP == 0)
				fetch(next->k[VL * panel + i], d, type);
			v[i] = row ? (__m512i)load_some(row + (size_t)d * size, dim - d, type,
							r->k_scale[VL * panel + i])
				   : _mm512_setzero_si512();
		}
		transpose_words(v);
		int n = MIN(VL, dim - d + dim % 2);
		for (int i = 0; i < n; i++)
			out[d + i] = (vf)v[i];
	}
}

/* Load 16 columns of the block's values, from d on. */
VINLINE void take_values(const struct wide_rows *r, const struct wide_rows *next, int d, int dim,
			 enum dtype type, vf *out)
{
	const size_t size = (size_t)size_of(type);
	for (int i = r->lo / 2 * 2; i < (r->hi + 1) / 2 * 2; i++) {
		const char *row = r->v[i];
		if (d % STEP == 0)
			fetch(next->v[i], d, type);
		out[i] = row ? (vf)load_some(row + (size_t)d * size, dim - d, type,
					     r->v_scale[i])
			     : vf_all(0);
	}
}

/* --- queries ---------------------------------------------------------------------- */

/* p[j][at ..] = scale q[j] . k for 16 positions. */
VINLINE void score_some(const struct key_run *a, struct head_group *g, int n, int at)
{
	const float *q = g->q;
	vf even[CPU_TOK] = {{0}}, odd[CPU_TOK] = {{0}};
	for (int d = 0; d < a->u->dim; d += 2, q += 2 * n) {
		vf k0 = a->k[d], k1 = a->k[d + 1];
CPU_UNROLL(12)
		for (int j = 0; j < n; j++)
			even[j] = vf_fma(k0, vf_all(q[j]), even[j]);
CPU_UNROLL(12)
		for (int j = 0; j < n; j++)
			odd[j] = vf_fma(k1, vf_all(q[n + j]), odd[j]);
	}
CPU_UNROLL(12)
	for (int j = 0; j < n; j++)
		vf_store(g->p[j] + at, (even[j] + odd[j]) * vf_all(a->u->scale));
}

#define SCORE_CASE(n) \
	case n: score_some(a, g, n, at); return;

/* Compute the scores of the panel at position `at` of the block. */
static void score(const struct key_run *a, struct head_group *g, int at)
{
	switch (g->n) {
		CPU_EACH_TOK(SCORE_CASE)
	}
}

static void scale_values(const struct key_run *a, const struct head_group *g, int j, float factor)
{
	for (int c = 0; c < a->n_chunks; c++) {
		float *acc = g->acc[c * g->n + j];
		vf_store(acc, vf_load(acc) * vf_all(factor));
	}
}

VINLINE void add_some(const struct key_run *a, const struct head_group *g, int n, int chunk)
{
	vf even[CPU_TOK] = {{0}}, odd[CPU_TOK] = {{0}};
	for (int i = g->first / 2 * 2; i < g->end; i += 2) {
		vf v0 = a->v[i], v1 = a->v[i + 1];
CPU_UNROLL(12)
		for (int j = 0; j < n; j++)
			even[j] = vf_fma(v0, vf_all(g->p[j][i]), even[j]);
CPU_UNROLL(12)
		for (int j = 0; j < n; j++)
			odd[j] = vf_fma(v1, vf_all(g->p[j][i + 1]), odd[j]);
	}
	float (*acc)[CPU_ROWS] = g->acc + chunk * n;
CPU_UNROLL(12)
	for (int j = 0; j < n; j++)
		vf_store(acc[j], vf_load(acc[j]) + (even[j] + odd[j]));
}

#define ADD_CASE(n) \
	case n: add_some(a, g, n, chunk); return;

/* Add weights times values, for 16 columns. */
static void add_values(const struct key_run *a, const struct head_group *g, int chunk)
{
	if (g->first >= g->end)
		return;
	switch (g->n) {
		CPU_EACH_TOK(ADD_CASE)
	}
}

/* Find which part of the block at s0 each query of the group sees. */
static void cpu_simd_attention_wide_look(struct head_group *g, const struct wide_rows *r,
					 int32_t s0)
{
	g->first = BLOCK;
	g->end = 0;
	for (int j = 0; j < g->n; j++) {
		const struct cpu_query *q = &g->query[j];
		g->lo[j] = MAX(r->lo, q->first - s0);
		g->hi[j] = MIN(r->hi, q->position + 1 - s0);
		if (g->lo[j] >= g->hi[j])
			continue;
		g->first = MIN(g->first, g->lo[j]);
		g->end = MAX(g->end, g->hi[j]);
	}
	if (g->first < g->end)
		memset(g->p, 0, sizeof g->p);
}

static void cpu_simd_attention_wide_weigh(const struct key_run *a, struct head_group *g)
{
	if (g->first >= g->end)
		return;
	for (int j = 0; j < g->n; j++) {
		float factor = cpu_weigh(&g->query[j].state, g->p[j], PANELS, g->lo[j],
					 g->hi[j]);
		if (factor != 1)
			scale_values(a, g, j, factor);
	}
}

/* --- a whole range ----------------------------------------------------------------- */

/* Addresses of the part of the block at s0 that is in [from, to). */
static struct wide_rows rows_at(const struct cpu_attend *u, int32_t s0, int32_t from, int32_t to)
{
	const struct kv_pages *kv = u->kv;
	const char *values = kv->v ? kv->v : kv->k;
	int32_t v_pitch = kv->v ? u->v_dim : u->dim;
	size_t bytes = dtype_bytes(kv->type);
	struct wide_rows r = {.lo = MAX(0, from - s0), .hi = MIN(BLOCK, to - s0)};
	for (int i = r.lo; i < r.hi; i++) {
		int32_t at = s0 + i;
		int32_t slot = u->table[at / kv->page_size] * kv->page_size +
			       at % kv->page_size;
		r.k[i] = (const char *)kv->k +
			 kv_pages_at(kv, u->n_kv_heads, u->dim, slot, u->g) * bytes;
		r.v[i] = values + kv_pages_at(kv, u->n_kv_heads, v_pitch, slot, u->g) * bytes;
		if (kv->type != DTYPE_I8)
			continue;
		size_t row = kv_pages_row(kv, u->n_kv_heads, slot, u->g);
		r.k_scale[i] = blocks_f16(kv->k_scale[row]);
		r.v_scale[i] = blocks_f16(kv->v_scale[row]);
	}
	return r;
}

/* Divide the queries into groups of similar size and transpose them; set up a->acc. */
static void cpu_simd_attention_wide_begin(struct key_run *a)
{
	const struct cpu_attend *u = a->u;
	float *q = a->q;
	float(*acc)[CPU_ROWS] = a->acc;
	const int even = (u->dim + 1) / 2 * 2;
	a->n_groups = DIV_UP(u->n, CPU_TOK);
	int per = DIV_UP(u->n, a->n_groups);
	a->n_groups = DIV_UP(u->n, per);
	for (int i = 0; i < a->n_groups; i++) {
		struct head_group *g = &a->group[i];
		g->query = u->query + i * per;
		g->n = MIN(per, u->n - i * per);
		g->q = q;
		g->acc = acc;
		for (int j = 0; j < g->n; j++) {
			for (int d = 0; d < even; d++)
				q[d * g->n + j] = d < u->dim ? g->query[j].q[d] : 0;
			for (int c = 0; c < a->n_chunks; c++)
				vf_store(acc[c * g->n + j],
					 vf_load(g->query[j].state.acc + VL * c));
		}
		q += even * g->n;
		acc += a->n_chunks * g->n;
	}
}

static void end(const struct key_run *a)
{
	for (int i = 0; i < a->n_groups; i++) {
		const struct head_group *g = &a->group[i];
		for (int j = 0; j < g->n; j++)
			for (int c = 0; c < a->n_chunks; c++)
				vf_store(g->query[j].state.acc + VL * c,
					 vf_load(g->acc[c * g->n + j]));
	}
}

VINLINE void block(struct key_run *a, const struct wide_rows *r, const struct wide_rows *next,
		   int32_t s0, enum dtype type)
{
	for (int i = 0; i < a->n_groups; i++)
		cpu_simd_attention_wide_look(&a->group[i], r, s0);
	for (int at = r->lo / VL * VL; at < r->hi; at += VL) {
		transpose_keys(r, next, at / VL, a->u->dim, type, a->k);
		for (int i = 0; i < a->n_groups; i++) {
			struct head_group *g = &a->group[i];
			if (at < g->end && at + VL > g->first)
				score(a, g, at);
		}
	}
	for (int i = 0; i < a->n_groups; i++)
		cpu_simd_attention_wide_weigh(a, &a->group[i]);
	for (int c = 0; c < a->n_chunks; c++) {
		take_values(r, next, VL * c, a->u->v_dim, type, a->v);
		for (int i = 0; i < a->n_groups; i++)
			add_values(a, &a->group[i], c);
	}
}

void ISA(cpu_attend)(const struct cpu_attend *u, int32_t from, int32_t to)
{
	struct key_run a;
	a.u = u;
	a.n_chunks = DIV_UP(u->v_dim, VL);
	if (from >= to)
		return;
	cpu_simd_attention_wide_begin(&a);
	struct wide_rows next = rows_at(u, from / BLOCK * BLOCK, from, to);
	for (int32_t s0 = from / BLOCK * BLOCK; s0 < to; s0 += BLOCK) {
		struct wide_rows r = next;
		next = rows_at(u, s0 + BLOCK, from, to);
		if (u->kv->type == DTYPE_I8)
			block(&a, &r, &next, s0, DTYPE_I8);
		else if (u->kv->type == DTYPE_F16)
			block(&a, &r, &next, s0, DTYPE_F16);
		else
			block(&a, &r, &next, s0, DTYPE_F32);
	}
	end(&a);
}
#endif
