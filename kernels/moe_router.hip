/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/moe_router.h
 * LAYOUT    x (T, D) f16; router (E, D) f32, f16 or bf16; logits (T, E) f32; id,
 *           weight (T, U); arrived (T), zero before and after
 * GEOMETRY  workgroups of four waves: (E over 4, T), an expert a wave. The workgroup
 *           that ends last has all logits: one wave of it chooses. LDS: 8 E bytes.
 * PRECISION logits in f32; softmax by exp2 of differences to the largest
 * ROOFLINE  at E = 128, D = 2048, bf16: 512 KiB, 32 workgroups. So few waves wait for
 *           each load, so all of a row are in flight at once; the choice is U rounds of
 *           ten exchanges, a lane looks again only where its own was taken
 * TRIED     a thread that chooses alone, others waiting: 5.7 times slower where others
 *           measured it; a second launch: the budget has no place for it
 * SEE       kernels/moe_router_ref.c
 */
#include "kernels/dequant.h"
#include "kernels/moe_router_launch.h"

enum {
	MOE_ROUTER_WAVES = 4,
	MOE_ROUTER_THREADS = MOE_ROUTER_WAVES * WAVE,
	KEY_TAKEN = 0,
	KEY_NAN = 1 /* chosen when no number is left */
};

/* row_dot with `ahead` pieces of 8 a lane in flight; K a multiple of 256 ahead. */
template <int format, int ahead>
DEVICE float moe_router_dot(const weight_view *w, size_t row, const uint16_t *x)
{
	constexpr int SIZE = format == WEIGHT_F32 ? 2 : 1, STEP = WAVE * 8;
	const char *q = (const char *)w->q + row * (size_t)w->pitch;
	float sum = 0;
	for (int32_t at = (int32_t)lane_index() * 8; at < w->k; at += STEP * ahead) {
		u32x4 part[ahead][SIZE], xs[ahead];
		UNROLL
		for (int j = 0; j < ahead; j++) {
			size_t i = (size_t)(at + j * STEP);
			UNROLL
			for (int s = 0; s < SIZE; s++)
				part[j][s] = ((const u32x4 *)(q + i * 2 * SIZE))[s];
			xs[j] = *(const u32x4 *)(x + i);
		}
		UNROLL
		for (int j = 0; j < ahead; j++)
			UNROLL
			for (int i = 0; i < 8; i++) {
				uint32_t word = SIZE == 2 ? part[j][i / 4 % SIZE][i % 4]
							  : part[j][0][i / 2];
				uint16_t half = (uint16_t)(word >> i % 2 * 16);
				float f = format == WEIGHT_F32 ? bits_cast<float>(word)
					  : format == WEIGHT_F16 ? f16_to_f32(half)
								 : bf16_to_f32(half);
				sum += f * f16_to_f32((uint16_t)(xs[j][i / 2] >>
								 i % 2 * 16));
			}
	}
	return wave_sum(sum);
}

template <int format>
DEVICE float moe_router_row(const weight_view *w, size_t row, const uint16_t *x)
{
	if (w->k % 2048 == 0 && format != WEIGHT_F32)
		return moe_router_dot<format, 8>(w, row, x);
	if (w->k % 512 == 0)
		return moe_router_dot<format, 2>(w, row, x);
	return row_dot<format>(w, row, x);
}

/* The best of this lane's experts, every 32nd. */
DEVICE void moe_router_scan(const uint32_t *keys, uint32_t n, uint32_t *key, uint32_t *id)
{
	*key = KEY_TAKEN;
	*id = ~0u;
	for (uint32_t e = lane_index(); e < n; e += WAVE)
		if (keys[e] > *key) {
			*key = keys[e];
			*id = e;
		}
}

DEVICE float moe_router_logit(uint32_t key)
{
	return bits_cast<float>(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

DEVICE float moe_router_exp(float x)
{
	return fast_exp2(x * 1.44269504f);
}

/* One wave; keys: LDS of this wave alone, each lane touches only its own. */
DEVICE void moe_router_choose(const float *logits, uint32_t n_experts, int32_t n_used,
			      bool norm_topk, uint32_t *keys, int32_t *id, float *weight)
{
	uint32_t lane = lane_index(), key, best;
	for (uint32_t e = lane; e < n_experts; e += WAVE) {
		uint32_t k = order_key(logits[e]);
		keys[e] = k > (uint32_t)KEY_NAN ? k : (uint32_t)KEY_NAN;
	}
	moe_router_scan(keys, n_experts, &key, &best);
	float top = 0, chosen = 0, all = 0;
	for (int32_t u = 0; u < n_used; u++) {
		uint32_t k = key, e = best;
		wave_best(&k, &e);
		float logit = moe_router_logit(k);
		top = u ? top : logit;
		float p = moe_router_exp(logit - top);
		chosen += p;
		if ((uint32_t)u % WAVE == lane) {
			id[u] = (int32_t)e;
			weight[u] = p;
		}
		if (e == best) { /* mine */
			keys[e] = KEY_TAKEN;
			moe_router_scan(keys, n_experts, &key, &best);
		}
	}
	for (uint32_t e = lane; e < n_experts; e += WAVE)
		all += moe_router_exp(logits[e] - top);
	float scale = fast_rcp(norm_topk ? chosen : wave_sum(all));
	for (int32_t u = (int32_t)lane; u < n_used; u += WAVE) /* which it wrote */
		weight[u] *= scale;
}

DEVICE float moe_router_sigmoid(float x)
{
	return fast_rcp(1 + moe_router_exp(-x));
}

/* Takes the experts of all but the best groups out of keys. groups: LDS of one number a
 * group. */
DEVICE void moe_router_close(const moe_router_rule &rule, uint32_t n_experts,
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
		uint32_t k = order_key(size > 1 ? first + second : first);
		groups[g] = k > (uint32_t)KEY_NAN ? k : (uint32_t)KEY_NAN;
	}
	moe_router_scan(groups, n, &key, &best);
	for (int32_t i = 0; i < rule.n_groups_used; i++) {
		uint32_t k = key, g = best;
		wave_best(&k, &g);
		if (g == best) { /* mine */
			groups[g] = KEY_TAKEN;
			moe_router_scan(groups, n, &key, &best);
		}
	}
	wave_barrier();
	for (uint32_t e = lane_index(); e < n_experts; e += WAVE)
		if (groups[e / size] != KEY_TAKEN)
			keys[e] = KEY_TAKEN;
}

/* As moe_router_choose, by sigmoids and a bias of the choice. keys: 2 E numbers. */
DEVICE void moe_router_choose_sigmoid(const moe_router_rule &rule, const float *logits,
				      uint32_t n_experts, int32_t n_used, bool norm_topk,
				      uint32_t *keys, int32_t *id, float *weight)
{
	uint32_t lane = lane_index(), key, best;
	for (uint32_t e = lane; e < n_experts; e += WAVE) {
		uint32_t k = order_key(moe_router_sigmoid(logits[e]) + rule.bias[e]);
		keys[e] = k > (uint32_t)KEY_NAN ? k : (uint32_t)KEY_NAN;
	}
	wave_barrier();
	if (rule.n_groups_used < rule.n_groups)
		moe_router_close(rule, n_experts, keys, keys + n_experts);
	moe_router_scan(keys, n_experts, &key, &best);
	float chosen = 1e-20f;
	for (int32_t u = 0; u < n_used; u++) {
		uint32_t k = key, e = best;
		wave_best(&k, &e);
		float p = moe_router_sigmoid(logits[e]);
		chosen += p;
		if ((uint32_t)u % WAVE == lane) {
			id[u] = (int32_t)e;
			weight[u] = p;
		}
		if (e == best) { /* mine */
			keys[e] = KEY_TAKEN;
			moe_router_scan(keys, n_experts, &key, &best);
		}
	}
	float scale = rule.scale * (norm_topk ? fast_rcp(chosen) : 1);
	for (int32_t u = (int32_t)lane; u < n_used; u += WAVE) /* which it wrote */
		weight[u] *= scale;
}

template <int format>
DEVICE void moe_router(weight_view router, int32_t n_used, uint32_t norm_topk,
		       const uint16_t *x, float *logits, int32_t *id, float *weight,
		       uint32_t *arrived, const moe_router_rule &rule)
{
	LDS_DYNAMIC(uint32_t, keys);
	LDS(uint32_t, before, 1);
	size_t t = group_index_y(), n = (size_t)router.n;
	size_t e = group_index_x() * MOE_ROUTER_WAVES + wave_index();
	if (e < n) {
		float logit = moe_router_row<format>(&router, e,
						     x + t * (size_t)router.k);
		if (lane_index() == 0)
			logits[t * n + e] =
				rule.logit_bias ? logit + rule.logit_bias[e] : logit;
	}
	device_fence();
	group_barrier();
	if (thread_index() == 0)
		before[0] = atomic_add(&arrived[t], 1u);
	group_barrier();
	if (before[0] + 1 != (n + MOE_ROUTER_WAVES - 1) / MOE_ROUTER_WAVES ||
	    thread_index() >= WAVE)
		return;
	device_fence();
	if (thread_index() == 0)
		arrived[t] = 0;
	if (rule.is_sigmoid) {
		moe_router_choose_sigmoid(rule, logits + t * n, (uint32_t)router.n, n_used,
					  norm_topk, keys, id + t * (size_t)n_used,
					  weight + t * (size_t)n_used);
		return;
	}
	moe_router_choose(logits + t * n, (uint32_t)router.n, n_used, norm_topk, keys,
			  id + t * (size_t)n_used, weight + t * (size_t)n_used);
}

#define MOE_ROUTER(name, format) \
	KERNEL(MOE_ROUTER_THREADS) \
	void moe_router_##name##_kernel(weight_view router, int32_t n_used, \
					uint32_t norm_topk, const uint16_t *x, \
					float *logits, int32_t *id, float *weight, \
					uint32_t *arrived, moe_router_rule rule) \
	{ \
		moe_router<format>(router, n_used, norm_topk, x, logits, id, weight, \
				   arrived, rule); \
	}
MOE_ROUTER(f32, WEIGHT_F32)
MOE_ROUTER(f16, WEIGHT_F16)
MOE_ROUTER(bf16, WEIGHT_BF16)
