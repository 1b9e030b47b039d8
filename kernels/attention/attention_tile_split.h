/* SPDX-License-Identifier: Apache-2.0
 *
 * The tile_split kernels of attention.hip: steps of few tokens behind a long cache. A workgroup
 * has a tile of tokens, as in a prefill kernel, and one segment of the positions, as in a
 * split kernel. So all compute units read keys and values, and read them once for a tile.
 *
 * Each workgroup leaves its rows in work memory. attention_merge_kernel merges them, a
 * row a workgroup. If the last workgroup of a tile merged them, one compute unit would read
 * up to 64 rows of all segments, and all others would wait. Behind long caches
 * attention_merge_kernel merges the segments of split kernels, too.
 *
 * A tile begins at its sequence's first token of the step, and at the position where
 * segments become longer. So all rows of a tile have segments of one length, and a row's segments
 * are the same as without the other rows.
 */
#pragma once
#include "kernels/attention/attention_merge.h"
#include "kernels/attention/attention_rows.h"

/* Set the job to tile number `tile`, counted over all sequences; false: there are fewer tiles. */
DEVICE bool attention_tile_split_tile(const attention_launch &a, int32_t tile, attention_job *j)
{
	int32_t each = a.tile_tok;
	ONE_BY_ONE
	for (int32_t b = 0; b < a.n_seq; b++) {
		int32_t first = a.first_tok[b], n = a.first_tok[b + 1] - first;
		if (n < 1)
			continue;
		int32_t p = a.position[first], room = attention_room(p);
		int32_t before = n < room ? n : room; /* tokens before segments grow */
		int32_t n_before = (before + each - 1) >> a.tile_shift;
		int32_t tiles = n_before + ((n - before + each - 1) >> a.tile_shift);
		if (tile >= tiles) {
			tile -= tiles;
			continue;
		}
		int32_t from = tile < n_before ? tile * each : before + (tile - n_before) * each;
		int32_t end = tile < n_before ? before : n;
		j->b = b;
		j->token = first + from;
		j->n = end - from < each ? end - from : each;
		j->position = p + from;
		return true;
	}
	return false;
}

/* Index in work memory of segment 0 of tile y (grid y). of: number of the group of query heads,
 * below all, which is S (attention_launch.h); stride: floats between segments. */
DEVICE size_t attention_tile_split_at(const attention_launch &a, int32_t y, int32_t all, int32_t of,
				      int32_t stride)
{
	return (size_t)(y * all + of) * (size_t)(a.n_segments * stride);
}

/* Find the workgroup's job. at: receives where in work memory it leaves its rows. Returns the
 * number of segments, or 0 if the workgroup has nothing to do. */
template <class S>
DEVICE int32_t attention_tile_split_job(const attention_launch &a, attention_job *j, size_t *at)
{
	int32_t i = attention_heads(a, j), y = (int32_t)group_index_y(), n;
	int32_t all = a.n_kv_heads * ATTENTION_SUBS(a.n_heads / a.n_kv_heads);
	if (!attention_tile_split_tile(a, a.first_tile + y, j) ||
	    !attention_segment<S>(a, i, j, &n))
		return 0;
	int32_t stride = ATTENTION_TILE_SPLIT_WORK(1, a.tile_tok, j->heads, a.v_dim);
	*at = attention_tile_split_at(a, y, all, (int32_t)group_index_x() % all, stride) +
	      (size_t)(i * stride);
	return n;
}

/* --- by rows ---------------------------------------------------------------------- */

/* Write the wave's rows and elements of a segment to work memory. */
template <class S>
DEVICE void rows_leave(const attention_launch &a, const attention_job &j,
		       const attention_rows_sums<S> &sums, float *work)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA, n_rows = j.n * j.heads;
	int32_t first = rows_first<S>(), column = rows_part<S>() * S::VALUE_TILES * 16;
	UNROLL
	for (int s = 0; s < SCORE_SLOTS; s++) {
		int32_t r = first + score_slot_query(s);
		/* Lanes of one query have equal numbers. */
		if (r < n_rows && column == 0) {
			work[r * pitch] = sums.max[s];
			work[r * pitch + 1] = sums.sum[s];
		}
	}
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		int32_t r = first + score_query_at(i);
		schedule_barrier();
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			int32_t d = column + n * 16 + score_other_at(i);
			if (r < n_rows && d < a.v_dim)
				work[r * pitch + ATTENTION_ROW_EXTRA + d] = sums.part[n].v[i];
		}
	}
}

template <class S> DEVICE void attention_rows_tile_split(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	size_t at;
	int32_t n = attention_tile_split_job<S>(a, &j, &at);
	if (n == 0)
		return;
	attention_rows_lds<S> l = attention_rows_lds_of<S>(lds);
	attention_rows_sums<S> sums;
	attention_rows_seen seen = rows_seen<S>(a, j);
	rows_start<S>(a, j, l, &sums);
	rows_segment<S>(&sums);
	ONE_BY_ONE
	for (int32_t block = j.from; block <= j.to; block++)
		rows_block<S>(a, j, l, seen, block, &sums);
	if (n > 1) {
		rows_leave<S>(a, j, sums, a.work + at);
		return;
	}
	rows_fold<S>(a, l, &sums);
	rows_finish<S>(a, j, l, sums);
}

/* --- the merge -------------------------------------------------------------------- */

/* The only constants of a shape that attention_range reads. */
struct attention_smallest {
	enum : int { BLOCK = ATTENTION_SEGMENT, SEGMENT = 1 };
};

/* What a thread of the merge has: one element of a row. */
struct attention_merge_job {
	attention_job j;
	size_t at; /* index in work memory of the row */
	int32_t d; /* the element */
	int32_t n; /* number of segments */
	int32_t tile, token; /* number of the launch's tile; the row's token in it */
};

/* Set all but the number of segments. Reads no memory, and does not divide. */
DEVICE void attention_merge_place(const attention_launch &a, const attention_merge_launch &r,
				  attention_merge_job *m)
{
	int32_t x = (int32_t)group_index_x(), y = (int32_t)group_index_y();
	int32_t head = x >> r.parts_shift;
	int32_t g = (int32_t)((uint64_t)(uint32_t)head * r.per_group >> 31);
	int32_t of = g * r.subs + (head - g * r.group) / ATTENTION_GROUP;
	int32_t row = (head - g * r.group) % ATTENTION_GROUP;
	m->d = (x - (head << r.parts_shift)) * ATTENTION_MERGE_EACH + (int32_t)thread_index();
	m->tile = y >> a.tile_shift;
	m->token = y & (a.tile_tok - 1);
	m->j.head = head;
	m->at = attention_tile_split_at(a, m->tile, r.all, of, r.stride) +
		(size_t)((m->token * r.heads + row) * (a.v_dim + ATTENTION_ROW_EXTRA));
}

/* Set the number of segments. False if the workgroup has nothing to merge. */
DEVICE bool attention_merge_find(const attention_launch &a, int32_t position,
				 attention_merge_job *m)
{
	attention_job *j = &m->j;
	if (a.skips_single) {
		j->b = j->token = m->tile;
		j->n = 1;
		j->position = position;
	} else if (!attention_tile_split_tile(a, a.first_tile + m->tile, j) || m->token >= j->n) {
		return false;
	}
	j->token += m->token;
	return attention_segment<attention_smallest>(a, 0, j, &m->n) && m->n > 1;
}

/* What a segment does to a row's merge: the numbers of attention_factors. */
struct attention_merge_step {
	float before; /* factor of what the segments before it made */
	float own;    /* factor of the segment's values */
	float sum;    /* its sum of weights, with that factor */
	float most;   /* the largest score of it and of all before it */
};

/* The largest maximum of the segments before the thread's own. top: LDS, (ATTENTION_WAVES). */
DEVICE float attention_merge_most(float max, float *top)
{
	int32_t lane = (int32_t)lane_index(), wave = (int32_t)wave_index();
	UNROLL
	for (int n = 1; n < WAVE; n *= 2) {
		float other = wave_shuffle(max, (uint32_t)(lane < n ? lane : lane - n));
		max = other > max ? other : max;
	}
	if (lane == WAVE - 1)
		top[wave] = max;
	float most = wave_shuffle(max, (uint32_t)(lane ? lane - 1 : 0));
	most = lane ? most : ATTENTION_NOTHING;
	group_barrier();
	UNROLL
	for (int w = 0; w < ATTENTION_WAVES - 1; w++)
		most = w < wave && top[w] > most ? top[w] : most;
	return most;
}

/* Compute the steps of n segments, a segment a thread, in LDS. max, sum: what the thread's own has
 * left. A segment that is not there changes nothing. */
DEVICE void attention_merge_steps(const attention_launch &a, int32_t n, float max, float sum,
				  u32x4 *steps)
{
	LDS(float, top, ATTENTION_WAVES);
	int32_t me = (int32_t)thread_index();
	float c = a.scale * ATTENTION_LOG2E;
	max = me < n ? max : ATTENTION_NOTHING;
	float most = attention_merge_most(max, top);
	float now = max > most ? max : most, own = fast_exp2((max - now) * c);
	if (me < ATTENTION_SEGMENTS)
		steps[me] = bits_cast<u32x4>(attention_merge_step{
			fast_exp2((most - now) * c), own, me < n ? sum * own : 0, now});
	group_barrier();
}

/* A thread has one element of one row. It asks for all segments that the launch may have at once,
 * before it knows how many the row has: the position comes from memory, too. */
DEVICE void attention_merge_row(const attention_launch &a, const attention_merge_launch &r)
{
	enum { AT_ONCE = ATTENTION_MERGE_AT_ONCE };
	LDS(u32x4, steps, ATTENTION_SEGMENTS);
	attention_merge_job m;
	attention_merge_place(a, r, &m);
	int32_t me = (int32_t)thread_index();
	int32_t position = a.skips_single ? load_global<int32_t>(a.position + m.tile +
								 a.first_tile) : 0;
	const float *work = a.work + m.at;
	const float *state = work + (me < a.n_segments ? me : 0) * r.stride;
	float max = load_global<float>(state), weights = load_global<float>(state + 1);
	float v[ATTENTION_SEGMENTS], total = 0, sum = 0;
	bool has_value = m.d < a.v_dim;
	work += ATTENTION_ROW_EXTRA + (has_value ? m.d : 0);
	UNROLL
	for (int first = 0; first < ATTENTION_SEGMENTS; first += AT_ONCE) {
		if (first >= a.n_segments)
			continue;
		UNROLL
		for (int s = first; s < first + AT_ONCE; s++)
			v[s] = load_global<float>(work + s * r.stride);
	}
	if (!attention_merge_find(a, position, &m))
		return;
	attention_merge_steps(a, m.n, max, weights, steps);
	UNROLL
	for (int first = 0; first < ATTENTION_SEGMENTS; first += AT_ONCE) {
		if (first >= m.n)
			continue;
		UNROLL
		for (int s = first; s < first + AT_ONCE; s++) {
			auto step = bits_cast<attention_merge_step>((u32x4)steps[s]);
			/* Nobody has written what lies behind the last segment. */
			float own = s < m.n ? v[s] * step.own : 0;
			total = fma_f32(total, step.before, own);
			sum = fma_f32(sum, step.before, step.sum);
		}
	}
	auto end = bits_cast<attention_merge_step>((u32x4)steps[m.n - 1]);
	float scale = attention_scale(a, m.j.head, end.most, sum);
	if (has_value)
		a.y[((size_t)m.j.token * (size_t)a.n_heads + (size_t)m.j.head) *
			    (size_t)a.v_dim + (size_t)m.d] = f32_to_f16(total * scale + 0.0f);
}
