/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/gated_norm.h (gates_first: norm_gated), kernels/ops/sigmoid_gate.h
 * LAYOUT    x, y (T, H, V) f16, which may be the same; z and gate f16 within wider rows
 * GEOMETRY  gated_norm: one wave a head, (T H over 4) workgroups of four waves.
 *           sigmoid_gate, gate_spans: one thread a number, (dim over 256, T) workgroups. No
 *           LDS.
 * PRECISION squares summed in f32: each lane its own, then a tree over lanes; y rounded
 *           once
 * ROOFLINE  bound by launch overhead at decode (H V = 4096: 24 KB); else by memory, with
 *           three streams
 * TRIED     no other form
 * SEE       kernels/ops/gated_norm_ref.c, kernels/ops/sigmoid_gate_ref.c
 */
#include "kernels/delta/gated_norm_row.h"

KERNEL(NORM_WAVES * WAVE)
void gated_norm_kernel(gated_norm_launch a)
{
	int32_t i = (int32_t)(group_index_x() * NORM_WAVES + wave_index());
	if (i < a.n_rows)
		gated_norm_row(a, i);
}

/* The norm with gates_first, for heads of any size. */
KERNEL(NORM_WAVES * WAVE)
void norm_gated_kernel(gated_norm_launch a)
{
	int32_t i = (int32_t)(group_index_x() * NORM_WAVES + wave_index());
	if (i < a.n_rows)
		norm_gated_row(a, i);
}

KERNEL(GATE_THREADS)
void sigmoid_gate_kernel(int32_t dim, half_heads gate, uint16_t *y)
{
	int32_t c = (int32_t)(group_index_x() * GATE_THREADS + thread_index());
	int32_t t = (int32_t)group_index_y();
	if (c >= dim)
		return;
	size_t at = (size_t)t * (size_t)dim + (size_t)c;
	float g = gate_number(gate, t, c);
	y[at] = f32_to_f16(f16_to_f32(y[at]) * fast_rcp(1 + fast_exp2(g * -1.44269504f)));
}

/* log(1 + exp(g)), near 0 too, where 1 + exp(g) has not room for it. */
DEVICE float softplus(float g)
{
	float e = fast_exp2(g * 1.44269504f);
	float log = e < 1e-3f ? e - e * e * 0.5f : fast_log2(1 + e) * 0.693147181f;
	return e > 1e6f ? g : log;
}

/* Gates that each are for `span` channels, or are no sigmoids. */
KERNEL(GATE_THREADS)
void gate_spans_kernel(int32_t dim, int32_t span, uint32_t is_softplus, half_heads gate,
		       uint16_t *y)
{
	int32_t c = (int32_t)(group_index_x() * GATE_THREADS + thread_index());
	int32_t t = (int32_t)group_index_y();
	if (c >= dim)
		return;
	size_t at = (size_t)t * (size_t)dim + (size_t)c;
	float g = gate_number(gate, t, c / span);
	float by = is_softplus ? softplus(g) : fast_rcp(1 + fast_exp2(g * -1.44269504f));
	y[at] = f32_to_f16(f16_to_f32(y[at]) * by);
}
