/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of tile_gemm_stage.h: how a thread brings int4 from memory to LDS, its words, scales and
 * zero points.
 */
#pragma once
#include "kernels/linear/tile_gemm_numbers.h"
#include "kernels/linear/tile_gemm_shape.h"

/* Start the loads of a thread's scales: those of AHEAD_K elements from k0 on. A row's scales
 * lie one after the other. Past the row's end the last one is loaded; x is zero there. */
template <class G>
DEVICE void gemm_load_scales(gemm_thread<G> *t, const gemm_weight *w, int32_t k0)
{
	constexpr int EACH = G::AHEAD_EACH;
	static_assert(EACH == 2 || EACH == 4, "scales of one load");
	uint32_t n = (uint32_t)w->k / 32;
	uint32_t first = (uint32_t)k0 / 32 + t->b_at[0] / (G::B_EACH * 8) * EACH;
	const uint16_t *from = t->row.scales + first;
	/* Groups of 32, and the load is aligned. */
	if (w->group_shift == 5 && n % EACH == 0 && first + EACH <= n) {
		if constexpr (EACH == 2)
			t->scales[0] = load_global<uint32_t>(from);
		else
			load_words<2, true>((const uint32_t *)from, t->scales);
	} else {
		UNROLL
		for (int i = 0; i < EACH; i++) {
			uint32_t at = first + i < n ? first + i : n - 1;
			uint32_t one = load_global<uint16_t>(t->row.scales +
							     (at >> (w->group_shift - 5)));
			t->scales[i / 2] = i % 2 ? t->scales[i / 2] | one << 16 : one;
		}
	}
}

/* Start the loads of a thread's words at element `at` of its row; where it has eight, the second
 * four begin at element `second`. */
template <class G>
DEVICE void gemm_load_words(const gemm_row &row, uint32_t at, uint32_t second, uint32_t *out)
{
	const uint32_t *q = (const uint32_t *)row.q;
	if constexpr (G::B_EACH == 8) {
		load_words<4, true>(q + at / 8, out);
		load_words<4, true>(q + second / 8, out + 4);
	} else {
		load_words<G::B_EACH, true>(q + at / 8, out);
	}
}

/* The same of the zero points of these words. */
template <class G>
DEVICE void gemm_load_zeros(gemm_thread<G> *t, const gemm_weight *w, uint32_t at, uint32_t second)
{
	if constexpr (G::HAS_ZEROS)
		if (t->row.zeros)
			UNROLL
			for (int i = 0; i < G::ZEROS; i++)
				t->zeros[i] = load_global<uint32_t>(
					t->row.zeros + ((i ? second : at) >> w->group_shift));
}

/* Start the loads of a thread's int4: B_EACH words, AHEAD_EACH scales, zero points. */
template <class G, bool is_whole>
DEVICE void gemm_load_int4(gemm_thread<G> *t, const gemm_weight *w, int32_t k0)
{
	uint32_t k = (uint32_t)w->k, at = (uint32_t)k0 + t->b_at[0];
	at = is_whole || at < k ? at : 0;
	uint32_t second = is_whole || at + 32 < k ? at + 32 : 0;
	gemm_load_words<G>(t->row, at, second, t->word);
	if (k0 % G::AHEAD_K == 0)
		gemm_load_scales(t, w, k0);
	gemm_load_zeros(t, w, at, second);
}

/* Store the loaded scales to LDS. */
template <class G>
DEVICE void gemm_stage_scales(const gemm_thread<G> *t, const gemm_weight *w, float *scales)
{
	uint32_t row = t->b_to[0] / G::PITCH;
	uint32_t first = t->b_at[0] / (G::B_EACH * 8) * G::AHEAD_EACH;
	UNROLL
	for (int i = 0; i < G::AHEAD_EACH; i++) {
		uint16_t s = (uint16_t)(t->scales[i / 2] >> i % 2 * 16);
		scales[(first + i) * G::BN + row] =
			w->is_bf16 ? bf16_to_f32(s) : f16_to_f32(s);
	}
}

/* Store a thread's words to LDS as halves, less their zero points. */
template <class G>
DEVICE void gemm_stage_words(const gemm_thread<G> *t, const uint32_t *word, uint16_t *b)
{
	UNROLL
	for (int i = 0; i < G::B_EACH; i++) {
		uint32_t zero = 8;
		if constexpr (G::HAS_ZEROS)
			zero = t->zeros[i * G::ZEROS / G::B_EACH] >> t->row.zero_shift & 15;
		*(u32x4 *)(b + (t->b_to[0] ^ i * 8)) =
			gemm_int4(word[i], 0x64006400u | zero * 0x00010001u,
						0xD400D400u | zero * 0x00100010u);
	}
}
