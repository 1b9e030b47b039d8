/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that do nothing but use the dialect: what test_dialect.cpp checks on fibers,
 * and on an NVIDIA GPU where nvcc builds it.
 */
#include "kernels/device/dialect.h"

/* What dialect_tile_* writes, each (16, 16) f32. */
enum {
	TILE_OUT_C, TILE_OUT_C_ROWS, TILE_OUT_SUM, TILE_OUT_MAX, TILE_OUT_CHAIN,
	TILE_OUTS
};

/* a (16, 16); b (16, 16), element (k, column) at b[k][column]; c (16, 16) f32; out
 * (waves, TILE_OUTS, 16, 16): c + a b with B loaded by columns and by rows; sum and
 * largest of the row, in each of its elements; round(c + a b) b. Two waves. */
template <int format>
DEVICE void dialect_tile_test(const uint16_t *a, const uint16_t *b, const float *c,
			      float *out)
{
	enum { PITCH = 24 };
	LDS(uint16_t, a_rows, 16 * PITCH);
	LDS(uint16_t, b_rows, 16 * PITCH);
	LDS(uint16_t, b_columns, 16 * PITCH);
	LDS(uint16_t, scratch, 2 * TILE_SCRATCH);
	for (uint32_t i = thread_index(); i < 256; i += 2 * WAVE) {
		a_rows[i / 16 * PITCH + i % 16] = a[i];
		b_rows[i / 16 * PITCH + i % 16] = b[i];
		b_columns[i % 16 * PITCH + i / 16] = b[i];
	}
	group_barrier();
	tile_a<format> ta = tile_load_a<format>(a_rows, PITCH);
	tile_b<format> tb = tile_load_b<format>(b_columns, PITCH);
	tile_c before, none, got[TILE_OUTS];
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		before.v[i] = c[tile_row(i) * 16 + tile_column(i)];
		none.v[i] = 0;
	}
	got[TILE_OUT_C] = tile_mma(ta, tb, before);
	got[TILE_OUT_C_ROWS] =
		tile_mma(ta, tile_load_b_rows<format>(b_rows, PITCH), before);
	float sum[TILE_ROWS] = {}, most[TILE_ROWS];
	UNROLL
	for (int r = 0; r < TILE_ROWS; r++)
		most[r] = -1e30f;
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		float x = got[TILE_OUT_C].v[i];
		sum[tile_slot(i)] += x;
		most[tile_slot(i)] = max_f32(most[tile_slot(i)], x);
	}
	UNROLL
	for (int r = 0; r < TILE_ROWS; r++) {
		sum[r] = tile_row_sum(sum[r]);
		most[r] = tile_row_max(most[r]);
	}
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		got[TILE_OUT_SUM].v[i] = sum[tile_slot(i)];
		got[TILE_OUT_MAX].v[i] = most[tile_slot(i)];
	}
	uint16_t *mine = scratch + wave_index() * TILE_SCRATCH;
	got[TILE_OUT_CHAIN] =
		tile_mma(tile_a_of_c<format>(got[TILE_OUT_C], mine), tb, none);
	/* Once more, so that scratch is used again; the same must come out. */
	tile_c again = tile_mma(tile_a_of_c<format>(got[TILE_OUT_C_ROWS], mine), tb, none);
	out += wave_index() * TILE_OUTS * 256;
	UNROLL
	for (int o = 0; o < TILE_OUTS; o++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			float x = o == TILE_OUT_CHAIN && wave_index() ? again.v[i]
								      : got[o].v[i];
			out[o * 256 + tile_row(i) * 16 + tile_column(i)] = x;
		}
}

KERNEL(2 * WAVE)
void dialect_tile_f16_kernel(const uint16_t *a, const uint16_t *b, const float *c,
			     float *out)
{
	dialect_tile_test<TILE_F16>(a, b, c, out);
}

KERNEL(2 * WAVE)
void dialect_tile_bf16_kernel(const uint16_t *a, const uint16_t *b, const float *c,
			      float *out)
{
	dialect_tile_test<TILE_BF16>(a, b, c, out);
}

/* Pairs a, b (n); out (n, 4): dot2_f16 and dot2_bf16 with c, sub2_f16, fma2_f16 with
 * itself, the latter two as bits. */
KERNEL(WAVE)
void dialect_pairs_kernel(const uint32_t *a, const uint32_t *b, const float *c,
			  float *out)
{
	uint32_t i = group_index_x() * WAVE + thread_index();
	out[i * 4] = dot2_f16(a[i], b[i], c[i]);
	out[i * 4 + 1] = dot2_bf16(a[i], b[i], c[i]);
	out[i * 4 + 2] = bits_cast<float>(sub2_f16(a[i], b[i]));
	out[i * 4 + 3] = bits_cast<float>(fma2_f16(a[i], b[i], a[i]));
}

/* Workgroups of two waves, x (groups, 64). out (groups, 64, 5): the wave's sum and its
 * eight lanes', the ballot of x > 0, x of lane (5 lane + 3) % 32, and the wave's best
 * id by order_key. total[0] is what the workgroups add up in integers, total[1] how
 * many waves came. */
enum { WAVE_OUTS = 5 };

KERNEL(2 * WAVE)
void dialect_waves_kernel(const float *x, float *out, uint32_t *total)
{
	uint32_t t = thread_index(), at = group_index_x() * 2 * WAVE + t;
	float v = x[at];
	out += (size_t)at * WAVE_OUTS;
	out[0] = wave_sum(v);
	out[1] = lanes_sum<8>(v);
	out[2] = bits_cast<float>(wave_ballot(v > 0));
	out[3] = wave_shuffle(v, (lane_index() * 5 + 3) % WAVE);
	uint32_t key = order_key(v), id = t;
	wave_best(&key, &id);
	out[4] = bits_cast<float>(id);
	atomic_add(&total[0], t);
	if (lane_index() == 0)
		atomic_add(&total[1], 1u);
}

/* Workgroups of 96 threads: the sum over x (groups, 96) and the largest of the first
 * wave's lanes through LDS; numbers as each format rounds them. */
KERNEL(96)
void dialect_group_kernel(const float *x, float *sum, float *handed, uint16_t *halves)
{
	LDS(float, part, 3);
	LDS(float, left, 96);
	uint32_t t = thread_index(), at = group_index_x() * 96 + t;
	float s = group_sum<96>(x[at], part);
	left[t] = x[at];
	wave_barrier();
	handed[at] = left[t ^ 1]; /* another lane of this wave */
	if (t == 0)
		sum[group_index_x()] = s;
	halves[at * 2] = f32_to_f16(x[at]);
	halves[at * 2 + 1] = f32_to_bf16(x[at]);
}
