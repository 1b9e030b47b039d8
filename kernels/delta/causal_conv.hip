/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/causal_conv.h
 * LAYOUT    x f16 in up to three parts of wider rows, in causal_conv_*sums also f32 in two
 *           terms; y (T, C) f16; weight, state f32
 * GEOMETRY  one thread a channel: (C over 256, B) workgroups of 256 threads; no LDS. The
 *           last W - 1 inputs of a channel stay in registers from token to token.
 *           causal_conv_rows_bf16, for one token: workgroups of linear_rows_dot.h come
 *           first. The two have nothing to do with each other, and share a launch.
 * PRECISION sum in f32, oldest input first; silu with exp2 and rcp; y rounded once; the
 *           state keeps the inputs exactly
 * ROOFLINE  decode of C = 8192: 32 workgroups read and write 100 KB of state: bound by
 *           launch overhead. Prefill of 512 tokens: 16 MB; each thread issues 512
 *           independent loads in order. A gated convolution of C = 2048 is bound by its
 *           launch in decode, and reads three inputs for each output in prefill.
 * TRIED     one thread for each token and channel reads four times as much. It would also
 *           overwrite a state slot while other threads still read it.
 * SEE       kernels/ops/causal_conv_ref.c
 */
#include "kernels/device/dialect.h"
#include "kernels/delta/delta_launch.h"
#include "kernels/linear/linear_rows_dot.h"

/* Index of channel c of token 0. */
DEVICE size_t conv_at(const half_heads &v, int32_t c)
{
	return (size_t)(c / v.dim) * (size_t)v.pitch + (size_t)(c % v.dim);
}

/* Address of channel c of token 0. */
DEVICE const uint16_t *conv_channel(const half_heads &v, int32_t c)
{
	return v.p + conv_at(v, c);
}

/* A part of the inputs: halves, or, if high is not NULL, sums of two f32 numbers, high +
 * low_scale * low. */
struct conv_part {
	half_heads x;
	const float *high, *low;
};

template <int I> DEVICE conv_part conv_take(const causal_conv_launch &a)
{
	return {a.part[I], a.high[I], a.low[I]};
}

/* The input of token t, of the channel where the pointers are. */
template <bool HAS_SUMS>
DEVICE float conv_input(const conv_part &p, float low_scale, int32_t t)
{
	size_t at = (size_t)t * (size_t)p.x.row;
	if constexpr (HAS_SUMS)
		if (p.high)
			return p.high[at] + low_scale * p.low[at];
	return f16_to_f32(p.x.p[at]);
}

/* Store the last n inputs of channel c in a state slot; window (MOST): newest last. */
template <int32_t MOST>
DEVICE void conv_keep(const causal_conv_launch &a, int32_t slot, int32_t c,
		      const float *window)
{
	int32_t n = a.width - 1;
	if (slot < 0)
		return;
	float *out = a.state + ((size_t)slot * (size_t)a.n_channels + (size_t)c) * (size_t)n;
	UNROLL
	/* constant indices keep the array in registers */
	for (int32_t i = 0; i < MOST; i++)
		if (i >= MOST - n)
			out[i - (MOST - n)] = window[i];
}

/* The channels of workgroup `group` along x. MOST: the largest W. HAS_SUMS: a part may be sums of
 * two f32 numbers. */
template <int32_t MOST, bool HAS_SUMS = false>
DEVICE void conv_run(const causal_conv_launch &a, int32_t group)
{
	int32_t c = group * CONV_THREADS + (int32_t)thread_index();
	int32_t b = (int32_t)group_index_y(), n = a.width - 1, in = c;
	if (c >= a.n_channels)
		return;
	conv_part part = conv_take<0>(a);
	int32_t sizes[2] = {a.part[0].n_heads * a.part[0].dim,
			    a.part[1].n_heads * a.part[1].dim};
	if (a.n_parts > 1 && in >= sizes[0]) {
		in -= sizes[0];
		part = conv_take<1>(a);
		if (a.n_parts > 2 && in >= sizes[1]) {
			in -= sizes[1];
			part = conv_take<2>(a);
		}
	}
	size_t first = conv_at(part.x, in);
	part.x.p += first;
	if (HAS_SUMS && part.high) {
		part.high += first;
		part.low += first;
	}
	const uint16_t *in_gate = conv_channel(a.in_gate, in);
	const uint16_t *out_gate = conv_channel(a.out_gate, in);
	float weight[MOST], window[MOST], bias = a.bias ? a.bias[c] : 0;
	int32_t from = a.states.from[b];
	const float *old = a.state + ((size_t)(from < 0 ? 0 : from) *
				      (size_t)a.n_channels + (size_t)c) * (size_t)n;
	UNROLL
	for (int32_t i = 0; i < MOST; i++) {
		int32_t w = i - (MOST - 1 - n), s = i - (MOST - n);
		weight[i] = w >= 0 ? a.weight[(size_t)c * (size_t)a.width + (size_t)w] : 0;
		window[i] = from >= 0 && s >= 0 ? old[s] : 0;
	}
	int32_t save = a.states.save[b], save_at = a.states.save_at[b];
	for (int32_t t = a.first_tok[b]; t < a.first_tok[b + 1]; t++) {
		float sum = bias;
		UNROLL
		for (int32_t i = 0; i + 1 < MOST; i++)
			window[i] = window[i + 1];
		float fresh = conv_input<HAS_SUMS>(part, a.low_scale, t);
		if (a.is_gated)
			fresh *= f16_to_f32(in_gate[(size_t)t * (size_t)a.in_gate.row]);
		window[MOST - 1] = fresh;
		UNROLL
		for (int32_t i = 0; i < MOST; i++)
			sum += weight[i] * window[i];
		float y;
		if (a.is_gated)
			y = sum * f16_to_f32(out_gate[(size_t)t * (size_t)a.out_gate.row]);
		else
			y = sum * fast_rcp(1 + fast_exp2(sum * -1.44269504f));
		a.y[(size_t)t * (size_t)a.n_channels + (size_t)c] = f32_to_f16(y);
		if (t == save_at)
			conv_keep<MOST>(a, save, c, window);
	}
	conv_keep<MOST>(a, a.states.to[b], c, window);
}

KERNEL(CONV_THREADS)
void causal_conv_kernel(causal_conv_launch a)
{
	conv_run<CONV_USUAL_WIDTH>(a, (int32_t)group_index_x());
}

/* For wider convolutions than causal_conv_kernel takes. */
KERNEL(CONV_THREADS)
void causal_conv_wide_kernel(causal_conv_launch a)
{
	conv_run<CONV_MAX_WIDTH>(a, (int32_t)group_index_x());
}

/* For inputs of which a part is sums of two f32 numbers. */
KERNEL(CONV_THREADS)
void causal_conv_sums_kernel(causal_conv_launch a)
{
	conv_run<CONV_USUAL_WIDTH, true>(a, (int32_t)group_index_x());
}

KERNEL(CONV_THREADS)
void causal_conv_wide_sums_kernel(causal_conv_launch a)
{
	conv_run<CONV_MAX_WIDTH, true>(a, (int32_t)group_index_x());
}

/* causal_conv_kernel with one token's products `beside`, whose workgroups come first. */
KERNEL(CONV_THREADS)
void causal_conv_rows_bf16_kernel(causal_conv_launch a, linear_rows_args beside)
{
	static_assert(CONV_THREADS == LINEAR_ROWS_WAVES * WAVE, "both have as many threads");
	int32_t group = (int32_t)group_index_x();
	if (group < beside.grid)
		linear_rows<1, WEIGHT_BF16>(beside);
	else
		conv_run<CONV_USUAL_WIDTH, true>(a, group - beside.grid);
}
