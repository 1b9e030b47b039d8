/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated delta nets by the loops of the instruction set, if the arguments allow it.
 * Thread: engine.
 */
#pragma once
#include <math.h>

#include "backend/backend.h"

/* Channel c of token t. */
static inline float cpu_delta_number(const struct head_view *v, int t, int c)
{
	return ((const float *)v->p)[head_view_at(v, t, c)];
}

/* softplus(a a_scale + dt_bias) of channel c of token t. */
static inline float cpu_delta_step(const struct delta_rule_args *a, int t, int c)
{
	float scale = a->a_scale != 0 ? a->a_scale : 1;
	float step = cpu_delta_number(&a->a, t, c) * scale + a->dt_bias[c];
	return step > 20 ? step : log1pf(expf(step));
}

/* What token t leaves of channel c of the keys of head h. */
static inline float cpu_delta_keep(const struct delta_rule_args *a, int t, int h, int c)
{
	if (a->g_min < 0) {
		float step = cpu_delta_number(&a->a, t, c) + a->dt_bias[c];
		return expf(a->g_min / (1 + expf(a->decay[h] * step)));
	}
	return expf(a->decay[h] * cpu_delta_step(a, t, c));
}

/* k_dim is at most CPU_DELTA_MAX; k_dim and v_dim are multiples of 4. */
enum status cpu_delta_rule_fast(struct backend *b,
				const struct delta_rule_args *a) MUST_USE;
/* True if the channels of each part come in contiguous blocks of 16. */
bool cpu_causal_conv_fast_can(const struct causal_conv_args *a);
enum status cpu_causal_conv_fast(struct backend *b,
				 const struct causal_conv_args *a) MUST_USE;
