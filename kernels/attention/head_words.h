/* SPDX-License-Identifier: Apache-2.0
 *
 * The norm and rotation of head_rope.h in separate parts, so that a kernel can issue
 * other loads in between. A wave first loads a head with its factors, then does other
 * work, and later rotates the head in registers. A head has dim elements, a multiple of
 * 8; n of them (n even) rotate with n others.
 */
#pragma once
#include "kernels/attention/head_rope.h"

/* A lane's words (two elements each) of a head, by slots of head_rope.h. */
template <int SLOTS> struct head_words {
	uint32_t lo[SLOTS], hi[SLOTS];
};

/* The norm's weights for the elements of a head_words. */
template <int SLOTS> struct head_norm {
	u32x2 lo[SLOTS], hi[SLOTS];
};
template <int SLOTS> struct head_rope {
	u32x4 angles[SLOTS]; /* cos, sin of two elements */
};

/* First element of a slot in this lane. */
DEVICE int32_t head_at(int slot)
{
	return 2 * (int32_t)lane_index() + slot * 2 * WAVE;
}

/* True if no lane has an element in the slot; the same for all lanes. */
DEVICE bool head_is_empty(int slot, int32_t n, int32_t dim)
{
	return slot * 2 * WAVE + n >= dim;
}

/* Load the pairs of elements in this lane's slots; V holds two T. Lanes without elements
 * there load the first element, which avoids a branch. */
template <int SLOTS, class V, class T>
DEVICE void head_ask_twos(const T *p, int32_t n, int32_t dim, V *lo, V *hi)
{
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = head_at(s);
		if (head_is_empty(s, n, dim))
			continue;
		lo[s] = *(const V *)(p + (i < n ? i : 0));
		hi[s] = *(const V *)(p + (i + n < dim ? i + n : 0));
	}
}

template <int SLOTS>
DEVICE void head_ask(const uint16_t *p, int32_t n, int32_t dim, head_words<SLOTS> *out)
{
	head_ask_twos<SLOTS>(p, n, dim, out->lo, out->hi);
}

template <int SLOTS>
DEVICE void head_ask_norm(const float *p, int32_t n, int32_t dim, head_norm<SLOTS> *out)
{
	if (p)
		head_ask_twos<SLOTS>(p, n, dim, out->lo, out->hi);
}

template <int SLOTS>
DEVICE void head_ask_rope(const float *p, int32_t n, head_rope<SLOTS> *out)
{
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = head_at(s);
		if (s * 2 * WAVE >= n)
			continue;
		out->angles[s] = *(const u32x4 *)(p + 2 * (i < n ? i : 0));
	}
}

template <int N, class V> DEVICE void head_floats(const V &v, float *out)
{
	UNROLL
	for (int i = 0; i < N; i++)
		out[i] = bits_cast<float>((uint32_t)v[i]);
}

/* Normalise (if has_norm) and rotate a head in place. All lanes of a wave must call it. */
template <int SLOTS>
DEVICE void head_rope_words(int32_t n, int32_t dim, float eps, bool has_norm,
		       const head_norm<SLOTS> &norm, const head_rope<SLOTS> &rope,
		       head_words<SLOTS> *h)
{
	float lo[2], hi[2], factors[4], squares = 0, scale = 1;
	UNROLL
	for (int s = 0; s < SLOTS; s++) { /* missing elements become 0 and add nothing */
		int32_t i = head_at(s);
		if (head_is_empty(s, n, dim))
			continue;
		head_unpack(i < n ? h->lo[s] : 0, lo);
		head_unpack(i + n < dim ? h->hi[s] : 0, hi);
		squares = head_squares<2>(hi, head_squares<2>(lo, squares));
	}
	if (has_norm)
		scale = head_scale(squares, dim, eps);
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		if (head_is_empty(s, n, dim))
			continue;
		head_unpack(h->lo[s], lo);
		head_unpack(h->hi[s], hi);
		if (has_norm) {
			head_floats<2>(norm.lo[s], factors);
			head_normalise<2>(factors, scale, lo);
			head_floats<2>(norm.hi[s], factors);
			head_normalise<2>(factors, scale, hi);
		}
		if (head_at(s) < n) {
			head_floats<4>(rope.angles[s], factors);
			head_rotate<2>(factors, lo, hi);
		}
		h->lo[s] = head_pack(lo);
		h->hi[s] = head_pack(hi);
	}
}

template <int SLOTS>
DEVICE void head_store_words(const head_words<SLOTS> &h, int32_t n, int32_t dim, uint16_t *to)
{
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = head_at(s);
		if (head_is_empty(s, n, dim))
			continue;
		if (i < n)
			*(uint32_t *)(to + i) = h.lo[s];
		if (i + n < dim)
			*(uint32_t *)(to + i + n) = h.hi[s];
	}
}
