/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the sums of attention.hip into y. A prefill kernel uses its own sums. A split kernel leaves
 * its sums in work memory, for attention_merge.h.
 */
#pragma once
#include "kernels/attention/attention_job.h"

/* The factor of a row's sum of values: 1 / (sum of weights, with the sink's). */
DEVICE float attention_scale(const attention_launch &a, int32_t head, float max, float sum)
{
	if (!a.sinks)
		return fast_rcp(sum);
	max *= a.scale * ATTENTION_LOG2E;
	float sink = a.sinks[head] * ATTENTION_LOG2E, most = sink > max ? sink : max;
	float f = fast_exp2(max - most);
	return f * fast_rcp(fma_f32(sum, f, fast_exp2(sink - most + ATTENTION_SHIFT)));
}

/* Write y for all rows, from the totals (IS_TOTAL) or from a single segment. Adding 0.0
 * avoids -0, whose sign would depend on the number of zeros added. */
template <class S, bool IS_TOTAL>
DEVICE void attention_finish(const attention_launch &a, const attention_job &j,
			     const attention_lds<S> &l,
			     const tile_c (*values)[S::VALUE_TILES])
{
	uint32_t *where = (uint32_t *)l.score; /* (ROWS): index of each row's head in y */
	group_barrier();                       /* factors and weights are no longer needed */
	int32_t of = (int32_t)thread_index(), token, head;
	if (of < S::ROWS) {
		bool is_row = attention_row<S>(j, of, &token, &head);
		attention_state row = l.row[of];
		where[of] = is_row ? (uint32_t)((j.token + token) * a.n_heads + head)
				   : ATTENTION_NOWHERE;
		l.factor[of] = !is_row ? 0
			       : attention_scale(a, head,
						 IS_TOTAL ? row.total_max : row.max,
						 IS_TOTAL ? row.total_sum : row.sum);
	}
	group_barrier();
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	UNROLL
	for (int t = 0; t < S::TILES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t r = t * 16 + tile_row(i);
			if (where[r] == ATTENTION_NOWHERE)
				continue;
			uint16_t *y = a.y + (size_t)where[r] * (size_t)a.v_dim;
			UNROLL
			for (int n = 0; n < S::VALUE_TILES; n++) {
				int32_t d = column + n * 16 + tile_column(i);
				if (d < a.v_dim)
					y[d] = f32_to_f16(values[t][n].v[i] * l.factor[r] +
							  0.0f);
			}
		}
	}
}

/* Write a segment's rows to work memory: maximum, sum and values of each. */
template <class S>
DEVICE void attention_leave(const attention_launch &a, const attention_job &j,
			    const attention_lds<S> &l, const attention_sums<S> &sums,
			    float *work)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	static_assert(S::TILES == 1 && S::ROWS == S::PASS, "eight lanes a row");
	int32_t n_rows = (j.n - 1) * j.heads + j.n_heads;
	int32_t r = (int32_t)thread_index() / 8; /* a row that these eight lanes wrote */
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	if (lane_index() % 8 == 0 && r < n_rows) {
		work[r * pitch] = l.row[r].max;
		work[r * pitch + 1] = l.row[r].sum;
	}
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			int32_t d = column + n * 16 + tile_column(i);
			if (tile_row(i) < n_rows && d < a.v_dim)
				work[tile_row(i) * pitch + ATTENTION_ROW_EXTRA + d] =
					sums.part[0][n].v[i];
		}
}
