/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for int4 weights: y = sum over groups of scale * sum
 *           (nibble - zero) x; fused with the norm before, for up to FUSED_NORM_TOK tokens
 *           This is vLLM's wvSplitK: WvPrGrp is WAVES, A_CHUNK is CHUNK, UNRL is UNROLL; THRDS
 *           and YTILE are the same.
 * LAYOUT    kernels/linear/linear_int4.h. Words as in the checkpoint: nibble i of a word
 *           is element i of eight. One mask extracts nibbles i and i + 4 into the halves
 *           of a register. So LDS holds the activations in the order 0 4 1 5 2 6 3 7.
 *           Pieces of eight are placed so that the lanes of a row read consecutive 16
 *           bytes (no bank conflict).
 * GEOMETRY  a wave takes 32/THRDS x YTILE rows. A lane takes CHUNK elements a step and
 *           loads UNROLL steps before it uses the first. Whole strides of THRDS x CHUNK x
 *           UNROLL run without bounds checks, the rest chunk by chunk. Needs K % CHUNK =
 *           0, group % CHUNK = 0, and groups of a power of two (or one a row). LDS: the
 *           activations of M tokens, at most 64 KiB.
 *           With a norm each workgroup normalises for itself, with the bits of
 *           rms_norm.hip; the first one writes the result.
 * PRECISION 0x6400 | n is the half 1024 + n, exactly, and n - zero is exact. Products by
 *           v_dot2 in f32; the partial sum of a chunk is multiplied by its scale in f32
 * ROOFLINE  13 vector instructions for a word of a row (1 shift, 4 and-or, 2 packed
 *           subtractions, 2 packed fma, 4 dot2 at M = 1), which is 128 bytes for a wave:
 *           2.2 TB/s on 40 compute units at 2.9 GHz. So memory is the limit.
 * TRIED     (elsewhere, on gfx1151) bit field extracts: 3.4 times the instructions. 1024
 *           + n directly into dot2, corrected by the sum of activations: saves four of 13
 *           instructions, but loses seven bits of the sum. Activations in bf16: there is
 *           no packed subtraction for it.
 *           (here, on an NVIDIA H200) activations in LDS in memory order: 22.5 us instead
 *           of 18.0 (K 12288, N 4096). Four lanes a row with products by mma.sync: 28.4 us
 *           instead of 24.1 (K 4096, N 24576). Loading the next weights before the
 *           barrier: twice the registers on gfx11
 * SEE       kernels/ops/linear_ref.c, kernels/linear/linear_int4.def;
 *           linear_int4_sliced.h for three tokens and more
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/linear/linear_int4_words.h"
#include "kernels/linear/fused_norm_stage.h"

/* A piece of eight halves, in the order of a word's nibbles. */
DEVICE u32x4 linear_int4_piece(u32x4 v)
{
	u32x4 out;
	out[0] = pair_lo(v[0], v[2]);
	out[1] = pair_hi(v[0], v[2]);
	out[2] = pair_lo(v[1], v[3]);
	out[3] = pair_hi(v[1], v[3]);
	return out;
}

/* Copy a token's activations to places first, first + n_threads, ... of LDS. So a wave's
 * stores are contiguous. A piece (eight elements) goes where its lane will read it. */
template <int THRDS, int CHUNK>
DEVICE void linear_int4_copy(const uint16_t *x, int32_t k, int32_t first, int32_t n_threads,
			     int32_t n_pieces, u32x4 *to)
{
	constexpr int32_t EACH = CHUNK / 8, STEP = THRDS * EACH;
	for (int32_t d = first; d < n_pieces; d += n_threads) {
		int32_t in = d % STEP;
		int32_t p = d - in + in % THRDS * EACH + in / THRDS;
		if (p < k / 8)
			to[d] = linear_int4_piece(((const u32x4 *)x)[p]);
	}
}

/* linear_int4_copy of M tokens, by all threads of the workgroup. */
template <int M, int THRDS, int CHUNK>
DEVICE void linear_int4_stage(const uint16_t *x, int32_t k, int32_t n_threads,
			      int32_t n_pieces, u32x4 *lds)
{
	int32_t first = (int32_t)thread_index();
	for (int t = 0; t < M; t++)
		linear_int4_copy<THRDS, CHUNK>(x + (size_t)t * (size_t)k, k, first, n_threads,
					       n_pieces, lds + t * n_pieces);
}

/* Normalise M tokens on their way to LDS. */
template <int M, int THRDS, int CHUNK, int THREADS>
DEVICE void linear_int4_norm(const linear_int4_args &a, int32_t n_pieces, u32x4 *lds)
{
	constexpr int32_t EACH = CHUNK / 8, STEP = THRDS * EACH;
	for (int t = 0; t < M; t++) {
		u32x4 *to = lds + t * n_pieces;
		fused_norm_stage<THREADS>(a.norm, t, a.k, (float *)to, [&](int32_t p, u32x4 v) {
			int32_t in = p % STEP;
			to[p - in + in % EACH * THRDS + in / EACH] = linear_int4_piece(v);
		});
	}
}

/* A lane's pointers to its rows of a part. */
template <int YTILE> struct linear_int4_rows {
	const uint32_t *q[YTILE];
	const uint16_t *scales[YTILE];
	const uint32_t *zeros[YTILE];
	uint32_t zero_shift[YTILE];
	bool is_bf16;
};

/* A chunk's data in a lane, between load and use. */
template <int YTILE, int WORDS> struct linear_int4_chunk {
	uint32_t q[YTILE][WORDS];
	uint16_t scale[YTILE];
	uint32_t zero[YTILE];
};

template <int YTILE, int CHUNK, bool HAS_ZERO>
DEVICE void linear_int4_load(const linear_int4_rows<YTILE> *rows, int32_t i, int32_t shift,
			     linear_int4_chunk<YTILE, CHUNK / 8> *c)
{
	UNROLL
	for (int y = 0; y < YTILE; y++)
		load_words<CHUNK / 8>(rows->q[y] + i / 8, c->q[y]);
	UNROLL
	for (int y = 0; y < YTILE; y++) {
		c->scale[y] = load_global<uint16_t>(rows->scales[y] + (i >> shift));
		if constexpr (HAS_ZERO)
			c->zero[y] = load_global<uint32_t>(rows->zeros[y] + (i >> shift)) >>
					     rows->zero_shift[y] & 15;
	}
}

/* sum[y][t] += the chunk's product of row y and token t. x: this lane's first piece of
 * token 0. */
template <int M, int THRDS, int YTILE, int CHUNK, bool HAS_ZERO>
DEVICE void linear_int4_use(const linear_int4_chunk<YTILE, CHUNK / 8> *c, bool is_bf16,
			    const u32x4 *x, int32_t n_pieces, float (*sum)[M])
{
	float part[YTILE][M] = {};
	UNROLL
	for (int j = 0; j < CHUNK / 8; j++) {
		uint32_t w[YTILE][4];
		UNROLL
		for (int y = 0; y < YTILE; y++) {
			uint32_t zero = HAS_ZERO ? c->zero[y] * 0x00010001u : 0x00080008u;
			linear_int4_pairs(c->q[y][j], 0x64006400u | zero,
					  0xD400D400u | zero << 4, w[y]);
		}
		UNROLL
		for (int t = 0; t < M; t++) {
			/* Else the compiler keeps all tokens' pieces in registers
			 * (moe_int4_group.hip). */
			if constexpr (M > 2 && THRDS == 8 && CHUNK == 32)
				schedule_barrier();
			u32x4 v = x[t * n_pieces + j * THRDS];
			UNROLL
			for (int y = 0; y < YTILE; y++)
				UNROLL
				for (int p = 0; p < 4; p++)
					part[y][t] = dot2_f16(w[y][p], v[p], part[y][t]);
		}
	}
	UNROLL
	for (int y = 0; y < YTILE; y++) {
		float s = is_bf16 ? bf16_to_f32(c->scale[y]) : f16_to_f32(c->scale[y]);
		UNROLL
		for (int t = 0; t < M; t++)
			sum[y][t] += part[y][t] * s;
	}
}

/* Load UNR chunks of a lane, before any is used. */
template <int THRDS, int YTILE, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void linear_int4_load_all(const linear_int4_args *a,
				 const linear_int4_rows<YTILE> *rows, int32_t base,
				 linear_int4_chunk<YTILE, CHUNK / 8> *c)
{
	int32_t at = (int32_t)thread_index() % THRDS;
	UNROLL
	for (int u = 0; u < UNR; u++)
		linear_int4_load<YTILE, CHUNK, HAS_ZERO>(
			rows, base + u * THRDS * CHUNK + at * CHUNK, a->group_shift, &c[u]);
}

/* Add elements [from, to) of K to the sums of a lane. LDS holds their inputs; `from` is a whole
 * number of steps. */
template <int M, int THRDS, int YTILE, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void linear_int4_sum_part(const linear_int4_args *a,
				 const linear_int4_rows<YTILE> *rows, const u32x4 *lds,
				 int32_t n_pieces, int32_t from, int32_t to, float (*sum)[M])
{
	constexpr int32_t STEP = THRDS * CHUNK;
	int32_t at = (int32_t)thread_index() % THRDS, base = from;
	for (; base + STEP * UNR <= to; base += STEP * UNR) {
		linear_int4_chunk<YTILE, CHUNK / 8> c[UNR];
		linear_int4_load_all<THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(a, rows, base, c);
		UNROLL
		for (int u = 0; u < UNR; u++)
			linear_int4_use<M, THRDS, YTILE, CHUNK, HAS_ZERO>(
				&c[u], rows->is_bf16, lds + (base - from + u * STEP) / 8 + at,
				n_pieces, sum);
	}
	for (; base + at * CHUNK < to; base += STEP) {
		linear_int4_chunk<YTILE, CHUNK / 8> c;
		linear_int4_load<YTILE, CHUNK, HAS_ZERO>(rows, base + at * CHUNK,
							 a->group_shift, &c);
		linear_int4_use<M, THRDS, YTILE, CHUNK, HAS_ZERO>(
			&c, rows->is_bf16, lds + (base - from) / 8 + at, n_pieces, sum);
	}
}

/* The sums of a lane over all of K. */
template <int M, int THRDS, int YTILE, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void linear_int4_sum(const linear_int4_args *a, const linear_int4_rows<YTILE> *rows,
			    const u32x4 *lds, int32_t n_pieces, float (*sum)[M])
{
	linear_int4_sum_part<M, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(a, rows, lds, n_pieces, 0,
								    a->k, sum);
}

/* A lane's rows [row, row + YTILE) of a part. Rows past its end repeat the last one. */
template <int YTILE, bool HAS_ZERO>
DEVICE linear_int4_rows<YTILE> linear_int4_at(const linear_int4_args *a,
					      const linear_int4_part *p, int32_t row)
{
	linear_int4_rows<YTILE> out;
	out.is_bf16 = p->is_bf16;
	UNROLL
	for (int y = 0; y < YTILE; y++) {
		size_t n = (size_t)(row + y < p->n ? row + y : p->n - 1);
		out.q[y] = p->q + n * (size_t)p->pitch;
		out.scales[y] = (const uint16_t *)p->scales + n * (size_t)a->n_groups;
		if constexpr (HAS_ZERO) {
			out.zeros[y] = p->zero_points + n / 8 * (size_t)a->n_groups;
			out.zero_shift[y] = (uint32_t)n % 8 * 4;
		}
	}
	return out;
}

/* Add up the lanes of each row; lane 0 of the row stores. keep: as in linear_int4; `place` is
 * that of row `row` there. */
template <int M, int THRDS, int YTILE>
DEVICE void linear_int4_store(const linear_int4_part *p, int32_t row, float (*sum)[M],
			      float *keep, int32_t place)
{
	UNROLL
	for (int y = 0; y < YTILE; y++)
		UNROLL
		for (int t = 0; t < M; t++) {
			float x = lanes_sum<THRDS>(sum[y][t]);
			if (thread_index() % THRDS != 0 || row + y >= p->n)
				continue;
			x = linear_int4_put(p, t, row + y, x);
			if (keep)
				keep[place + y] = x;
		}
}

/* keep: LDS, a float for each row of a workgroup, if the grid has workgroups for all rows of
 * the only part and M is 1; or NULL. */
template <int M, int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void linear_int4(const linear_int4_args &a, float *keep = nullptr)
{
	constexpr int32_t STEP = LINEAR_INT4_STEP(THRDS, CHUNK);
	constexpr int32_t WAVE_ROWS = WAVE / THRDS * YTILE, ROWS = WAVE_ROWS * WAVES;
	LDS_DYNAMIC(u32x4, lds);
	int32_t n_pieces = (a.k + STEP - 1) / STEP * STEP / 8, begin, end;
	linear_int4_part p = linear_int4_find(&a, &begin, &end);
	int32_t row = ((int32_t)group_index_x() - begin) * ROWS +
		      (int32_t)wave_index() * WAVE_ROWS;
	if (M <= FUSED_NORM_TOK && a.norm.x)
		linear_int4_norm<M, THRDS, CHUNK, WAVES * WAVE>(a, n_pieces, lds);
	else
		linear_int4_stage<M, THRDS, CHUNK>(a.x, a.k, WAVES * WAVE, n_pieces, lds);
	group_barrier();
	for (; row < p.n; row += (end - begin) * ROWS) {
		int32_t mine = THRDS == WAVE ? row : row + (int32_t)lane_index() / THRDS * YTILE;
		linear_int4_rows<YTILE> rows = linear_int4_at<YTILE, HAS_ZERO>(&a, &p, mine);
		float sum[YTILE][M] = {};
		linear_int4_sum<M, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(&a, &rows, lds,
								       n_pieces, sum);
		linear_int4_store<M, THRDS, YTILE>(&p, mine, sum, keep, mine % ROWS);
	}
}
