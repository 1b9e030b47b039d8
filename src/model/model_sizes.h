/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts and sizes of a layer, computed from the model's settings. A part of model.h, which
 * alone includes it. Thread: any.
 */
#pragma once
#include "base/alloc.h"

/* True if layer i has this part. An MTP layer (i >= n_layers) has both. */
static inline bool model_has_part(const struct model_config *c, int32_t i, enum layer_part part)
{
	return !c->layer_parts || i >= c->n_layers || c->layer_parts[i] & part;
}

/* True if layer i has attention. */
static inline bool model_attends(const struct model_config *c, int32_t i)
{
	bool is_linear = c->is_linear && i < c->n_layers && c->is_linear[i];
	return (!is_linear || c->linear_attends) && model_has_part(c, i, PART_MIXER);
}

/* True if attention layer i has a window. An MTP layer (i >= n_layers) has none. */
static inline bool model_has_window(const struct model_config *c, int32_t i)
{
	return c->is_windowed && i < c->n_layers && c->is_windowed[i];
}

/* Query heads of layer i. An MTP layer (i >= n_layers) has the usual number. */
static inline int32_t model_heads(const struct model_config *c, int32_t i)
{
	return c->heads_of && i < c->n_layers ? c->heads_of[i] : c->n_heads;
}

/* Elements of a head of layer i; below, its number of key heads. */
static inline int32_t model_head_dim(const struct model_config *c, int32_t i)
{
	return c->gemma4.head_dim && !model_has_window(c, i) ? c->gemma4.head_dim : c->head_dim;
}
static inline int32_t model_kv_heads(const struct model_config *c, int32_t i)
{
	return c->gemma4.kv_heads && !model_has_window(c, i) ? c->gemma4.kv_heads : c->n_kv_heads;
}

/* The layer whose keys and values layer i reads: i, or one before it. */
static inline int32_t model_kv_layer(const struct model_config *c, int32_t i)
{
	int32_t first = c->n_layers - c->gemma4.n_kv_shared, from = i;
	if (i < first || i >= c->n_layers)
		return i;
	for (from = first - 1; from > 0; from--)
		if (model_has_window(c, from) == model_has_window(c, i))
			break;
	return from;
}

/* Width of the dense feed-forward of layer i. */
static inline int32_t model_ffn_dim(const struct model_config *c, int32_t i)
{
	return c->gemma4.wide_mlp && model_kv_layer(c, i) != i ? 2 * c->ffn_dim : c->ffn_dim;
}

/* Elements of a head that rope r rotates. */
static inline int32_t model_n_rot(const struct model_config *c, int32_t r)
{
	return c->ropes[r].n_rot ? c->ropes[r].n_rot : c->n_rot;
}

/* Numbers that one token takes in the KV cache of layer i, if compress_of is set: the window's
 * key, the compressor's inputs (two series if blocks overlap), and the token's part of a
 * compressed key. Inputs and part are counted for the indexer too. A block longer than a page
 * counts as one of 16 positions. */
static inline int64_t model_compress_numbers(const struct model_config *c, int32_t i)
{
	int32_t ratio = c->compress.of[i], each = ratio > 16 ? 16 : ratio;
	if (ratio == 0)
		return c->head_dim;
	if (ratio != c->index.ratio)
		return c->head_dim + 2 * c->head_dim + DIV_UP(c->head_dim, each);
	int64_t dim = c->head_dim + c->index.dim;
	return c->head_dim + 4 * dim + DIV_UP(dim, each);
}

/* Numbers that one token takes in the KV cache of layer i. */
static inline int64_t model_layer_kv_numbers(const struct model_config *c, int32_t i)
{
	if (c->compress.of)
		return model_compress_numbers(c, i);
	/* The indexer's part of a block's key, and where blocks are longer a key, and its gates. */
	bool has_index = c->index.heads && !(c->index.is_shared && c->index.is_shared[i]);
	int64_t index = has_index ? DIV_UP(c->index.dim, c->index.ratio) : 0;
	index += has_index && c->index.ratio > 1 ? c->index.dim : 0;
	index += has_index && c->index.is_pooled ? c->index.dim : 0;
	if (c->mla.kv_lora > 0)
		return model_attends(c, i) ? c->mla.kv_lora + c->mla.rope_dim + index : 0;
	return model_kv_layer(c, i) == i
		       ? index + (int64_t)2 * model_kv_heads(c, i) * model_head_dim(c, i) : 0;
}

/* Channels of a gated delta net's convolution: queries, keys and values. */
static inline int64_t model_delta_channels(const struct model_config *c)
{
	return (int64_t)2 * c->delta.k_heads * c->delta.k_dim +
	       (int64_t)c->delta.v_heads * c->delta.v_dim;
}

/* Tokens that the convolution after n-grams spans, including those between its taps. */
static inline int32_t model_ngram_width(const struct model_config *c)
{
	return (c->ngram.taps - 1) * c->ngram.size + 1;
}

/* Numbers (float32) in the recurrent state of a sequence, over all layers. */
static inline int64_t model_state_numbers(const struct model_config *c)
{
	int64_t wide = (int64_t)c->ngram.n_tables * c->streams.count * c->d_model;
	int64_t ngram = wide ? wide * (model_ngram_width(c) - 1) : 0;
	return ngram + c->n_linear * ((int64_t)c->delta.v_heads * c->delta.v_dim * c->delta.k_dim +
			      model_delta_channels(c) * (c->delta.conv_width - 1));
}
