/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds activations to 8 bits. In AVX-512, also multiplies them by panels of 4- and
 * 8-bit integers. These are the most common codes, and AVX-512 multiplies them without an
 * unpacking step. Other instruction sets use the general code (cpu_simd_codes.c).
 *
 * A block is 32 columns. The integers of weight (unsigned) and activation (signed) are
 * multiplied and summed exactly in int32. The zero point times the block's sum of
 * activations is subtracted, and the result is scaled once:
 *
 *   y[r] = sum over blocks b of scale[r][g] x_scale[b] (q[r] . x[b] - zero[r][g] xsum[b])
 *
 * There is one float accumulator for each row and input; blocks are added in order.
 *
 * For each block, a tile of activations has words of integers, then - xsum, then x_scale,
 * each (n_x). With byte products (AVX2, VNNI) a word is four bytes: columns 0 2 4 6 and 1
 * 3 5 7 of eight, which match the lower and upper nibbles of a panel's bytes. Without
 * byte products a word is two 16-bit integers: columns 0 4, 2 6, 1 5, 3 7.
 */
#include "backend/cpu/simd/cpu_simd.h"

enum {
	ROWS = CPU_ROWS,
	Q_WORDS = CPU_Q_WORDS,
	TILE_WORDS = Q_WORDS + 2, /* integers, negative sum, scale */
};

/* --- activations -------------------------------------------------------------- */

/* Largest magnitude, as float bits: in this order NaN is above all numbers. */
VINLINE int32_t largest(const float *x)
{
	vi most = {0};
	for (int i = 0; i < CPU_BLOCK; i += VL) {
		vi v = vi_load(x + i) & 0x7FFFFFFF;
		vi more = v > most;
		most = (more & v) | (~more & most);
	}
	int32_t lane[VL], m = 0;
	memcpy(lane, &most, sizeof lane);
	for (int i = 0; i < VL; i++)
		m = lane[i] > m ? lane[i] : m;
	return m;
}

VINLINE int32_t sum_of(vi v)
{
	int32_t lane[VL], sum = 0;
	memcpy(lane, &v, sizeof lane);
	for (int i = 0; i < VL; i++)
		sum += lane[i];
	return sum;
}

VINLINE void store_bytes(int8_t *out, vi v)
{
#if CPU_AVX512
	_mm_storeu_si128((void *)out, _mm512_cvtepi32_epi8((__m512i)v));
#else
	for (int j = 0; j < VL; j++)
		out[j] = (int8_t)v[j];
#endif
}

/* Round x * inverse to integers, as one plane of int8 or split into two planes. sum: sums
 * of the integers over each of n_sub equal parts of the columns. */
VINLINE void round_block(const float *x, float inverse, int planes, int n_sub,
			 int8_t (*q)[CPU_BLOCK], int32_t (*sum)[2])
{
	const vf magic = vf_all(0x1.8p23f);
CPU_UNROLL(2)
	for (int s = 0; s < n_sub; s++) {
		vi sum0 = {0}, sum1 = {0};
		for (int i = 0; i < CPU_BLOCK / n_sub; i += VL) {
			int at = s * 16 + i;
			vi v = (vi)(vf_load(x + at) * vf_all(inverse) + magic) -
			       (vi)magic;
			if (planes == 2) {
				vi high = (v + 64) >> 7, low = v - (high << 7);
				store_bytes(q[1] + at, low);
				sum1 += low;
				v = high;
			}
			store_bytes(q[0] + at, v);
			sum0 += v;
		}
		sum[0][s] = sum_of(sum0);
		sum[1][s] = sum_of(sum1);
	}
}

/* Store the integers of a block as Q_WORDS words, n_x apart. */
VINLINE void place(const int8_t *q, int n_x, int32_t *out)
{
#if CPU_AVX512 || CPU_AVX2
	const __m256i order = _mm256_setr_epi8(
		0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15,
		0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
	__m256i v = _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)q), order);
	int32_t word[Q_WORDS];
	memcpy(word, &v, sizeof word);
#else
	static const uint8_t first[4] = {0, 2, 1, 3};
	int32_t word[Q_WORDS];
	for (int i = 0; i < Q_WORDS; i++) {
		const int8_t *two = q + i / 4 * 8 + first[i % 4];
		word[i] = (int32_t)((uint32_t)(uint16_t)two[0] |
				    (uint32_t)(uint16_t)two[4] << 16);
	}
#endif
	for (int i = 0; i < Q_WORDS; i++)
		out[i * n_x] = word[i];
}

/* Block b of x with its columns in order and multiplied by their factors. */
static void change_block(const struct cpu_rounding *r, const float *x, int32_t b, float *out)
{
	for (int32_t i = 0; i < CPU_BLOCK; i++) {
		int32_t at = b * CPU_BLOCK + i, from = r->order ? r->order[at] : at;
		out[i] = x[from] * (r->in_scale ? r->in_scale[from] : 1);
	}
}

/* n_x: places in the tile; a second plane goes to the next place. */
VINLINE void quantize_row(const struct cpu_rounding *r, const float *x, int planes,
			  int n_sub, int n_x, int32_t *out)
{
	const float steps = planes == 2 ? 127 * 128 : 127;
	for (int32_t b = 0; b < r->k / CPU_BLOCK; b++) {
		const float *in = x + b * CPU_BLOCK;
		float changed[CPU_BLOCK];
		if (r->order || r->in_scale) {
			change_block(r, x, b, changed);
			in = changed;
		}
		int8_t q[2][CPU_BLOCK] = {{0}};
		int32_t bits = largest(in), sum[2][2] = {{0}};
		float most, scale = 0;
		memcpy(&most, &bits, sizeof most);
		if (bits >= 0x7F800000) {
			scale = blocks_bf16(0x7FC0); /* NaN */
		} else if (most > 0x1p-110f) { /* for smaller values the inverse would be
					        * infinite */
			scale = most * (1 / steps);
			round_block(in, steps / most, planes, n_sub, q, sum);
		}
		for (int p = 0; p < planes; p++) {
			float its = planes == 2 && p == 0 ? 128 * scale : scale;
			place(q[p], n_x, out + p);
			for (int s = 0; s < n_sub; s++)
				out[(Q_WORDS + s) * n_x + p] = -sum[p][s];
			memcpy(out + (Q_WORDS + n_sub) * n_x + p, &its, sizeof its);
		}
		out += (Q_WORDS + n_sub + 1) * n_x;
	}
}

void ISA(cpu_quantize)(const struct cpu_rounding *r, const float *const *x, int n_x,
		       int32_t *tile)
{
	for (int j = 0; j < n_x; j++)
		if (r->planes == 2 && r->is_halved)
			quantize_row(r, x[j], 2, 2, 2 * n_x, tile + 2 * j);
		else if (r->planes == 2)
			quantize_row(r, x[j], 2, 1, 2 * n_x, tile + 2 * j);
		else if (r->is_halved)
			quantize_row(r, x[j], 1, 2, n_x, tile + j);
		else
			quantize_row(r, x[j], 1, 1, n_x, tile + j);
}

/* --- panels ------------------------------------------------------------------- */

#if CPU_AVX512
/* sum[j] += the products of a block; q: 16 rows of eight columns, four times. */
VINLINE void block4(const uint8_t *q, const int32_t *tile, int n_x, vi *sum)
{
CPU_UNROLL(4)
	for (int i = 0; i < 4; i++) {
		vi raw = vi_load(q + 64 * i);
		vi low = raw & 0x0F0F0F0F, high = (vi)((vu)raw >> 4) & 0x0F0F0F0F;
CPU_UNROLL(12)
		for (int j = 0; j < n_x; j++)
			sum[j] = bytes_dot(sum[j], low, tile[2 * i * n_x + j]);
CPU_UNROLL(12)
		for (int j = 0; j < n_x; j++)
			sum[j] = bytes_dot(sum[j], high, tile[(2 * i + 1) * n_x + j]);
	}
}

VINLINE void block8(const uint8_t *q, const int32_t *tile, int n_x, vi *sum)
{
CPU_UNROLL(8)
	for (int i = 0; i < 8; i++) {
		vi w = vi_load(q + 64 * i);
CPU_UNROLL(12)
		for (int j = 0; j < n_x; j++)
			sum[j] = bytes_dot(sum[j], w, tile[i * n_x + j]);
	}
}

enum { FETCH_INPUTS = 8 }; /* with fewer inputs, memory is the limit */

VINLINE void panel_n(const struct cpu_panels *w, const uint8_t *panel,
		     const int32_t *tile, int n_x, int bits, bool has_zero,
		     float (*out)[CPU_PANEL_ROWS])
{
	const uint8_t *q = panel + w->at_q;
	const int32_t n_groups = w->k / w->group, n_blocks = w->group / CPU_BLOCK;
	const size_t step = w->panel_bytes / (size_t)(w->k / CPU_BLOCK);
	const uint8_t *fetch = panel;
	vf acc[CPU_TOK] = {{0}};
	for (int32_t g = 0; g < n_groups; g++) {
		size_t at = (size_t)g * ROWS;
		vf scale = cpu_floats(panel, w->scale_type, at);
		vi zero = {0};
		if (has_zero)
			zero = vi_of_bytes(panel + w->at_low + at);
		for (int32_t b = 0; b < n_blocks; b++) {
			vi sum[CPU_TOK];
			if (n_x <= FETCH_INPUTS)
				cpu_fetch(fetch, bits);
			fetch += step;
CPU_UNROLL(12)
			for (int j = 0; j < n_x; j++) {
				int32_t xsum = tile[Q_WORDS * n_x + j];
				/* Multiply only if needed: a vector multiplication
				 * occupies the units of byte products. */
				sum[j] = has_zero ? zero * vi_all(xsum)
						  : vi_all(xsum * (1 << (bits - 1)));
			}
			if (bits == 4)
				block4(q, tile, n_x, sum);
			else
				block8(q, tile, n_x, sum);
			const float *x_scale =
				(const void *)(tile + (Q_WORDS + 1) * n_x);
CPU_UNROLL(12)
			for (int j = 0; j < n_x; j++)
				acc[j] = vf_fma(
					__builtin_convertvector(sum[j], vf) * scale,
					vf_all(x_scale[j]), acc[j]);
			q += CPU_BLOCK * ROWS * bits / 8;
			tile += TILE_WORDS * n_x;
		}
	}
CPU_UNROLL(12)
	for (int j = 0; j < n_x; j++)
		vf_store(out[j], acc[j]);
}

#define EACH_COUNT(X, b) \
	X(1, b) X(2, b) X(3, b) X(4, b) X(5, b) X(6, b) \
	X(7, b) X(8, b) X(9, b) X(10, b) X(11, b) X(12, b)
#define DEFINE(n, b) \
	static void panel_##b##_##n(const struct cpu_panels *w, const uint8_t *p, \
				    const int32_t *tile, float (*out)[CPU_PANEL_ROWS]) \
	{ \
		if (w->has_zero) \
			panel_n(w, p, tile, n, b, true, out); \
		else \
			panel_n(w, p, tile, n, b, false, out); \
	}
EACH_COUNT(DEFINE, 4)
EACH_COUNT(DEFINE, 8)

_Static_assert(CPU_TOK == 12, "EACH_COUNT");

void ISA(cpu_panel_integers)(const struct cpu_panels *w, int32_t i_panel,
			     const struct cpu_tiles *t,
			     float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	const uint8_t *panel = cpu_panels_at(w, i_panel);
	typedef void one(const struct cpu_panels *w, const uint8_t *p,
			 const int32_t *tile, float (*out)[CPU_PANEL_ROWS]);
#define NAME(n, b) panel_##b##_##n,
	static one *const all[2][CPU_TOK] = {{EACH_COUNT(NAME, 4)}, {EACH_COUNT(NAME, 8)}};
	const int32_t *tile = t->at;
	for (int i = 0; i < t->n; i++) {
		all[w->form == CPU_FORM_8][t->n_x[i] - 1](w, panel, tile, out[i]);
		tile += (size_t)(w->k / CPU_BLOCK) * (size_t)(TILE_WORDS * t->n_x[i]);
	}
}
#endif
