/* SPDX-License-Identifier: Apache-2.0
 *
 * The spread kernels of attention.hip: steps of few tokens behind a long cache. A workgroup
 * has a tile of tokens, as in a whole kernel, and one segment of the positions, as in a
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
DEVICE bool attention_spread_tile(const attention_launch &a, int32_t tile, attention_job *j)
{
	int32_t each = a.tile_tok;
	ONE_BY_ONE
	for (int32_t b = 0; b < a.n_seq; b++) {
		int32_t first = a.first_tok[b], n = a.first_tok[b + 1] - first;
		if (n < 1)
			continue;
		int32_t p = a.position[first], room = attention_room(p);
		int32_t before = n < room ? n : room; /* tokens before segments grow */
		int32_t turn = (before + each - 1) >> a.tile_shift;
		int32_t tiles = turn + ((n - before + each - 1) >> a.tile_shift);
		if (tile >= tiles) {
			tile -= tiles;
			continue;
		}
		int32_t from = tile < turn ? tile * each : before + (tile - turn) * each;
		int32_t end = tile < turn ? before : n;
		j->b = b;
		j->token = first + from;
		j->n = end - from < each ? end - from : each;
		j->position = p + from;
		return true;
	}
	return false;
}

/* Index in work memory of segment 0 of tile y (grid y). `of`: number of the group of query heads,
 * below S (attention_launch.h). */
DEVICE size_t attention_spread_at(const attention_launch &a, const attention_job &j, int32_t y,
				  int32_t of)
{
	int32_t all = a.n_kv_heads * ATTENTION_SUBS(a.n_heads / a.n_kv_heads);
	return (size_t)(y * all + of) *
	       (size_t)ATTENTION_SPREAD_WORK(a.n_segments, a.tile_tok, j.heads, a.v_dim);
}

/* Find the workgroup's job. at: receives where in work memory it leaves its rows. Returns the
 * number of segments, or 0 if the workgroup has nothing to do. */
template <class S>
DEVICE int32_t attention_spread_job(const attention_launch &a, attention_job *j, size_t *at)
{
	int32_t i = attention_heads(a, j), y = (int32_t)group_index_y(), n;
	int32_t all = a.n_kv_heads * ATTENTION_SUBS(a.n_heads / a.n_kv_heads);
	if (!attention_spread_tile(a, a.first_tile + y, j) ||
	    !attention_segment<S>(a, i, j, &n))
		return 0;
	*at = attention_spread_at(a, *j, y, (int32_t)group_index_x() % all) +
	      (size_t)(i * ATTENTION_SPREAD_WORK(1, a.tile_tok, j->heads, a.v_dim));
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

template <class S> DEVICE void attention_rows_spread(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	size_t at;
	int32_t n = attention_spread_job<S>(a, &j, &at);
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

/* The row that a workgroup of the merge has, and its elements from d on. */
struct attention_merge_job {
	attention_job j;
	size_t at; /* index in work memory of the row */
	int32_t d, n; /* first element; number of segments */
};

/* Set the tile and the token of a workgroup of the merge; false: there is none. */
DEVICE bool attention_merge_token(const attention_launch &a, int32_t tile, int32_t token,
				  attention_job *j)
{
	if (!a.skips_single)
		return attention_spread_tile(a, tile, j) && token < j->n;
	j->b = j->token = tile;
	j->n = 1;
	j->position = a.position[tile];
	return true;
}

/* False if the workgroup has nothing to merge. */
DEVICE bool attention_merge_find(const attention_launch &a, attention_merge_job *m)
{
	int32_t group = a.n_heads / a.n_kv_heads, subs = ATTENTION_SUBS(group);
	int32_t heads = ATTENTION_HEADS(group), x = (int32_t)group_index_x();
	int32_t token = (int32_t)group_index_y() & (a.tile_tok - 1);
	int32_t y = (int32_t)group_index_y() >> a.tile_shift, head = x % a.n_heads;
	int32_t g = head / group, sub = head % group / heads, row = head % group % heads;
	attention_job *j = &m->j;
	m->d = x / a.n_heads * ATTENTION_MERGE_EACH;
	if (!attention_merge_token(a, a.first_tile + y, token, j) ||
	    !attention_segment<attention_smallest>(a, 0, j, &m->n) || m->n == 1)
		return false;
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	j->heads = heads;
	j->head = head;
	j->n_heads = 1;
	m->at = attention_spread_at(a, *j, y, g * subs + sub) +
		(size_t)((token * heads + row) * pitch);
	j->token += token;
	return true;
}

/* Load element d of AT_ONCE segments from s on. Behind the last one, the last one is
 * loaded again, so that no load depends on a branch. */
template <int AT_ONCE>
DEVICE void attention_merge_ask(const attention_parts &p, int32_t s, int32_t d, float *v)
{
	UNROLL
	for (int u = 0; u < AT_ONCE; u++) {
		int32_t at = s + u < p.n ? s + u : p.n - 1;
		v[u] = p.work[at * p.stride + ATTENTION_ROW_EXTRA + d];
	}
}

/* A thread has one element of one row. All of its loads are on their way at once, and half
 * of them before the factors are computed. */
DEVICE void attention_merge_row(const attention_launch &a)
{
	enum { HALF = ATTENTION_SEGMENTS / 2 };
	LDS(float, f, ATTENTION_MERGE_LDS);
	LDS(float, scale, ATTENTION_GROUP);
	attention_merge_job m;
	if (!attention_merge_find(a, &m))
		return;
	attention_parts p = {a.work + m.at,
			     ATTENTION_SPREAD_WORK(1, a.tile_tok, m.j.heads, a.v_dim), m.n};
	float v[2][HALF], total = 0;
	int32_t d = m.d + (int32_t)thread_index();
	bool has_value = d < a.v_dim;
	attention_merge_ask<HALF>(p, 0, has_value ? d : 0, v[0]);
	if (p.n > HALF)
		attention_merge_ask<HALF>(p, HALF, has_value ? d : 0, v[1]);
	attention_factors(a, m.j, p, f, f + ATTENTION_MERGE_TOP, scale);
	const float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP;
	UNROLL
	for (int h = 0; h < 2; h++) {
		if (h * HALF >= p.n)
			break;
		UNROLL
		for (int u = 0; u < HALF; u++) {
			int32_t s = (h * HALF + u) * ATTENTION_GROUP;
			total = fma_f32(total, f[s], v[h][u] * g[s]);
		}
	}
	if (has_value)
		a.y[((size_t)m.j.token * (size_t)a.n_heads + (size_t)m.j.head) *
			    (size_t)a.v_dim + (size_t)d] = f32_to_f16(total * scale[0] + 0.0f);
}
