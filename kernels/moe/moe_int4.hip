/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for int4 experts and few tokens, in two launches
 * LAYOUT    kernels/moe/moe_launch.h; weights, and activations in LDS, as in
 *           linear_int4_dot.h
 * GEOMETRY  up: (F over WAVES x 32/THRDS x YTILE/2, pairs). A lane has the same rows of
 *           gate and of up, so it computes silu(g) u where both sums are. LDS: x of the
 *           token.
 *           down: (D over 32/THRDS x YTILE, T). A wave takes one slot of the token for
 *           all rows of the workgroup; then the slots' sums are added in order. LDS: h of
 *           all slots, and 4 bytes for each row and slot.
 *           Workgroups of one expert are neighbours in x, so Strix Halo's 40 compute
 *           units work at one or two experts at a time.
 * PRECISION as linear_int4_dot.h; h rounded to f16; the sum over slots in f32, in order
 * ROOFLINE  Qwen3-30B-A3B, groups of 32: 14.2 MB of gate and up and 7.1 MB of down for a
 *           token and layer. 13 vector instructions for a word of 8 weights, as in
 *           linear_int4_dot.h, so memory is the limit: 55 and 28 us at 256 GB/s. up: 384
 *           workgroups of 8 waves with 128 bytes of weights in flight a lane; down: 128
 *           of 8, 192 bytes.
 * TRIED     (elsewhere, on gfx1151) all experts in one persistent workgroup a compute
 *           unit: a quarter of the waves, 26 % slower. down with f32 atomics: the order
 *           of a sum would vary. silu while down copies h to LDS: 24 of 512 threads busy
 * SEE       kernels/ops/moe_experts_ref.c, kernels/moe/moe_int4.def,
 *           kernels/moe/moe_any.hip
 */
#include "kernels/moe/moe_int4_rows.h"
#include "kernels/moe/moe_slots.h"

template <int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_int4_up(const moe_launch &a)
{
	constexpr int32_t STEP = LINEAR_INT4_STEP(THRDS, CHUNK), EACH = YTILE / 2;
	LDS_DYNAMIC(u32x4, lds);
	linear_int4_args args = {};
	args.k = a.dim;
	args.group_shift = a.up_shift;
	moe_pair p = moe_pair_at(a, group_index_y());
	const uint16_t *x = a.x + p.token * (size_t)a.dim;
	int32_t n_pieces = (a.dim + STEP - 1) / STEP * STEP / 8;
	linear_int4_stage<1, THRDS, CHUNK>(x, a.dim, WAVES * WAVE, n_pieces, lds);

	weight_view gate = a.table[p.expert * MOE_PARTS + MOE_GATE];
	weight_view up = a.table[p.expert * MOE_PARTS + MOE_UP];
	int32_t f = (int32_t)(group_index_x() * WAVES + wave_index()) * (WAVE / THRDS) * EACH;
	f += (int32_t)lane_index() / THRDS * EACH;
	linear_int4_rows<YTILE> rows;
	rows.is_bf16 = a.is_bf16;
	UNROLL
	for (int y = 0; y < EACH; y++) {
		moe_int4_row<YTILE, HAS_ZERO>(&rows, y, gate, f + y);
		moe_int4_row<YTILE, HAS_ZERO>(&rows, EACH + y, up, f + y);
	}
	group_barrier();
	float sum[YTILE][1] = {};
	linear_int4_sum<1, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(&args, &rows, lds, n_pieces,
							       sum);
	UNROLL
	for (int y = 0; y < EACH; y++) {
		float g = lanes_sum<THRDS>(sum[y][0]);
		float u = lanes_sum<THRDS>(sum[EACH + y][0]);
		if (thread_index() % THRDS == 0 && f + y < a.ffn)
			p.h[f + y] = moe_act(a, p, (size_t)(f + y), g, u);
	}
	if (group_index_x() == 0)
		moe_slots_scale(a, p, x);
}

template <int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_int4_down(const moe_launch &a)
{
	constexpr int32_t STEP = LINEAR_INT4_STEP(THRDS, CHUNK);
	constexpr int32_t ROWS = MOE_INT4_DOWN_ROWS(THRDS, YTILE);
	LDS_DYNAMIC(u32x4, lds);
	linear_int4_args args = {};
	args.k = a.ffn;
	args.group_shift = a.down_shift;
	int32_t n_pieces = (a.ffn + STEP - 1) / STEP * STEP / 8;
	float *part = (float *)(lds + a.n_slots * n_pieces);
	size_t t = group_index_y();
	for (int32_t s = 0; s < a.n_slots; s++)
		linear_int4_stage<1, THRDS, CHUNK>(moe_slot_h(a, t, (size_t)s), a.ffn,
						   WAVES * WAVE, n_pieces,
						   lds + s * n_pieces);
	group_barrier();
	int32_t d0 = (int32_t)group_index_x() * ROWS;
	int32_t mine = (int32_t)lane_index() / THRDS * YTILE;
	for (int32_t s = (int32_t)wave_index(); s < a.n_slots; s += WAVES) {
		moe_pair p = moe_slot_at(a, t, (size_t)s);
		weight_view w = a.table[p.expert * MOE_PARTS + MOE_DOWN];
		linear_int4_rows<YTILE> rows;
		rows.is_bf16 = a.is_bf16;
		UNROLL
		for (int y = 0; y < YTILE; y++)
			moe_int4_row<YTILE, HAS_ZERO>(&rows, y, w, d0 + mine + y);
		float sum[YTILE][1] = {};
		linear_int4_sum<1, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(
			&args, &rows, lds + s * n_pieces, n_pieces, sum);
		float weight = moe_slot_weight(a, t, (size_t)s);
		UNROLL
		for (int y = 0; y < YTILE; y++) {
			float x = lanes_sum<THRDS>(sum[y][0]);
			if (thread_index() % THRDS == 0)
				part[s * ROWS + mine + y] = moe_slots_part(
					a, p, weight, d0 + mine + y, x);
		}
	}
	group_barrier();
	moe_slots_add(a, t, d0, ROWS, part, moe_slots_y(a, t, d0, ROWS));
}

#define MOE_INT4(op, name, thrds, ytile, waves, chunk, unr) \
	KERNEL(waves * WAVE) void moe_int4_##op##_##name##_kernel(moe_launch a) \
	{ \
		moe_int4_##op<thrds, ytile, waves, chunk, unr, false>(a); \
	} \
	KERNEL(waves * WAVE) void moe_int4_##op##_##name##_zero_kernel(moe_launch a) \
	{ \
		moe_int4_##op<thrds, ytile, waves, chunk, unr, true>(a); \
	}
#define UP(...) MOE_INT4(up, __VA_ARGS__)
#define DOWN(...) MOE_INT4(down, __VA_ARGS__)
#include "kernels/moe/moe_int4.def"
#undef UP
#undef DOWN
#undef MOE_INT4
