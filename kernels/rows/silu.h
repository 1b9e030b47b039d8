/* SPDX-License-Identifier: Apache-2.0
 *
 * silu(gate) * up of two halves, computed in f32 and rounded once.
 */
#pragma once
#include "kernels/device/dialect.h"

DEVICE uint32_t silu_mul_one(uint32_t gate, uint32_t up)
{
	float g = f16_to_f32((uint16_t)gate), u = f16_to_f32((uint16_t)up);
	float e = fast_exp2(g * -1.44269504f); /* infinite below -88; rcp turns that into 0 */
	return f32_to_f16(g * fast_rcp(1 + e) * u);
}
