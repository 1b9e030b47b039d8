/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for int8 weights with one scale a row, no zero points
 * LAYOUT    kernels/linear/linear_rows.h; four lanes a row as in kernels/linear/quad.h. A
 *           wave has 16 rows. A lane has rows g and g + 8 (g = lane / 4), and of each
 *           step of 64 elements the 16 that begin at 16 * (lane % 4). With one scale a
 *           row, all elements can be summed together: the columns of a matrix unit are
 *           tokens, and eight tokens cost what one does.
 *           In LDS, token t begins at piece t * (K/8 + 4). Piece j (8 elements) of lane q
 *           in step s is at (2 s + j) 4 + q. The 4 extra pieces put two tokens into
 *           different banks.
 * GEOMETRY  workgroups of 4 waves that stay resident: a wave goes on to further rows, and
 *           starts their first loads before it uses its last ones. The only barrier
 *           follows the activations. A turn is four steps: 8 x 16 bytes a lane, with as
 *           many of the next turn in flight.
 * PRECISION integers become halves exactly (linear_rows.hip); products in f32; the scale
 *           is applied once. The bits of a row depend neither on M nor on the grid.
 * ROOFLINE  32 bytes of a lane take 32 vector instructions, and 4 of the matrix unit on
 *           NVIDIA or 16 dot2 a token on gfx11. On NVIDIA linear_rows.hip needs about 160
 *           to convert halves to floats, which limits it. On gfx11 both forms need the
 *           same, and linear_rows.hip stays the default: its waves read 512 bytes of a
 *           row at once.
 * TRIED     (on an NVIDIA H200, in a separate program, N 151936, K 2048) linear_rows: 112
 *           us; here two steps a turn: 77 to 79 us, four: 74, eight: 73 (91 % of the
 *           bandwidth of plain reads); 16 resident waves: 74. At K 4096: linear_rows 192
 *           us; two, four and eight steps: 149, 141, 140 (95 %)
 * SEE       kernels/ops/linear_ref.c
 */
#include "kernels/weights/dequant.h"
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/quad.h"

/* Addresses of a lane's two rows, from its first element on. */
struct quad_int8_rows {
	const char *q[2];
};

/* A turn's data in a lane, between load and use. */
struct quad_int8_turn {
	u32x4 q[LINEAR_QUAD_INT8_STEPS][2];
};

DEVICE quad_int8_rows quad_int8_at(const linear_rows_part &p, int32_t tile)
{
	quad_int8_rows out;
	UNROLL
	for (int y = 0; y < 2; y++) {
		int32_t n = tile * QUAD_ROWS + (int32_t)lane_index() / 4 + 8 * y;
		n = n < p.n ? n : p.n - 1;
		out.q[y] = p.q + (size_t)n * (size_t)p.pitch + lane_index() % 4 * 16;
	}
	return out;
}

DEVICE void quad_int8_load(const quad_int8_rows &r, int32_t k, quad_int8_turn *out)
{
	UNROLL
	for (int s = 0; s < LINEAR_QUAD_INT8_STEPS; s++)
		UNROLL
		for (int y = 0; y < 2; y++)
			out->q[s][y] = load_nt<u32x4>(r.q[y] + k + s * 64);
}

/* Words 2 j and 2 j + 1 of a row as pairs of halves. */
DEVICE void quad_int8_pairs(u32x4 q, int j, uint32_t *out)
{
	UNROLL
	for (int i = 0; i < 2; i++) {
		uint32_t w = q[j * 2 + i];
		out[2 * i] = sub2_f16(permute_bytes<0x4140>(w, 0x64), 0x64806480u);
		out[2 * i + 1] = sub2_f16(permute_bytes<0x4342>(w, 0x64), 0x64806480u);
	}
}

/* Add a turn's products. x: the lane's piece 0 of the turn's first step, token 0. */
template <int M>
DEVICE void quad_int8_use(const quad_int8_turn &c, const u32x4 *x, int32_t pitch,
			  quad_tokens<M> *sums)
{
	UNROLL
	for (int s = 0; s < LINEAR_QUAD_INT8_STEPS; s++)
		UNROLL
		for (int j = 0; j < 2; j++) {
			uint32_t w[2][4];
			UNROLL
			for (int y = 0; y < 2; y++)
				quad_int8_pairs(c.q[s][y], j, w[y]);
			quad_tokens_dot(sums, w[0], w[1], x + (s * 2 + j) * 4, pitch);
		}
}

DEVICE void quad_int8_stage(const linear_rows_args &a, int32_t m, int32_t pitch, u32x4 *to)
{
	for (int32_t t = 0; t < m; t++, to += pitch) {
		/* Missing tokens repeat the last one. */
		int32_t from = t < a.n_tok ? t : a.n_tok - 1;
		const u32x4 *x = (const u32x4 *)(a.x + (size_t)from * (size_t)a.k);
		for (int32_t p = (int32_t)thread_index(); p < a.k / 8;
		     p += LINEAR_QUAD_INT8_WAVES * WAVE)
			to[(p / 8 * 2 + p % 2) * 4 + p / 2 % 4] = x[p];
	}
}

template <int M>
DEVICE void quad_int8_store(const linear_rows_args &a, const linear_rows_part &p, int32_t tile,
			    const quad_tokens<M> &sums)
{
	quad_tokens_each(sums, [&](int y, int32_t t, float x) {
		int32_t n = tile * QUAD_ROWS + (int32_t)lane_index() / 4 + 8 * y;
		if (n >= p.n || t >= a.n_tok)
			return;
		x *= p.factor * scale_at(p.scales, p.scale_format, (size_t)(n / p.group_n));
		if (p.bias)
			x += p.bias[n];
		linear_store(p.y, (size_t)t * (size_t)p.n + (size_t)n, x, p.store);
	});
}

template <int M> DEVICE void linear_quad_int8(const linear_rows_args &a)
{
	LDS_DYNAMIC(u32x4, lds);
	int32_t group = (int32_t)group_index_x(), end = a.grid, k = 0;
	int32_t pitch = LINEAR_QUAD_INT8_PITCH(a.k);
	linear_rows_part p = linear_rows_find(a, group, &end);
	int32_t on = (end - p.first_group) * LINEAR_QUAD_INT8_WAVES;
	int32_t tile = (group - p.first_group) * LINEAR_QUAD_INT8_WAVES +
		       (int32_t)wave_index();
	int32_t n_tiles = (p.n + QUAD_ROWS - 1) / QUAD_ROWS;
	quad_int8_rows rows = quad_int8_at(p, tile);
	quad_int8_turn now, next;
	quad_int8_load(rows, 0, &now);
	quad_int8_stage(a, M, pitch, lds);
	group_barrier();
	const u32x4 *x = lds + lane_index() % 4;
	quad_tokens<M> sums = {};
	while (tile < n_tiles) {
		bool ends = k + LINEAR_QUAD_INT8_TURN >= a.k;
		int32_t then = ends ? tile + on : tile, from = ends ? 0 : k + LINEAR_QUAD_INT8_TURN;
		if (ends)
			rows = quad_int8_at(p, then);
		if (then < n_tiles)
			quad_int8_load(rows, from, &next);
		quad_int8_use<M>(now, x + k / 8, pitch, &sums);
		if (ends) {
			quad_int8_store<M>(a, p, tile, sums);
			sums = {};
		}
		now = next;
		tile = then;
		k = from;
	}
}

#define LINEAR_QUAD_INT8(m) \
	KERNEL(LINEAR_QUAD_INT8_WAVES * WAVE) \
	void linear_quad_int8_m##m##_kernel(linear_rows_args a) \
	{ \
		linear_quad_int8<m>(a); \
	}
LINEAR_QUAD_INT8(1)
LINEAR_QUAD_INT8(2)
LINEAR_QUAD_INT8(4)
LINEAR_QUAD_INT8(8)
