/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/logits_top.h
 * LAYOUT    logits (R, V) f32; runs of 32 * each neighbouring elements, the last one
 *           shorter
 * GEOMETRY  runs kernel: one wave a run, (n_runs over 8, R) workgroups of eight waves; no
 *           LDS. It finds the best element of each run.
 *           top kernel: one workgroup of 32 waves a row. All of the K best elements lie
 *           in the K best runs (by their best element). So only few runs are read again:
 *           those above a threshold that keeps K to 2 K runs. The threshold is found by
 *           counting the runs' bests in 256 ranges of values. The elements kept are
 *           ranked by counting better ones, so the order in which they arrive does not
 *           matter. LDS: 15 KiB.
 * PRECISION sums in f32 of differences to the largest, in an order that depends on V
 *           alone; the rest copies bits
 * ROOFLINE  V = 151,936: 608 KB, just written and so in the cache; both kernels are bound
 *           by barriers and launch overhead
 * TRIED     (on an NVIDIA H200, V = 151,936) finding the threshold bit by bit, with a
 *           barrier each, and ranking each element by one thread: top took 21.5 us. One
 *           barrier for both sums: a token of Qwen3-30B-A3B takes as long
 * SEE       kernels/ops/logits_top_ref.c
 */
#include "kernels/device/dialect.h"
#include "kernels/ops/logits_top_row.h"

enum {
	LOGITS_RUN_WAVES = 8,
	LOGITS_TOP_THREADS = 1024,
	/* If a threshold keeps more runs than this, it is raised. Any threshold keeps
	 * at least K. */
	LOGITS_TOP_SOME_RUNS = 2 * LOGITS_TOP_K,
	LOGITS_TOP_LIST = 4 * LOGITS_TOP_K,
	LOGITS_TOP_BINS = 256,
	KEY_NOTHING = 0x007FFFFF /* order_key of -inf */
};

DEVICE float logits_exp(float x)
{
	return fast_exp2(x * 1.44269504f);
}

DEVICE float logits_of_key(uint32_t key)
{
	return bits_cast<float>(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

/* A sort key that is different for each element. Greater is better; of equal logits the
 * lower id is better. */
DEVICE uint64_t logits_place(uint32_t key, uint32_t id)
{
	return (uint64_t)key << 32 | (uint32_t)~id;
}

DEVICE uint32_t logits_key(float x)
{
	return order_key(x == 0 ? 0 : x);
}

/* exp((x - max) * inv_t), the term of x in a sum, or 0 for -inf. In a run of only -inf,
 * max is -inf too, and such a run must add nothing to the row. NaN and +inf give NaN. */
DEVICE float logits_weight(float x, float max, float inv_t)
{
	return x == logits_of_key(KEY_NOTHING) ? 0 : logits_exp((x - max) * inv_t);
}

DEVICE int32_t logits_index(const logits_top_launch &a, uint32_t run, int32_t j)
{
	return ((int32_t)run * a.each + j) * WAVE + (int32_t)lane_index();
}

/* Load a lane's elements of a run, all in flight at once; -inf past the end. */
DEVICE void logits_load(const logits_top_launch &a, const float *x, uint32_t run, float *v)
{
	UNROLL
	for (int32_t j = 0; j < LOGITS_TOP_EACH; j++) {
		int32_t i = logits_index(a, run, j);
		v[j] = j < a.each && i < a.n_vocab ? x[i] : logits_of_key(KEY_NOTHING);
	}
}

KERNEL(LOGITS_RUN_WAVES * WAVE) void logits_runs_kernel(logits_top_launch a)
{
	uint32_t run = group_index_x() * LOGITS_RUN_WAVES + wave_index();
	size_t row = group_index_y();
	if (run >= (uint32_t)a.n_runs)
		return;
	float v[LOGITS_TOP_EACH], inv_t = a.inv_t[row], sum = 0, sum_t = 0;
	uint32_t key = 0, id = ~0u;
	logits_load(a, a.logits + row * (size_t)a.n_vocab, run, v);
	UNROLL
	for (int32_t j = 0; j < LOGITS_TOP_EACH; j++) {
		uint32_t k = logits_key(v[j]);
		if (k > key) {
			key = k;
			id = (uint32_t)logits_index(a, run, j);
		}
	}
	wave_best(&key, &id);
	float max = logits_of_key(key);
	UNROLL
	for (int32_t j = 0; j < LOGITS_TOP_EACH; j++) {
		sum += logits_weight(v[j], max, 1);
		sum_t += logits_weight(v[j], max, inv_t);
	}
	sum = wave_sum(sum);
	sum_t = wave_sum(sum_t);
	if (lane_index() == 0)
		a.runs[row * (size_t)a.n_runs + run] = {key, id, sum, sum_t};
}

/* --- the best of a row ------------------------------------------------------------ */

/* LDS shared by the threads of a row. */
struct logits_lds {
	uint64_t *runs;   /* (LOGITS_TOP_RUNS) sort key of each run's best element */
	uint64_t *list;   /* (LOGITS_TOP_LIST) sort keys of elements, unordered */
	uint32_t *chosen; /* (LOGITS_TOP_SOME_RUNS) runs to read again */
	uint32_t *bins;   /* (LOGITS_TOP_BINS) zero outside of logits_threshold */
	uint32_t *n_chosen, *n_list;
};

/* Call f(key) for this thread's elements of the chosen runs; key 0 means no element. A
 * wave reads 32 elements at a time, several groups in flight. */
template <class F>
DEVICE void logits_for_chosen(const logits_top_launch &a, const logits_lds &m, const float *x,
			      F f)
{
	constexpr int32_t WAVES = LOGITS_TOP_THREADS / WAVE, AT_ONCE = 8;
	int32_t n = (int32_t)*m.n_chosen, c = (int32_t)wave_index() / a.each;
	int32_t j = (int32_t)wave_index() % a.each;
	int32_t runs_on = WAVES / a.each, on = WAVES % a.each;
	while (c < n) {
		int32_t at[AT_ONCE];
		float v[AT_ONCE];
		UNROLL
		for (int32_t u = 0; u < AT_ONCE; u++) {
			at[u] = c < n ? logits_index(a, m.chosen[c], j) : a.n_vocab;
			v[u] = at[u] < a.n_vocab ? x[at[u]] : 0;
			c += runs_on;
			j += on;
			c += j >= a.each;
			j -= j >= a.each ? a.each : 0;
		}
		UNROLL
		for (int32_t u = 0; u < AT_ONCE; u++)
			f(at[u] < a.n_vocab ? logits_place(logits_key(v[u]), (uint32_t)at[u])
					    : 0);
	}
}

/* A set of keys to search for a threshold: the best of each thread's run … */
struct logits_by_run {
	uint64_t mine;
};
/* … or all elements of the chosen runs. */
struct logits_by_element {
	const logits_top_launch &a;
	const logits_lds &m;
	const float *x;
};

template <class F> DEVICE void logits_for_all(const logits_by_run &r, F f)
{
	f(r.mine);
}

template <class F> DEVICE void logits_for_all(const logits_by_element &e, F f)
{
	logits_for_chosen(e.a, e.m, e.x, f);
}

/* A bin, the number of keys in it, and the number in it and all higher bins. */
struct logits_bin {
	uint32_t bin, n, n_from;
};

/* The highest bin for which it and all higher bins hold `least` keys. All bins together hold at
 * least `least`. Each wave searches by itself. */
DEVICE logits_bin logits_find_bin(const uint32_t *bins, uint32_t least)
{
	constexpr int32_t EACH = LOGITS_TOP_BINS / WAVE;
	uint32_t lane = lane_index(), n[EACH], own = 0;
	UNROLL
	for (int32_t i = 0; i < EACH; i++) {
		n[i] = bins[(int32_t)lane * EACH + i];
		own += n[i];
	}
	uint32_t from = own; /* keys in this lane's bins and higher ones */
	UNROLL
	for (uint32_t d = 1; d < WAVE; d *= 2) {
		uint32_t other = wave_shuffle(from, (lane + d) % WAVE);
		from += lane + d < WAVE ? other : 0;
	}
	uint32_t above = from - own;
	uint32_t here = wave_ballot(above < least && from >= least);
	logits_bin out = {0, 0, above};
	UNROLL
	for (int32_t i = EACH - 1; i >= 0; i--)
		if (out.n_from < least) {
			out.bin = lane * EACH + (uint32_t)i;
			out.n = n[i];
			out.n_from += n[i];
		}
	uint32_t who = bit_count(here - 1); /* index of the single bit set */
	out.bin = wave_shuffle(out.bin, who);
	out.n = wave_shuffle(out.n, who);
	out.n_from = wave_shuffle(out.n_from, who);
	return out;
}

/* Find a key such that `least` to `most` keys are at or above it. More than `most` keys
 * exist, all in [low, high]. Each round divides the range into bins and goes on within
 * one bin. */
template <class Among>
DEVICE uint64_t logits_threshold(const logits_lds &m, const Among &among, uint64_t low,
				 uint64_t high, uint32_t least, uint32_t most)
{
	uint32_t shift = 0; /* the smallest one with which all keys are in a bin */
	UNROLL
	for (uint32_t s = 32; s; s /= 2)
		shift += (high - low) >> (shift + s - 1) >= LOGITS_TOP_BINS ? s : 0;
	for (;;) {
		logits_for_all(among, [&](uint64_t place) {
			if (place >= low && place <= high)
				atomic_add(&m.bins[(place - low) >> shift], 1u);
		});
		group_barrier();
		logits_bin b = logits_find_bin(m.bins, least);
		group_barrier();
		if (thread_index() < LOGITS_TOP_BINS)
			m.bins[thread_index()] = 0;
		low += (uint64_t)b.bin << shift;
		if (b.n_from <= most || shift == 0) /* shift 0: a bin holds a single key */
			return low;
		group_barrier();
		high = low + ((uint64_t)1 << shift) - 1;
		least -= b.n_from - b.n;
		most -= b.n_from - b.n;
		shift = shift > 8 ? shift - 8 : 0;
	}
}

/* Append the elements with keys at or above `least` to the list, while there is room. */
DEVICE void logits_collect(const logits_top_launch &a, const logits_lds &m, const float *x,
			   uint64_t least)
{
	logits_for_chosen(a, m, x, [&](uint64_t place) {
		if (place < least || place == 0)
			return;
		uint32_t at = atomic_add(m.n_list, 1u);
		if (at < LOGITS_TOP_LIST)
			m.list[at] = place;
	});
}

/* Collect all candidates for the K best: at most LOGITS_TOP_LIST. The runs' best keys lie
 * between low and high. */
DEVICE void logits_find(const logits_top_launch &a, const logits_lds &m, const float *x,
			uint64_t low, uint64_t high)
{
	uint32_t t = thread_index();
	uint64_t least = 0, mine = t < (uint32_t)a.n_runs ? m.runs[t] : 0;
	if (a.n_runs > LOGITS_TOP_SOME_RUNS)
		least = logits_threshold(m, logits_by_run{mine}, low, high, LOGITS_TOP_K,
					 LOGITS_TOP_SOME_RUNS);
	if (mine && mine >= least)
		m.chosen[atomic_add(m.n_chosen, 1u)] = t;
	group_barrier();
	logits_collect(a, m, x, least);
	group_barrier();
	if (*m.n_list <= LOGITS_TOP_LIST)
		return;
	/* Too many: the best values lie close together, so find a threshold among
	 * elements. */
	least = logits_threshold(m, logits_by_element{a, m, x}, least, high, LOGITS_TOP_K,
				 LOGITS_TOP_LIST);
	if (t == 0)
		*m.n_list = 0;
	group_barrier();
	logits_collect(a, m, x, least);
	group_barrier();
}

/* Write the list's best elements in order. Several lanes count the better ones of an
 * element. */
DEVICE void logits_rank(const logits_lds &m, int32_t n_out, logits_top *out)
{
	constexpr uint32_t LANES = 4;
	uint32_t n = *m.n_list, lane = lane_index();
	for (uint32_t base = 0; base < n; base += LOGITS_TOP_THREADS / LANES) {
		uint32_t e = base + thread_index() / LANES, rank = 0;
		uint64_t mine = e < n ? m.list[e] : ~0ull;
		for (uint32_t i = lane % LANES; i < n; i += LANES)
			rank += m.list[i] > mine;
		rank += wave_shuffle(rank, lane ^ 1);
		rank += wave_shuffle(rank, lane ^ 2);
		if (e >= n || lane % LANES || rank >= (uint32_t)n_out)
			continue;
		out->logit[rank] = logits_of_key((uint32_t)(mine >> 32));
		out->id[rank] = (int32_t)~(uint32_t)mine;
	}
}

struct logits_range {
	uint32_t least, most;
};

/* Smallest and largest key of all threads that have one. lds: two numbers a wave. */
DEVICE logits_range logits_group_range(uint32_t key, bool has_key, uint32_t *lds)
{
	constexpr uint32_t WAVES = LOGITS_TOP_THREADS / WAVE;
	uint32_t most = wave_max(has_key ? key : 0), least = wave_max(has_key ? ~key : 0);
	if (lane_index() == 0) {
		lds[wave_index()] = most;
		lds[WAVES + wave_index()] = least;
	}
	group_barrier();
	most = wave_max(lds[lane_index()]);
	least = wave_max(lds[WAVES + lane_index()]);
	return {~least, most};
}

KERNEL(LOGITS_TOP_THREADS) void logits_top_kernel(logits_top_launch a)
{
	constexpr int32_t WAVES = LOGITS_TOP_THREADS / WAVE;
	LDS(uint64_t, runs, LOGITS_TOP_RUNS);
	LDS(uint64_t, list, LOGITS_TOP_LIST);
	LDS(uint32_t, chosen, LOGITS_TOP_SOME_RUNS);
	LDS(uint32_t, bins, LOGITS_TOP_BINS);
	LDS(uint32_t, ends, 2 * WAVES);
	LDS(float, part, WAVES);
	LDS(float, part_t, WAVES);
	LDS(uint32_t, counts, 2);
	logits_lds m = {runs, list, chosen, bins, counts, counts + 1};
	size_t row = group_index_x();
	uint32_t t = thread_index();
	bool is_run = t < (uint32_t)a.n_runs;
	logits_run run = {0, 0, 0, 0};
	if (is_run)
		run = a.runs[row * (size_t)a.n_runs + t];
	runs[t] = logits_place(run.key, run.id);
	if (t < LOGITS_TOP_BINS)
		bins[t] = 0;
	if (t < 2)
		counts[t] = 0;
	logits_range range = logits_group_range(run.key, is_run, ends);
	float max = logits_of_key(range.most);
	float mine = logits_of_key(run.key);
	float sum = is_run ? run.sum * logits_weight(mine, max, 1) : 0;
	float sum_t = is_run ? run.sum_t * logits_weight(mine, max, a.inv_t[row]) : 0;
	sum = group_sum<LOGITS_TOP_THREADS>(sum, part);
	sum_t = group_sum<LOGITS_TOP_THREADS>(sum_t, part_t);
	/* The sum is 0 only if all logits are -inf. */
	bool is_sane = sum > 0;
	logits_top *out = a.out + row;
	int32_t n_out = a.n_vocab < LOGITS_TOP_K ? a.n_vocab : LOGITS_TOP_K;
	if (t == 0) {
		out->max = max;
		out->sum = is_sane ? sum : bits_cast<float>(0x7FC00000u);
		out->sum_t = sum_t;
		out->n = is_sane ? n_out : 0;
	}
	if (!is_sane)
		return;
	logits_find(a, m, a.logits + row * (size_t)a.n_vocab, logits_place(range.least, ~0u),
		    logits_place(range.most, 0));
	logits_rank(m, n_out, out);
}
