/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefill kernel of attention.hip for shapes in which a wave has 16 rows to itself.
 * Their scores, weights and sums stay in its registers; only keys, values and queries are
 * in LDS. This division of work is that of FlashAttention-2 (Dao, 2023).
 *
 * Heads of more than 128 elements do not fit: there two waves have 16 rows together. Each
 * multiplies half of a block's keys; they exchange the scores, and both make the weights of
 * all. Then each sums half of the values' elements.
 *
 * A block takes two barriers, or three where scores are exchanged. Its values are loaded
 * while scores are computed, and the next block's keys while values are summed. Eight waves
 * that share rows have no room for both: values overwrite the keys once scores are exchanged,
 * and a fourth barrier is before the next keys. A row's
 * bits are those of attention_block.h: the same products in the same order with the same
 * arithmetic. The elements of keys and values are multiples of eight.
 */
#pragma once
#include "kernels/attention/attention_result.h"
#include "kernels/attention/attention_rows_block.h"

/* --- a job ------------------------------------------------------------------------ */

template <class S>
DEVICE void rows_queries(const attention_launch &a, const attention_job &j,
			 const attention_rows_lds<S> &l)
{
	ONE_BY_ONE
	for (int32_t c = (int32_t)thread_index(); c < S::ROWS * S::KEY / 8; c += S::THREADS) {
		int32_t r = c / (S::KEY / 8), at = c % (S::KEY / 8) * 8, token, head;
		u32x4 x = {};
		if (attention_row<S>(j, r, &token, &head) && at < a.head_dim)
			x = *(const u32x4 *)(a.q + ((size_t)(j.token + token) *
						    (size_t)a.n_heads + (size_t)head) *
							   (size_t)a.head_dim + at);
		*(u32x4 *)(l.q + r * S::KEY_PITCH + at) = x;
	}
}

/* Store which positions row i of the workgroup sees. Rows beyond the tile's tokens see what the
 * last token does. */
template <class S>
DEVICE void rows_sight(const attention_launch &a, const attention_job &j,
		       const attention_rows_lds<S> &l, int32_t i)
{
	int32_t token = (i / 16 / S::SHARE * 16 + i % 16) / j.heads;
	if constexpr (S::BIDIRECTIONAL) {
		token = token < j.n ? token : j.n - 1;
		l.last[i] = a.last_seen[j.token + token];
		l.first[i] = attention_seen(a.window, j.position + token);
	} else {
		l.last[i] = j.position + token;
	}
}

template <class S>
DEVICE void rows_begin(const attention_launch &a, const attention_job &j,
		       const attention_rows_lds<S> &l, attention_rows_sums<S> *sums)
{
	attention_place<S>(a, j, attention_look<S>(a, j, j.from), l.place);
	rows_queries<S>(a, j, l);
	int32_t i = (int32_t)thread_index();
	if (i < S::STATES) {
		l.total[i] = ATTENTION_NOTHING;
		l.total[S::STATES + i] = 0;
		rows_sight<S>(a, j, l, i);
	}
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++)
		sums->total[n] = tile_c{};
}

/* Replace the maxima of the wave's rows by their final factors (attention_scale). */
template <class S>
DEVICE void rows_scales(const attention_launch &a, const attention_job &j,
			const attention_rows_lds<S> &l)
{
	int32_t i = (int32_t)lane_index(), token, head;
	float *total = l.total + wave_index() * 16 + i;
	wave_barrier();
	if (i < 16 && attention_row<S>(j, rows_first<S>() + i, &token, &head))
		*total = attention_scale(a, head, *total, total[S::STATES]);
	wave_barrier();
}

/* Write y through the LDS of the queries. Each wave uses its own rows and elements only. */
template <class S>
DEVICE void rows_finish(const attention_launch &a, const attention_job &j,
			const attention_rows_lds<S> &l, const attention_rows_sums<S> &sums)
{
	constexpr int32_t PIECES = S::VALUE_TILES * 2;
	static_assert(S::VALUE <= S::KEY, "it has room");
	int32_t first = rows_first<S>(), column = rows_part<S>() * S::VALUE_TILES * 16;
	rows_scales<S>(a, j, l);
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		int32_t r = first + score_query_at(i);
		float scale = l.total[(int32_t)wave_index() * 16 + score_query_at(i)];
		schedule_barrier();
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++)
			l.q[r * S::KEY_PITCH + column + n * 16 + score_other_at(i)] =
				f32_to_f16(sums.total[n].v[i] * scale + 0.0f);
	}
	wave_barrier();
	ONE_BY_ONE
	for (int32_t c = (int32_t)lane_index(); c < 16 * PIECES; c += WAVE) {
		int32_t r = first + c / PIECES, at = column + c % PIECES * 8, token, head;
		if (attention_row<S>(j, r, &token, &head) && at < a.v_dim)
			*(u32x4 *)(a.y + ((size_t)(j.token + token) * (size_t)a.n_heads +
					  (size_t)head) * (size_t)a.v_dim + at) =
				*(const u32x4 *)(l.q + r * S::KEY_PITCH + at);
	}
}

/* Blocks from `clear` to `full` are visible to all rows entirely, so they need no mask. */
struct attention_rows_seen {
	int32_t clear, full;
};

template <class S>
DEVICE attention_rows_seen rows_seen(const attention_launch &a, const attention_job &j)
{
	int32_t last = j.position + j.n - 1;
	/* last position that all rows see */
	int32_t all = S::BIDIRECTIONAL ? a.last_seen[j.token] : j.position;
	return {(attention_seen(a.window, last) + S::BLOCK - 1) / S::BLOCK,
		(all + 1) / S::BLOCK - 1};
}

template <class S>
DEVICE void rows_block(const attention_launch &a, const attention_job &j,
		       const attention_rows_lds<S> &l, const attention_rows_seen &seen,
		       int32_t block, attention_rows_sums<S> *sums)
{
	uint32_t *place = l.place + ((block - j.from) & 1) * S::BLOCK;
	uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
	constexpr int HALF = S::SCORES / 2;
	tile_c c[S::SCORES];
	u32x4 values[S::VALUE_HALF], keys[S::KEY_HALF];
	float before[SCORE_SLOTS];
	attention_spot spot = attention_look<S>(a, j, block + 1);
	group_barrier(); /* keys are in LDS; the last values are no longer needed */
	rows_ask_values<S>(a, place, 0, values);
	rows_scores<S>(l, c);
	attention_place<S>(a, j, spot, next);
	rows_exchange<S>(l, c);
	rows_land_values<S>(0, values, l);
	rows_ask_values<S>(a, place, 1, values);
	if (block < seen.clear || block > seen.full)
		rows_hide<S>(a, l, block, c);
	rows_weigh<S>(a, c, sums, before);
	rows_rescale<S>(before, sums);
	rows_land_values<S>(1, values, l);
	group_barrier(); /* values are in LDS; keys are no longer needed */
	rows_ask_keys<S>(a, next, 0, keys); /* after the last block: rows again */
	rows_values<S>(l, c, 0, HALF, sums);
	if constexpr (!S::OVER) {
		rows_land_keys<S>(0, keys, l);
		rows_ask_keys<S>(a, next, 1, keys);
	}
	rows_values<S>(l, c, HALF, S::SCORES, sums);
	if constexpr (S::OVER)
		group_barrier(); /* values are no longer needed */
	rows_land_keys<S>(S::OVER ? 0 : 1, keys, l);
}

/* Load the queries and the first block's keys. */
template <class S>
DEVICE void rows_start(const attention_launch &a, const attention_job &j,
		       const attention_rows_lds<S> &l, attention_rows_sums<S> *sums)
{
	rows_begin<S>(a, j, l, sums);
	group_barrier();
	UNROLL
	for (int h = 0; h < 2; h++) {
		u32x4 keys[S::KEY_HALF];
		rows_ask_keys<S>(a, l.place, h, keys);
		rows_land_keys<S>(h, keys, l);
	}
}

template <class S> DEVICE void attention_rows(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	if (!attention_tile(a, &j))
		return;
	attention_range<S>(a, &j);
	if constexpr (S::BIDIRECTIONAL) {
		j.last = a.last_seen[j.token + j.n - 1];
		j.to = j.last / S::BLOCK;
	}
	attention_rows_lds<S> l = attention_rows_lds_of<S>(lds);
	attention_rows_sums<S> sums;
	attention_rows_seen seen = rows_seen<S>(a, j);
	rows_start<S>(a, j, l, &sums);
	int32_t end = attention_segment_end(j, j.from);
	ONE_BY_ONE
	for (int32_t block = j.from; block <= j.to; end += j.each) {
		rows_segment<S>(&sums);
		ONE_BY_ONE
		for (; block <= end && block <= j.to; block++)
			rows_block<S>(a, j, l, seen, block, &sums);
		rows_fold<S>(a, l, &sums);
	}
	rows_finish<S>(a, j, l, sums);
}
