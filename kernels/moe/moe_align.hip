/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      sorts the pairs (token, slot) by expert, into blocks of block_m pairs of one
 *           expert; unused places of a block are -1
 * LAYOUT    kernels/moe/moe_tile.h
 * GEOMETRY  one workgroup of 16 waves; each wave has a sixteenth of the pairs. LDS: a
 *           count for each wave and expert. Lanes with the same expert find each other by
 *           ballots over the bits of its id. So no atomics are needed, and pairs keep
 *           their order
 * PRECISION integers
 * ROOFLINE  4,096 pairs of 128 experts: 8 rounds a wave, twice, of 7 ballots: a few us
 * TRIED     atomic counts in LDS: no faster, and the order varies from run to run
 * SEE       kernels/moe/moe_tile.hip
 */
#include "kernels/moe/moe_act.h"
#include "kernels/moe/moe_tile.h"

DEVICE uint32_t moe_align_expert(const moe_launch &m, uint32_t p)
{
	uint32_t n = (uint32_t)m.n_slots, slot = p % n;
	if (slot == (uint32_t)m.n_used)
		return (uint32_t)m.shared;
	return (uint32_t)m.id[p / n * (uint32_t)m.n_used + slot];
}

/* Mask of the lanes of this wave with the same e as this lane; lanes with is_in false are
 * left out. */
DEVICE uint32_t moe_align_same(uint32_t e, bool is_in, int32_t n_bits)
{
	uint32_t same = wave_ballot(is_in);
	for (int32_t b = 0; b < n_bits; b++) {
		uint32_t ones = wave_ballot(is_in && (e >> b & 1));
		same &= e >> b & 1 ? ones : ~ones;
	}
	return same;
}

/* counts[e] += the pairs of expert e in this wave's share. If `pairs` is given, counts[e]
 * is instead the place of e's next pair, and the pairs are stored there. */
DEVICE void moe_align_pass(const moe_launch &m, uint32_t n_pairs, int32_t n_bits,
			   uint32_t *counts, int32_t *pairs)
{
	uint32_t share = (n_pairs + MOE_ALIGN_THREADS - 1) / MOE_ALIGN_THREADS * WAVE;
	uint32_t lane = lane_index(), first = wave_index() * share;
	for (uint32_t i = 0; i < share; i += WAVE) {
		uint32_t p = first + i + lane;
		bool is_in = p < n_pairs;
		uint32_t e = is_in ? moe_align_expert(m, p) : 0;
		uint32_t same = moe_align_same(e, is_in, n_bits);
		uint32_t before = same & ((1u << lane) - 1);
		uint32_t at = is_in ? counts[e] : 0;
		if (is_in && pairs)
			pairs[at + bit_count(before)] = (int32_t)p;
		wave_barrier();
		if (is_in && !before)
			counts[e] = at + bit_count(same);
		wave_barrier();
	}
}

KERNEL(MOE_ALIGN_THREADS) void moe_align_kernel(moe_tile_launch a)
{
	LDS_DYNAMIC(uint32_t, counts);
	uint32_t n = (uint32_t)a.n_experts, t = thread_index();
	uint32_t n_pairs = (uint32_t)(a.m.n_tok * a.m.n_slots), bm = (uint32_t)a.block_m;
	uint32_t *blocks = counts + MOE_ALIGN_WAVES * n, *mine = counts + wave_index() * n;
	int32_t n_bits = 0;
	while (n > 1u << n_bits)
		n_bits++;
	for (uint32_t i = t; i < MOE_ALIGN_WAVES * n; i += MOE_ALIGN_THREADS)
		counts[i] = 0;
	group_barrier();
	moe_align_pass(a.m, n_pairs, n_bits, mine, NULL);
	group_barrier();
	/* Number of blocks of each expert, then prefix sums over experts (Hillis and
	 * Steele). */
	for (uint32_t e = t; e < n; e += MOE_ALIGN_THREADS) {
		uint32_t all = 0;
		for (uint32_t w = 0; w < MOE_ALIGN_WAVES; w++)
			all += counts[w * n + e];
		blocks[e] = (all + bm - 1) / bm;
	}
	group_barrier();
	for (uint32_t d = 1; d < n; d *= 2) {
		uint32_t low = t >= d && t < n ? blocks[t - d] : 0, high = 0, u;
		u = t + MOE_ALIGN_THREADS;
		if (u < n)
			high = blocks[u - d];
		group_barrier();
		if (t < n)
			blocks[t] += low;
		if (u < n)
			blocks[u] += high;
		group_barrier();
	}
	/* counts become the place of each wave's first pair of an expert. Unused places of the
	 * expert's last block become -1. */
	for (uint32_t e = t; e < n; e += MOE_ALIGN_THREADS) {
		uint32_t block = e ? blocks[e - 1] : 0, at = block * bm;
		for (uint32_t w = 0; w < MOE_ALIGN_WAVES; w++) {
			uint32_t count = counts[w * n + e];
			counts[w * n + e] = at;
			at += count;
		}
		for (; at < blocks[e] * bm; at++)
			a.pairs[at] = -1;
		for (; block < blocks[e]; block++)
			a.block_expert[block] = (int32_t)e;
	}
	for (uint32_t b = blocks[n - 1] + t; b < (uint32_t)a.max_blocks;
	     b += MOE_ALIGN_THREADS)
		a.block_expert[b] = -1;
	group_barrier();
	moe_align_pass(a.m, n_pairs, n_bits, mine, a.pairs);
}
