/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and maxima over rows of tiles: a part of dialect_amd.h.
 */
#pragma once
DEVICE float tile_row_sum(float x, int = 0)
{
	x += wave_xor<8>(x);
	x += wave_xor<4>(x);
	x += wave_xor<2>(x);
	return x + wave_xor<1>(x);
}

DEVICE float tile_row_max(float x, int = 0)
{
	x = max_f32(x, wave_xor<8>(x));
	x = max_f32(x, wave_xor<4>(x));
	x = max_f32(x, wave_xor<2>(x));
	return max_f32(x, wave_xor<1>(x));
}
