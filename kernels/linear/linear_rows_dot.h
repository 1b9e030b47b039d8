/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for f16, bf16, int8, fp8, nvfp4 and mxfp4 weights; fused with
 *           the norm before, for up to FUSED_NORM_TOK tokens
 * LAYOUT    kernels/linear/linear_rows.h: rows as in the checkpoint
 *           (model/formats/blocks.h). A lane loads 16 bytes, so a wave reads 512 bytes of
 *           a row at once. LDS holds the activations in 16-byte pieces, in the order in
 *           which lanes read them. For formats of four bits a piece has the order 0 2 4 6
 *           1 3 5 7, because one mask extracts weights from a word in that order.
 * GEOMETRY  workgroups of 8 waves (M = 16: 16). A wave has 2 rows at a time with 2 steps of
 *           each in flight (4 x 16 bytes a lane; M > 2: one step), then goes on to further
 *           rows of the part. A token's piece is read from LDS once for both rows. LDS:
 *           the activations of M tokens, at most 64 KiB. Where K is longer, M > 2 has a
 *           slice of K at a time: weights are read once, and a sum's order is that of K.
 * PRECISION integers and small floats become halves exactly. 0x6400 | n is 1024 + n. An
 *           e4m3 or e2m1 moved into a half's fields is 2^-8 or 2^-14 of its value, and is
 *           scaled back. Products by v_dot2 in f32 (bf16: f32 fma); the partial sum of 16
 *           bytes is multiplied by its scale in f32
 * ROOFLINE  vector instructions for a step of 512 bytes at M = 1: int8 24 (8 permutes, 8
 *           packed subtractions, 8 dot2), f16 4, bf16 32, fp8 about 56, nvfp4 72. On 40
 *           compute units at 2.9 GHz that is 4.9 TB/s for int8, 1.6 for nvfp4; memory
 *           (0.256) is the limit. gfx1100: 9 and 3 TB/s, and memory has 0.864.
 * TRIED     (elsewhere, on gfx1151) 4 rows a wave, 2 waves: lm_head 2829 us instead of
 *           2568; loads of K <= 512 without prefetch: half the rate
 *           (on a real head) int8 rows screened by their high four bits: 85 % of the rows
 *           remain for the best token alone (docs/gpu.md, tests/bench/head_screen.py)
 * SEE       kernels/ops/linear_ref.c; kernels/linear/linear_any.hip takes other shapes
 */
#pragma once
#include "kernels/linear/linear_rows_take.h"
#include "kernels/linear/fused_norm_stage.h"

/* Put piece p of n elements, eight of them, where its lane will read it. */
template <int format> DEVICE void linear_rows_put(u32x4 v, int32_t p, int32_t n, u32x4 *to)
{
	constexpr int32_t EACH = linear_rows_of<format>::PIECES, STEP = EACH * WAVE;
	u32x4 out = v;
	if constexpr (linear_rows_bits(format) == 4) {
		out[0] = permute_bytes<0x5410>(v[0], v[1]);
		out[1] = permute_bytes<0x5410>(v[2], v[3]);
		out[2] = permute_bytes<0x7632>(v[0], v[1]);
		out[3] = permute_bytes<0x7632>(v[2], v[3]);
	}
	/* In an incomplete last step only the first lanes have elements, and only their pieces
	 * are stored. */
	int32_t step = p / STEP, lanes = n / 8 - step * STEP;
	lanes = lanes < STEP ? lanes / EACH : WAVE;
	to[step * STEP + p % EACH * lanes + p % STEP / EACH] = out;
}

/* Copy n elements of a token to LDS, by n_threads; x: the first of them. */
template <int format>
DEVICE void linear_rows_copy(const uint16_t *x, int32_t n, int32_t first, int32_t n_threads,
			     u32x4 *to)
{
	for (int32_t p = first; p < n / 8; p += n_threads)
		linear_rows_put<format>(((const u32x4 *)x)[p], p, n, to);
}

/* Copy elements [from, from + n) of all tokens to LDS, `pitch` pieces apart. With as many
 * waves as tokens each wave copies its own; missing tokens repeat the last one. */
template <int M, int format>
DEVICE void linear_rows_stage(const linear_rows_args &a, int32_t from, int32_t n,
			      int32_t pitch, u32x4 *lds)
{
	constexpr int32_t WAVES = LINEAR_ROWS_WAVES_OF(M);
	if constexpr (M == WAVES) {
		int32_t t = (int32_t)wave_index(), last = a.n_tok - 1;
		if (M > LINEAR_ROWS_WAVES || t <= last)
			linear_rows_copy<format>(a.x + (size_t)(t < last ? t : last) *
								(size_t)a.k + from,
						 n, (int32_t)lane_index(), WAVE,
						 lds + t * pitch);
		return;
	}
	for (int t = 0; t < M && t < a.n_tok; t++)
		linear_rows_copy<format>(a.x + (size_t)t * (size_t)a.k + from, n,
					 (int32_t)thread_index(), WAVES * WAVE,
					 lds + t * pitch);
}

/* Normalise all tokens on their way to LDS. */
template <int M, int format>
DEVICE void linear_rows_norm(const linear_rows_args &a, int32_t pitch, u32x4 *lds)
{
	for (int t = 0; t < M && t < a.n_tok; t++) {
		u32x4 *to = lds + t * pitch;
		fused_norm_stage<LINEAR_ROWS_WAVES_OF(M) * WAVE>(
			a.norm, t, a.k, (float *)to, [&](int32_t p, u32x4 v) {
				linear_rows_put<format>(v, p, a.k, to);
			});
	}
}

/* sum[y][t] += the product of taken elements of row y and token t. x: token 0's first piece for
 * these elements; pieces are `lanes` apart, tokens `pitch`. */
template <int M, int format>
DEVICE void linear_rows_use(const linear_rows_taken<format> *w, int32_t n_tok, const u32x4 *x,
			    int32_t lanes, int32_t pitch, float (*sum)[M])
{
	constexpr int PAIRS = linear_rows_of<format>::EACH / 2;
	UNROLL
	for (int t = 0; t < M; t++) {
		if constexpr (M > 2)
			schedule_barrier();
		/* Missing tokens repeat the last one: here, or in LDS (linear_rows_stage). */
		int32_t at = M > LINEAR_ROWS_WAVES || t < n_tok ? t : n_tok - 1;
		const u32x4 *xt = x + at * pitch;
		u32x4 v[linear_rows_of<format>::PIECES];
		UNROLL
		for (int i = 0; i < linear_rows_of<format>::PIECES; i++)
			v[i] = xt[i * lanes];
		UNROLL
		for (int y = 0; y < LINEAR_ROWS_TILE; y++) {
			const uint32_t *h = w[y].h;
			if constexpr (format == WEIGHT_NVFP4) { /* two groups */
				sum[y][t] += linear_rows_dot<format, 0, PAIRS / 2>(h, v) *
					     w[y].scale;
				sum[y][t] += linear_rows_dot<format, PAIRS / 2, PAIRS>(h, v) *
					     w[y].second;
			} else {
				sum[y][t] += linear_rows_dot<format, 0, PAIRS>(h, v) *
					     w[y].scale;
			}
		}
	}
}

/* linear_rows_use for 16 bytes q[y] of each row, which are elements [i, i + EACH). */
template <int M, int format>
DEVICE void linear_rows_add(const linear_rows_args &a, const linear_rows_part &p,
			    const u32x4 *q, const int32_t *row, int32_t i, const u32x4 *x,
			    int32_t lanes, int32_t pitch, float (*sum)[M])
{
	linear_rows_taken<format> w[LINEAR_ROWS_TILE];
	UNROLL
	for (int y = 0; y < LINEAR_ROWS_TILE; y++)
		linear_rows_take<format>(a, p, q[y], row[y], i, &w[y]);
	linear_rows_use<M, format>(w, a.n_tok, x, lanes, pitch, sum);
}

/* Add elements [from, from + k) to a lane's sums, for the rows from n on. Rows past the
 * part's end repeat its last one. */
template <int M, int format>
DEVICE void linear_rows_sum(const linear_rows_args &a, const linear_rows_part &p, int32_t n,
			    int32_t from, int32_t k, int32_t pitch, const u32x4 *lds,
			    float (*sum)[M])
{
	using F = linear_rows_of<format>;
	enum { TILE = LINEAR_ROWS_TILE, AT_ONCE = M > 2 ? 1 : 2 };
	const char *q[TILE];
	int32_t row[TILE], lane = (int32_t)lane_index(), step = 0;
	int32_t whole = k / F::STEP, lanes = k % F::STEP / F::EACH;
	UNROLL
	for (int y = 0; y < TILE; y++) {
		row[y] = n + y < p.n ? n + y : p.n - 1;
		q[y] = p.q + (size_t)row[y] * (size_t)p.pitch + from / F::EACH * 16 + lane * 16;
	}
	for (; step + AT_ONCE <= whole; step += AT_ONCE) {
		u32x4 v[AT_ONCE][TILE];
		UNROLL
		for (int u = 0; u < AT_ONCE; u++)
			UNROLL
			for (int y = 0; y < TILE; y++)
				v[u][y] = load_nt<u32x4>(q[y] + (step + u) * WAVE * 16);
		UNROLL
		for (int u = 0; u < AT_ONCE; u++)
			linear_rows_add<M, format>(
				a, p, v[u], row, from + (step + u) * F::STEP + lane * F::EACH,
				lds + (step + u) * F::STEP / 8 + lane, WAVE, pitch, sum);
	}
	for (; step <= whole; step++) {
		int32_t here = step < whole ? WAVE : lanes;
		if (lane >= here)
			break;
		u32x4 v[TILE];
		UNROLL
		for (int y = 0; y < TILE; y++)
			v[y] = load_nt<u32x4>(q[y] + step * WAVE * 16);
		linear_rows_add<M, format>(a, p, v, row,
					   from + step * F::STEP + lane * F::EACH,
					   lds + step * F::STEP / 8 + lane, here, pitch, sum);
	}
}

/* Add up the lanes of each row; lane t stores token t. Both rows of a token together:
 * masks of 16 lanes kept for the second row would spill. */
template <int M, int format>
DEVICE void linear_rows_store(const linear_rows_args &a, const linear_rows_part &p,
			      int32_t n, float (*sum)[M], float *keep)
{
	int32_t mine = (int32_t)lane_index();
	float x[LINEAR_ROWS_TILE] = {};
	UNROLL
	for (int t = 0; t < M; t++)
		UNROLL
		for (int y = 0; y < LINEAR_ROWS_TILE; y++) {
			float all = wave_sum(sum[y][t]);
			x[y] = mine == t ? all : x[y];
		}
	UNROLL
	for (int y = 0; y < LINEAR_ROWS_TILE; y++) {
		float scale = p.factor;
		if (linear_rows_bits(format) == 8 && a.n_groups == 1 && n + y < p.n)
			scale *= scale_at(p.scales, p.scale_format,
					  (size_t)((n + y) / p.group_n));
		if (mine >= a.n_tok || n + y >= p.n)
			continue;
		x[y] *= scale;
		if (p.bias)
			x[y] += p.bias[n + y];
		x[y] = linear_store(p.y, (size_t)mine * (size_t)p.n + (size_t)(n + y), x[y],
				    p.store);
		if (keep)
			keep[(n + y) % (LINEAR_ROWS_WAVES_OF(M) * LINEAR_ROWS_TILE)] = x[y];
	}
}

/* If LDS lacks the room for all of K, it holds a slice at a time, anew for each round of
 * rows. Then all waves take part in staging, also those whose rows are past the end. keep: LDS, a
 * float for each row of a workgroup, if the grid has workgroups for all rows of the only part and
 * M is 1; or NULL. */
template <int M, int format>
DEVICE void linear_rows(const linear_rows_args &a, float *keep = nullptr)
{
	constexpr int32_t SLICE = LINEAR_ROWS_SLICE(M);
	constexpr int32_t ROWS = LINEAR_ROWS_WAVES_OF(M) * LINEAR_ROWS_TILE;
	LDS_DYNAMIC(u32x4, lds);
	bool is_whole = M < LINEAR_ROWS_SLICED_TOK || a.k <= SLICE;
	int32_t slice = is_whole ? a.k : SLICE;
	/* Constant, so that 16 tokens' addresses take no registers. */
	int32_t pitch = (M > LINEAR_ROWS_WAVES ? SLICE : slice) / 8;
	if (M <= FUSED_NORM_TOK && a.norm.x)
		linear_rows_norm<M, format>(a, pitch, lds);
	else if (is_whole)
		linear_rows_stage<M, format>(a, 0, a.k, pitch, lds);
	if (is_whole)
		group_barrier();

	int32_t group = (int32_t)group_index_x(), end = a.grid;
	linear_rows_part p = linear_rows_find(a, group, &end);
	int32_t first = (group - p.first_group) * ROWS;
	for (; first < p.n; first += (end - p.first_group) * ROWS) {
		int32_t n = first + (int32_t)wave_index() * LINEAR_ROWS_TILE;
		if (is_whole && n >= p.n)
			break;
		float sum[LINEAR_ROWS_TILE][M] = {};
		for (int32_t from = 0; from < a.k; from += slice) {
			int32_t k = from + slice < a.k ? slice : a.k - from;
			if (!is_whole) {
				group_barrier(); /* all waves have read the previous slice */
				linear_rows_stage<M, format>(a, from, k, pitch, lds);
				group_barrier();
			}
			linear_rows_sum<M, format>(a, p, n, from, k, pitch, lds, sum);
		}
		linear_rows_store<M, format>(a, p, n, sum, keep);
	}
}
