/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections: a model with S residual streams of D numbers. A part of a layer reads a
 * mean of the normalised streams, each number with a gate of its own, and adds to each stream
 * what it makes, times one gate a stream. Gates come from all streams by a low rank R.
 *
 *   hyper_low   y = silu(x / S): the R numbers of the low rank
 *   hyper_mix   y[d] = mean_s sigmoid(gate[s][d]) n[s][d]: what the part reads. It sets x,
 *               to which the part then adds, to 0
 *   hyper_add   x[s] += 2 sigmoid(gate[s] / S) y: what the part made
 *
 * Source: modeling_qwen4_exp.py of Hugging Face Transformers, Qwen4ExpTextGatedResidual.
 *
 * Other models have one gate a stream, from one product with all streams, `mix`:
 *
 *   hyper_split   pre[s] = sigmoid(mix[s] scale[0] + base[s]) + eps
 *                 y[d] = sum_s pre[s] x[s][d]: what the part reads. It sets sum, to which
 *                 the part then adds, to 0
 *                 post[s] = 2 sigmoid(mix[S+s] scale[1] + base[S+s])
 *                 comb = softmax of each row of (mix scale[2] + base), + eps; then, n_iters
 *                 times, each column and, between them, each row is divided by its sum + eps
 *   hyper_spread  x[s] = post[s] y + sum_j comb[j][s] x[j]; y is what the part made
 *
 * Source: modeling_deepseek_v4.py, DeepseekV4HyperConnection and DeepseekV4HyperHead.
 */
#pragma once
#include "model/formats/blocks.h"

struct hyper_low_args {
	int32_t n_tok, dim, n_streams; /* T, R, S */
	const float *x;                /* (T, R) f32 */
	void *y;                       /* (T, R) act */
};

struct hyper_mix_args {
	int32_t n_tok, n_streams, dim;
	const float *gate; /* (T, S, D) f32 */
	const void *n;     /* (T, S, D) act */
	void *y;           /* (T, D) act; NULL: the result goes to x */
	float *x;          /* (T, D) f32 */
};

struct hyper_add_args {
	int32_t n_tok, n_streams, dim;
	const float *gate; /* (T, S) f32; NULL: x[s] = y */
	const float *y;    /* (T, D) f32 */
	float *x;          /* (T, S, D) f32 */
};

#define HYPER_MAX_STREAMS 16
struct hyper_split_args {
	int32_t n_tok, n_streams, dim, n_iters;
	float eps;
	const float *mix;   /* (T, (2 + S) S) f32; without gates (T, S) */
	const float *scale; /* (3) f32; without gates (1) */
	const float *base;  /* f32, with the shape of a row of mix */
	const float *x;     /* (T, S, D) f32 */
	float *y;           /* (T, D) f32 */
	float *sum;         /* (T, D) f32, becomes 0; or NULL */
	float *gates;       /* (T, (1 + S) S) f32: post, then comb; NULL: no part follows */
};

struct hyper_spread_args {
	int32_t n_tok, n_streams, dim;
	const float *gates; /* the output of hyper_split */
	const float *y;     /* (T, D) f32 */
	float *x;           /* (T, S, D) f32 */
};

void hyper_split_ref(const struct hyper_split_args *a);
void hyper_spread_ref(const struct hyper_spread_args *a);
void hyper_low_ref(const struct hyper_low_args *a);
void hyper_mix_ref(const struct hyper_mix_args *a);
void hyper_add_ref(const struct hyper_add_args *a);
