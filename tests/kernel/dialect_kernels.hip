/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that do nothing but use the dialect: what test_dialect.cpp checks on fibers,
 * and on an NVIDIA GPU where nvcc builds it.
 */
#include "kernels/device/dialect.h"

enum { DIALECT_PITCH = 24 }; /* from row to row of 16 numbers in LDS */

/* a (16, 16); b (16, 16), element (k, column) at b[k][column]; c (16, 16) f32; out
 * (waves, 2, 16, 16): c + a b with B loaded by columns and by rows. Two waves. */
template <int format>
DEVICE void dialect_tile_test(const uint16_t *a, const uint16_t *b, const float *c,
			      float *out)
{
	enum { PITCH = DIALECT_PITCH };
	LDS(uint16_t, a_rows, 16 * PITCH);
	LDS(uint16_t, b_rows, 16 * PITCH);
	LDS(uint16_t, b_columns, 16 * PITCH);
	for (uint32_t i = thread_index(); i < 256; i += 2 * WAVE) {
		a_rows[i / 16 * PITCH + i % 16] = a[i];
		b_rows[i / 16 * PITCH + i % 16] = b[i];
		b_columns[i % 16 * PITCH + i / 16] = b[i];
	}
	group_barrier();
	tile_a<format> ta = tile_load_a<format>(a_rows, PITCH);
	tile_c before;
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		before.v[i] = c[tile_row(i) * 16 + tile_column(i)];
	const tile_c got[2] = {
		tile_mma(ta, tile_load_b<format>(b_columns, PITCH), before),
		tile_mma(ta, tile_load_b_rows<format>(b_rows, PITCH), before)};
	out += wave_index() * 2 * 256;
	UNROLL
	for (int o = 0; o < 2; o++)
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			out[o * 256 + tile_row(i) * 16 + tile_column(i)] = got[o].v[i];
}

/* What dialect_scores_kernel writes, each (16, 16) f32. */
enum { SCORES_OUT, SCORES_OUT_SUM, SCORES_OUT_MAX, SCORES_OUT_VALUES, SCORES_OUTS };

/* q, k (16, 16) f16; v (16, 16) f16, element (position, e) at v[e][position]. out
 * (waves, SCORES_OUTS, 16, 16), a row for each query: scores of the positions; their sum and the
 * largest, in each element; round(scores) v. Two waves. */
KERNEL(2 * WAVE)
void dialect_scores_kernel(const uint16_t *q, const uint16_t *k, const uint16_t *v, float *out)
{
	enum { PITCH = DIALECT_PITCH };
	LDS(uint16_t, queries, 16 * PITCH);
	LDS(uint16_t, keys, 16 * PITCH);
	LDS(uint16_t, values, 16 * PITCH);
	for (uint32_t i = thread_index(); i < 256; i += 2 * WAVE) {
		queries[i / 16 * PITCH + i % 16] = q[i];
		keys[i / 16 * PITCH + i % 16] = k[i];
		values[i / 16 * PITCH + i % 16] = v[i];
	}
	group_barrier();
	tile_c none = {};
	tile_c c = score_mma(score_load_query(queries, PITCH), score_load_key(keys, PITCH), none);
	tile_c summed = score_add(score_weight_of(c), score_load_value(values, PITCH), none);
	float sum[SCORE_SLOTS], most[SCORE_SLOTS];
	score_totals(c, sum);
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++)
		most[s] = -1e30f;
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		most[score_slot(i)] = max_f32(most[score_slot(i)], c.v[i]);
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++)
		most[s] = score_max(most[s]);
	out += wave_index() * SCORES_OUTS * 256;
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		int32_t at = score_query_at(i) * 16 + score_other_at(i);
		out[SCORES_OUT * 256 + at] = c.v[i];
		out[SCORES_OUT_SUM * 256 + at] = sum[score_slot(i)];
		out[SCORES_OUT_MAX * 256 + at] = most[score_slot(i)];
		out[SCORES_OUT_VALUES * 256 + at] = summed.v[i];
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
