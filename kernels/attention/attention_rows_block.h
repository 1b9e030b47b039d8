/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_rows.h's work on one block of positions in LDS: scores, weights, values.
 */
#pragma once
#include "kernels/attention/attention_block.h"
#include "kernels/attention/attention_rows_lds.h"

/* Sums and softmax state of a wave's 16 rows. */
template <class S> struct attention_rows_sums {
	tile_c part[S::VALUE_TILES], total[S::VALUE_TILES];
	float max[SCORE_SLOTS], sum[SCORE_SLOTS]; /* of the current segment */
	bool is_new; /* no block of it has been added: `part` is 0 */
};

/* --- a block ---------------------------------------------------------------------- */

/* What a step over K multiplies. */
template <class S> struct rows_score_step {
	score_query q;
	score_key k[S::SCORES / S::SHARE];
};

template <class S>
DEVICE void rows_score_load(const uint16_t *q, const uint16_t *k, int step,
			    rows_score_step<S> *out)
{
	out->q = score_load_query(q + step * 16, S::KEY_PITCH);
	UNROLL
	for (int t = 0; t < S::SCORES / S::SHARE; t++)
		out->k[t] = score_load_key(k + t * S::SHARE * 16 * S::KEY_PITCH + step * 16,
					   S::KEY_PITCH);
}

/* Multiply the wave's queries by its part of the block's keys: one of every SHARE tiles. The next
 * step is loaded while one is multiplied: few waves are there to hide the wait for LDS. */
template <class S> DEVICE void rows_scores(const attention_rows_lds<S> &l, tile_c *c)
{
	constexpr int TILES = S::SCORES / S::SHARE, STEPS = S::KEY / 16;
	const uint16_t *q = l.q + rows_first<S>() * S::KEY_PITCH;
	const uint16_t *k = l.k + rows_part<S>() * 16 * S::KEY_PITCH;
	rows_score_step<S> step[2];
	UNROLL
	for (int t = 0; t < TILES; t++)
		c[t] = tile_c{};
	rows_score_load<S>(q, k, 0, &step[0]);
	UNROLL
	for (int i = 0; i < STEPS; i++) {
		schedule_barrier();
		if (i + 1 < STEPS)
			rows_score_load<S>(q, k, i + 1, &step[(i + 1) % 2]);
		schedule_barrier();
		UNROLL
		for (int t = 0; t < TILES; t++)
			c[t] = score_mma(step[i % 2].q, step[i % 2].k[t], c[t]);
		UNROLL
		for (int t = 0; t < TILES; t++)
			tile_pin(&c[t]);
	}
}

/* Waves that share rows give each other their scores, by LDS. With SHARE = 1 this does nothing. */
template <class S> DEVICE void rows_exchange(const attention_rows_lds<S> &l, tile_c *c)
{
	if constexpr (S::SHARE > 1) {
		struct tile_words {
			u32x4 v[2];
		};
		static_assert(S::SCORES == S::SHARE, "one tile a wave");
		u32x4 *mine = (u32x4 *)l.scratch + lane_index();
		const u32x4 *all = mine - rows_part<S>() * (S::SCRATCH / 8);
		tile_words words = bits_cast<tile_words>(c[0]);
		mine[0] = words.v[0];
		mine[WAVE] = words.v[1];
		group_barrier(); /* scores are in LDS */
		UNROLL
		for (int t = 0; t < S::SHARE; t++)
			c[t] = bits_cast<tile_c>(tile_words{
				{all[t * (S::SCRATCH / 8)], all[t * (S::SCRATCH / 8) + WAVE]}});
	}
}

/* Set the scores of positions that a row does not see to -inf. */
template <class S>
DEVICE void rows_hide(const attention_launch &a, const attention_rows_lds<S> &l,
		      int32_t block, tile_c *c)
{
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		schedule_barrier();
		int32_t r = (int32_t)wave_index() * 16 + score_query_at(i), last = l.last[r];
		int32_t first = S::BIDIRECTIONAL ? l.first[r] : attention_seen(a.window, last);
		UNROLL
		for (int t = 0; t < S::SCORES; t++) {
			int32_t at = block * S::BLOCK + t * 16 + score_other_at(i);
			if (at < first || at > last)
				c[t].v[i] = ATTENTION_HIDDEN;
		}
	}
}

/* Turn scores into weights. before: receives the factors of the earlier sums. */
template <class S>
DEVICE void rows_weigh(const attention_launch &a, tile_c *c, attention_rows_sums<S> *sums,
		       float *before)
{
	float most[SCORE_SLOTS], all[SCORE_SLOTS], scale = a.scale * ATTENTION_LOG2E;
	bool has[SCORE_SLOTS] = {}; /* constants, once the loops are unrolled */
	tile_c column;
	UNROLL
	for (int t = 0; t < S::SCORES; t++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int s = score_slot(i);
			most[s] = has[s] ? max_f32(most[s], c[t].v[i]) : c[t].v[i];
			has[s] = true;
		}
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++) {
		most[s] = max_f32(score_max(most[s]), sums->max[s]);
		before[s] = fast_exp2((sums->max[s] - most[s]) * scale);
		sums->max[s] = most[s];
	}
	UNROLL
	for (int t = 0; t < S::SCORES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			c[t].v[i] = attention_weight(c[t].v[i], most[score_slot(i)], scale);
		tile_round_f16(&c[t]);
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			column.v[i] = t == 0 ? c[t].v[i] : column.v[i] + c[t].v[i];
	}
	score_totals(column, all);
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++)
		sums->sum[s] = fma_f32(sums->sum[s], before[s], all[s]);
}

/* part *= factor; skipped if the factor is 1 in all rows of the wave, or nothing is there. */
template <class S> DEVICE void rows_rescale(const float *before, attention_rows_sums<S> *sums)
{
	bool changes = false, is_new = sums->is_new;
	sums->is_new = false;
	if (is_new)
		return;
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++)
		changes = changes || before[s] != 1;
	if (!wave_ballot(changes))
		return;
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			sums->part[n].v[i] *= before[score_slot(i)];
	}
}

/* The values of tile i of a wave's: VALUE_TILES of position tile `from`, then of the next. */
template <class S> DEVICE score_value rows_value(const uint16_t *values, int from, int i)
{
	return score_load_value(values + i % S::VALUE_TILES * 16 * S::VALUE_PITCH +
					(from + i / S::VALUE_TILES) * 16, S::VALUE_PITCH);
}

/* part += weights * values, for position tiles [from, to) of the block and this wave's
 * part of the elements. Values are loaded a tile ahead, as rows_scores does it. */
template <class S>
DEVICE void rows_values(const attention_rows_lds<S> &l, const tile_c *c, int from, int to,
			attention_rows_sums<S> *sums)
{
	constexpr int N = S::VALUE_TILES;
	const uint16_t *values = l.v + rows_part<S>() * N * 16 * S::VALUE_PITCH;
	score_weight weights;
	score_value v[2];
	schedule_barrier();
	v[0] = rows_value<S>(values, from, 0);
	UNROLL
	for (int i = 0; i < (to - from) * N; i++) {
		if (i % N == 0)
			weights = score_weight_of(c[from + i / N]);
		if (i + 1 < (to - from) * N)
			v[(i + 1) % 2] = rows_value<S>(values, from, i + 1);
		schedule_barrier();
		sums->part[i % N] = score_add(weights, v[i % 2], sums->part[i % N]);
		tile_pin(&sums->part[i % N]);
	}
}

/* Start the next segment: clear its maximum and sums. */
template <class S> DEVICE void rows_segment(attention_rows_sums<S> *sums)
{
	sums->is_new = true;
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++) {
		sums->max[s] = ATTENTION_NOTHING;
		sums->sum[s] = 0;
	}
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++)
		sums->part[n] = tile_c{};
}

/* total = f0 * total + f1 * part, with two factors a row, after a segment's last block. */
template <class S>
DEVICE void rows_fold(const attention_launch &a, const attention_rows_lds<S> &l,
		      attention_rows_sums<S> *sums)
{
	float old_factor[SCORE_SLOTS], new_factor[SCORE_SLOTS], max[SCORE_SLOTS];
	float sum[SCORE_SLOTS];
	float *total = l.total + wave_index() * 16;
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++) {
		max[s] = total[score_slot_query(s)];
		sum[s] = total[S::STATES + score_slot_query(s)];
		attention_join(a.scale * ATTENTION_LOG2E, &max[s], &sum[s], sums->max[s],
			       sums->sum[s], &old_factor[s], &new_factor[s]);
	}
	wave_barrier(); /* all lanes have read; lanes of one row write equal values */
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++) {
		total[score_slot_query(s)] = max[s];
		total[S::STATES + score_slot_query(s)] = sum[s];
	}
	wave_barrier();
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int s = score_slot(i);
			sums->total[n].v[i] = fma_f32(sums->total[n].v[i], old_factor[s],
						      sums->part[n].v[i] * new_factor[s]);
		}
	}
}
