/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of scores as an operand of the next product: a part of dialect_amd.h.
 */
#pragma once
/* A column of B has all 16 positions in both of its lanes, and C half of them in each. */
DEVICE score_weight score_weight_of(const tile_c &c, int = 0)
{
	bool is_odd = thread_index() >> 4 & 1;
	uint32_t low = is_odd ? 0x01000504u : 0x05040100u, high = low | 0x02020202u;
	struct {
		uint32_t v[8];
	} words;
	UNROLL
	for (int j = 0; j < 4; j++) {
		/* As a vector: of numbers of 16 bits, clang clears the upper halves first. */
		uint32_t mine = bits_cast<uint32_t>(
			dialect_h2{(_Float16)c.v[2 * j], (_Float16)c.v[2 * j + 1]});
		uint32_t other = bits_cast<uint32_t>(wave_xor<16>(bits_cast<float>(mine)));
		words.v[2 * j] = __builtin_amdgcn_perm(other, mine, low);
		words.v[2 * j + 1] = __builtin_amdgcn_perm(other, mine, high);
	}
	return {bits_cast<h16x16>(words)};
}
