/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/causal_conv.h"

#include <math.h>

static float input(const struct causal_conv_args *a, int32_t t, int32_t c)
{
	const struct head_view *part = a->part;
	for (; c >= part->n_heads * part->dim; part++)
		c -= part->n_heads * part->dim;
	const float *low = a->low[part - a->part];
	size_t at = head_view_at(part, t, c);
	float x = ((const float *)part->p)[at];
	if (low)
		x += a->low_scale * low[at];
	if (a->is_gated)
		x *= ((const float *)a->in_gate.p)[head_view_at(&a->in_gate, t, c)];
	return x;
}

/* y from the sum of a channel's products. */
static double output(const struct causal_conv_args *a, int32_t t, int32_t c, double sum)
{
	if (!a->is_gated)
		return sum / (1 + exp(-sum));
	return sum * ((const float *)a->out_gate.p)[head_view_at(&a->out_gate, t, c)];
}

/* Store the state of channel c: the last W - 1 of old and the inputs of tokens first ..
 * last. */
static void keep(const struct causal_conv_args *a, int32_t slot, int32_t c,
		 const float *old, int32_t first, int32_t last)
{
	int32_t n = a->width - 1, n_channels = causal_conv_channels(a);
	float *out = a->state + ((size_t)slot * (size_t)n_channels + (size_t)c) * (size_t)n;
	for (int32_t i = 0; slot >= 0 && i < n; i++) {
		int32_t t = last - n + 1 + i;
		out[i] = t >= first ? input(a, t, c) : old[n + t - first];
	}
}

static void one_channel(const struct causal_conv_args *a, int32_t b, int32_t c)
{
	int32_t n = a->width - 1, n_channels = causal_conv_channels(a);
	int32_t from = a->states.from[b], first = a->first_tok[b];
	float old[CAUSAL_CONV_MAX_WIDTH] = {0};
	for (int32_t i = 0; from >= 0 && i < n; i++)
		old[i] = a->state[((size_t)from * (size_t)n_channels + (size_t)c) *
					  (size_t)n + (size_t)i];
	for (int32_t t = first; t < a->first_tok[b + 1]; t++) {
		double sum = a->bias ? a->bias[c] : 0;
		for (int32_t i = 0; i <= n; i++) {
			int32_t at = t - n + i;
			double x = at >= first ? input(a, at, c) : old[n + at - first];
			sum += a->weight[c * a->width + i] * x;
		}
		((float *)a->y)[(size_t)t * (size_t)n_channels + (size_t)c] =
			(float)output(a, t, c, sum);
		if (a->states.save[b] >= 0 && a->states.save_at[b] == t)
			keep(a, a->states.save[b], c, old, first, t);
	}
	keep(a, a->states.to[b], c, old, first, a->first_tok[b + 1] - 1);
}

void causal_conv_ref(const struct causal_conv_args *a)
{
	if (a->beside)
		linear_ref(a->beside);
	for (int32_t b = 0; b < a->n_seq; b++)
		for (int32_t c = 0; c < causal_conv_channels(a); c++)
			one_channel(a, b, c);
}
