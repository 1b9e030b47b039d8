/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/causal_conv.h
 * LAYOUT    x f16 in up to three parts of wider rows, in causal_conv_*sums also f32 in two
 *           terms; y (T, C) f16; weight, state f32
 * GEOMETRY  one thread a channel and segment of CONV_SEGMENT tokens: (segments times C over 256,
 *           B) workgroups of 256 threads; no LDS. The last W - 1 inputs of a channel stay in
 *           registers from token to token. A segment begins by reading those before it.
 *           causal_conv_rows_bf16, for one token: workgroups of linear_rows_dot.h come
 *           first. The two have nothing to do with each other, and share a launch.
 * PRECISION sum in f32, oldest input first; silu with exp2 and rcp; y rounded once; the
 *           state keeps the inputs exactly
 * ROOFLINE  decode of C = 8192: 32 workgroups read and write 100 KB of state: bound by
 *           launch overhead. Prefill of 512 tokens: 16 MB, 256 workgroups, CONV_AHEAD
 *           loads at once a thread: DRAM. A gated convolution of C = 2048 is bound by its
 *           launch in decode, and reads three inputs for each output in prefill.
 * TRIED     one thread for each token and channel reads four times as much. One thread for all
 *           tokens of a channel, a load at a time: 3.9 times as long on gfx1151 by prediction,
 *           because the thread waits for each load
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

/* A channel's inputs and gates. */
struct conv_from {
	conv_part part;
	const uint16_t *in_gate, *out_gate; /* of token 0; is_gated alone */
};

template <bool HAS_SUMS, bool is_gated>
DEVICE float conv_input_of(const causal_conv_launch &a, const conv_from &from, int32_t t)
{
	float x = conv_input<HAS_SUMS>(from.part, a.low_scale, t);
	if constexpr (is_gated)
		x *= f16_to_f32(from.in_gate[(size_t)t * (size_t)a.in_gate.row]);
	return x;
}

template <bool HAS_SUMS>
DEVICE conv_from conv_find(const causal_conv_launch &a, int32_t c)
{
	conv_from out = {conv_take<0>(a), NULL, NULL};
	int32_t sizes[2] = {a.part[0].n_heads * a.part[0].dim,
			    a.part[1].n_heads * a.part[1].dim};
	if (a.n_parts > 1 && c >= sizes[0]) {
		c -= sizes[0];
		out.part = conv_take<1>(a);
		if (a.n_parts > 2 && c >= sizes[1]) {
			c -= sizes[1];
			out.part = conv_take<2>(a);
		}
	}
	size_t first = conv_at(out.part.x, c);
	out.part.x.p += first;
	if (HAS_SUMS && out.part.high) {
		out.part.high += first;
		out.part.low += first;
	}
	out.in_gate = conv_channel(a.in_gate, c);
	out.out_gate = conv_channel(a.out_gate, c);
	return out;
}

/* The window before a sequence's first token: what its state holds. */
template <int32_t MOST>
DEVICE void conv_old(const causal_conv_launch &a, int32_t slot, int32_t c, float *window)
{
	int32_t n = a.width - 1;
	const float *old = a.state + ((size_t)(slot < 0 ? 0 : slot) * (size_t)a.n_channels +
				      (size_t)c) * (size_t)n;
	UNROLL
	for (int32_t i = 0; i < MOST; i++) {
		int32_t at = i - (MOST - n);
		window[i] = slot >= 0 && at >= 0 ? old[at] : 0;
	}
}

/* What a channel has from token to token. window: newest last. */
template <int32_t MOST> struct conv_channel_state {
	float weight[MOST], bias, window[MOST];
};

template <int32_t MOST> DEVICE void conv_push(conv_channel_state<MOST> *s, float fresh)
{
	UNROLL
	for (int32_t i = 0; i + 1 < MOST; i++)
		s->window[i] = s->window[i + 1];
	s->window[MOST - 1] = fresh;
}

/* The window before token t, if all its inputs are of this step. */
template <int32_t MOST, bool HAS_SUMS, bool is_gated>
DEVICE void conv_window(const causal_conv_launch &a, const conv_from &from, int32_t t,
			conv_channel_state<MOST> *s)
{
	ONE_BY_ONE
	for (int32_t i = t - (a.width - 1); i < t; i++)
		conv_push(s, conv_input_of<HAS_SUMS, is_gated>(a, from, i));
}

/* Tokens [t, t + n) of channel c, whose inputs are loaded at once. */
template <int32_t n, int32_t MOST, bool HAS_SUMS, bool is_gated>
DEVICE void conv_tokens(const causal_conv_launch &a, const conv_from &from, int32_t c, int32_t t,
			conv_channel_state<MOST> *s)
{
	float fresh[n], gate[n];
	UNROLL
	for (int32_t j = 0; j < n; j++) {
		fresh[j] = conv_input_of<HAS_SUMS, is_gated>(a, from, t + j);
		if constexpr (is_gated)
			gate[j] = f16_to_f32(
				from.out_gate[(size_t)(t + j) * (size_t)a.out_gate.row]);
	}
	UNROLL
	for (int32_t j = 0; j < n; j++) {
		float sum = s->bias, y;
		conv_push(s, fresh[j]);
		UNROLL
		for (int32_t i = 0; i < MOST; i++)
			sum += s->weight[i] * s->window[i];
		if constexpr (is_gated)
			y = sum * gate[j];
		else
			y = sum * fast_rcp(1 + fast_exp2(sum * -1.44269504f));
		a.y[(size_t)(t + j) * (size_t)a.n_channels + (size_t)c] = f32_to_f16(y);
	}
}

/* Segment i of sequence b. The first one has the sequence's states to itself: it alone reads the
 * old one, and stores those that later segments end with. */
template <int32_t MOST, bool HAS_SUMS, bool is_gated>
DEVICE void conv_segment(const causal_conv_launch &a, int32_t b, int32_t i, int32_t c)
{
	int32_t t = a.first_tok[b] + i * CONV_SEGMENT, last = a.first_tok[b + 1];
	int32_t end = t + CONV_SEGMENT < last ? t + CONV_SEGMENT : last;
	int32_t save = a.states.save[b], save_at = a.states.save_at[b], to = a.states.to[b];
	if (i > 0 && t >= last)
		return;
	conv_from from = conv_find<HAS_SUMS>(a, c);
	conv_channel_state<MOST> s;
	s.bias = a.bias ? a.bias[c] : 0;
	UNROLL
	for (int32_t j = 0; j < MOST; j++) {
		int32_t at = j - (MOST - a.width);
		s.weight[j] = at >= 0 ? a.weight[(size_t)c * (size_t)a.width + (size_t)at] : 0;
	}
	conv_old<MOST>(a, i == 0 ? a.states.from[b] : -1, c, s.window);
	if (i > 0)
		conv_window<MOST, HAS_SUMS, is_gated>(a, from, t, &s);
	for (bool saves = i == 0 && save >= 0 && save_at < end; t < end; saves = false) {
		int32_t stop = saves ? save_at + 1 : end;
		for (; t + CONV_AHEAD <= stop; t += CONV_AHEAD)
			conv_tokens<CONV_AHEAD, MOST, HAS_SUMS, is_gated>(a, from, c, t, &s);
		for (; t < stop; t++)
			conv_tokens<1, MOST, HAS_SUMS, is_gated>(a, from, c, t, &s);
		if (saves)
			conv_keep<MOST>(a, save, c, s.window);
	}
	if (i > 0)
		return;
	/* States that later segments end with: all their inputs are of this step. */
	if (save >= 0 && save_at >= end && save_at < last) {
		conv_window<MOST, HAS_SUMS, is_gated>(a, from, save_at + 1, &s);
		conv_keep<MOST>(a, save, c, s.window);
	}
	if (end < last)
		conv_window<MOST, HAS_SUMS, is_gated>(a, from, last, &s);
	conv_keep<MOST>(a, to, c, s.window);
}

/* Workgroup `group` along x. MOST: the largest W. HAS_SUMS: a part may be sums of two f32
 * numbers, and nothing is gated. */
template <int32_t MOST, bool HAS_SUMS = false>
DEVICE void conv_run(const causal_conv_launch &a, int32_t group)
{
	int32_t n = (a.n_channels + CONV_THREADS - 1) / CONV_THREADS;
	int32_t b = (int32_t)group_index_y(), segment = group / n;
	int32_t c = group % n * CONV_THREADS + (int32_t)thread_index();
	if (c >= a.n_channels)
		return;
	if (!HAS_SUMS && a.is_gated)
		conv_segment<MOST, HAS_SUMS, true>(a, b, segment, c);
	else
		conv_segment<MOST, HAS_SUMS, false>(a, b, segment, c);
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
