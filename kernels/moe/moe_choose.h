/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses a token's experts (kernels/ops/moe_router.h), by all threads of a workgroup.
 * The rank of an expert is the number of better ones. Each thread counts that for its own
 * experts, all at once. Finding the best one by one would need a round of synchronization
 * for each.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/moe/moe_router_launch.h"

enum {
	KEY_TAKEN = 0,
	KEY_NAN = 1 /* a NaN ranks below every number */
};

DEVICE float moe_router_logit(uint32_t key)
{
	return bits_cast<float>(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

DEVICE float moe_router_exp(float x)
{
	return fast_exp2(x * 1.44269504f);
}

DEVICE float moe_router_sigmoid(float x)
{
	return fast_rcp(1 + moe_router_exp(-x));
}

/* The square root of log(1 + exp(x)). Where y = exp(x) is small, log(1 + y) is y - y y / 2. */
DEVICE float moe_router_root(float x)
{
	float y = moe_router_exp(x > 0 ? -x : x);
	float log = y < 1e-3f ? y - y * y * 0.5f : fast_log2(1 + y) * 0.693147181f;
	float v = x > 0 ? x + log : log;
	return v > 0 ? v * fast_rsqrt(v) : 0;
}

DEVICE float moe_router_score(const moe_router_rule &rule, float logit)
{
	return rule.is_root ? moe_router_root(logit) : moe_router_sigmoid(logit);
}

/* Expert e is chosen by this number: its score plus its bias, or, without a bias, its logit. */
DEVICE float moe_choose_sigmoid(const moe_router_rule &rule, float logit, uint32_t e)
{
	return rule.bias ? moe_router_score(rule, logit) + rule.bias[e] : logit;
}

/* The experts that a table has for token t, or NULL. */
DEVICE const int32_t *moe_choose_fixed(const moe_router_rule &rule, size_t t, uint32_t n_used)
{
	return rule.fixed ? rule.fixed + (size_t)load_global<int32_t>(rule.token + t) * n_used
			  : nullptr;
}

/* A softmax over all experts: exp(logit - top) inv. */
struct moe_softmax {
	float top, inv;
};

/* The sort key of a score; never KEY_TAKEN. */
DEVICE uint32_t moe_choose_key(float by)
{
	uint32_t k = order_key(by);
	return k > (uint32_t)KEY_NAN ? k : (uint32_t)KEY_NAN;
}

/* Each wave computes the softmax for itself, and gets the same bits as the others. */
DEVICE moe_softmax moe_choose_softmax(const float *logits, uint32_t n)
{
	uint32_t best = KEY_TAKEN;
	float sum = 0;
	for (uint32_t e = lane_index(); e < n; e += WAVE) {
		uint32_t k = moe_choose_key(logits[e]);
		best = k > best ? k : best;
	}
	float top = moe_router_logit(wave_max(best));
	for (uint32_t e = lane_index(); e < n; e += WAVE)
		sum += moe_router_exp(logits[e] - top);
	return {top, fast_rcp(wave_sum(sum))};
}

/* The sort key of expert e. */
DEVICE uint32_t moe_choose_by(const moe_router_rule &rule, const moe_softmax &all, float logit,
			      uint32_t e)
{
	float by = !rule.is_shifted ? logit
				    : moe_router_exp(logit - all.top) * all.inv + rule.bias[e];
	return moe_choose_key(rule.is_sigmoid ? moe_choose_sigmoid(rule, logit, e) : by);
}

DEVICE bool moe_choose_has_groups(const moe_router_rule &rule)
{
	return rule.is_sigmoid && rule.n_groups_used < rule.n_groups;
}

/* LDS arrays to choose a token's experts. */
struct moe_choice {
	uint32_t *keys; /* (E) */
	uint32_t *more; /* (E): scratch, for groups or for threads */
	uint32_t *id;   /* (U): the chosen experts, the best first */
	float *weight;  /* (U): their weights */
};

/* Divides a workgroup's dynamic LDS, of MOE_CHOICE_LDS bytes, into these arrays. */
DEVICE moe_choice moe_choice_of(uint32_t *lds, int32_t n_experts, int32_t n_used)
{
	moe_choice c;
	c.keys = lds;
	c.more = lds + MOE_CHOICE_KEYS(n_experts);
	c.id = c.more + MOE_CHOICE_KEYS(n_experts);
	c.weight = (float *)(c.id + n_used);
	return c;
}

/* The best of this lane's keys, which are every 32nd key. */
DEVICE void moe_choose_scan(const uint32_t *keys, uint32_t n, uint32_t *key, uint32_t *id)
{
	*key = KEY_TAKEN;
	*id = ~0u;
	for (uint32_t e = lane_index(); e < n; e += WAVE)
		if (keys[e] > *key) {
			*key = keys[e];
			*id = e;
		}
}

/* Remove the experts of all but the best groups from keys. By one wave. */
DEVICE void moe_choose_groups(const moe_router_rule &rule, uint32_t n_experts,
			      uint32_t *keys, uint32_t *groups)
{
	uint32_t n = (uint32_t)rule.n_groups, size = n_experts / n, key, best;
	for (uint32_t g = lane_index(); g < n; g += WAVE) {
		float first = -3e38f, second = -3e38f;
		for (uint32_t i = 0; i < size; i++) {
			float v = moe_router_logit(keys[g * size + i]);
			second = v > first ? first : v > second ? v : second;
			first = v > first ? v : first;
		}
		groups[g] = moe_choose_key(size > 1 ? first + second : first);
	}
	moe_choose_scan(groups, n, &key, &best);
	for (int32_t i = 0; i < rule.n_groups_used; i++) {
		uint32_t k = key, g = best;
		wave_best(&k, &g);
		if (g == best) { /* this lane has the best group */
			groups[g] = KEY_TAKEN;
			moe_choose_scan(groups, n, &key, &best);
		}
	}
	wave_barrier();
	for (uint32_t e = lane_index(); e < n_experts; e += WAVE)
		if (groups[e / size] != KEY_TAKEN)
			keys[e] = KEY_TAKEN;
}

/* Number of keys in [i, n) that rank before expert e with key k: greater, or equal with a
 * lower index. i is a multiple of 4. */
DEVICE uint32_t moe_choose_before(const uint32_t *keys, uint32_t i, uint32_t n, uint32_t e,
				  uint32_t k)
{
	uint32_t count = 0;
	for (; i + 4 <= n; i += 4) {
		u32x4 v = *(const u32x4 *)(keys + i);
		UNROLL
		for (uint32_t j = 0; j < 4; j++)
			count += v[j] > k || (v[j] == k && i + j < e);
	}
	for (; i < n; i++)
		count += keys[i] > k || (keys[i] == k && i < e);
	return count;
}

/* With more experts than threads: a lower bound on the keys of the U best, so that the
 * rest can be skipped. It is the U-th best of the threads' own maxima. `best`: LDS, one
 * number a thread. */
template <int THREADS>
DEVICE uint32_t moe_choose_least(const uint32_t *keys, uint32_t n, uint32_t n_used,
				 uint32_t *best, uint32_t *least)
{
	if (n <= THREADS || n_used > THREADS)
		return KEY_TAKEN;
	uint32_t mine = KEY_TAKEN, at = thread_index();
	for (uint32_t e = at; e < n; e += THREADS)
		mine = keys[e] > mine ? keys[e] : mine;
	best[at] = mine;
	group_barrier();
	if (moe_choose_before(best, 0, THREADS, at, mine) == n_used - 1)
		*least = mine;
	group_barrier();
	return *least;
}

/* The logit of this thread's first expert, loaded early. */
DEVICE float moe_choose_first(const float *logits, uint32_t n_experts)
{
	return thread_index() < n_experts ? logits[thread_index()] : 0;
}

/* For at most half as many experts as threads: several threads share the count of an expert. */
template <int THREADS>
DEVICE void moe_choose_few(uint32_t n_experts, uint32_t n_used, const moe_choice &c)
{
	uint32_t parts = n_experts * 4 <= THREADS ? 4 : 2, e = thread_index() / parts;
	uint32_t each = (n_experts + 4 * parts - 1) / (4 * parts) * 4;
	uint32_t from = thread_index() % parts * each;
	uint32_t k = e < n_experts ? c.keys[e] : 0, count = 0;
	if (e < n_experts)
		count = moe_choose_before(c.keys, from, from + each < n_experts ? from + each
									    : n_experts,
					  e, k);
	count += wave_shuffle(count, lane_index() ^ 1);
	if (parts == 4)
		count += wave_shuffle(count, lane_index() ^ 2);
	if (e < n_experts && count < n_used)
		c.id[count] = e;
}

/* Choose experts from logits (E) and store them in c.id; fixed: not NULL if they are these (U).
 * `first` is moe_choose_first; `least` is one number of LDS. */
template <int THREADS>
DEVICE void moe_choose(const moe_router_rule &rule, const float *logits, float first,
		       uint32_t n_experts, uint32_t n_used, const moe_choice &c,
		       uint32_t *least, const int32_t *fixed)
{
	moe_softmax all = {};
	if (fixed) {
		for (uint32_t u = thread_index(); u < n_used; u += THREADS)
			c.id[u] = load_global<uint32_t>(fixed + u);
		group_barrier();
		return;
	}
	if (rule.is_shifted)
		all = moe_choose_softmax(logits, n_experts);
	for (uint32_t e = thread_index(); e < n_experts; e += THREADS)
		c.keys[e] = moe_choose_by(rule, all, e == thread_index() ? first : logits[e], e);
	group_barrier();
	if (moe_choose_has_groups(rule)) {
		if (wave_index() == 0)
			moe_choose_groups(rule, n_experts, c.keys, c.more);
		group_barrier();
	}
	if (n_experts * 2 <= THREADS) {
		moe_choose_few<THREADS>(n_experts, n_used, c);
		group_barrier();
		return;
	}
	uint32_t from = moe_choose_least<THREADS>(c.keys, n_experts, n_used, c.more, least);
	for (uint32_t e = thread_index(); e < n_experts; e += THREADS) {
		uint32_t k = c.keys[e];
		if (k < from)
			continue;
		uint32_t place = moe_choose_before(c.keys, 0, n_experts, e, k);
		if (place < n_used)
			c.id[place] = e;
	}
	group_barrier();
}

/* Compute the weights of the chosen experts, and write ids and weights to memory. By one
 * wave. */
DEVICE void moe_choose_weigh(const moe_router_rule &rule, const float *logits,
			     uint32_t n_experts, uint32_t n_used, const moe_choice &c,
			     int32_t *id, float *weight)
{
	float top = rule.fixed ? 0 : moe_router_logit(c.keys[c.id[0]]), chosen = 0, all = 0;
	if (rule.is_shifted)
		top = moe_choose_softmax(logits, n_experts).top;
	for (uint32_t u = lane_index(); u < n_used; u += WAVE) {
		uint32_t e = c.id[u];
		c.weight[u] = rule.is_sigmoid
				      ? moe_router_score(rule, logits[e])
			      : rule.is_shifted
				      ? moe_router_exp(logits[e] - top)
				      : moe_router_exp(moe_router_logit(c.keys[e]) - top);
	}
	wave_barrier();
	for (uint32_t u = 0; u < n_used; u++)
		chosen += c.weight[u];
	float scale;
	if (rule.is_sigmoid) {
		scale = rule.scale * (rule.norm_topk ? fast_rcp(chosen + 1e-20f) : 1);
	} else if (rule.norm_topk) {
		scale = fast_rcp(chosen);
	} else {
		for (uint32_t e = lane_index(); e < n_experts; e += WAVE)
			all += moe_router_exp(logits[e] - top);
		scale = fast_rcp(wave_sum(all));
	}
	for (uint32_t u = lane_index(); u < n_used; u += WAVE) {
		id[u] = (int32_t)c.id[u];
		float own = rule.expert_scale ? rule.expert_scale[c.id[u]] : 1;
		weight[u] = c.weight[u] * scale * own;
	}
}
