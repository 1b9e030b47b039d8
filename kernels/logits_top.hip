/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/logits_top.h
 * LAYOUT    logits (R, V) f32; runs of 32 * each neighbours, the last one shorter
 * GEOMETRY  runs: a wave each, (n_runs over 8, R) workgroups of eight; no LDS.
 *           top: a workgroup of 32 waves a row. The K-th best run's best is no better
 *           than the K-th best element, and elements as good lie in runs as good: so
 *           few of them are read again. They are ranked by counting who is better, which
 *           needs no order of arrival. LDS: 14 KiB.
 * PRECISION sums in f32 by differences to the largest, in an order that depends on V
 *           alone; the rest moves bits
 * ROOFLINE  V = 151,936: 608 KB, just written and so in the cache; both kernels are
 *           bound by their barriers and launches
 * TRIED     nothing else
 * SEE       kernels/logits_top_ref.c
 */
#include "kernels/dialect.h"
#include "kernels/logits_top_row.h"

enum {
	LOGITS_RUN_WAVES = 8,
	LOGITS_TOP_THREADS = 1024,
	/* A threshold that leaves more than this is raised; fewer than K it never leaves. */
	LOGITS_TOP_SOME_RUNS = 2 * LOGITS_TOP_K,
	LOGITS_TOP_LIST = 4 * LOGITS_TOP_K,
	KEY_NOTHING = 0x007FFFFF /* of -inf */
};

DEVICE float logits_exp(float x)
{
	return fast_exp2(x * 1.44269504f);
}

DEVICE float logits_of_key(uint32_t key)
{
	return bits_cast<float>(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

/* Unequal for each element; the greater is the better, of equals the lower id. */
DEVICE uint64_t logits_place(uint32_t key, uint32_t id)
{
	return (uint64_t)key << 32 | (uint32_t)~id;
}

DEVICE uint32_t logits_key(float x)
{
	return order_key(x == 0 ? 0 : x);
}

/* What x adds to a sum; nothing where all are -inf, so that those beside a number in
 * another run do no harm. NaN and +inf become NaN. */
DEVICE float logits_weight(float x, float max, float inv_t)
{
	return x == logits_of_key(KEY_NOTHING) ? 0 : logits_exp((x - max) * inv_t);
}

DEVICE int32_t logits_index(const logits_top_launch &a, uint32_t run, int32_t j)
{
	return ((int32_t)run * a.each + j) * WAVE + (int32_t)lane_index();
}

/* A lane's elements of a run, all of them in flight at once; -inf past the end. */
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

/* What the threads of a row share. */
struct logits_lds {
	uint64_t *runs;   /* (LOGITS_TOP_RUNS) the place of each run's best */
	uint64_t *list;   /* (LOGITS_TOP_LIST) places of elements, in any order */
	uint32_t *chosen; /* (LOGITS_TOP_SOME_RUNS) runs to be read again */
	uint32_t *count;  /* (3) */
	uint32_t *n_chosen, *n_list;
};

/* Adds up n of all waves; turn 0, 1, 2, ... : counts take turns, one is added to while
 * the next is made zero, so that one barrier is enough. */
DEVICE uint32_t logits_count(const logits_lds &m, uint32_t turn, uint32_t n)
{
	if (thread_index() == 0)
		m.count[(turn + 1) % 3] = 0;
	if (lane_index() == 0 && n)
		atomic_add(&m.count[turn % 3], n);
	group_barrier();
	return m.count[turn % 3];
}

/* What a threshold may be looked for among: each thread's run, by its best … */
struct logits_by_run {
	uint64_t mine;
};
/* … or the elements of the chosen runs. */
struct logits_by_element {
	const logits_top_launch &a;
	const float *x;
	const uint32_t *chosen;
	uint32_t n_chosen;
};

/* The place of element j of a chosen run; below all, where there is none. */
DEVICE uint64_t logits_element(const logits_top_launch &a, uint32_t run, int32_t j, float v)
{
	int32_t i = logits_index(a, run, j);
	bool is_in = j < a.each && i < a.n_vocab;
	return is_in ? logits_place(logits_key(v), (uint32_t)i) : 0;
}

/* How many of this wave's are as good as `least`. */
DEVICE uint32_t logits_as_good(const logits_by_run &r, uint64_t least)
{
	return bit_count(wave_ballot(r.mine >= least));
}

DEVICE uint32_t logits_as_good(const logits_by_element &e, uint64_t least)
{
	uint32_t n = 0;
	for (uint32_t c = wave_index(); c < e.n_chosen; c += LOGITS_TOP_THREADS / WAVE) {
		float v[LOGITS_TOP_EACH];
		logits_load(e.a, e.x, e.chosen[c], v);
		UNROLL
		for (int32_t j = 0; j < LOGITS_TOP_EACH; j++)
			n += bit_count(wave_ballot(
				logits_element(e.a, e.chosen[c], j, v[j]) >= least));
	}
	return n;
}

/* A place that between `least` and `most` are as good as; there are more than that. Bit
 * by bit from above: the greatest with enough of them, but for the bits not asked. */
template <class Among>
DEVICE uint64_t logits_threshold(const logits_lds &m, const Among &among, uint32_t least,
				 uint32_t most)
{
	uint64_t found = 0;
	uint32_t turn = 0;
	for (uint64_t bit = 1ull << 63; bit; bit /= 2) {
		uint32_t n = logits_count(m, turn++, logits_as_good(among, found | bit));
		if (n < least)
			continue;
		found |= bit;
		if (n <= most)
			break;
	}
	return found;
}

/* The elements as good as `least` into the list, as far as there is room. */
DEVICE void logits_collect(const logits_top_launch &a, const logits_lds &m, const float *x,
			   uint64_t least)
{
	uint32_t n_chosen = *m.n_chosen;
	for (uint32_t c = wave_index(); c < n_chosen; c += LOGITS_TOP_THREADS / WAVE) {
		float v[LOGITS_TOP_EACH];
		logits_load(a, x, m.chosen[c], v);
		UNROLL
		for (int32_t j = 0; j < LOGITS_TOP_EACH; j++) {
			uint64_t place = logits_element(a, m.chosen[c], j, v[j]);
			if (place < least || place == 0)
				continue;
			uint32_t at = atomic_add(m.n_list, 1u);
			if (at < LOGITS_TOP_LIST)
				m.list[at] = place;
		}
	}
}

/* All that can be among the best: at most LOGITS_TOP_LIST. */
DEVICE void logits_find(const logits_top_launch &a, const logits_lds &m, const float *x)
{
	uint32_t t = thread_index();
	uint64_t least = 0, mine = t < (uint32_t)a.n_runs ? m.runs[t] : 0;
	if (a.n_runs > LOGITS_TOP_SOME_RUNS)
		least = logits_threshold(m, logits_by_run{mine}, LOGITS_TOP_K,
					 LOGITS_TOP_SOME_RUNS);
	if (mine && mine >= least)
		m.chosen[atomic_add(m.n_chosen, 1u)] = t;
	group_barrier();
	logits_collect(a, m, x, least);
	group_barrier();
	if (*m.n_list <= LOGITS_TOP_LIST)
		return;
	/* The best stand close to each other. */
	if (t < 3)
		m.count[t] = 0;
	group_barrier();
	least = logits_threshold(m, logits_by_element{a, x, m.chosen, *m.n_chosen},
				 LOGITS_TOP_K, LOGITS_TOP_LIST);
	if (t == 0)
		*m.n_list = 0;
	group_barrier();
	logits_collect(a, m, x, least);
	group_barrier();
}

/* The largest key of all threads; best: LDS of a number a wave. */
DEVICE uint32_t logits_group_max(uint32_t key, uint32_t *best)
{
	uint32_t none = 0;
	wave_best(&key, &none);
	if (lane_index() == 0)
		best[wave_index()] = key;
	group_barrier();
	key = best[lane_index()];
	none = 0;
	wave_best(&key, &none);
	return key;
}

KERNEL(LOGITS_TOP_THREADS) void logits_top_kernel(logits_top_launch a)
{
	LDS(uint64_t, runs, LOGITS_TOP_RUNS);
	LDS(uint64_t, list, LOGITS_TOP_LIST);
	LDS(uint32_t, chosen, LOGITS_TOP_SOME_RUNS);
	LDS(uint32_t, best, LOGITS_TOP_THREADS / WAVE);
	LDS(float, part, LOGITS_TOP_THREADS / WAVE);
	LDS(float, part_t, LOGITS_TOP_THREADS / WAVE);
	LDS(uint32_t, counts, 5);
	logits_lds m = {runs, list, chosen, counts, counts + 3, counts + 4};
	size_t row = group_index_x();
	uint32_t t = thread_index();
	bool is_run = t < (uint32_t)a.n_runs;
	logits_run run = {0, 0, 0, 0};
	if (is_run)
		run = a.runs[row * (size_t)a.n_runs + t];
	runs[t] = logits_place(run.key, run.id);
	if (t < 5)
		counts[t] = 0;
	float max = logits_of_key(logits_group_max(run.key, best));
	float mine = logits_of_key(run.key);
	float sum = is_run ? run.sum * logits_weight(mine, max, 1) : 0;
	float sum_t = is_run ? run.sum_t * logits_weight(mine, max, a.inv_t[row]) : 0;
	sum = group_sum<LOGITS_TOP_THREADS>(sum, part);
	sum_t = group_sum<LOGITS_TOP_THREADS>(sum_t, part_t);
	/* Nothing but -inf adds up to 0. */
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
	logits_find(a, m, a.logits + row * (size_t)a.n_vocab);
	if (t >= *m.n_list)
		return;
	int32_t rank = 0;
	for (uint32_t i = 0; i < *m.n_list; i++)
		rank += list[i] > list[t];
	if (rank >= n_out)
		return;
	out->logit[rank] = logits_of_key((uint32_t)(list[t] >> 32));
	out->id[rank] = (int32_t)~(uint32_t)list[t];
}
