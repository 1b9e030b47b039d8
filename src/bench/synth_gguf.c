/* SPDX-License-Identifier: Apache-2.0
 *
 * Models in GGUF files: the tensors and keys that llama.cpp's converter writes, in the mixes of
 * formats that its quantizer chooses without an importance matrix. The numbers have the sizes
 * that synth_shape.c explains.
 *
 *   q4_k_m, q5_k_m  Q6_K for v and down in the first and last eighth of the layers, and in every
 *                   third between
 *   iq4_xs          Q5_K for down in the first eighth, and for v where four query heads or more
 *                   share one
 *   mxfp4           experts in MXFP4, all else in Q8_0. A model without experts has all layers
 *                   in MXFP4
 *   nvfp4           embedding and output head stay bf16, as published checkpoints have them
 *   ud-q4_k_xl      "dynamic" files differ from model to model. With experts: gate and up in
 *                   Q4_K, down in Q5_K, all else in Q8_0. Without: Q5_K and Q6_K for v, o, down
 *
 * The output head, or an embedding that is the head too, is Q6_K in each mix below 8 bits. Rows
 * that are no whole blocks get what the quantizer falls back to. A table of n-grams has such rows.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "bench/synth.h"
#include "model/gguf.h"

enum { GGUF_ALIGN = 32, TYPE_F32 = 0, TYPE_BF16 = 30, NGRAM_LAYER = 1 };

/* --- formats -------------------------------------------------------------------- */

/* True in layers that get more bits. */
static bool has_more(int32_t i, int32_t n)
{
	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static enum quant of_dynamic(const struct synth_shape *s, const char *part, bool is_down,
			     int32_t layer)
{
	if (s->n_experts)
		return strcmp(part, "ffn_down_exps") == 0 ? QUANT_Q5_K
		       : strstr(part, "_exps") ? QUANT_Q4_K : QUANT_Q8_0;
	if (is_down)
		return has_more(layer, s->n_layers) ? QUANT_Q6_K : QUANT_Q5_K;
	return strcmp(part, "attn_v") == 0 ? QUANT_Q6_K
	       : strcmp(part, "attn_output") == 0 ? QUANT_Q5_K : QUANT_Q4_K;
}

static const char ngram_table[] = "per_layer_token_embd";

/* The format that takes the place of q in rows of k numbers. */
static enum quant fit_rows(enum quant q, int64_t k)
{
	if (q == QUANT_BF16 || k % quant_block(q) == 0)
		return q;
	return q == QUANT_IQ4_XS ? QUANT_IQ4_NL : q == QUANT_Q4_K ? QUANT_Q5_0
	       : q == QUANT_Q5_K ? QUANT_Q5_1 : QUANT_Q8_0;
}

/* The format of the matrix that GGUF names `part` ("attn_v", "ffn_down_exps", "token_embd"), in
 * layer `layer`; nth: how many layers before have this matrix. */
static enum quant quant_in_mix(enum synth_mix mix, const struct synth_shape *s, const char *part,
			       int32_t layer, int32_t nth)
{
	bool is_ngrams = strcmp(part, ngram_table) == 0;
	bool is_table = strcmp(part, "token_embd") == 0;
	bool is_head = strcmp(part, "output") == 0 || (is_table && s->is_tied);
	bool is_v = strcmp(part, "attn_v") == 0, is_qkv = strcmp(part, "attn_qkv") == 0;
	bool is_down = strncmp(part, "ffn_down", 8) == 0;
	bool more = (is_v && has_more(nth, s->n_layers)) ||
		    (is_down && has_more(layer, s->n_layers));
	switch (mix) {
	case MIX_Q8_0:
		return QUANT_Q8_0;
	case MIX_NVFP4: /* rows of n-grams are FP8 there, for which GGUF has no type */
		return is_head || is_table ? QUANT_BF16
		       : is_ngrams         ? QUANT_Q8_0 : QUANT_NVFP4_BLOCK;
	case MIX_MXFP4:
		return strstr(part, "_exps") || (!s->n_experts && !is_head && !is_table)
			       ? QUANT_MXFP4_BLOCK : QUANT_Q8_0;
	default:
		break;
	}
	if (is_head || mix == MIX_Q6_K)
		return QUANT_Q6_K;
	if (mix == MIX_Q4_0)
		return QUANT_Q4_0;
	if (is_ngrams && mix == MIX_UD_Q4_K_XL)
		return QUANT_IQ4_NL;
	if (mix == MIX_UD_Q4_K_XL)
		return of_dynamic(s, part, is_down, layer);
	if (mix == MIX_IQ4_XS) {
		bool is_shared = is_v && s->n_heads / s->n_kv_heads >= 4;
		return is_shared || (is_down && layer < s->n_layers / 8) ? QUANT_Q5_K
									 : QUANT_IQ4_XS;
	}
	if (mix == MIX_Q5_K_M)
		return more || is_qkv ? QUANT_Q6_K : QUANT_Q5_K;
	return more ? QUANT_Q6_K : is_qkv ? QUANT_Q5_K : QUANT_Q4_K;
}

/* --- n-grams --------------------------------------------------------------------- */

/* Rows of a part of the table: each part has another number of them. */
static int64_t ngram_part(const struct synth_shape *s, int i)
{
	return (int64_t)s->n_ngrams + 2 * i + 1;
}

static int64_t ngram_rows(const struct synth_shape *s)
{
	int64_t n = 0;
	for (int i = 0; i < SYNTH_NGRAM_PARTS; i++)
		n += ngram_part(s, i);
	return ROUND_UP(n, 128);
}

/* Qwen4-Exp's files have it. */
static bool has_mtp(const struct synth_shape *s)
{
	return s->n_streams > 0;
}

/* --- plan ----------------------------------------------------------------------- */

/* What the functions that add tensors share. */
struct gguf_adder {
	struct synth_plan *p;
	const struct synth_shape *s;
	enum synth_mix mix;
	int32_t layer, nth;
	char prefix[32]; /* "blk.3." */
};

static void synth_gguf_add(struct gguf_adder *a, const char *name, struct synth_tensor t)
{
	struct synth_plan *p = a->p;
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->tensor = xrealloc(p->tensor, p->cap * sizeof *p->tensor);
	}
	t.name = xasprintf("%s%s", a->prefix, name);
	p->tensor[p->n++] = t;
	p->n_bytes += ROUND_UP(synth_tensor_bytes(&t), p->align);
}

/* A tensor of float32: (n), or (n, k) with k above 0. */
static void add_f32(struct gguf_adder *a, const char *name, int64_t n, int64_t k,
		    enum synth_fill fill, double scale)
{
	synth_gguf_add(a, name, (struct synth_tensor){.dtype = DTYPE_F32, .fill = fill,
					   .scale = (float)scale, .n_dims = k ? 2 : 1,
					   .dim = {n, k}});
}

static void add_norm(struct gguf_adder *a, const char *name, int64_t n)
{
	add_f32(a, name, n, 0, SYNTH_NEAR, 1);
}

/* A matrix (n, k), or (experts, n, k), of this deviation. */
static void add_matrix(struct gguf_adder *a, const char *part, int64_t n, int64_t k, double dev)
{
	bool has_experts = strstr(part, "_exps");
	int64_t experts = a->s->n_experts;
	enum quant q = fit_rows(quant_in_mix(a->mix, a->s, part, a->layer, a->nth), k);
	char name[64];
	struct synth_tensor t = {.dtype = DTYPE_BF16, .fill = SYNTH_NORMAL, .scale = (float)dev,
				 .n_dims = 2, .dim = {n, k}};
	if (has_experts)
		t = (struct synth_tensor){.scale = (float)dev, .n_dims = 3,
					  .dim = {experts, n, k}};
	if (q != QUANT_BF16) {
		t.fill = SYNTH_BLOCKS;
		t.quant = q;
		t.dtype = DTYPE_U8;
	}
	snprintf(name, sizeof name, "%s.weight", part);
	synth_gguf_add(a, name, t);
	if (q != QUANT_NVFP4_BLOCK)
		return;
	snprintf(name, sizeof name, "%s.scale", part);
	add_f32(a, name, has_experts ? experts : 1, 0, SYNTH_SAME, dev / SYNTH_NVFP4_DEV);
}

/* A Linear whose outputs have deviation `out` for inputs of 1. */
static void add_linear(struct gguf_adder *a, const char *part, int64_t n, int64_t k, double out)
{
	add_matrix(a, part, n, k, out / sqrt((double)k));
}

static void add_mlp(struct gguf_adder *a, const char *tail, int64_t f, double out)
{
	static const char *const names[] = {"ffn_gate", "ffn_up", "ffn_down"};
	int64_t d = a->s->d_model;
	for (int i = 0; i < 3; i++) {
		char part[32];
		snprintf(part, sizeof part, "%s%s", names[i], tail);
		add_linear(a, part, i < 2 ? f : d, i < 2 ? d : f, i < 2 ? 1 : out);
	}
}

static void add_bf16(struct gguf_adder *a, const char *name, int64_t n, int64_t k)
{
	synth_gguf_add(a, name, (struct synth_tensor){.dtype = DTYPE_BF16, .fill = SYNTH_NORMAL,
				.scale = (float)(1 / sqrt((double)k)), .n_dims = 2,
				.dim = {n, k}});
}

static void add_attention(struct gguf_adder *a, double out)
{
	const struct synth_shape *s = a->s;
	int64_t d = s->d_model, nq = (int64_t)s->n_heads * s->head_dim;
	int64_t nkv = (int64_t)s->n_kv_heads * s->head_dim;
	add_norm(a, "attn_q_norm.weight", s->head_dim);
	add_norm(a, "attn_k_norm.weight", s->head_dim);
	add_linear(a, "attn_q", s->full_every ? 2 * nq : nq, d, 1);
	add_linear(a, "attn_k", nkv, d, 1);
	add_linear(a, "attn_v", nkv, d, 1);
	add_linear(a, "attn_output", d, nq, out);
	a->nth++;
	if (!s->index_heads)
		return;
	/* Small enough that no quantizer touches them. */
	add_bf16(a, "indexer.q_proj.weight", (int64_t)s->index_heads * s->index_dim, d);
	add_bf16(a, "indexer.k_proj.weight", s->index_dim, d);
	add_norm(a, "indexer.q_norm.weight", s->index_dim);
	add_norm(a, "indexer.k_norm.weight", s->index_dim);
}

/* A mixer of residual streams. kind: "hc_attn", "output_hc", … */
static void add_mixer(struct gguf_adder *a, const char *kind, bool has_inject)
{
	int64_t wide = (int64_t)a->s->n_streams * a->s->d_model, rank = a->s->stream_rank;
	char name[48];
	snprintf(name, sizeof name, "%s_norm.weight", kind);
	add_norm(a, name, wide);
	snprintf(name, sizeof name, "%s_down", kind);
	add_linear(a, name, rank, wide, 1);
	snprintf(name, sizeof name, "%s_up", kind);
	add_linear(a, name, wide, rank, 1);
	snprintf(name, sizeof name, "%s_inject.weight", kind);
	if (has_inject)
		add_f32(a, name, a->s->n_streams, wide, SYNTH_NORMAL, 1 / sqrt((double)wide));
}

/* What a layer with n-grams adds to all streams. */
static void add_ngrams(struct gguf_adder *a)
{
	static const char *const norms[] = {"ple_norm_key.weight", "ple_norm_query.weight",
					    "ple_norm_conv.weight"};
	int64_t d = a->s->d_model, wide = a->s->n_streams * d;
	for (size_t i = 0; i < ARRAY_LEN(norms); i++)
		add_norm(a, norms[i], wide);
	add_linear(a, "ple_key", wide, d, 1);
	add_linear(a, "ple_value", d, d, 1 / sqrt(2.0 * a->s->n_layers));
	add_f32(a, "ple_conv1d.weight", wide, SYNTH_DELTA_TAPS, SYNTH_NORMAL,
		1 / sqrt(SYNTH_DELTA_TAPS));
}

/* What the MTP layer has beside those of a layer with attention. */
static void add_nextn(struct gguf_adder *a)
{
	int64_t d = a->s->d_model;
	add_norm(a, "nextn.enorm.weight", d);
	add_norm(a, "nextn.hnorm.weight", a->s->n_streams * d);
	add_linear(a, "nextn.eh_proj", d, 2 * d, 1);
	add_mixer(a, "nextn.hc_head", false);
}

static void add_delta(struct gguf_adder *a, double out)
{
	const struct synth_shape *s = a->s;
	int64_t d = s->d_model, hv = s->n_value_heads, nv = hv * s->delta_dim;
	int64_t n_conv = 2 * (int64_t)s->n_key_heads * s->delta_dim + nv;
	double dev = 1 / sqrt((double)d);
	add_linear(a, "attn_qkv", n_conv, d, 1);
	add_linear(a, "attn_gate", nv, d, 1);
	add_linear(a, "ssm_out", d, nv, out);
	add_f32(a, "ssm_alpha.weight", hv, d, SYNTH_NORMAL, dev);
	add_f32(a, "ssm_beta.weight", hv, d, SYNTH_NORMAL, dev);
	add_f32(a, "ssm_conv1d.weight", n_conv, SYNTH_DELTA_TAPS, SYNTH_NORMAL,
		1 / sqrt(SYNTH_DELTA_TAPS));
	add_f32(a, "ssm_dt.bias", hv, 0, SYNTH_NORMAL, 0.5);
	add_f32(a, "ssm_a", hv, 0, SYNTH_SAME, -1); /* below 0 also in an empty file */
	add_norm(a, "ssm_norm.weight", s->delta_dim);
}

static void add_layer(struct gguf_adder *a)
{
	const struct synth_shape *s = a->s;
	double out = 1 / sqrt(2.0 * s->n_layers), dev = 1 / sqrt((double)s->d_model);
	if (s->n_streams) {
		add_mixer(a, "hc_attn", true);
		add_mixer(a, "hc_ffn", true);
	} else {
		add_norm(a, "attn_norm.weight", s->d_model);
		add_norm(a, s->full_every ? "post_attention_norm.weight" : "ffn_norm.weight",
			 s->d_model);
	}
	if (s->n_ngrams && a->layer == NGRAM_LAYER)
		add_ngrams(a);
	if (s->full_every && (a->layer + 1) % s->full_every != 0 && a->layer < s->n_layers)
		add_delta(a, out);
	else
		add_attention(a, out);
	if (!s->n_experts) {
		add_mlp(a, "", s->ffn_dim, out);
		return;
	}
	add_f32(a, "ffn_gate_inp.weight", s->n_experts, s->d_model, SYNTH_NORMAL,
		SYNTH_ROUTER_DEV * dev);
	add_mlp(a, "_exps", s->expert_dim, out * sqrt(s->n_used));
	if (s->shared_dim) {
		add_f32(a, "ffn_gate_inp_shexp.weight", s->d_model, 0, SYNTH_NORMAL, dev);
		add_mlp(a, "_shexp", s->shared_dim, out);
	}
}

void synth_gguf_plan(const struct synth_shape *s, struct synth_format f, struct synth_plan *out)
{
	struct gguf_adder a = {.p = out, .s = s, .mix = f.mix};
	double head = synth_head_dev(s);
	*out = (struct synth_plan){.align = GGUF_ALIGN};
	add_matrix(&a, "token_embd", s->n_vocab, s->d_model, s->is_tied ? head : 1);
	if (s->n_streams)
		add_mixer(&a, "output_hc", false);
	else
		add_norm(&a, "output_norm.weight", s->d_model);
	if (!s->is_tied)
		add_matrix(&a, "output", s->n_vocab, s->d_model, head);
	if (s->n_ngrams)
		add_matrix(&a, ngram_table, ngram_rows(s), s->d_model / SYNTH_NGRAM_PARTS, 1);
	for (a.layer = 0; a.layer < s->n_layers + has_mtp(s); a.layer++) {
		snprintf(a.prefix, sizeof a.prefix, "blk.%d.", a.layer);
		add_layer(&a);
		if (a.layer == s->n_layers)
			add_nextn(&a);
	}
}

/* --- keys ----------------------------------------------------------------------- */

struct gguf_keys {
	struct buf b;
	uint64_t n;
	const char *arch;
};

static void put_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof v); /* little-endian, like this machine */
}

static void put_u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof v);
}

static void put_text(struct buf *b, const char *text)
{
	put_u64(b, strlen(text));
	buf_add_z(b, text);
}

static void key(struct gguf_keys *k, const char *name, enum gguf_type type)
{
	put_text(&k->b, name);
	put_u32(&k->b, type);
	k->n++;
}

static void key_text(struct gguf_keys *k, const char *name, const char *text)
{
	key(k, name, GGUF_STRING);
	put_text(&k->b, text);
}

/* A key of the architecture: its name follows "qwen3.". */
static void key_u32(struct gguf_keys *k, const char *name, int64_t v)
{
	char full[96];
	snprintf(full, sizeof full, "%s.%s", k->arch, name);
	key(k, full, GGUF_U32);
	put_u32(&k->b, (uint32_t)v);
}

static void key_f32(struct gguf_keys *k, const char *name, double v)
{
	char full[96];
	float f = (float)v;
	snprintf(full, sizeof full, "%s.%s", k->arch, name);
	key(k, full, GGUF_F32);
	buf_add(&k->b, &f, sizeof f);
}

/* An array of n numbers of 8 bytes. */
static void key_u64s(struct gguf_keys *k, const char *name, const int64_t *v, size_t n)
{
	char full[96];
	snprintf(full, sizeof full, "%s.%s", k->arch, name);
	key(k, full, GGUF_ARRAY);
	put_u32(&k->b, GGUF_U64);
	put_u64(&k->b, n);
	buf_add(&k->b, v, n * sizeof *v);
}

static void add_stream_keys(const struct synth_shape *s, struct gguf_keys *k)
{
	static const int64_t layers[] = {NGRAM_LAYER},
			     factors[SYNTH_NGRAM] = {0x5DEECE66D, 0x2545F4915, 0x369DEA0F31};
	int64_t at[SYNTH_NGRAM_PARTS] = {0}, size[SYNTH_NGRAM_PARTS];
	key_u32(k, "nextn_predict_layers", has_mtp(s));
	key_u32(k, "hyper_connection.count", s->n_streams);
	key_u32(k, "hyper_connection.low_rank", s->stream_rank);
	key_u32(k, "attention.indexer.head_count", s->index_heads);
	key_u32(k, "attention.indexer.key_length", s->index_dim);
	key_u32(k, "attention.indexer.top_k", s->index_budget);
	key_u32(k, "attention.compress_ratios", s->index_ratio);
	for (int i = 0; i < SYNTH_NGRAM_PARTS; i++) {
		size[i] = ngram_part(s, i);
		at[i] = i ? at[i - 1] + size[i - 1] : 0;
	}
	key_u64s(k, "ple.layers", layers, ARRAY_LEN(layers));
	key_u32(k, "ple.ngram_size", SYNTH_NGRAM);
	key_u32(k, "ple.heads_per_ngram", SYNTH_NGRAM_HEADS);
	key_u32(k, "ple.conv_kernel", SYNTH_DELTA_TAPS);
	key_u32(k, "ple.eos_token_id", 0);
	key_u32(k, "embedding_length_per_layer_input", s->d_model / SYNTH_NGRAM_PARTS);
	key_u64s(k, "ple.layer_multipliers", factors, ARRAY_LEN(factors));
	key_u64s(k, "ple.head_offsets", at, ARRAY_LEN(at));
	key_u64s(k, "ple.head_vocab_sizes", size, ARRAY_LEN(size));
}

static void add_experts(const struct synth_shape *s, struct gguf_keys *k)
{
	key_u32(k, "expert_count", s->n_experts);
	key_u32(k, "expert_used_count", s->n_used);
	key_u32(k, "expert_feed_forward_length", s->expert_dim);
	if (s->shared_dim)
		key_u32(k, "expert_shared_feed_forward_length", s->shared_dim);
}

static void add_delta_keys(const struct synth_shape *s, struct gguf_keys *k)
{
	static const int32_t sections[] = {11, 11, 10, 0};
	char full[96];
	key_u32(k, "full_attention_interval", s->full_every);
	key_u32(k, "ssm.conv_kernel", SYNTH_DELTA_TAPS);
	key_u32(k, "ssm.inner_size", (int64_t)s->n_value_heads * s->delta_dim);
	key_u32(k, "ssm.state_size", s->delta_dim);
	key_u32(k, "ssm.time_step_rank", s->n_value_heads);
	key_u32(k, "ssm.group_count", s->n_key_heads);
	key_u32(k, "rope.dimension_count", s->head_dim / 4);
	snprintf(full, sizeof full, "%s.rope.dimension_sections", k->arch);
	key(k, full, GGUF_ARRAY);
	put_u32(&k->b, GGUF_I32);
	put_u64(&k->b, ARRAY_LEN(sections));
	buf_add(&k->b, sections, sizeof sections);
}

static void add_shape(const struct synth_shape *s, struct gguf_keys *k)
{
	key_text(k, "general.architecture", k->arch);
	key_u32(k, "block_count", s->n_layers + has_mtp(s));
	key_u32(k, "context_length", s->max_ctx ? s->max_ctx : 40960);
	key_u32(k, "embedding_length", s->d_model);
	key_u32(k, "feed_forward_length", s->n_experts ? 3 * s->d_model : s->ffn_dim);
	key_u32(k, "attention.head_count", s->n_heads);
	key_u32(k, "attention.head_count_kv", s->n_kv_heads);
	key_u32(k, "attention.key_length", s->head_dim);
	key_u32(k, "attention.value_length", s->head_dim);
	key_f32(k, "attention.layer_norm_rms_epsilon", 1e-6);
	key_f32(k, "rope.freq_base", s->theta);
	key_u32(k, "vocab_size", s->n_vocab);
	if (s->n_experts)
		add_experts(s, k);
	if (s->full_every)
		add_delta_keys(s, k);
	if (s->n_streams)
		add_stream_keys(s, k);
}

static const char *text_of(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);
	return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

/* Texts and kinds of all tokens, in the order of their ids. */
static void add_tokens(const json_t *root, int32_t n_vocab, struct gguf_keys *k)
{
	enum { NORMAL = 1, CONTROL = 3, OWN = 4 };
	const char **text = xcalloc((size_t)n_vocab, sizeof *text), *name;
	int32_t *kind = xcalloc((size_t)n_vocab, sizeof *kind);
	json_t *v, *vocab = json_object_get(json_object_get(root, "model"), "vocab");
	size_t i;
	for (int32_t id = 0; id < n_vocab; id++) {
		text[id] = "";
		kind[id] = NORMAL;
	}
	json_object_foreach(vocab, name, v) {
		json_int_t id = json_integer_value(v);
		if (id >= 0 && id < n_vocab)
			text[id] = name;
	}
	json_array_foreach (json_object_get(root, "added_tokens"), i, v) {
		json_int_t id = json_integer_value(json_object_get(v, "id"));
		bool is_special = json_is_true(json_object_get(v, "special"));
		if (id >= 0 && id < n_vocab)
			kind[id] = is_special ? CONTROL : OWN;
	}
	key(k, "tokenizer.ggml.tokens", GGUF_ARRAY);
	put_u32(&k->b, GGUF_STRING);
	put_u64(&k->b, (uint64_t)n_vocab);
	for (int32_t id = 0; id < n_vocab; id++)
		put_text(&k->b, text[id]);
	key(k, "tokenizer.ggml.token_type", GGUF_ARRAY);
	put_u32(&k->b, GGUF_I32);
	put_u64(&k->b, (uint64_t)n_vocab);
	buf_add(&k->b, kind, (size_t)n_vocab * sizeof *kind);
	free(text);
	free(kind);
}

/* tokenizer.json has a merge as one text, "a b", or as a pair. GGUF has the text. */
static void add_merges(const json_t *merges, struct gguf_keys *k)
{
	size_t i;
	json_t *v;
	key(k, "tokenizer.ggml.merges", GGUF_ARRAY);
	put_u32(&k->b, GGUF_STRING);
	put_u64(&k->b, json_array_size(merges));
	json_array_foreach (merges, i, v) {
		const char *first = json_string_value(json_array_get(v, 0));
		const char *second = json_string_value(json_array_get(v, 1));
		const char *both = json_string_value(v);
		char *text = xasprintf("%s%s%s", both ? both : first ? first : "",
				       both ? "" : " ", both || !second ? "" : second);
		put_text(&k->b, text);
		free(text);
	}
}

static enum status add_tokenizer(const char *from, int32_t n_vocab, struct gguf_keys *k,
				 struct fail *fail)
{
	char *path = file_join(from, "tokenizer.json");
	json_t *root;
	enum status st = synth_tokenizer_grow(path, n_vocab, &root, fail);
	free(path);
	if (st != OK)
		return st;
	key_text(k, "tokenizer.ggml.model", "gpt2");
	key_text(k, "tokenizer.ggml.pre", "qwen2"); /* the shapes are Qwen's */
	add_tokens(root, n_vocab, k);
	add_merges(json_object_get(json_object_get(root, "model"), "merges"), k);
	path = file_join(from, "tokenizer_config.json");
	json_t *config = json_load_file(path, 0, NULL);
	const char *eos = text_of(config, "eos_token");
	const char *chat = text_of(config, "chat_template");
	const json_t *id = json_object_get(
		json_object_get(json_object_get(root, "model"), "vocab"), eos ? eos : "");
	if (id) {
		key(k, "tokenizer.ggml.eos_token_id", GGUF_U32);
		put_u32(&k->b, (uint32_t)json_integer_value(id));
	}
	if (chat)
		key_text(k, "tokenizer.chat_template", chat);
	json_decref(config);
	json_decref(root);
	free(path);
	return OK;
}

/* --- header --------------------------------------------------------------------- */

static uint32_t type_of(const struct synth_tensor *t)
{
	if (t->fill != SYNTH_BLOCKS)
		return t->dtype == DTYPE_F32 ? TYPE_F32 : TYPE_BF16;
	switch (t->quant) {
#define QUANT(...)
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, ...) \
	case QUANT_##ident: \
		return gguf;
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
	default:
		abort();
	}
}

enum status synth_gguf_header(const struct synth_shape *s, const struct synth_plan *p,
			      const char *from, struct buf *out, struct fail *fail)
{
	struct gguf_keys k = {.arch = s->n_streams ? "qwen4exp" : s->full_every ? "qwen35moe"
				      : s->n_experts ? "qwen3moe" : "qwen3"};
	int64_t at = 0;
	add_shape(s, &k);
	enum status st = add_tokenizer(from, s->n_vocab, &k, fail);
	buf_add_z(out, "GGUF");
	put_u32(out, 3);
	put_u64(out, p->n);
	put_u64(out, k.n);
	buf_add_str(out, buf_str(&k.b));
	buf_deinit(&k.b);
	for (size_t i = 0; i < p->n; i++) {
		const struct synth_tensor *t = &p->tensor[i];
		put_text(out, t->name);
		put_u32(out, (uint32_t)t->n_dims);
		for (int d = t->n_dims; d-- > 0;)
			put_u64(out, (uint64_t)t->dim[d]);
		put_u32(out, type_of(t));
		put_u64(out, (uint64_t)at);
		at += ROUND_UP(synth_tensor_bytes(t), p->align);
	}
	while (out->n % GGUF_ALIGN)
		buf_add_c(out, '\0');
	return st;
}
