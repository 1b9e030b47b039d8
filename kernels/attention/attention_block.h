/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.hip's work on one block of positions in LDS: scores, weights, values.
 */
#pragma once
#include "kernels/attention/attention_pieces.h"

template <class S>
DEVICE void attention_queries(const attention_launch &a, const attention_job &j, uint16_t *q)
{
	for (int32_t c = (int32_t)thread_index(); c < S::ROWS * S::KEY / 8; c += S::THREADS) {
		int32_t r = c / (S::KEY / 8), at = c % (S::KEY / 8) * 8, token, head;
		bool is_row = attention_row<S>(j, r, &token, &head);
		size_t row = (size_t)(j.token + token) * (size_t)a.n_heads + (size_t)head;
		*(u32x4 *)(q + r * S::KEY_PITCH + at) =
			attention_load8(a.q, row, is_row, at, a.head_dim);
	}
}

template <class S>
DEVICE void attention_begin(const attention_launch &a, const attention_job &j,
			    const attention_lds<S> &l)
{
	int32_t r = (int32_t)thread_index(), token, head;
	if (r >= S::ROWS)
		return;
	bool is_row = attention_row<S>(j, r, &token, &head);
	int32_t last = j.position + token;
	l.row[r] = attention_state{
		ATTENTION_NOTHING, 0, ATTENTION_NOTHING, 0,
		attention_seen(a.window, last), is_row ? last : -1};
}

/* Each wave multiplies its tiles of queries and keys. */
template <class S> DEVICE void attention_scores(const attention_lds<S> &l)
{
	constexpr int STEPS = S::KEY / 16 / S::PARTS, N = S::SCORE_TILES;
	int32_t w = (int32_t)wave_index();
	int32_t column = S::PARTS > 1 ? 0 : w % S::KEY_TILES;
	int32_t row = S::PARTS > 1 ? 0 : w / S::KEY_TILES * N;
	int32_t step = S::PARTS > 1 ? w * STEPS : 0;
	if (row >= S::TILES)
		return;
	tile_c c[N] = {};
	ONE_BY_ONE
	for (int i = 0; i < STEPS; i++) {
		int32_t at = (step + i) * 16;
		tile_b<TILE_F16> k = tile_load_b<TILE_F16>(
			l.k + column * 16 * S::KEY_PITCH + at, S::KEY_PITCH);
		UNROLL
		for (int n = 0; n < N; n++)
			c[n] = tile_mma(tile_load_a<TILE_F16>(
						l.q + (row + n) * 16 * S::KEY_PITCH + at,
						S::KEY_PITCH),
					k, c[n]);
	}
	float *out = l.score + (S::PARTS > 1 ? w * S::ROWS * S::SCORE_PITCH : 0);
	UNROLL
	for (int n = 0; n < N; n++)
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			out[((row + n) * 16 + tile_row(i)) * S::SCORE_PITCH + column * 16 +
			    tile_column(i)] = c[n].v[i];
}

DEVICE float attention_max8(float x)
{
	float y = wave_xor<1>(x);
	x = y > x ? y : x;
	y = wave_xor<2>(x);
	x = y > x ? y : x;
	y = wave_xor<4>(x);
	return y > x ? y : x;
}

/* The weight of score x; `most` is the row's maximum. Subtracting before multiplying by c
 * gives the maximum exactly the weight 2^ATTENTION_SHIFT, however large the scores are. */
DEVICE float attention_weight(float x, float most, float c)
{
	return fast_exp2(fma_f32(x - most, c, ATTENTION_SHIFT));
}

/* Sum over the 16 columns of a row, in the order of score_totals, so that both give the same
 * bits. Lane e of eight passes columns e and e + 8 in x. */
DEVICE float attention_sum16(const float *x)
{
	float sum = x[0] + x[1];
	sum += wave_xor<1>(sum);
	sum += wave_xor<4>(sum);
	return sum + wave_xor<2>(sum);
}

/* The scores of row r in one step, and their maximum. The step begins at column `from` and position
 * `at`; lane e of the row's eight has positions e, e + 8, ... */
template <class S>
DEVICE float attention_row_scores(const attention_lds<S> &l, int32_t r, int32_t from, int32_t at,
				  const attention_state &row, float *x)
{
	int32_t lane = (int32_t)lane_index() % 8;
	float most = ATTENTION_HIDDEN;
	UNROLL
	for (int i = 0; i < S::EACH; i++) {
		int32_t column = i * 8 + lane;
		x[i] = l.score[r * S::SCORE_PITCH + from + column];
		UNROLL
		for (int p = 1; p < S::PARTS; p++)
			x[i] += l.score[(p * S::ROWS + r) * S::SCORE_PITCH + from + column];
		if (at + column < row.first || at + column > row.last)
			x[i] = ATTENTION_HIDDEN;
		most = x[i] > most ? x[i] : most;
	}
	return attention_max8(most);
}

/* Turn these scores into weights, in place: all lanes of the row must have read theirs. Returns
 * the factor of the earlier sums. The arithmetic is that of attention_rows.h. */
template <class S>
DEVICE float attention_weigh_row(const attention_launch &a, const attention_lds<S> &l,
				 int32_t r, int32_t from, const float *x, float most,
				 attention_state *row)
{
	float all[2], c = a.scale * ATTENTION_LOG2E;
	most = most > row->max ? most : row->max;
	uint16_t *to = (uint16_t *)l.score + r * S::WEIGHT_PITCH + from + lane_index() % 8;
	UNROLL
	for (int i = 0; i < S::EACH; i++) {
		uint16_t h = f32_to_f16(attention_weight(x[i], most, c));
		all[i % 2] = i < 2 ? f16_to_f32(h) : all[i % 2] + f16_to_f32(h);
		to[i * 8] = h;
	}
	float before = fast_exp2((row->max - most) * c);
	row->sum = fma_f32(row->sum, before, attention_sum16(all));
	row->max = most;
	return before;
}

/* Add the softmax state (m, s) to (*max, *sum). The factors rescale the old and the new
 * values to the common maximum. */
DEVICE void attention_join(float c, float *max, float *sum, float m, float s,
			   float *old_factor, float *new_factor)
{
	float most = m > *max ? m : *max;
	*old_factor = fast_exp2((*max - most) * c);
	*new_factor = fast_exp2((m - most) * c);
	*sum = fma_f32(*sum, *old_factor, s * *new_factor);
	*max = most;
}

template <class S>
DEVICE void attention_weigh(const attention_launch &a, const attention_lds<S> &l,
			    int32_t block, bool ends)
{
	ONE_BY_ONE
	for (int32_t r = (int32_t)thread_index() / 8; r < S::ROWS; r += S::PASS) {
		attention_state row = l.row[r];
		float before[S::STEPS], total = 1, part = 0, x[S::STEPS][S::EACH], most[S::STEPS];
		UNROLL
		for (int s = 0; s < S::STEPS; s++)
			most[s] = attention_row_scores<S>(
				l, r, s * S::STEP, block * S::BLOCK + s * S::STEP, row, x[s]);
		wave_barrier(); /* all lanes have read the row's scores and its state */
		UNROLL
		for (int s = 0; s < S::STEPS; s++)
			before[s] = attention_weigh_row<S>(a, l, r, s * S::STEP, x[s], most[s],
							   &row);
		if (ends) {
			attention_join(a.scale * ATTENTION_LOG2E, &row.total_max,
				       &row.total_sum, row.max, row.sum, &total, &part);
			row.max = ATTENTION_NOTHING;
			row.sum = 0;
		}
		if (lane_index() % 8 != 0)
			continue;
		l.row[r] = row;
		UNROLL
		for (int s = 0; s < S::STEPS; s++)
			l.factor[s * S::ROWS + r] = before[s];
		l.factor[S::STEPS * S::ROWS + r] = total;
		l.factor[(S::STEPS + 1) * S::ROWS + r] = part;
	}
}

/* part *= factor, before a step. In a row's first step of a segment, the factor 0 clears
 * the sums of the segment before. */
template <class S>
DEVICE void attention_rescale(const float *factor, attention_sums<S> *sums)
{
	UNROLL
	for (int t = 0; t < S::TILES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			float f = factor[t * 16 + tile_row(i)];
			UNROLL
			for (int n = 0; n < S::VALUE_TILES; n++)
				sums->part[t][n].v[i] *= f;
		}
	}
}

/* part += weights * values of one step. */
template <class S>
DEVICE void attention_add(const attention_lds<S> &l, int32_t from, attention_sums<S> *sums)
{
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	const uint16_t *weights = (const uint16_t *)l.score;
	ONE_BY_ONE
	for (int32_t k = from; k < from + S::STEP; k += 16) {
		tile_a<TILE_F16> w[S::TILES];
		UNROLL
		for (int t = 0; t < S::TILES; t++)
			w[t] = tile_load_a<TILE_F16>(weights + t * 16 * S::WEIGHT_PITCH + k,
						     S::WEIGHT_PITCH);
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			if constexpr (S::VALUE_TILES > 4)
				schedule_barrier();
			tile_b<TILE_F16> v = tile_load_b_rows<TILE_F16>(
				l.v + k * S::VALUE_PITCH + column + n * 16, S::VALUE_PITCH);
			UNROLL
			for (int t = 0; t < S::TILES; t++)
				sums->part[t][n] = tile_mma(w[t], v, sums->part[t][n]);
		}
	}
}

template <class S>
DEVICE void attention_values(const attention_lds<S> &l, attention_sums<S> *sums)
{
	ONE_BY_ONE
	for (int32_t s = 0; s < S::STEPS; s++) {
		attention_rescale<S>(l.factor + s * S::ROWS, sums);
		attention_add<S>(l, s * S::STEP, sums);
	}
}

/* total = f0 * total + f1 * part, with two factors a row, after a segment's last block. */
template <class S>
DEVICE void attention_fold(const attention_lds<S> &l, attention_sums<S> *sums)
{
	UNROLL
	for (int t = 0; t < S::TILES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t r = t * 16 + tile_row(i);
			float total = l.factor[S::STEPS * S::ROWS + r];
			float part = l.factor[(S::STEPS + 1) * S::ROWS + r];
			UNROLL
			for (int n = 0; n < S::VALUE_TILES; n++)
				sums->total[t][n].v[i] =
					fma_f32(sums->total[t][n].v[i], total,
						sums->part[t][n].v[i] * part);
		}
	}
}
