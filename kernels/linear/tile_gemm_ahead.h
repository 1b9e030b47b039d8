/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of tile_gemm.h: the steps of a product where hardware copies X to LDS and a wave has
 * registers to spare (IS_AHEAD). Who multiplies a step asks for what a later one needs:
 *
 *   X           is copied to LDS, FAR steps ahead. LDS has four buffers of it.
 *   W           is loaded to registers, FAR steps ahead. It is stored to LDS one step ahead.
 *   scales      are loaded FAR steps before their 128 elements. They are stored one step before.
 *
 * Four steps are a turn. So each step of a turn has constant buffers, and one of them the scales.
 */
#pragma once
#include "kernels/linear/tile_gemm_multiply.h"
#include "kernels/linear/tile_gemm_stage.h"

DEVICE int32_t gemm_wave_m(int32_t waves_n)
{
	return (int32_t)wave_index() / waves_n;
}

DEVICE int32_t gemm_wave_n(int32_t waves_n)
{
	return (int32_t)wave_index() % waves_n;
}

/* Where a lane multiplies: the workgroup's LDS, the lane's places in X and W, and the first
 * scale and sum it needs. */
struct gemm_place {
	gemm_stages lds;
	uint32_t a, b, scale, sum;
	int32_t n_used; /* of the wave's tiles of rows; MT or more: all */
};

template <class G> DEVICE gemm_place gemm_place_of(const gemm_stages &lds, int32_t n_rows)
{
	int32_t row = gemm_wave_m(G::WAVES_N) * (G::MT * 16);
	int32_t column = gemm_wave_n(G::WAVES_N) * (G::NT * 16);
	return {lds,
		keep<8>((uint32_t)row * G::PITCH + tile_lane_a<G::PIECES>()),
		keep<8>((uint32_t)column * G::PITCH + tile_lane_b<G::PIECES>()),
		keep<TILE_SIDE>((uint32_t)(column + tile_column(0))), (uint32_t)row,
		(n_rows + 15) / 16 - gemm_wave_m(G::WAVES_N) * G::MT};
}

/* A thread's words of the steps on their way: those of step s are v[s % (FAR - 1)]. */
template <class G> struct gemm_words {
	uint32_t v[G::FAR - 1][G::B_EACH];
};

/* Start the copies of a thread's pieces of X for the step at k0, all of which is within K. */
template <class G>
DEVICE void gemm_copy_x(gemm_thread<G> *t, const gemm_weight *w, int32_t k0, uint16_t *a)
{
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		const char *from = (const char *)(w->x + k0) + t->a[j];
		copy_ask(&t->a_copy, j, a + t->a_to[j], (const uint16_t *)from, true);
	}
	copy_close();
}

/* Step U of the turn at k0. is_last: nothing of K is behind this turn. scales: LDS of the turn's
 * scales; next_scales: of the next turn's. */
template <class G, bool is_whole, int U, bool is_last>
DEVICE void gemm_turn_step(gemm_thread<G> *t, const gemm_weight *w, const gemm_place &at,
			   int32_t k0, float *scales, float *next_scales, gemm_words<G> *words,
			   gemm_sums<G> *sum)
{
	constexpr int FAR = G::FAR, NEXT = U + 1;
	constexpr bool ASKS = !is_last || U + FAR < 4;
	const gemm_stages &lds = at.lds;
	uint32_t first = (uint32_t)k0 + t->b_at[0];
	if constexpr (ASKS)
		gemm_copy_x(t, w, k0 + (U + FAR) * G::BK, lds.a + (U + FAR) % 4 * G::A_STAGE);
	if constexpr (!is_last || NEXT < 4)
		gemm_stage_words(t, words->v[NEXT % (FAR - 1)], lds.b + NEXT % 2 * G::B_HALVES);
	if constexpr (!is_last && NEXT == 4)
		gemm_stage_scales(t, w, next_scales);
	if constexpr (ASKS)
		gemm_load_words<G>(t->row, first + (U + FAR) * G::BK, 0,
				   words->v[NEXT % (FAR - 1)]);
	if constexpr (!is_last && U + FAR == 4)
		gemm_load_scales(t, w, k0 + G::AHEAD_K);
	if constexpr (!is_last || NEXT + 1 < 4)
		gemm_load_zeros(t, w, first + (NEXT + 1) * G::BK, 0);
	gemm_lds step = {lds.a + U * G::A_STAGE + at.a, lds.b + U % 2 * G::B_HALVES + at.b,
			 scales + U * G::BN + at.scale, nullptr};
	gemm_multiply_step<G, is_whole>(sum, step, at.n_used);
	if constexpr (is_last)
		copy_wait();
	else
		copy_wait_but<FAR - 1>();
	group_barrier();
}

template <class G, bool is_whole, bool is_last>
DEVICE void gemm_turn_steps(gemm_thread<G> *t, const gemm_weight *w, const gemm_place &at,
			    int32_t k0, float *scales, float *next_scales,
			    gemm_words<G> *words, gemm_sums<G> *sum)
{
	gemm_turn_step<G, is_whole, 0, is_last>(t, w, at, k0, scales, next_scales, words, sum);
	gemm_turn_step<G, is_whole, 1, is_last>(t, w, at, k0, scales, next_scales, words, sum);
	gemm_turn_step<G, is_whole, 2, is_last>(t, w, at, k0, scales, next_scales, words, sum);
	gemm_turn_step<G, is_whole, 3, is_last>(t, w, at, k0, scales, next_scales, words, sum);
}

/* The steps of a product whose K is whole turns. The first one lies in LDS. A loop that counts
 * turns takes fewer registers on NVIDIA than one that compares k0. */
template <class G, bool is_whole>
DEVICE void gemm_turns(gemm_thread<G> *t, const gemm_weight *w, const gemm_place &at,
		       gemm_sums<G> *sum)
{
	constexpr int FAR = G::FAR, TURN = 4 * G::BK;
	static_assert(TURN == G::AHEAD_K && G::STAGES == 2, "a turn takes one set of scales");
	static_assert(G::B_EACH < 8, "a thread's words lie one after the other");
	gemm_words<G> words;
	UNROLL
	for (int s = 1; s < FAR; s++) {
		gemm_copy_x(t, w, s * G::BK, at.lds.a + s * G::A_STAGE);
		gemm_load_words<G>(t->row, t->b_at[0] + s * G::BK, 0, words.v[s % (FAR - 1)]);
	}
	gemm_load_zeros(t, w, t->b_at[0] + G::BK, 0);
	int32_t k0 = 0;
	float *now = at.lds.scales, *next = now + G::SIDE;
	ONE_BY_ONE
	for (int32_t n = w->k / TURN - 1; n > 0; n--, k0 += TURN) {
		gemm_turn_steps<G, is_whole, false>(t, w, at, k0, now, next, &words, sum);
		float *swap = now;
		now = next;
		next = swap;
	}
	gemm_turn_steps<G, is_whole, true>(t, w, at, k0, now, next, &words, sum);
}
