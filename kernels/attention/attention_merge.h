/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the segments of the split kernels of attention.hip: the last workgroup to finish
 * reads what all have left in work memory, and writes y. Where a launch of its own does
 * that instead (merges_apart), see attention_tile_split.h.
 */
#pragma once
#include "kernels/attention/attention_result.h"

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

/* The partial results of some rows that the segments of one token have left in work memory. Row r
 * of segment i is at work + i * stride + r * (v_dim + extra). */
struct attention_parts {
	const float *work;
	int32_t stride, n; /* stride: floats from segment to segment; n: segments */
};

/* A thread's share of one row's segments: EACH consecutive ones. */
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

/* Compute, for each row, the factors that merge the segments in order. LDS: f (3, segments,
 * rows) for the results; top to exchange maxima. This gives the bits of repeated
 * attention_join calls; only the sum needs a sequential loop. Missing segments change
 * nothing. */
DEVICE void attention_factors(const attention_launch &a, const attention_job &j,
			      const attention_parts &p, float *f, float *top, float *scale)
{
	attention_shares t;
	float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP, c = a.scale * ATTENTION_LOG2E;
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA, me = (int32_t)thread_index();
	int32_t r = me % ATTENTION_GROUP, first = me / ATTENTION_GROUP * t.EACH;
	UNROLL
	for (int i = 0; i < t.EACH; i++) {
		bool is_there = first + i < p.n && r < j.n_heads;
		const float *row =
			p.work + (is_there ? (first + i) * p.stride + r * pitch : 0);
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
		for (int32_t s = 0; s < p.n; s += t.EACH) {
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

/* Elements [d, d + 8) of a segment's row of values; 0 beyond v_dim. */
DEVICE f32x8 attention_value8(const attention_launch &a, const float *row, int32_t d)
{
	f32x8 out = {};
	const float *p = row + ATTENTION_ROW_EXTRA + d;
	if (a.v_dim % 8 == 0) {
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
		out[i] = d + i < a.v_dim ? p[i] : 0;
	return out;
}

/* A thread merges eight elements of a row, AT_ONCE segments at once. While it adds these,
 * as many more are on their way. */
struct attention_eight {
	enum { AT_ONCE = 4 };
	f32x8 v[2][AT_ONCE], total;
	int32_t r, d;
};

/* Ask for AT_ONCE segments from s on. Behind the last one, the last one is loaded again,
 * so that no load depends on a branch. Threads without a row load that of row 0. */
DEVICE void attention_ask8(const attention_launch &a, const attention_job &j,
			   const attention_parts &p, int32_t s, const attention_eight &t,
			   f32x8 *v)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	bool has_row = t.r < j.n_heads && t.d < a.v_dim;
	int32_t r = has_row ? t.r : 0, d = has_row ? t.d : 0;
	UNROLL
	for (int u = 0; u < attention_eight::AT_ONCE; u++) {
		int32_t at = s + u < p.n ? s + u : p.n - 1;
		v[u] = attention_value8(a, p.work + (size_t)(at * p.stride + r * pitch), d);
	}
}

DEVICE void attention_add8(const float *f, int32_t s, const f32x8 *v, attention_eight *t)
{
	const float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP;
	UNROLL
	for (int u = 0; u < attention_eight::AT_ONCE; u++) {
		float total = f[(s + u) * ATTENTION_GROUP + t->r];
		float part = g[(s + u) * ATTENTION_GROUP + t->r];
		UNROLL
		for (int i = 0; i < 8; i++)
			t->total[i] = fma_f32(t->total[i], total, v[u][i] * part);
	}
}

/* Merge the segments. The caller has asked for the first AT_ONCE (attention_ask8). */
DEVICE void attention_merge8(const attention_launch &a, const attention_job &j,
			     const attention_parts &p, const float *f, attention_eight *t)
{
	constexpr int32_t N = attention_eight::AT_ONCE;
	static_assert(ATTENTION_SEGMENTS % (2 * N) == 0, "factors of all that are added");
	t->total = f32x8{};
	ONE_BY_ONE
	for (int32_t s = 0; s < p.n; s += 2 * N) {
		if (s + N < p.n)
			attention_ask8(a, j, p, s + N, *t, t->v[1]);
		attention_add8(f, s, t->v[0], t);
		if (s + N >= p.n)
			return;
		if (s + 2 * N < p.n)
			attention_ask8(a, j, p, s + 2 * N, *t, t->v[0]);
		attention_add8(f, s + N, t->v[1], t);
	}
}

/* Floats of LDS that a merge needs: three for each segment and row, then the exchange of
 * maxima. */
enum {
	ATTENTION_MERGE_TOP = 3 * ATTENTION_SEGMENTS * ATTENTION_GROUP,
	ATTENTION_MERGE_LDS = ATTENTION_MERGE_TOP + ATTENTION_WAVES * WAVE + ATTENTION_GROUP
};

/* Write y of one token and the job's heads. The first values are loaded while the factors
 * are computed. f: LDS, (ATTENTION_MERGE_LDS); scale: LDS, (16). */
template <class S>
DEVICE void attention_merge(const attention_launch &a, const attention_job &j,
			    const attention_parts &p, float *f, float *scale)
{
	constexpr int32_t EACH = S::VALUE / 8; /* threads of a row */
	static_assert(ATTENTION_MERGE_LDS * 4 <=
		      (S::ROWS * S::KEY_PITCH + S::BLOCK * S::KEY_PITCH +
		       (S::SHARED ? 0 : S::BLOCK * S::VALUE_PITCH)) * 2 +
		      S::PARTS * S::ROWS * S::SCORE_PITCH * 4, "f is before scale");
	int32_t i = (int32_t)thread_index();
	attention_eight t = {};
	t.r = i / EACH;
	t.d = i % EACH * 8;
	attention_ask8(a, j, p, 0, t, t.v[0]);
	attention_factors(a, j, p, f, f + ATTENTION_MERGE_TOP, scale);
	for (; t.r < j.n_heads; i += ATTENTION_WAVES * WAVE) {
		if (i != (int32_t)thread_index())
			attention_ask8(a, j, p, 0, t, t.v[0]);
		attention_merge8(a, j, p, f, &t);
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
	if (!a.merges_apart && attention_is_last(&a.arrived[part], n, before))
		attention_merge<S>(a, j, {work, j.heads * pitch, n}, (float *)l.q, l.factor);
}
