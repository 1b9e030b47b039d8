/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensors a model of a shape has, and how large their numbers must be.
 *
 * With inputs of mean square one, a weight of deviation 1/sqrt(K) gives outputs of mean square
 * one. Additions to the residual stream are smaller by sqrt(2 L), so that the stream grows only
 * by a constant factor over all layers. The head's logits have deviation LOGIT_DEV: over
 * 150,000 words the first choice then takes a few percent, as in a model that is neither sure
 * nor lost.
 */
#include "bench/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define LOGIT_DEV 3.0
/* If the embedding is also the head, a token's own row is still in the stream that is
 * multiplied with it. Larger rows would make every token repeat itself. */
#define LOGIT_DEV_TIED 2.0

/* Sizes are those of config.json of the models on Hugging Face. */
#define DENSE(name_, layers_, d_, heads_, ffn_, tied_) \
	{.name = name_, .model_type = "qwen3", .n_layers = layers_, .d_model = d_, \
	 .n_heads = heads_, .n_kv_heads = 8, .head_dim = 128, .ffn_dim = ffn_, \
	 .n_vocab = 151936, .is_tied = tied_, .theta = 1e6}
static const struct synth_shape shapes[] = {
	DENSE("qwen3-0.6b", 28, 1024, 16, 3072, true),
	DENSE("qwen3-1.7b", 28, 2048, 16, 6144, true),
	DENSE("qwen3-4b", 36, 2560, 32, 9728, true),
	DENSE("qwen3-8b", 36, 4096, 32, 12288, false),
	DENSE("qwen3-14b", 40, 5120, 40, 17408, false),
	DENSE("qwen3-32b", 64, 5120, 64, 25600, false),
	{.name = "qwen3-30b-a3b", .model_type = "qwen3_moe", .n_layers = 48,
	 .d_model = 2048, .n_heads = 32, .n_kv_heads = 4, .head_dim = 128,
	 .n_experts = 128, .n_used = 8, .expert_dim = 768, .n_vocab = 151936,
	 .theta = 1e6},
	{.name = "qwen3.5-35b-a3b", .model_type = "qwen3_5_moe", .n_layers = 40,
	 .d_model = 2048, .n_heads = 16, .n_kv_heads = 2, .head_dim = 256,
	 .n_experts = 256, .n_used = 8, .expert_dim = 512, .shared_dim = 512,
	 .n_vocab = 248320, .theta = 1e7, .full_every = 4, .n_key_heads = 16,
	 .n_value_heads = 32, .delta_dim = 128},
	{.name = "qwen3.5-27b", .model_type = "qwen3_5", .n_layers = 64, .d_model = 5120,
	 .n_heads = 24, .n_kv_heads = 4, .head_dim = 256, .ffn_dim = 17408,
	 .n_vocab = 248320, .theta = 1e7, .full_every = 4, .n_key_heads = 16,
	 .n_value_heads = 48, .delta_dim = 128},
	{.name = "qwen3.8-flash-next", .model_type = "qwen4_exp", .n_layers = 48,
	 .d_model = 2560, .n_heads = 24, .n_kv_heads = 2, .head_dim = 256,
	 .n_experts = 512, .n_used = 10, .expert_dim = 640, .shared_dim = 640,
	 .n_vocab = 248320, .theta = 1e7, .full_every = 4, .n_key_heads = 16,
	 .n_value_heads = 48, .delta_dim = 128, .n_streams = 4, .stream_rank = 320,
	 .index_heads = 4, .index_dim = 128, .index_budget = 2048, .index_ratio = 4,
	 .n_ngrams = 20000000, .max_ctx = 262144},
};

const struct synth_shape *synth_shape_at(size_t i)
{
	return i < ARRAY_LEN(shapes) ? &shapes[i] : NULL;
}

const struct synth_shape *synth_shape_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	return NULL;
}

bool synth_format_parse(const char *text, struct synth_format *out)
{
	static const struct {
		const char *name;
		struct synth_format f;
	} formats[] = {
		{"bf16", {0}},
		{"w4a16-g32", {.group = 32}}, {"w4a16-g32-asym", {32, true, false, MIX_NONE}},
		{"w4a16-g32-all", {32, false, true, MIX_NONE}},
		{"w4a16-g64", {.group = 64}}, {"w4a16-g64-asym", {64, true, false, MIX_NONE}},
		{"w4a16-g128", {.group = 128}}, {"w4a16-g128-asym", {128, true, false, MIX_NONE}},
		{"q4_0", {.mix = MIX_Q4_0}}, {"q4_k_m", {.mix = MIX_Q4_K_M}},
		{"q5_k_m", {.mix = MIX_Q5_K_M}}, {"q6_k", {.mix = MIX_Q6_K}},
		{"q8_0", {.mix = MIX_Q8_0}}, {"iq4_xs", {.mix = MIX_IQ4_XS}},
		{"ud-q4_k_xl", {.mix = MIX_UD_Q4_K_XL}}, {"mxfp4", {.mix = MIX_MXFP4}},
		{"nvfp4", {.mix = MIX_NVFP4}},
	};
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (strcmp(formats[i].name, text) == 0) {
			*out = formats[i].f;
			return true;
		}
	return false;
}

/* --- plan --------------------------------------------------------------------- */

int64_t synth_tensor_bytes(const struct synth_tensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->n_dims; i++)
		n *= t->dim[i];
	return t->fill == SYNTH_BLOCKS
		       ? n / quant_block(t->quant) * (int64_t)quant_block_bytes(t->quant)
		       : n * (int64_t)dtype_bytes(t->dtype);
}

/* What the functions that add weights share. */
struct adder {
	struct synth_plan *p;
	struct synth_format f;
	bool is_centred; /* norms multiply by 1 + w, so w is near 0 */
	char prefix[96]; /* "model.layers.3." */
};

static struct synth_tensor *synth_shape_add(struct adder *a, const char *name, const char *suffix,
					    enum dtype dtype, enum synth_fill fill, double scale)
{
	struct synth_plan *p = a->p;
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->tensor = xrealloc(p->tensor, p->cap * sizeof *p->tensor);
	}
	struct synth_tensor *t = &p->tensor[p->n++];
	*t = (struct synth_tensor){.name = xasprintf("%s%s%s", a->prefix, name, suffix),
				   .dtype = dtype, .fill = fill, .scale = (float)scale};
	return t;
}

static void set_dims(struct adder *a, struct synth_tensor *t, int64_t rows, int64_t cols)
{
	t->dim[t->n_dims++] = rows;
	if (cols)
		t->dim[t->n_dims++] = cols;
	a->p->n_bytes += synth_tensor_bytes(t);
}

static void add_plain(struct adder *a, const char *name, int64_t n, int64_t k, double dev)
{
	set_dims(a, synth_shape_add(a, name, ".weight", DTYPE_BF16, SYNTH_NORMAL, dev), n, k);
}

static void add_norm(struct adder *a, const char *name, int64_t n)
{
	if (a->is_centred)
		set_dims(a, synth_shape_add(a, name, ".weight", DTYPE_BF16, SYNTH_NORMAL, 0.1), n,
			 0);
	else
		set_dims(a, synth_shape_add(a, name, ".weight", DTYPE_BF16, SYNTH_NEAR, 1), n, 0);
}

/* A Linear (n, k) whose outputs have deviation `out` for inputs of 1. */
static void add_linear(struct adder *a, const char *name, int64_t n, int64_t k, double out)
{
	double dev = out / sqrt((double)k);
	int64_t group = a->f.group;
	if (!group) {
		add_plain(a, name, n, k, dev);
		return;
	}
	set_dims(a, synth_shape_add(a, name, ".weight_packed", DTYPE_I32, SYNTH_NIBBLES, 1), n,
		 k / 8);
	set_dims(a, synth_shape_add(a, name, ".weight_scale", DTYPE_BF16, SYNTH_NEAR,
				    dev / SYNTH_NIBBLE_DEV), n, k / group);
	if (a->f.is_asymmetric)
		set_dims(a, synth_shape_add(a, name, ".weight_zero_point", DTYPE_I32, SYNTH_ZEROS,
					    1),
			 (n + 7) / 8, k / group);
	struct synth_tensor *t = synth_shape_add(a, name, ".weight_shape", DTYPE_I64, SYNTH_SIZES,
						 1);
	t->sizes[0] = n;
	t->sizes[1] = k;
	set_dims(a, t, 2, 0);
}

static void add_mlp(struct adder *a, const char *prefix, int64_t d, int64_t f,
		    double out)
{
	static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
	for (int i = 0; i < 3; i++) {
		char name[64];
		snprintf(name, sizeof name, "%s.%s", prefix, names[i]);
		add_linear(a, name, i < 2 ? f : d, i < 2 ? d : f, i < 2 ? 1 : out);
	}
}

static void add_attention(struct adder *a, const struct synth_shape *s, double out)
{
	int64_t d = s->d_model, k = s->head_dim;
	int64_t nq = s->n_heads * k, nkv = s->n_kv_heads * k;
	add_norm(a, "self_attn.q_norm", k);
	add_norm(a, "self_attn.k_norm", k);
	/* q_proj also gives a gate for each query. */
	add_linear(a, "self_attn.q_proj", s->full_every ? 2 * nq : nq, d, 1);
	add_linear(a, "self_attn.k_proj", nkv, d, 1);
	add_linear(a, "self_attn.v_proj", nkv, d, 1);
	add_linear(a, "self_attn.o_proj", d, nq, out);
}

/* Decays are about exp(-exp(0) softplus(0)) = 1/2 a token. The convolution's taps keep the size
 * of its inputs. */
static void add_delta(struct adder *a, const struct synth_shape *s, double out)
{
	int64_t d = s->d_model, hv = s->n_value_heads, nv = hv * s->delta_dim;
	int64_t n_conv = 2 * (int64_t)s->n_key_heads * s->delta_dim + nv;
	set_dims(a, synth_shape_add(a, "linear_attn.A_log", "", DTYPE_BF16, SYNTH_NORMAL, 0.5), hv,
		 0);
	set_dims(a, synth_shape_add(a, "linear_attn.dt_bias", "", DTYPE_BF16, SYNTH_NORMAL, 0.5),
		 hv, 0);
	struct synth_tensor *conv = synth_shape_add(a, "linear_attn.conv1d", ".weight", DTYPE_BF16,
						    SYNTH_NORMAL, 1 / sqrt(SYNTH_DELTA_TAPS));
	conv->dim[conv->n_dims++] = n_conv;
	set_dims(a, conv, 1, SYNTH_DELTA_TAPS);
	add_plain(a, "linear_attn.in_proj_a", hv, d, 1 / sqrt((double)d));
	add_plain(a, "linear_attn.in_proj_b", hv, d, 1 / sqrt((double)d));
	add_linear(a, "linear_attn.in_proj_qkv", n_conv, d, 1);
	add_linear(a, "linear_attn.in_proj_z", nv, d, 1);
	set_dims(a, synth_shape_add(a, "linear_attn.norm", ".weight", DTYPE_BF16, SYNTH_NEAR, 1),
		 s->delta_dim, 0);
	add_linear(a, "linear_attn.out_proj", d, nv, out);
}

static void add_layer(struct adder *a, const struct synth_shape *s, int i)
{
	int64_t d = s->d_model;
	double out = 1 / sqrt(2.0 * s->n_layers);
	add_norm(a, "input_layernorm", d);
	add_norm(a, "post_attention_layernorm", d);
	if (s->full_every && (i + 1) % s->full_every != 0)
		add_delta(a, s, out);
	else
		add_attention(a, s, out);
	if (!s->n_experts) {
		add_mlp(a, "mlp", d, s->ffn_dim, out);
		return;
	}
	add_plain(a, "mlp.gate", s->n_experts, d, SYNTH_ROUTER_DEV / sqrt((double)d));
	for (int32_t e = 0; e < s->n_experts; e++) {
		char name[32];
		snprintf(name, sizeof name, "mlp.experts.%d", e);
		/* The weights of the chosen experts add up to one, so the sum of n_used outputs
		 * is smaller. */
		add_mlp(a, name, d, s->expert_dim, out * sqrt(s->n_used));
	}
	if (s->shared_dim) {
		add_plain(a, "mlp.shared_expert_gate", 1, d, 1 / sqrt((double)d));
		add_mlp(a, "mlp.shared_expert", d, s->shared_dim, out);
	}
}

/* Adds a table with a row for each token; dev: deviation of its numbers. */
static void add_table(struct adder *a, const char *name, const struct synth_shape *s,
		      double dev)
{
	if (a->f.is_all)
		add_linear(a, name, s->n_vocab, s->d_model,
			   dev * sqrt((double)s->d_model));
	else
		add_plain(a, name, s->n_vocab, s->d_model, dev);
}

double synth_head_dev(const struct synth_shape *s)
{
	return (s->is_tied ? LOGIT_DEV_TIED : LOGIT_DEV) / sqrt((double)s->d_model);
}

void synth_plan_make(const struct synth_shape *s, struct synth_format f,
		     struct synth_plan *out)
{
	*out = (struct synth_plan){.align = 1};
	const char *model = s->full_every ? "model.language_model." : "model.";
	struct adder a = {.p = out, .f = f, .is_centred = s->full_every > 0};
	double head_dev = synth_head_dev(s);
	snprintf(a.prefix, sizeof a.prefix, "%s", model);
	add_table(&a, "embed_tokens", s, s->is_tied ? head_dev : 1);
	for (int i = 0; i < s->n_layers; i++) {
		snprintf(a.prefix, sizeof a.prefix, "%slayers.%d.", model, i);
		add_layer(&a, s, i);
	}
	snprintf(a.prefix, sizeof a.prefix, "%s", model);
	add_norm(&a, "norm", s->d_model);
	a.prefix[0] = '\0';
	if (!s->is_tied)
		add_table(&a, "lm_head", s, head_dev);
}

void synth_plan_deinit(struct synth_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->tensor[i].name);
	free(p->tensor);
	*p = (struct synth_plan){0};
}

/* --- config.json -------------------------------------------------------------- */

static void add_quantization(struct synth_format f, struct buf *b)
{
	buf_addf(b, ",\n  \"quantization_config\": {\n"
		    "    \"quant_method\": \"compressed-tensors\",\n"
		    "    \"format\": \"pack-quantized\",\n"
		    "    \"quantization_status\": \"compressed\",\n"
		    "    \"ignore\": [%s\"re:.*mlp.gate$\", "
		    "\"re:.*shared_expert_gate$\", \"re:.*in_proj_[ab]$\"],\n"
		    "    \"config_groups\": {\"group_0\": {\n"
		    "      \"targets\": [\"Linear\"],\n"
		    "      \"weights\": {\"num_bits\": 4, \"type\": \"int\", "
		    "\"symmetric\": %s,\n"
		    "        \"strategy\": \"group\", \"group_size\": %d, "
		    "\"dynamic\": false},\n"
		    "      \"input_activations\": null}}\n"
		    "  }", f.is_all ? "" : "\"lm_head\", ",
		 f.is_asymmetric ? "false" : "true", f.group);
}

static void add_experts(const struct synth_shape *s, struct buf *b)
{
	buf_addf(b, "  \"num_experts\": %d,\n  \"num_experts_per_tok\": %d,\n"
		    "  \"moe_intermediate_size\": %d,\n"
		    "  \"norm_topk_prob\": true,\n"
		    "  \"decoder_sparse_step\": 1,\n"
		    "  \"mlp_only_layers\": [],\n",
		 s->n_experts, s->n_used, s->expert_dim);
	if (s->shared_dim)
		buf_addf(b, "  \"shared_expert_intermediate_size\": %d,\n", s->shared_dim);
}

static void add_layers(const struct synth_shape *s, struct buf *b)
{
	buf_add_z(b, "  \"layer_types\": [");
	for (int i = 0; i < s->n_layers; i++)
		buf_addf(b, "%s\"%s\"", i ? ", " : "", (i + 1) % s->full_every
			 ? "linear_attention" : "full_attention");
	buf_addf(b, "],\n  \"full_attention_interval\": %d,\n"
		    "  \"linear_conv_kernel_dim\": %d,\n"
		    "  \"linear_key_head_dim\": %d,\n  \"linear_value_head_dim\": %d,\n"
		    "  \"linear_num_key_heads\": %d,\n"
		    "  \"linear_num_value_heads\": %d,\n"
		    "  \"partial_rotary_factor\": 0.25,\n"
		    "  \"rope_parameters\": {\"rope_type\": \"default\", "
		    "\"rope_theta\": %.1f, \"partial_rotary_factor\": 0.25,\n"
		    "    \"mrope_interleaved\": true, \"mrope_section\": [11, 11, 10]},\n",
		 s->full_every, SYNTH_DELTA_TAPS, s->delta_dim, s->delta_dim, s->n_key_heads,
		 s->n_value_heads, s->theta);
}

/* Appends the keys of a language model, without those that say how it is stored. */
static void add_text(const struct synth_shape *s, struct buf *b)
{
	buf_addf(b, "  \"hidden_size\": %d,\n  \"num_hidden_layers\": %d,\n"
		    "  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n"
		    "  \"head_dim\": %d,\n  \"intermediate_size\": %d,\n",
		 s->d_model, s->n_layers, s->n_heads, s->n_kv_heads, s->head_dim,
		 s->n_experts ? 3 * s->d_model : s->ffn_dim);
	if (s->n_experts)
		add_experts(s, b);
	if (s->full_every)
		add_layers(s, b);
	else
		buf_addf(b, "  \"rope_theta\": %.1f,\n  \"rope_scaling\": null,\n"
			    "  \"sliding_window\": null,\n"
			    "  \"use_sliding_window\": false,\n", s->theta);
	buf_addf(b, "  \"vocab_size\": %d,\n  \"tie_word_embeddings\": %s,\n"
		    "  \"max_position_embeddings\": 40960,\n"
		    "  \"rms_norm_eps\": 1e-06,\n  \"hidden_act\": \"silu\",\n"
		    "  \"attention_bias\": false,\n  \"attention_dropout\": 0.0,\n"
		    "  \"torch_dtype\": \"bfloat16\"",
		 s->n_vocab, s->is_tied ? "true" : "false");
}

void synth_config(const struct synth_shape *s, struct synth_format f, struct buf *b)
{
	const char *name =
		s->full_every ? s->n_experts ? "Qwen3_5MoeForConditionalGeneration"
					     : "Qwen3_5ForConditionalGeneration"
			      : s->n_experts ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM";
	buf_addf(b, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n", name,
		 s->model_type);
	if (s->full_every)
		buf_addf(b, "  \"tie_word_embeddings\": %s,\n  \"text_config\": {\n"
			    "  \"model_type\": \"%s_text\",\n",
			 s->is_tied ? "true" : "false", s->model_type);
	add_text(s, b);
	if (s->full_every)
		buf_add_z(b, "\n  }");
	if (f.group)
		add_quantization(f, b);
	buf_add_z(b, "\n}\n");
}
