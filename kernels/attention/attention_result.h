/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the sums of attention.hip into y. A whole kernel uses its own sums. In the split
 * kernels the last workgroup to finish merges the segments that all left in work memory.
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

/* Write a segment's rows to work memory: maximum, sum and values of each head. */
template <class S>
DEVICE void attention_leave(const attention_launch &a, const attention_job &j,
			    const attention_lds<S> &l, const attention_sums<S> &sums,
			    float *work)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	int32_t r = (int32_t)thread_index() / 8; /* a row that these eight lanes wrote */
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	if (lane_index() % 8 == 0 && r < j.n_heads) {
		work[r * pitch] = l.row[r].max;
		work[r * pitch + 1] = l.row[r].sum;
	}
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			int32_t d = column + n * 16 + tile_column(i);
			if (tile_row(i) < j.n_heads && d < a.v_dim)
				work[tile_row(i) * pitch + ATTENTION_ROW_EXTRA + d] =
					sums.part[0][n].v[i];
		}
}

/* Factors a thread computes if all segments exist. */
enum { ATTENTION_FACTORS = ATTENTION_SEGMENTS * ATTENTION_GROUP / (ATTENTION_WAVES * WAVE) };

/* True in the last of n workgroups to arrive. It then sees what all others wrote to work
 * memory. */
DEVICE bool attention_is_last(uint32_t *arrived, int32_t n, uint32_t *before)
{
	bool is_last = group_arrive(arrived, before) + 1 == (uint32_t)n;
	if (is_last && thread_index() == 0)
		*arrived = 0;
	return is_last;
}

/* A thread's part of the segments of one row: EACH of them, in order. */
struct attention_shares {
	enum { EACH = ATTENTION_FACTORS };
	float max[EACH], sum[EACH]; /* of each segment */
	float most[EACH];           /* maximum of the segment and all earlier ones */
};

/* The maximum over all segments before the thread's own. top: LDS in which threads
 * exchange their maxima. */
DEVICE float attention_top(attention_shares *t, float *top)
{
	/* threads of one row */
	constexpr int32_t THREADS = ATTENTION_WAVES * WAVE / ATTENTION_GROUP;
	int32_t me = (int32_t)thread_index(), x = me / ATTENTION_GROUP;
	float most = ATTENTION_NOTHING, others[THREADS];
	UNROLL
	for (int i = 0; i < t->EACH; i++)
		most = t->max[i] > most ? t->max[i] : most;
	top[me] = most;
	group_barrier();
	UNROLL
	for (int i = 0; i < THREADS; i++)
		others[i] = top[i * ATTENTION_GROUP + me % ATTENTION_GROUP];
	most = ATTENTION_NOTHING;
	UNROLL
	for (int i = 0; i < THREADS; i++)
		most = i < x && others[i] > most ? others[i] : most;
	return most;
}

/* Compute, for each row, the factors that merge n segments in order. LDS: f (3, segments,
 * rows) for the results; top to exchange maxima. This gives the bits of repeated
 * attention_join calls; only the sum needs a sequential loop. Missing segments change
 * nothing. */
DEVICE void attention_factors(const attention_launch &a, const attention_job &j,
			      const float *work, int32_t n, float *f, float *top, float *scale)
{
	attention_shares t;
	float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP, c = a.scale * ATTENTION_LOG2E;
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA, me = (int32_t)thread_index();
	int32_t r = me % ATTENTION_GROUP, first = me / ATTENTION_GROUP * t.EACH;
	UNROLL
	for (int i = 0; i < t.EACH; i++) {
		bool is_there = first + i < n && r < j.n_heads;
		const float *row = work + (is_there ? ((first + i) * j.heads + r) * pitch : 0);
		t.max[i] = is_there ? row[0] : ATTENTION_NOTHING;
		t.sum[i] = is_there ? row[1] : 0;
	}
	float most = attention_top(&t, top);
	UNROLL
	for (int i = 0; i < t.EACH; i++) {
		float now = t.max[i] > most ? t.max[i] : most;
		float part = fast_exp2((t.max[i] - now) * c);
		f[(first + i) * ATTENTION_GROUP + r] = fast_exp2((most - now) * c);
		g[(first + i) * ATTENTION_GROUP + r] = part;
		t.sum[i] *= part;
		most = now;
	}
	float *sum = g + ATTENTION_SEGMENTS * ATTENTION_GROUP;
	UNROLL
	for (int i = 0; i < t.EACH; i++)
		sum[(first + i) * ATTENTION_GROUP + r] = t.sum[i];
	if (first + t.EACH >= ATTENTION_SEGMENTS)
		top[ATTENTION_WAVES * WAVE + r] = most; /* maximum of all segments */
	group_barrier();
	if (me < j.n_heads) {
		float total = 0;
		for (int32_t s = 0; s < n; s += t.EACH) {
			UNROLL
			for (int i = 0; i < t.EACH; i++) {
				t.max[i] = f[(s + i) * ATTENTION_GROUP + me];
				t.sum[i] = sum[(s + i) * ATTENTION_GROUP + me];
			}
			UNROLL
			for (int i = 0; i < t.EACH; i++)
				total = fma_f32(total, t.max[i], t.sum[i]);
		}
		scale[me] = attention_scale(a, j.head + me, top[ATTENTION_WAVES * WAVE + me],
					    total);
	}
	group_barrier();
}

/* Elements [d, d + 8) of a segment's row of values; 0 if is_there is false or beyond
 * v_dim. */
DEVICE f32x8 attention_value8(const attention_launch &a, const float *row, bool is_there,
			      int32_t d)
{
	f32x8 out = {};
	const float *p = row + ATTENTION_ROW_EXTRA + d;
	if (a.v_dim % 8 == 0 && is_there) {
		u32x4 lo = *(const u32x4 *)p, hi = *(const u32x4 *)(p + 4);
		UNROLL
		for (int i = 0; i < 4; i++) {
			out[i] = bits_cast<float>((uint32_t)lo[i]);
			out[i + 4] = bits_cast<float>((uint32_t)hi[i]);
		}
		return out;
	}
	UNROLL
	for (int i = 0; i < 8; i++)
		out[i] = is_there && d + i < a.v_dim ? p[i] : 0;
	return out;
}

/* A thread merges eight elements of a row, loading AT_ONCE segments at once. */
struct attention_eight {
	enum { AT_ONCE = 4 };
	f32x8 v[AT_ONCE], total;
	int32_t r, d;
};

DEVICE void attention_ask8(const attention_launch &a, const attention_job &j,
			   const float *work, int32_t s, int32_t n, attention_eight *t)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	UNROLL
	for (int u = 0; u < attention_eight::AT_ONCE; u++)
		t->v[u] = attention_value8(
			a, work + (size_t)((s + u) * j.heads + t->r) * (size_t)pitch,
			s + u < n && t->r < j.n_heads && t->d < a.v_dim, t->d);
}

DEVICE void attention_add8(const float *f, int32_t s, int32_t n, attention_eight *t)
{
	const float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP;
	UNROLL
	for (int u = 0; u < attention_eight::AT_ONCE; u++) {
		int32_t at = (s + u) * ATTENTION_GROUP + t->r;
		if (s + u >= n)
			continue;
		UNROLL
		for (int i = 0; i < 8; i++)
			t->total[i] = fma_f32(t->total[i], f[at], t->v[u][i] * g[at]);
	}
}

/* Write y of the one token by merging n segments. The first values are loaded while the
 * factors are computed. */
template <class S>
DEVICE void attention_merge(const attention_launch &a, const attention_job &j,
			    const float *work, int32_t n, float *f, float *scale)
{
	constexpr int32_t EACH = S::VALUE / 8; /* threads of a row */
	static_assert((3 * ATTENTION_SEGMENTS * ATTENTION_GROUP + ATTENTION_WAVES * WAVE +
		       ATTENTION_GROUP) * 4 <=
		      (S::ROWS * S::KEY_PITCH + S::BLOCK * S::KEY_PITCH +
		       (S::SHARED ? 0 : S::BLOCK * S::VALUE_PITCH)) * 2 +
		      S::PARTS * S::ROWS * S::SCORE_PITCH * 4, "f is before scale");
	int32_t i = (int32_t)thread_index();
	attention_eight t = {};
	t.r = i / EACH;
	t.d = i % EACH * 8;
	attention_ask8(a, j, work, 0, n, &t);
	/* `top` follows the factors and sums in LDS. */
	float *top = f + 3 * ATTENTION_SEGMENTS * ATTENTION_GROUP;
	attention_factors(a, j, work, n, f, top, scale);
	for (; t.r < j.n_heads; i += ATTENTION_WAVES * WAVE) {
		if (i != (int32_t)thread_index())
			attention_ask8(a, j, work, 0, n, &t);
		t.total = f32x8{};
		for (int32_t s = 0; s < n; s += attention_eight::AT_ONCE) {
			if (s)
				attention_ask8(a, j, work, s, n, &t);
			attention_add8(f, s, n, &t);
		}
		uint16_t *y = a.y + ((size_t)j.token * (size_t)a.n_heads +
				     (size_t)(j.head + t.r)) * (size_t)a.v_dim;
		UNROLL
		for (int e = 0; e < 8; e++)
			if (t.d + e < a.v_dim)
				y[t.d + e] = f32_to_f16(t.total[e] * scale[t.r] + 0.0f);
		t.r = (i + ATTENTION_WAVES * WAVE) / EACH;
		t.d = (i + ATTENTION_WAVES * WAVE) % EACH * 8;
	}
}

/* Finish segment i of n. `part` is the index of the sequence and heads: it selects the
 * work memory and the counter shared with the other segments. */
template <class S>
DEVICE void attention_end(const attention_launch &a, const attention_job &j,
			  const attention_lds<S> &l, const attention_sums<S> &sums, int32_t i,
			  int32_t n, int32_t part)
{
	LDS(uint32_t, before, 1);
	if (n == 1) {
		attention_finish<S, false>(a, j, l, sums.part);
		return;
	}
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	float *work = a.work + (size_t)part * (size_t)ATTENTION_WORK(j.heads, a.v_dim);
	attention_leave<S>(a, j, l, sums, work + i * j.heads * pitch);
	if (attention_is_last(&a.arrived[part], n, before))
		attention_merge<S>(a, j, work, n, (float *)l.q, l.factor);
}
