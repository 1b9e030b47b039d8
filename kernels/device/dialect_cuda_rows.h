/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over rows of tiles, and hardware copies to LDS (cp.async): a part of
 * dialect_cuda.h.
 */
#pragma once
DEVICE float tile_row_sum(float x, int = 0)
{
	x += wave_xor<2>(x);
	return x + wave_xor<1>(x);
}

DEVICE float tile_row_max(float x, int = 0)
{
	x = fmaxf(x, wave_xor<2>(x));
	return fmaxf(x, wave_xor<1>(x));
}

/* A lane has columns 2q, 2q + 1, 2q + 8, 2q + 9 of each row, so it adds two pairs itself. */
DEVICE void tile_row_totals(const tile_c &c, float *out)
{
	for (int s = 0; s < TILE_ROWS; s++) {
		float x = (c.v[2 * s] + c.v[2 * s + 4]) + (c.v[2 * s + 1] + c.v[2 * s + 5]);
		x += wave_xor<2>(x);
		out[s] = x + wave_xor<1>(x);
	}
}

DEVICE void tile_round_f16(tile_c *c)
{
	for (int i = 0; i < TILE_C; i += 2) {
		float2 both = __half22float2(__floats2half2_rn(c->v[i], c->v[i + 1]));
		c->v[i] = both.x;
		c->v[i + 1] = both.y;
	}
}

#define DIALECT_COPIES_TO_LDS
enum { COPY_LANDS = 0 };
template <int N> struct copy_ahead {
};

template <int N>
DEVICE void copy_ask(copy_ahead<N> *, int, uint16_t *to, const uint16_t *from, bool is_there)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     : : "r"(at), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

template <int N>
DEVICE void copy_ask_once(copy_ahead<N> *, int, uint16_t *to, const uint16_t *from, bool is_there)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	uint64_t first;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
		     : : "r"(at), "l"(from), "r"(is_there ? 16 : 0), "l"(first) : "memory");
}

template <int N> DEVICE void copy_land(copy_ahead<N> *, int, uint16_t *, bool) {}
DEVICE void copy_wait() { asm volatile("cp.async.wait_all;" : : : "memory"); }
DEVICE void copy_close() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N> DEVICE void copy_wait_but()
{
	asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}
