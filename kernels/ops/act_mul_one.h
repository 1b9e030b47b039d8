/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of act_mul, used by several references. Tests also compile these references
 * with float in place of double, so this is an inline function, not an exported one.
 */
#pragma once
#include <math.h>

#include "model/formats/activation.h"

static double act_mul_one(const struct activation *act, double g, double u)
{
	double limit = act->limit, gate_limit = act->gate_limit, alpha = act->alpha, z;
	switch (act->kind) {
	case ACT_SILU:
		return g / (1 + exp(-g)) * u;
	case ACT_GELU_TANH:
		z = sqrt((double)2 / (double)M_PI) * (g + 0.044715 * g * g * g);
		return 0.5 * g * (1 + tanh(z)) * u;
	case ACT_CLAMPED:
		g = g > limit ? limit : g;
		u = u > limit ? limit : u < -limit ? -limit : u;
		return g / (1 + exp(-alpha * g)) * (u + 1);
	case ACT_RELU:
		return g > 0 ? g * u : 0;
	case ACT_CLIPPED:
		g = g > gate_limit ? gate_limit : g;
		u = u > limit ? limit : u < -limit ? -limit : u;
		return g / (1 + exp(-g)) * u;
	case ACT_SCALED:
		g *= alpha;
		return g / (1 + exp(-g)) * u * act->scale;
	}
	__builtin_unreachable();
}
