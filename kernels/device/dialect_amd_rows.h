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

/* The larger one of x and of what lane (own index xor M) has. As above, clang takes three. */
template <int M> DEVICE float dialect_max_xor(float x)
{
	float most;
	__asm__("v_max_f32_dpp %0, %1, %1 row_xmask:%2 row_mask:0xf bank_mask:0xf bound_ctrl:1"
		: "=v"(most) : "v"(x), "n"(M));
	return most;
}

DEVICE float tile_row_max(float x, int = 0)
{
	x = dialect_max_xor<8>(x);
	x = dialect_max_xor<4>(x);
	x = dialect_max_xor<2>(x);
	return dialect_max_xor<1>(x);
}
