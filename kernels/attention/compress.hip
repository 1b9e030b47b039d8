/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/compress.h
 * LAYOUT    values, gates, queries and rows f16; bias, norm, rope f32
 * GEOMETRY  rope_tail: (H, T) workgroups of four waves, a thread a pair of neighbours.
 *           compress_put: (n_series D over 128, T). compress_fill, see_rows: one workgroup a
 *           token; of compress_fill those whose token fills no block end at once. LDS: a float
 *           a wave, and of compress_fill the row, 4 KiB
 * PRECISION sums and softmax in f32, in the order of positions; squares by a tree over
 *           threads; halves rounded once
 * ROOFLINE  bound by launch overhead at decode. A prompt of 512 tokens, blocks of 4 with
 *           D = 512: 2 MiB of values and gates, each read twice, from caches after the first
 * TRIED     no other form
 * SEE       kernels/ops/compress_ref.c
 */
#include "kernels/device/dialect.h"

#include "kernels/attention/compress_launch.h"

DEVICE size_t compress_token_row(const row_pages_launch &p, int32_t slot)
{
	return (size_t)(slot / p.page_size) * (size_t)p.page_rows + (size_t)(slot % p.page_size);
}

DEVICE size_t compress_block_row(const row_pages_launch &p, int32_t slot)
{
	int32_t offset = slot % p.page_size;
	return (size_t)(slot / p.page_size) * (size_t)p.page_rows + (size_t)p.first_row +
	       (size_t)(offset * p.n_rows / p.page_size);
}

/* The pair of elements 2 pair and 2 pair + 1, which are a and b, as two halves. It is rotated if
 * it is among the last n_freq pairs. */
DEVICE uint32_t compress_rotated(float a, float b, int32_t pair, int32_t first, const float *rope,
				 float sign)
{
	if (pair >= first) {
		float c = rope[2 * (pair - first)], s = sign * rope[2 * (pair - first) + 1];
		float x = a * c - b * s;
		b = b * c + a * s;
		a = x;
	}
	return f32_to_f16(a) | (uint32_t)f32_to_f16(b) << 16;
}

KERNEL(COMPRESS_THREADS)
void rope_tail_kernel(rope_tail_launch a)
{
	LDS(float, part, COMPRESS_THREADS / WAVE);
	size_t t = group_index_y(), head = t * (size_t)a.n_heads + group_index_x();
	size_t dim = (size_t)a.dim;
	const uint32_t *x = (const uint32_t *)(a.x + head * dim);
	uint32_t *y = (uint32_t *)(a.y ? a.y + head * dim
				       : a.to.rows + compress_token_row(a.to, a.slot[t]) * dim);
	const float *rope = a.rope + t * (size_t)a.n_freq * 2;
	int32_t n = a.dim / 2, me = (int32_t)thread_index();
	float scale = 1;
	if (a.normalises) {
		float squares = 0;
		for (int32_t i = me; i < n; i += COMPRESS_THREADS) {
			float u = f16_to_f32((uint16_t)x[i]);
			float v = f16_to_f32((uint16_t)(x[i] >> 16));
			squares += u * u + v * v;
		}
		float sum = group_sum<COMPRESS_THREADS>(squares, part);
		scale = fast_rsqrt(sum * fast_rcp((float)a.dim) + a.eps);
	}
	for (int32_t i = me; i < n; i += COMPRESS_THREADS) {
		uint32_t both = x[i];
		float u = f16_to_f32((uint16_t)both) * scale;
		float v = f16_to_f32((uint16_t)(both >> 16)) * scale;
		if (a.norm) {
			u *= a.norm[2 * i];
			v *= a.norm[2 * i + 1];
		}
		y[i] = compress_rotated(u, v, i, n - a.n_freq, rope, a.sign);
	}
}

KERNEL(COMPRESS_THREADS)
void compress_put_kernel(compress_launch a)
{
	int32_t wide = a.n_series * a.dim;
	int32_t d = (int32_t)(group_index_x() * COMPRESS_THREADS + thread_index());
	size_t t = group_index_y(), from = t * (size_t)wide + (size_t)d;
	if (d >= wide)
		return;
	size_t to = (size_t)a.slot[t] * (size_t)wide + (size_t)d;
	a.values[to] = a.value[from];
	a.gates[to] = a.gate[from];
}

/* Element d of the sum of the block that ends at position `last`. */
DEVICE float compress_sum(const compress_launch &a, const int32_t *pages, int32_t last, int32_t d)
{
	int32_t size = a.to.page_size, first = last + 1 - a.ratio;
	int32_t from = a.n_series > 1 && first > 0 ? first - a.ratio : first;
	int32_t wide = a.n_series * a.dim, own = wide - a.dim + d;
	float top = -3e38f, all = 0, sum = 0;
	for (int pass = 0; pass < 2; pass++)
		for (int32_t p = from; p <= last; p++) {
			int32_t e = p < first ? d : own, k = (p - from) % a.ratio;
			size_t row = (size_t)pages[p / size] * (size_t)size + (size_t)(p % size);
			size_t at = row * (size_t)wide + (size_t)e;
			float gate = f16_to_f32(a.gates[at]) + a.bias[k * wide + e];
			if (pass == 0) {
				top = gate > top ? gate : top;
				continue;
			}
			float w = fast_exp2((gate - top) * 1.44269504f);
			all += w;
			sum += w * f16_to_f32(a.values[at]);
		}
	return sum * fast_rcp(all);
}

KERNEL(COMPRESS_THREADS)
void compress_fill_kernel(compress_launch a)
{
	LDS(float, part, COMPRESS_THREADS / WAVE);
	LDS(float, row, COMPRESS_MAX_DIM);
	size_t t = group_index_x(), dim = (size_t)a.dim;
	int32_t last = a.position[t], n = a.dim / 2, me = (int32_t)thread_index();
	if ((last + 1) % a.ratio)
		return;
	const int32_t *pages = a.page_table + (size_t)a.seq_of[t] * (size_t)a.max_pages_per_seq;
	uint32_t *out = (uint32_t *)(a.to.rows + compress_block_row(a.to, a.slot[t]) * dim);
	const float *rope = a.rope + t * (size_t)a.n_freq * 2;
	float squares = 0;
	for (int32_t d = me; d < a.dim; d += COMPRESS_THREADS) {
		float x = compress_sum(a, pages, last, d);
		row[d] = x;
		squares += x * x;
	}
	float sum = group_sum<COMPRESS_THREADS>(squares, part);
	float scale = fast_rsqrt(sum * fast_rcp((float)a.dim) + a.eps);
	group_barrier();
	for (int32_t i = me; i < n; i += COMPRESS_THREADS) {
		float u = row[2 * i], v = row[2 * i + 1];
		if (a.norm) {
			u *= scale * a.norm[2 * i];
			v *= scale * a.norm[2 * i + 1];
		}
		out[i] = compress_rotated(u, v, i, n - a.n_freq, rope, 1);
	}
}

KERNEL(COMPRESS_THREADS)
void see_rows_kernel(see_rows_launch a)
{
	size_t t = group_index_x();
	const row_pages_launch &of = a.of;
	const int32_t *pages = a.page_table + (size_t)a.seq_of[t] * (size_t)a.max_pages_per_seq;
	int32_t *table = a.table + t * (size_t)a.width, size = of.page_size;
	int32_t p = a.position[t], first = p < a.window ? 0 : p - a.window + 1;
	int32_t n_seen = p + 1 - first, n = a.ratio ? (p + 1) / a.ratio : 0;
	int32_t me = (int32_t)thread_index();
	if (a.chosen)
		n = (a.chosen_last[t] + 1) / a.ratio;
	for (int32_t i = me; i < n_seen; i += COMPRESS_THREADS) {
		int32_t s = first + i;
		table[i] = (int32_t)compress_token_row(of, pages[s / size] * size + s % size);
	}
	for (int32_t b = me; b < n; b += COMPRESS_THREADS) {
		int32_t s = (b + 1) * a.ratio - 1;
		if (a.chosen) {
			int32_t c = a.chosen[t * (size_t)a.chosen_pitch + (size_t)b];
			table[n_seen + b] = c / of.n_rows * of.page_rows + of.first_row +
					    c % of.n_rows;
		} else {
			table[n_seen + b] = (int32_t)compress_block_row(
				of, pages[s / size] * size + s % size);
		}
	}
	if (me == 0)
		a.last[t] = n_seen + n - 1;
}
