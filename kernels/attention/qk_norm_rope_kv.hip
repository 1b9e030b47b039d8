/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/qk_norm_rope_kv.h
 * LAYOUT    q (T, H, K), k and v (T, G, K), pages (n_pages, G, P, K), all f16; norms and
 *           rope f32. A lane holds both elements of each rotated pair, and its share of
 *           the elements that do not rotate (kernels/attention/head_rope.h). So q can
 *           change in place, and lanes exchange only the sum of squares.
 * GEOMETRY  one wave a head: ((H + 2 G) over 4, T) workgroups of four waves. A load takes two
 *           elements if K and n_freq are even. No LDS; the kernel for a cache in 8 bits keeps
 *           a rotated head there, which it then transforms (kernels/ops/kv_bytes.h).
 * PRECISION squares summed in f32: each lane its own, then a tree over lanes. Norm and
 *           rotation in f32; q and k rounded once; v copied bit by bit. A Hadamard transform for
 *           8 bits in f32, rounded to f16 before and after it
 * ROOFLINE  bound by launch overhead at decode (40 heads of 128: 10 KB in 10 workgroups).
 *           A prefill of 4096 tokens moves 84 MB, 0.35 ms at 240 GB/s; the second read of
 *           a head, for the rotation, hits the cache.
 * TRIED     (elsewhere) one launch each for norm, rotation and cache: three launches and
 *           twice the traffic. cos and sin computed in each layer: they are the same for
 *           all layers (rope_table.hip)
 * SEE       kernels/ops/qk_norm_rope_kv_ref.c; decode fuses this into attention:
 *           kernels/attention/attention_fused.h
 */
#include "kernels/attention/attention_bytes.h"
#include "kernels/attention/head_rope.h"
#include "kernels/attention/qk_norm_rope_kv_launch.h"

/* Load W elements at p as floats. */
template <int W> DEVICE void head_load(const uint16_t *p, float *out)
{
	if constexpr (W == 2)
		head_unpack(*(const uint32_t *)p, out);
	else
		out[0] = f16_to_f32(*p);
}

template <int W> DEVICE void head_store(uint16_t *p, const float *x)
{
	if constexpr (W == 2)
		*(uint32_t *)p = head_pack(x);
	else
		*p = f32_to_f16(x[0]);
}

template <int W>
DEVICE void head_normalised(const uint16_t *in, const float *norm, int32_t i, float scale,
			    float *out)
{
	head_load<W>(in + i, out);
	if (norm)
		head_normalise<W>(norm + i, scale, out);
}

template <int W> DEVICE void head_times(float times, float *x)
{
	UNROLL
	for (int j = 0; j < W; j++)
		x[j] *= times;
}

/* Norm and rotation of a head, from in (K) to out (K), which may be the same, times `times`. */
template <int W>
DEVICE void head_rope(const qk_norm_rope_kv_launch &a, const uint16_t *in,
		      const float *norm, const float *rope, float times, uint16_t *out)
{
	int32_t first = (int32_t)lane_index() * W, n = a.n_freq;
	const float *before = a.norm_after_rope ? nullptr : norm;
	float squares = 0, scale = 1;
	for (int32_t i = first; norm && i + n < a.head_dim; i += WAVE * W) {
		float lo[W], hi[W];
		if (i < n) {
			head_load<W>(in + i, lo);
			squares = head_squares<W>(lo, squares);
		}
		head_load<W>(in + i + n, hi);
		squares = head_squares<W>(hi, squares);
	}
	if (norm) /* uniform branch: norm is the same for all lanes */
		scale = head_scale(squares, a.head_dim, a.eps);
	for (int32_t i = first; i + n < a.head_dim; i += WAVE * W) {
		float lo[W], hi[W];
		head_normalised<W>(in, before, i + n, scale, hi);
		if (i < n) {
			head_normalised<W>(in, before, i, scale, lo);
			head_rotate<W>(rope + 2 * i, lo, hi);
			if (norm != before)
				head_normalise<W>(norm + i, scale, lo);
			head_times<W>(times, lo);
			head_store<W>(out + i, lo);
		}
		if (norm != before)
			head_normalise<W>(norm + i + n, scale, hi);
		head_times<W>(times, hi);
		head_store<W>(out + i + n, hi);
	}
}

/* Index in the pages of head g's row for the token in `slot`, in rows. */
DEVICE size_t head_at(const qk_norm_rope_kv_launch &a, int32_t slot, int32_t g)
{
	size_t page = (size_t)(slot / a.page_size), at = (size_t)(slot % a.page_size);
	return (page * (size_t)a.n_kv_heads + (size_t)g) * (size_t)a.page_size + at;
}

/* Write a row to the cache in 8 bits. */
DEVICE void head_put_row(u32x4 x, int32_t dim, uint16_t *pages, uint16_t *scales, size_t row)
{
	bytes_put_row(&x, dim, (uint8_t *)pages + row * (size_t)dim, scales + row);
}

/* A rotated head from LDS, after the Hadamard transform (bytes_hadamard_row) for a cache in 8
 * bits. */
DEVICE u32x4 head_for_bytes(const uint16_t *rotated, int32_t dim)
{
	wave_barrier();
	u32x4 row = bytes_row_of(rotated, dim);
	bytes_hadamard_row(&row, dim);
	return row;
}

/* BYTES: the cache is in 8 bits. Then `rotated` is LDS of this wave for a head. */
template <int W, bool BYTES>
DEVICE void qk_norm_rope_kv(const qk_norm_rope_kv_launch &a, int32_t head, size_t t,
			    uint16_t *rotated)
{
	size_t dim = (size_t)a.head_dim;
	const float *rope = a.rope + t * (size_t)a.n_freq * 2;
	if (head < a.n_heads) {
		size_t at = t * (size_t)a.n_heads + (size_t)head;
		uint16_t *q = a.q + at * dim;
		const uint16_t *from = a.q_from ? a.q_from + at * (size_t)a.q_pitch : q;
		float times = a.q_scale ? a.q_scale[t] : 1.0f;
		if constexpr (BYTES) {
			head_rope<W>(a, from, a.q_norm, rope, times, rotated);
			bytes_row_to(head_for_bytes(rotated, a.head_dim), a.head_dim, q);
		} else {
			head_rope<W>(a, from, a.q_norm, rope, times, q);
		}
		return;
	}
	bool is_key = head < a.n_heads + a.n_kv_heads;
	int32_t g = head - a.n_heads - (is_key ? 0 : a.n_kv_heads);
	size_t from = (t * (size_t)a.n_kv_heads + (size_t)g) * dim;
	size_t row = head_at(a, a.slot[t], g), to = row * dim;
	if constexpr (BYTES) {
		if (is_key) {
			head_rope<W>(a, a.k + from, a.k_norm, rope, 1.0f, rotated);
			head_put_row(head_for_bytes(rotated, a.head_dim), a.head_dim,
				     a.k_pages, a.k_scale, row);
		} else {
			head_put_row(bytes_row_of(a.v + from, a.head_dim), a.head_dim,
				     a.v_pages, a.v_scale, row);
		}
		return;
	}
	if (is_key) {
		head_rope<W>(a, a.k + from, a.k_norm, rope, 1.0f, a.k_pages + to);
		return;
	}
	for (int32_t i = (int32_t)lane_index() * W; i < a.head_dim; i += WAVE * W) {
		if constexpr (W == 2)
			*(uint32_t *)(a.v_pages + to + i) = *(const uint32_t *)(a.v + from + i);
		else
			a.v_pages[to + (size_t)i] = a.v[from + (size_t)i];
	}
}

template <bool BYTES>
DEVICE void qk_norm_rope_kv_any(const qk_norm_rope_kv_launch &a, uint16_t *rotated)
{
	int32_t head = (int32_t)(group_index_x() * QK_NORM_ROPE_KV_WAVES + wave_index());
	if (head >= a.n_heads + 2 * a.n_kv_heads)
		return;
	if (a.head_dim % 2 == 0 && a.n_freq % 2 == 0 && a.q_pitch % 2 == 0)
		qk_norm_rope_kv<2, BYTES>(a, head, group_index_y(), rotated);
	else
		qk_norm_rope_kv<1, BYTES>(a, head, group_index_y(), rotated);
}

KERNEL(QK_NORM_ROPE_KV_WAVES * WAVE)
void qk_norm_rope_kv_kernel(qk_norm_rope_kv_launch a)
{
	qk_norm_rope_kv_any<false>(a, nullptr);
}

KERNEL(QK_NORM_ROPE_KV_WAVES * WAVE)
void qk_norm_rope_kv_bytes_kernel(qk_norm_rope_kv_launch a)
{
	LDS(uint16_t, rotated, QK_NORM_ROPE_KV_WAVES * QK_NORM_ROPE_KV_WIDEST);
	qk_norm_rope_kv_any<true>(a, rotated + wave_index() * QK_NORM_ROPE_KV_WIDEST);
}
