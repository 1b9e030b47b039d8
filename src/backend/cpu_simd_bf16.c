/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of bf16 as they lie in the file, times inputs rounded to bf16.
 *
 * A step is 32 columns: 16 pairs, four of each class. A segment is 64 steps; in it the
 * pairs of a class are added up, those of even and of odd number apart, and the sums of
 * the four classes are added to the row's, one after the other. That order suits two ways
 * of going:
 *
 *   many   16 rows of a segment are turned into vectors that have one pair of each row,
 *          class by class; they stay in the second-level cache while tiles of inputs
 *          pass, of which each pair goes to all rows
 *   few    four rows at a time, as they come from memory: turned by fours, a vector has
 *          a pair of each class of four rows
 *
 * TRIED, at prefill of 512 (two Zen 4 cores): dots of four rows with six inputs, lanes
 * added at the end, nothing turned: 1.5 % faster with K 2048 and 6144, but 12 % slower
 * where experts have 64 tokens each; that in parts of K, or segments of 512 columns here,
 * so that all stays in the first-level cache: 17 and 6 % slower, as runs get short; one
 * order for all, without classes: `few` then turns 16 rows at once, and 16 lines 4 KiB
 * apart share eight places of that cache: decode 17 % slower.
 */
#include "backend/cpu_simd_pairs.h"

#if CPU_AVX512
enum {
	ROWS = CPU_ROWS, STEP = 32, PAIRS = STEP / 2, CLASSES = 4, EACH = PAIRS / CLASSES,
	STEPS = 64, SEGMENT = STEPS * PAIRS /* pairs */,
	FEW = 8 /* inputs of a tile that goes that way */, FEW_ROWS = 4,
	LINES = 2
};

static size_t pairs_of(int32_t k)
{
	return ((size_t)k + STEP - 1) / STEP * PAIRS;
}

size_t ISA(cpu_bf16_bytes)(int32_t k)
{
	return pairs_of(k) * sizeof(int32_t);
}

/* Where pair i is of n, in the order of `many`. */
static size_t place_of(size_t i, size_t n)
{
	size_t from = i / SEGMENT * SEGMENT, left = n - from;
	size_t steps = (left < SEGMENT ? left : SEGMENT) / PAIRS;
	size_t step = (i - from) / PAIRS, class = i % PAIRS / EACH;
	return from + (class * steps + step) * EACH + i % EACH;
}

/* Lane l of v[r] to lane r of v[l]. */
VINLINE void turn(__m512i *v)
{
	__m512i t[ROWS];
#pragma GCC unroll 8
	for (int i = 0; i < ROWS; i += 2) {
		t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
	}
	/* v[4 b + c]: of each four lanes, lane c of rows 4 b .. 4 b + 3 */
#pragma GCC unroll 4
	for (int i = 0; i < ROWS; i += 4) {
		v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
#pragma GCC unroll 4
	for (int c = 0; c < 4; c++) {
		t[c] = _mm512_shuffle_i32x4(v[c], v[c + 4], 0x88);
		t[c + 4] = _mm512_shuffle_i32x4(v[c], v[c + 4], 0xDD);
		t[c + 8] = _mm512_shuffle_i32x4(v[c + 8], v[c + 12], 0x88);
		t[c + 12] = _mm512_shuffle_i32x4(v[c + 8], v[c + 12], 0xDD);
	}
#pragma GCC unroll 4
	for (int c = 0; c < 4; c++) {
		v[c] = _mm512_shuffle_i32x4(t[c], t[c + 8], 0x88);
		v[c + 8] = _mm512_shuffle_i32x4(t[c], t[c + 8], 0xDD);
		v[c + 4] = _mm512_shuffle_i32x4(t[c + 4], t[c + 12], 0x88);
		v[c + 12] = _mm512_shuffle_i32x4(t[c + 4], t[c + 12], 0xDD);
	}
}

/* Pair by pair, the 16 from element i on of x, of which there are `left`; with two planes
 * then what rounding leaves. */
VINLINE void round_pairs(const float *x, size_t i, size_t left, int planes, __m512i *out)
{
	uint32_t mask = left < STEP ? (1u << left) - 1 : ~0u;
	vf low = (vf)_mm512_maskz_loadu_ps((__mmask16)mask, x + i), high = {0};
	if (left > VL)
		high = (vf)_mm512_maskz_loadu_ps((__mmask16)(mask >> VL), x + i + VL);
	for (int p = 0; p < planes; p++) {
		__m256i l = (__m256i)_mm512_cvtneps_pbh((__m512)low);
		__m256i h = (__m256i)_mm512_cvtneps_pbh((__m512)high);
		out[p] = _mm512_inserti64x4(_mm512_castsi256_si512(l), h, 1);
		low -= vf_of_bf16((vhalf)l);
		high -= vf_of_bf16((vhalf)h);
	}
}

/* Few inputs lie one behind the other; of many, a pair's of each. */
void ISA(cpu_pair_up)(const float *const *x, int n_x, int32_t k, int planes, void *tile)
{
	const size_t places = (size_t)(n_x * planes), n_pairs = pairs_of(k);
	const __mmask16 mask = (__mmask16)((1u << places) - 1);
	int32_t *out = tile;
	for (size_t i = 0; i < n_pairs; i += PAIRS) {
		__m512i v[ROWS];
		for (int j = 0; j < n_x; j++)
			round_pairs(x[j], 2 * i, (size_t)k - 2 * i, planes, v + j * planes);
		if (places <= FEW) {
			for (size_t j = 0; j < places; j++)
				_mm512_storeu_si512(out + j * n_pairs + i, v[j]);
			continue;
		}
		for (size_t j = places; j < ROWS; j++)
			v[j] = _mm512_setzero_si512();
		turn(v);
#pragma GCC unroll 16
		for (size_t c = 0; c < PAIRS; c++)
			_mm512_mask_storeu_epi32(out + place_of(i + c, n_pairs) * places,
						 mask, v[c]);
	}
}

/* --- many -------------------------------------------------------------------------- */

/* Rows in the file. */
struct rows {
	const uint16_t *q;
	size_t pitch; /* numbers from one to the next */
	int n;
};

/* So many columns, of fewer than 16 rows the last again, to pairs: class by class. */
static void turn_rows(const struct rows *r, int n, __m512i *out)
{
	const int steps = (n + STEP - 1) / STEP;
	for (int s = 0; s < steps; s++) {
		const uint16_t *q = r->q + s * STEP;
		__m512i v[ROWS];
		if (r->n == ROWS && n - s * STEP >= STEP) {
#pragma GCC unroll 16
			for (size_t j = 0; j < ROWS; j++)
				v[j] = _mm512_loadu_si512(q + j * r->pitch);
		} else {
			int left = n - s * STEP < STEP ? n - s * STEP : STEP;
			__mmask32 mask = (__mmask32)((1ull << left) - 1);
			for (int j = 0; j < ROWS; j++) {
				size_t row = (size_t)(j < r->n ? j : r->n - 1);
				v[j] = _mm512_maskz_loadu_epi16(mask, q + row * r->pitch);
			}
		}
		turn(v);
#pragma GCC unroll 16
		for (int l = 0; l < ROWS; l++)
			out[(l / EACH * steps + s) * EACH + l % EACH] = v[l];
	}
}

static void run(const struct cpu_pairs *p)
{
	cpu_pairs_go(p, LINES);
}

/* The classes of a segment from column k0 on times all tiles that are not few. */
static void many(const struct rows *r, int32_t k, int32_t k0, const struct cpu_tiles *t,
		 float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	__m512i pairs[SEGMENT];
	const size_t n_pairs = pairs_of(k), first = (size_t)(k0 / 2);
	const int n = k - k0 < 2 * SEGMENT ? k - k0 : 2 * SEGMENT;
	const int each = (n + STEP - 1) / STEP * EACH;
	const char *fetch = (const char *)(r->q + r->pitch * ROWS) + (size_t)k0 * 2 * (ROWS - 1);
	struct cpu_pairs p = {.n_pairs = each, .fetch = fetch, .scale = vf_all(1)};
	turn_rows(r, n, pairs);
	const int32_t *x = t->at;
	for (int i = 0; i < t->n; i++, x += n_pairs * (size_t)p.n_x) {
		p.n_x = t->n_x[i];
		if (p.n_x <= FEW)
			continue;
		p.acc = out[i];
		p.x = x + first * (size_t)p.n_x;
		for (int c = 0; c < CLASSES; c++) {
			p.w = pairs + c * each;
			run(&p);
			p.x += each * p.n_x;
			if (p.fetch)
				p.fetch += each / 2 * LINES * CPU_LINE;
		}
		p.fetch = NULL;
	}
}

/* --- few --------------------------------------------------------------------------- */

/* Lane b of v[c]: of four rows, pair c of class b. */
VINLINE void turn_four(__m512i *v)
{
	__m512i low = _mm512_unpacklo_epi32(v[0], v[1]);
	__m512i high = _mm512_unpackhi_epi32(v[0], v[1]);
	__m512i low2 = _mm512_unpacklo_epi32(v[2], v[3]);
	__m512i high2 = _mm512_unpackhi_epi32(v[2], v[3]);
	v[0] = _mm512_unpacklo_epi64(low, low2);
	v[1] = _mm512_unpackhi_epi64(low, low2);
	v[2] = _mm512_unpacklo_epi64(high, high2);
	v[3] = _mm512_unpackhi_epi64(high, high2);
}

VINLINE vf dot_four(vf sum, __m512i w, __m512i x)
{
	return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}

/* A step of four rows times inputs that lie n_pairs apart. */
VINLINE void few_step(__m512i *w, const int32_t *x, size_t n_pairs, int n_x, vf *even,
		      vf *odd)
{
	turn_four(w);
#pragma GCC unroll 8
	for (int j = 0; j < n_x; j++) {
		__m512i v = _mm512_loadu_si512(x + (size_t)j * n_pairs);
		even[j] = dot_four(even[j], w[0], _mm512_shuffle_epi32(v, 0x00));
		odd[j] = dot_four(odd[j], w[1], _mm512_shuffle_epi32(v, 0x55));
		even[j] = dot_four(even[j], w[2], _mm512_shuffle_epi32(v, 0xAA));
		odd[j] = dot_four(odd[j], w[3], _mm512_shuffle_epi32(v, 0xFF));
	}
}

/* acc += the classes of sum, one after the other. */
VINLINE __m128 add_classes(__m128 acc, __m512 sum)
{
	acc = _mm_add_ps(_mm512_extractf32x4_ps(sum, 0), acc);
	acc = _mm_add_ps(_mm512_extractf32x4_ps(sum, 1), acc);
	acc = _mm_add_ps(_mm512_extractf32x4_ps(sum, 2), acc);
	return _mm_add_ps(_mm512_extractf32x4_ps(sum, 3), acc);
}

/* Four rows of K, with what lies behind them asked for as it lies. */
VINLINE void few_rows(const uint16_t *const *row, const char *fetch, int32_t k,
		      const int32_t *x, int n_x, float (*out)[CPU_PANEL_ROWS])
{
	const size_t n_pairs = pairs_of(k);
	__m128 acc[FEW];
#pragma GCC unroll 8
	for (int j = 0; j < n_x; j++)
		acc[j] = _mm_setzero_ps();
	for (int32_t k0 = 0; k0 < k; k0 += 2 * SEGMENT) {
		vf even[FEW] = {{0}}, odd[FEW] = {{0}};
		int32_t end = k - k0 < 2 * SEGMENT ? k : k0 + 2 * SEGMENT, i = k0;
		__m512i w[FEW_ROWS];
		for (; i + STEP <= end; i += STEP) {
#pragma GCC unroll 4
			for (int r = 0; r < FEW_ROWS; r++, fetch += CPU_LINE) {
				__builtin_prefetch(fetch, 0, 2);
				w[r] = _mm512_loadu_si512(row[r] + i);
			}
			few_step(w, x + i / 2, n_pairs, n_x, even, odd);
		}
		if (i < end) {
			__mmask32 mask = (__mmask32)((1ull << (end - i)) - 1);
#pragma GCC unroll 4
			for (int r = 0; r < FEW_ROWS; r++)
				w[r] = _mm512_maskz_loadu_epi16(mask, row[r] + i);
			few_step(w, x + i / 2, n_pairs, n_x, even, odd);
		}
#pragma GCC unroll 8
		for (int j = 0; j < n_x; j++)
			acc[j] = add_classes(acc[j], (__m512)(even[j] + odd[j]));
	}
#pragma GCC unroll 8
	for (int j = 0; j < n_x; j++)
		_mm_storeu_ps(out[j], acc[j]);
}

static void few(const uint16_t *q, int32_t k, int n_rows, const int32_t *x, int n_x,
		float (*out)[CPU_PANEL_ROWS])
{
	for (int r0 = 0; r0 < n_rows; r0 += FEW_ROWS) {
		const uint16_t *row[FEW_ROWS];
		for (int r = 0; r < FEW_ROWS; r++)
			row[r] = q + (size_t)(r0 + r < n_rows ? r0 + r : n_rows - 1) * (size_t)k;
		const char *fetch = (const char *)(row[0] + (size_t)k * FEW_ROWS);
		float (*to)[CPU_PANEL_ROWS] = (void *)&out[0][r0];
#define CASE(n) case n: few_rows(row, fetch, k, x, n, to); break;
		switch (n_x) {
			CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
		}
#undef CASE
	}
}

void ISA(cpu_bf16)(const uint16_t *q, int32_t k, int n_rows, const struct cpu_tiles *t,
		   float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	const int32_t *x = t->at;
	bool has_many = false;
	memset(out, 0, (size_t)t->n * sizeof *out);
	for (int i = 0; i < t->n; x += pairs_of(k) * (size_t)t->n_x[i++]) {
		has_many |= t->n_x[i] > FEW;
		if (t->n_x[i] <= FEW)
			few(q, k, n_rows, x, t->n_x[i], out[i]);
	}
	for (int32_t k0 = 0; has_many && k0 < k; k0 += 2 * SEGMENT) {
		const struct rows r = {q + k0, (size_t)k, n_rows};
		many(&r, k, k0, t, out);
	}
}
#endif
