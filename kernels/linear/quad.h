/* SPDX-License-Identifier: Apache-2.0
 *
 * int4 weights with four lanes a row. A wave has 16 rows. A lane has two of them (g and g
 * + 8, g = lane / 4), and of each step of 128 elements the 32 that begin at 32 * (lane %
 * 4). So the lanes of a row read 64 contiguous bytes, and a lane's words are in one group
 * (groups are multiples of 32 here).
 *
 * The dialect does the product. If dot2 is an instruction, each lane sums its own
 * elements. Otherwise a matrix unit multiplies sixteen rows by eight columns (NVIDIA's
 * m16n8k16). Columns 0..3 hold token 0: column i has the activations of lane i's
 * elements, and zeros elsewhere. So elements with different scales stay in different
 * sums. Columns 4..7 hold token 1 likewise. A lane then holds sums over elements of
 * QUAD_SCALES lanes, and loads their scales.
 *
 * In LDS a token's activations are pieces of eight, in the order of the nibbles of a word
 * (linear_int4_dot.h). Piece j of lane q in step s is at (4 s + j) 4 + q. A step of zeros
 * precedes the first token; lanes without a token read it. Places in K are counted in
 * steps, so that the place u steps on is a constant distance away.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_int4_words.h"
#include "kernels/linear/quad_launch.h"

/* Sum over the four lanes of a row. */
DEVICE float quad_lanes_sum(float x)
{
	x += wave_xor<2>(x);
	return x + wave_xor<1>(x);
}

#ifndef DIALECT_QUAD
enum { QUAD_TOKENS = 1, QUAD_SCALES = 1 };

/* Sums of one step for each row and scale: v[row][scale]. */
struct quad_acc {
	float v[2][QUAD_SCALES];
};

/* acc += two rows' eight weights, as pairs (0 4) (1 5) (2 6) (3 7), times a piece x. */
DEVICE void quad_dot(quad_acc *acc, const uint32_t *w0, const uint32_t *w1, u32x4 x)
{
	UNROLL
	for (int p = 0; p < 4; p++) {
		acc->v[0][0] = dot2_f16(w0[p], x[p], acc->v[0][0]);
		acc->v[1][0] = dot2_f16(w1[p], x[p], acc->v[1][0]);
	}
}

/* The lane (of four) whose elements, and so whose scale, sum i belongs to. */
DEVICE int32_t quad_scale_lane(int32_t) { return (int32_t)lane_index() % 4; }
/* True if this lane supplies a token's activations to the product; *token: which of
 * QUAD_TOKENS. */
DEVICE bool quad_hands(int32_t *token)
{
	*token = 0;
	return true;
}
/* The total of a row over its four lanes. It is valid only in a lane with quad_has. */
DEVICE float quad_row_sum(float x) { return quad_lanes_sum(x); }
DEVICE bool quad_has(int32_t) { return lane_index() % 4 == 0; }

/* Sums of M tokens for weights with one scale a row: all elements are summed together. */
template <int M> struct quad_tokens {
	float v[2][M];
};

/* s += two rows' eight weights, as pairs in order, times a piece; tokens are pitch apart. */
template <int M>
DEVICE void quad_tokens_dot(quad_tokens<M> *s, const uint32_t *w0, const uint32_t *w1,
			    const u32x4 *x, int32_t pitch)
{
	UNROLL
	for (int t = 0; t < M; t++) {
		u32x4 v = x[t * pitch];
		UNROLL
		for (int p = 0; p < 4; p++) {
			s->v[0][t] = dot2_f16(w0[p], v[p], s->v[0][t]);
			s->v[1][t] = dot2_f16(w1[p], v[p], s->v[1][t]);
		}
	}
}

/* Call f(row, token, sum) once for each sum, in one of the four lanes of its row. */
template <int M, class F> DEVICE void quad_tokens_each(const quad_tokens<M> &s, F f)
{
	UNROLL
	for (int t = 0; t < M; t++)
		UNROLL
		for (int y = 0; y < 2; y++) {
			float x = quad_lanes_sum(s.v[y][t]);
			if (lane_index() % 4 == 0)
				f(y, t, x);
		}
}
#endif

/* A lane's addresses of its activations in LDS, for PARTS sets of QUAD_TOKENS tokens. */
template <int M> struct quad_inputs {
	enum { PARTS = (M + QUAD_TOKENS - 1) / QUAD_TOKENS };
	const u32x4 *p[PARTS];
	int32_t stride; /* distance of steps, in pieces */
};

template <int M> struct quad_sums {
	float v[2][quad_inputs<M>::PARTS];
};

/* Write the step of zeros. By the first threads of a workgroup, before its barrier. */
DEVICE void quad_zeros(u32x4 *lds)
{
	if (thread_index() < QUAD_ZEROS)
		lds[thread_index()] = u32x4{};
}

template <int M> DEVICE quad_inputs<M> quad_inputs_of(const u32x4 *lds, int32_t n_pieces)
{
	quad_inputs<M> out;
	int32_t token;
	bool is_on = quad_hands(&token) && token < M;
	out.stride = is_on ? 16 : 0;
	UNROLL
	for (int i = 0; i < quad_inputs<M>::PARTS; i++)
		out.p[i] = is_on ? lds + QUAD_ZEROS + (i * QUAD_TOKENS + token) * n_pieces +
					   (int32_t)lane_index() % 4
				 : lds;
	return out;
}

/* A lane's two rows; the pointers are to the lane's first words and groups. */
struct quad_rows {
	const uint32_t *q[2];
	const uint16_t *scales[2];
	const uint32_t *zeros[2];
	uint32_t zero_shift[2];
	int32_t shift; /* log2(group), or 31 for one group a row */
	bool is_bf16;
};

/* A step's data in a lane, between load and use. */
template <int KIND> struct quad_step {
	u32x4 q[2];
	uint32_t scale[2], zero[2]; /* scale: QUAD_SCALES halves */
};

/* The group that contains the elements of lane q (of four) in step s. */
DEVICE int32_t quad_group(const quad_rows &r, int32_t s, int32_t q)
{
	return (s * QUAD_STEP + q * 32) >> r.shift;
}

/* Load step s. From `end` on it loads the last step again, and quad_use ignores it:
 * zeroing loaded data would wait for it. */
template <int KIND>
DEVICE void quad_load(const quad_rows &r, int32_t s, int32_t end, quad_step<KIND> *out)
{
	s = s < end ? s : end - 1;
	UNROLL
	for (int y = 0; y < 2; y++)
		out->q[y] = load_nt<u32x4>(r.q[y] + s * (QUAD_STEP / 8));
	UNROLL
	for (int y = 0; y < 2; y++) {
		if constexpr (KIND == QUAD_G32 && QUAD_SCALES == 2) {
			out->scale[y] = load_global<uint32_t>(r.scales[y] +
							      s * (QUAD_STEP / 32) +
							      quad_scale_lane(0));
		} else {
			out->scale[y] = 0;
			UNROLL
			for (int i = 0; i < QUAD_SCALES; i++) {
				int32_t g = quad_group(r, s, quad_scale_lane(i));
				out->scale[y] |= (uint32_t)load_global<uint16_t>(
							 r.scales[y] + g)
						 << 16 * i;
			}
		}
		if constexpr (KIND == QUAD_ZERO) {
			int32_t g = quad_group(r, s, (int32_t)lane_index() % 4);
			uint32_t zero = load_global<uint32_t>(r.zeros[y] + g);
			out->zero[y] = zero >> r.zero_shift[y] & 15;
		}
	}
}

template <int M, int KIND>
DEVICE void quad_use(const quad_rows &r, const quad_step<KIND> &c, int32_t s, int32_t end,
		     const quad_inputs<M> &x, quad_sums<M> *sums)
{
	constexpr int PARTS = quad_inputs<M>::PARTS;
	quad_acc acc[PARTS] = {};
	bool is_there = s < end;
	int32_t at = (is_there ? s : end - 1) * x.stride;
	UNROLL
	for (int j = 0; j < 4; j++) {
		uint32_t w[2][4];
		UNROLL
		for (int y = 0; y < 2; y++) {
			uint32_t zero = KIND == QUAD_ZERO ? c.zero[y] * 0x00010001u
							  : 0x00080008u;
			linear_int4_pairs(c.q[y][j], 0x64006400u | zero,
					  0xD400D400u | zero << 4, w[y]);
		}
		UNROLL
		for (int i = 0; i < PARTS; i++)
			quad_dot(&acc[i], w[0], w[1], x.p[i][at + j * 4]);
		if (PARTS > 4)
			schedule_barrier();
	}
	UNROLL
	for (int y = 0; y < 2; y++)
		UNROLL
		for (int h = 0; h < QUAD_SCALES; h++) {
			uint16_t half = (uint16_t)(c.scale[y] >> 16 * h);
			float scale = r.is_bf16 ? bf16_to_f32(half) : f16_to_f32(half);
			scale = is_there ? scale : 0;
			UNROLL
			for (int i = 0; i < PARTS; i++)
				sums->v[y][i] = fma_f32(acc[i].v[y][h], scale, sums->v[y][i]);
		}
}

/* Load UNR steps from s on. */
template <int UNR, int KIND>
DEVICE void quad_load_all(const quad_rows &r, int32_t s, int32_t end, quad_step<KIND> *out)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_load<KIND>(r, s + u, end, &out[u]);
}

template <int M, int UNR, int KIND>
DEVICE void quad_use_all(const quad_rows &r, const quad_step<KIND> *c, int32_t s, int32_t end,
			 const quad_inputs<M> &x, quad_sums<M> *sums)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_use<M, KIND>(r, c[u], s + u, end, x, sums);
}

/* sums += steps [s, end), s < end. The first UNR steps are already in `first`; the next
 * ones are loaded while these are used. */
template <int M, int UNR, int KIND>
DEVICE void quad_run(const quad_rows &r, int32_t s, int32_t end, const quad_step<KIND> *first,
		     const quad_inputs<M> &x, quad_sums<M> *sums)
{
	quad_step<KIND> now[UNR], next[UNR];
	UNROLL
	for (int u = 0; u < UNR; u++)
		now[u] = first[u];
	for (; s + UNR < end; s += UNR) {
		quad_load_all<UNR, KIND>(r, s + UNR, end, next);
		quad_use_all<M, UNR, KIND>(r, now, s, end, x, sums);
		UNROLL
		for (int u = 0; u < UNR; u++)
			now[u] = next[u];
	}
	quad_use_all<M, UNR, KIND>(r, now, s, end, x, sums);
}

/* Write the sums of this wave's 16 rows to LDS: out[t * pitch + 8 y + g]. */
template <int M> DEVICE void quad_put(const quad_sums<M> &sums, int32_t pitch, float *out)
{
	UNROLL
	for (int t = 0; t < M; t++)
		UNROLL
		for (int y = 0; y < 2; y++) {
			float x = quad_row_sum(sums.v[y][t / QUAD_TOKENS]);
			if (quad_has(t % QUAD_TOKENS))
				out[t * pitch + 8 * y + (int32_t)lane_index() / 4] = x;
		}
}

/* Reorder a piece of activations to the order of a word's nibbles; and its place in LDS. */
DEVICE u32x4 quad_piece(u32x4 v)
{
	u32x4 out;
	out[0] = pair_lo(v[0], v[2]);
	out[1] = pair_hi(v[0], v[2]);
	out[2] = pair_lo(v[1], v[3]);
	out[3] = pair_hi(v[1], v[3]);
	return out;
}

DEVICE int32_t quad_place(int32_t p)
{
	uint32_t at = (uint32_t)p; /* unsigned, because remainders of signed numbers take
				    * more instructions */
	return (int32_t)(at / 16 * 16 + at % 4 * 4 + at / 4 % 4);
}
