/* SPDX-License-Identifier: Apache-2.0
 *
 * A short causal convolution along each sequence, separately for each channel, then silu:
 *
 *   y[t][c] = silu(bias[c] + sum_i weight[c][i] * x[t - W + 1 + i][c]),  i < W
 *
 * The channels are those of all `part`s in order. The state holds the inputs before the
 * step's first token: the last W - 1 inputs, oldest first. Source: modeling_qwen3_next.py
 * of Hugging Face Transformers, Qwen3NextGatedDeltaNet.
 *
 * A gated convolution has no silu. Its inputs are products, and so is its output:
 *
 *   y[t][c] = out_gate[t][c] * sum_i weight[c][i] * (x in_gate)[t - W + 1 + i][c]
 *
 * It has one part, and no bias. Source: modeling_lfm2.py, Lfm2ShortConv.
 *
 * A part may be a sum of two f32 arrays, part[i] + low_scale * low[i]: the outputs of linear for
 * rounded inputs, and for what rounding took from them (rms_norm.h).
 *
 * A linear may be done `beside` it, with the same bits as that linear alone. Neither reads what
 * the other writes. The backend decides whether one launch does both.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/head_view.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/seq_states.h"

enum { CAUSAL_CONV_PARTS = 3, CAUSAL_CONV_MAX_WIDTH = 16 };

struct causal_conv_args {
	int32_t n_tok, n_seq;
	int32_t width;               /* W: inputs of a sum, 2 .. CAUSAL_CONV_MAX_WIDTH */
	int32_t n_parts;
	struct head_view part[CAUSAL_CONV_PARTS]; /* act; C channels in total */
	/* NULL, or f32 laid out like part[i], which is then f32 too. Not with is_gated. */
	const float *low[CAUSAL_CONV_PARTS];
	float low_scale;
	bool is_gated;
	struct head_view in_gate, out_gate; /* act, C channels each; read with is_gated only */
	const float *weight;         /* (C, W) f32 */
	const float *bias;           /* (C) f32, or NULL: 0 */
	const int32_t *first_tok;    /* (B+1) first token of each sequence */
	struct seq_states states;
	float *state;                /* (n_slots, C, W-1) f32 */
	void *y;                     /* (T, C) act */
	const struct linear_args *beside; /* host; or NULL */
};

static inline int32_t causal_conv_channels(const struct causal_conv_args *a)
{
	int32_t n = 0;
	for (int32_t i = 0; i < a->n_parts; i++)
		n += a->part[i].n_heads * a->part[i].dim;
	return n;
}

void causal_conv_ref(const struct causal_conv_args *a);
