/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoders of BERT's kind: tokens see each other in both directions, and a layer norm
 * follows each part. Sources: configuration_bert.py, configuration_xlm_roberta.py and
 * configuration_nomic_bert.py of Hugging Face Transformers; configuration_hf_nomic_bert.py,
 * which is published beside nomic-embed's weights.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config_private.h"

static const struct {
	const char *model_type;
	bool has_places;    /* learned positions; else rotary embedding */
	bool places_begin_later; /* RoBERTa: the first position is pad_token_id + 1, not 0 */
} kinds[] = {
	{"bert", true, false}, {"roberta", true, true}, {"xlm-roberta", true, true},
	{"nomic_bert", false, false},
};

static int kind_of(const json_t *root)
{
	const char *type = json_string_value(jsonfile_get(root, "model_type"));
	for (size_t i = 0; type && i < ARRAY_LEN(kinds); i++)
		if (strcmp(type, kinds[i].model_type) == 0)
			return (int)i;
	return -1;
}

bool config_encoder_is(const json_t *root)
{
	return kind_of(root) >= 0;
}

/* Each key under its usual name and under the name in nomic-embed's files. */
#define AT(field) offsetof(struct model_config, field)
static const struct {
	const char *key, *other;
	size_t at;
	int32_t min, max;
	int32_t fallback; /* -1: required */
} sizes[] = {
	{"num_hidden_layers", "n_layer", AT(n_layers), 1, 1024, -1},
	{"hidden_size", "n_embd", AT(d_model), 8, 1 << 16, -1},
	{"num_attention_heads", "n_head", AT(n_heads), 1, 1024, -1},
	{"intermediate_size", "n_inner", AT(ffn_dim), 8, 1 << 20, -1},
	{"vocab_size", NULL, AT(n_vocab), 2, 1 << 24, -1},
	{"max_position_embeddings", "n_positions", AT(max_ctx), 1, 1 << 24, -1},
	{"type_vocab_size", NULL, AT(encoder.n_types), 0, 1 << 10, 2},
};

/* Keys that must be absent or have one of these values. */
static const struct {
	const char *key, *allowed;
} fixed[] = {
	{"position_embedding_type", "absolute"}, {"is_decoder", "false"},
	{"add_cross_attention", "false"}, {"embedding_size", ""},
	{"causal", "false"}, {"prenorm", "false"}, {"qkv_proj_bias", "false"},
	{"mlp_fc1_bias", "false"}, {"mlp_fc2_bias", "false"}, {"use_rms_norm", "false"},
	{"parallel_block", "false"},
	{"rotary_emb_fraction", "1"}, {"rotary_emb_interleaved", "false"},
	{"rotary_emb_scale_base", ""},
	{"scale_attn_weights", "true"}, {"scale_attn_by_inverse_layer_idx", "false"},
	{"num_experts", "0"}, {"moe_every_n_layers", "-1 0"},
};

static bool is_one_of(const json_t *v, const char *allowed)
{
	char text[40] = "?";
	if (json_is_boolean(v))
		snprintf(text, sizeof text, "%s", json_is_true(v) ? "true" : "false");
	else if (json_is_number(v))
		snprintf(text, sizeof text, "%g", json_number_value(v));
	else if (json_is_string(v))
		snprintf(text, sizeof text, "%.30s", json_string_value(v));
	for (const char *at = allowed; *at; at += strcspn(at, " "), at += *at == ' ') {
		size_t n = strcspn(at, " ");
		if (n == strlen(text) && strncmp(at, text, n) == 0)
			return true;
	}
	return false;
}

static enum status read_sizes(const json_t *root, struct model_config *c, struct fail *fail)
{
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const json_t *v = jsonfile_get(root, sizes[i].key);
		if (!v && sizes[i].other)
			v = jsonfile_get(root, sizes[i].other);
		json_int_t n = v ? json_integer_value(v) : sizes[i].fallback;
		if (!v && sizes[i].fallback < 0)
			return config_missing(fail, sizes[i].key);
		if ((v && !json_is_integer(v)) || n < sizes[i].min || n > sizes[i].max)
			return config_wrong(fail, sizes[i].key, v, "a number in its range");
		memcpy((char *)c + sizes[i].at, &(int32_t){(int32_t)n}, sizeof(int32_t));
	}
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		const json_t *v = jsonfile_get(root, fixed[i].key);
		if (v && !is_one_of(v, fixed[i].allowed))
			return config_unsupported(fail, fixed[i].key, v);
	}
	c->n_kv_heads = c->n_heads;
	c->head_dim = c->d_model / c->n_heads;
	if (c->d_model % c->n_heads || c->head_dim % 2)
		return fail_at(fail, E_FORMAT, "hidden_size", FILE_NAME ": hidden_size %d "
			       "makes no even heads, %d of them", c->d_model, c->n_heads);
	return OK;
}

static enum status read_norm(const json_t *root, struct model_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, "layer_norm_eps");
	v = v ? v : jsonfile_get(root, "layer_norm_epsilon");
	c->norm_eps = v ? (float)json_number_value(v) : 1e-12f;
	return !v || (c->norm_eps > 0 && c->norm_eps < 1e-2f)
		       ? OK : config_wrong(fail, "layer_norm_eps", v, "a small number");
}

static enum status read_activation(const json_t *root, bool is_gated, struct model_config *c,
				   struct fail *fail)
{
	const json_t *v = jsonfile_get(root, "hidden_act");
	v = v ? v : jsonfile_get(root, "activation_function");
	const char *names = is_gated ? "silu swiglu" : "gelu gelu_new gelu_pytorch_tanh";
	if (v && !is_one_of(v, names))
		return config_unsupported(fail, "hidden_act", v);
	c->act.kind = is_gated ? ACT_SILU : ACT_GELU_TANH;
	c->encoder.exact_gelu = !is_gated && (!v || is_one_of(v, "gelu"));
	c->encoder.is_ungated = !is_gated;
	return OK;
}

/* nomic-embed's own files have another name for the rope's base. Their scaling factor is for
 * texts longer than the trained length, which are not allowed here. */
static enum status read_rope(const json_t *root, struct model_config *c, struct fail *fail)
{
	json_t *copy = json_copy((json_t *)(uintptr_t)root);
	const json_t *base = jsonfile_get(root, "rotary_emb_base");
	const json_t *trained = jsonfile_get(root, "max_trained_positions");
	if (base && !jsonfile_get(root, "rope_theta"))
		json_object_set(copy, "rope_theta", (json_t *)(uintptr_t)base);
	enum status st = config_rope_read(copy, NULL, 1000, false, NULL, c, fail);
	json_decref(copy);
	const json_t *factor = jsonfile_get(root, "rotary_scaling_factor");
	if (st == OK && factor && json_integer_value(trained) <= 0)
		return config_unsupported(fail, "rotary_scaling_factor", factor);
	if (json_integer_value(trained) > 0)
		c->max_ctx = (int32_t)MIN(json_integer_value(trained), c->max_ctx);
	c->n_rot = c->head_dim;
	return st;
}

/* Read the number of learned positions. RoBERTa's first token has the position after
 * pad_token_id. */
static enum status read_places(const json_t *root, bool begins_later, struct model_config *c,
			       struct fail *fail)
{
	const json_t *pad = jsonfile_get(root, "pad_token_id");
	json_int_t after = pad ? json_integer_value(pad) : 1;
	c->encoder.n_places = c->max_ctx;
	if (!begins_later)
		return OK;
	if ((pad && !json_is_integer(pad)) || after < 0 || after + 1 >= c->encoder.n_places)
		return config_wrong(fail, "pad_token_id", pad, "an id below the positions");
	c->encoder.first_place = (int32_t)after + 1;
	c->max_ctx = c->encoder.n_places - c->encoder.first_place;
	return OK;
}

enum status config_encoder_read(const json_t *root, struct model_config *c, struct fail *fail)
{
	int kind = kind_of(root);
	bool has_places = kinds[kind].has_places;
	snprintf(c->arch, sizeof c->arch, "%s", kinds[kind].model_type);
	c->prefix = "";
	c->body = "model.";
	c->is_encoder = c->encoder.is_bert = true;
	c->qkv_bias = c->o_bias = has_places;
	c->embed_scale = c->logit_scale = 1;
	c->bos_id = -1;
	c->dtype = DTYPE_F32;
	enum status st = read_sizes(root, c, fail);
	if (st == OK)
		st = read_norm(root, c, fail);
	if (st == OK)
		st = read_activation(root, !has_places, c, fail);
	if (st != OK)
		return st;
	return has_places ? read_places(root, kinds[kind].places_begin_later, c, fail)
			  : read_rope(root, c, fail);
}

enum status config_encoder_of_text(const json_t *text, struct model_config *c,
				   struct fail *fail)
{
	static const char key[] = "use_bidirectional_attention";
	const json_t *v = jsonfile_get(text, key);
	const char *name = json_string_value(v);
	if (!v || json_is_false(v) || (name && strcmp(name, "vision") == 0))
		return OK; /* "vision": text attends only backward */
	if (!json_is_true(v))
		return config_unsupported(fail, key, v);
	c->is_encoder = true;
	/* The key counts both sides together; c->window counts one side, the token included. */
	c->window = c->window ? c->window / 2 + 1 : 0;
	return OK;
}
