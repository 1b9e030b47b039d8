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
	float max[TILE_ROWS], sum[TILE_ROWS]; /* of the current segment */
};

/* --- a block ---------------------------------------------------------------------- */

/* Multiply the wave's queries by its part of the block's keys: one of every SHARE tiles. */
template <class S> DEVICE void rows_scores(const attention_rows_lds<S> &l, tile_c *c)
{
	constexpr int TILES = S::STEPS * S::SCORES / S::SHARE;
	const uint16_t *q = l.q + rows_first<S>() * S::KEY_PITCH;
	const uint16_t *k = l.k + rows_part<S>() * 16 * S::KEY_PITCH;
	UNROLL
	for (int t = 0; t < TILES; t++)
		c[t] = tile_c{};
	UNROLL
	for (int i = 0; i < S::KEY / 16; i++) {
		schedule_barrier();
		tile_a<TILE_F16> x = tile_load_a<TILE_F16>(q + i * 16, S::KEY_PITCH);
		UNROLL
		for (int t = 0; t < TILES; t++)
			c[t] = tile_mma(x, tile_load_b<TILE_F16>(
						   k + t * S::SHARE * 16 * S::KEY_PITCH +
							   i * 16,
						   S::KEY_PITCH), c[t]);
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
		static_assert(S::STEPS * S::SCORES == S::SHARE, "one tile a wave");
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
		int32_t r = (int32_t)wave_index() * 16 + tile_row(i), last = l.last[r];
		int32_t first = S::MUTUAL ? l.first[r] : attention_seen(a.window, last);
		UNROLL
		for (int t = 0; t < S::STEPS * S::SCORES; t++) {
			int32_t at = block * S::BLOCK + t * 16 + tile_column(i);
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
	float most[TILE_ROWS], all[TILE_ROWS], scale = a.scale * ATTENTION_LOG2E;
	bool has[TILE_ROWS] = {}; /* constants, once the loops are unrolled */
	tile_c column;
	UNROLL
	for (int t = 0; t < S::SCORES; t++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int s = tile_slot(i);
			most[s] = has[s] ? max_f32(most[s], c[t].v[i]) : c[t].v[i];
			has[s] = true;
		}
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		most[s] = max_f32(tile_row_max(most[s]), sums->max[s]);
		before[s] = fast_exp2((sums->max[s] - most[s]) * scale);
		sums->max[s] = most[s];
	}
	UNROLL
	for (int t = 0; t < S::SCORES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			c[t].v[i] = attention_weight(c[t].v[i], most[tile_slot(i)], scale);
		tile_round_f16(&c[t]);
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			column.v[i] = t == 0 ? c[t].v[i] : column.v[i] + c[t].v[i];
	}
	tile_row_totals(column, all);
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++)
		sums->sum[s] = fma_f32(sums->sum[s], before[s], all[s]);
}

/* part *= factor; skipped if the factor is 1 in all rows of the wave. */
template <class S> DEVICE void rows_turn(const float *before, attention_rows_sums<S> *sums)
{
	bool changes = false;
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++)
		changes = changes || before[s] != 1;
	if (!wave_ballot(changes))
		return;
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			sums->part[n].v[i] *= before[tile_slot(i)];
	}
}

/* part += weights * values, for position tiles [from, to) of the block and this wave's
 * part of the elements. */
template <class S>
DEVICE void rows_values(const attention_rows_lds<S> &l, const tile_c *c, int from, int to,
			attention_rows_sums<S> *sums)
{
	const uint16_t *values = l.v + rows_part<S>() * S::VALUE_TILES * 16 *
					       (TILE_LINES_B ? S::VALUE_PITCH : 1);
	UNROLL
	for (int k = from; k < to; k++) {
		schedule_barrier();
		tile_a<TILE_F16> weights = tile_a_of_c<TILE_F16>(c[k], l.scratch);
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			tile_b<TILE_F16> v;
			if constexpr (TILE_LINES_B)
				v = tile_load_b<TILE_F16>(
					values + n * 16 * S::VALUE_PITCH + k * 16,
					S::VALUE_PITCH);
			else
				v = tile_load_b_rows<TILE_F16>(
					values + k * 16 * S::VALUE_PITCH + n * 16,
					S::VALUE_PITCH);
			sums->part[n] = tile_mma(weights, v, sums->part[n]);
			tile_pin(&sums->part[n]);
		}
	}
}

/* Start the next segment: clear its maximum and sums. */
template <class S> DEVICE void rows_segment(attention_rows_sums<S> *sums)
{
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
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
	/* distance in a tile_c of this lane's neighbouring rows */
	constexpr int NEXT = (int)TILE_ROWS == (int)TILE_C ? 1 : 2;
	float old_factor[TILE_ROWS], new_factor[TILE_ROWS], max[TILE_ROWS], sum[TILE_ROWS];
	float *total = l.total + wave_index() * 16;
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		max[s] = total[tile_row(s * NEXT)];
		sum[s] = total[S::STATES + tile_row(s * NEXT)];
		attention_join(a.scale * ATTENTION_LOG2E, &max[s], &sum[s], sums->max[s],
			       sums->sum[s], &old_factor[s], &new_factor[s]);
	}
	wave_barrier(); /* all lanes have read; lanes of one row write equal values */
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		total[tile_row(s * NEXT)] = max[s];
		total[S::STATES + tile_row(s * NEXT)] = sum[s];
	}
	wave_barrier();
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int s = tile_slot(i);
			sums->total[n].v[i] = fma_f32(sums->total[n].v[i], old_factor[s],
						      sums->part[n].v[i] * new_factor[s]);
		}
	}
}
