/* SPDX-License-Identifier: Apache-2.0
 *
 * Nemotron-H: each layer has only one part: a state space, attention, a dense feed-forward or
 * experts. In GGUF ("nemotron_h", and "nemotron_h_moe" with experts) the tensors of a layer show
 * its kind. Sources: configuration_nemotron_h.py of Hugging Face Transformers, and llama.cpp's
 * converter.
 */
#include "model/model_family.h"

#include <stdio.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"intermediate_size", NULL, INT, AT(ffn_dim), 0, 1 << 20, 0},
	{"n_routed_experts", NULL, INT, AT(n_experts), 0, 4096, 0},
	{"num_experts_per_tok", NULL, INT, AT(n_experts_used), 0, 256, 0},
	{"moe_intermediate_size", NULL, INT, AT(expert_dim), 0, 1 << 20, 0},
	{"moe_shared_expert_intermediate_size", NULL, INT, AT(shared_dim), 0, 1 << 20, 0},
	{"n_group", NULL, INT, AT(n_groups), 1, 4096, 1},
	{"topk_group", NULL, INT, AT(n_groups_used), 1, 4096, 1},
	{"routed_scaling_factor", NULL, FLOAT, AT(routed_scale), 1e-3, 1e3, 1},
	{"norm_topk_prob", NULL, BOOL, AT(norm_topk), 0, 1, 1},
	{"moe_latent_size", NULL, INT, AT(latent_dim), 8, 1 << 16, 0},
	{0}};

/* Kinds of layers: the name in layers_block_type, the older name, and the letter in
 * hybrid_override_pattern. */
static const struct kind {
	const char *name, *old;
	char letter;
} kinds[] = {{"linear_attention", "mamba", 'M'}, {"full_attention", "attention", '*'},
	     {"mlp", "mlp", '-'}, {"moe", "moe", 'E'}};
enum { SSM, ATTENTION, DENSE, EXPERTS };

/* The list of the layers' kinds, from a pattern or a list; NULL if the config has neither. */
static json_t *list_of(const json_t *text)
{
	const char *pattern = json_string_value(
		json_object_get(text, "hybrid_override_pattern"));
	json_t *list = json_object_get(text, "layers_block_type"), *out;
	if (!json_is_array(list))
		list = json_object_get(text, "layer_types");
	if (json_is_array(list) || !pattern)
		return json_is_array(list) ? json_incref(list) : NULL;
	out = json_array();
	for (; *pattern; pattern++) {
		const char *name = NULL;
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
			if (kinds[k].letter == *pattern)
				name = kinds[k].name;
		json_array_append_new(out, name ? json_string(name)
						: json_stringn(pattern, 1));
	}
	return out;
}

static void nemotron_h_spell(json_t *text)
{
	static const char *const names[][2] = {
		{"mamba_num_heads", "mamba_n_heads"}, {"mamba_head_dim", "mamba_d_head"},
		{"n_groups", "mamba_n_groups"}, {"ssm_state_size", "mamba_d_state"},
		{"conv_kernel", "mamba_d_conv"}, {"use_conv_bias", "mamba_conv_bias"},
		{"norm_eps", "rms_norm_eps"}, {"layer_norm_epsilon", "rms_norm_eps"},
		{"attention_head_dim", "head_dim"}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		config_rename(text, names[i][0], names[i][1]);
	json_t *list = list_of(text);
	if (list) {
		json_object_set_new(text, "num_hidden_layers",
				    json_integer((json_int_t)json_array_size(list)));
		json_object_set(text, "layer_types", list);
	}
	json_decref(list);
}

static int kind_of(const json_t *v)
{
	const char *name = json_string_value(v);
	for (size_t k = 0; name && k < ARRAY_LEN(kinds); k++)
		if (strcmp(name, kinds[k].name) == 0 || strcmp(name, kinds[k].old) == 0)
			return (int)k;
	return -1;
}

static enum status read_kinds(const json_t *text, struct arena *a, struct model_config *c,
			      int n[ARRAY_LEN(kinds)], struct fail *fail)
{
	const json_t *list = jsonfile_get(text, "layer_types");
	size_t n_layers = (size_t)c->n_layers;
	if (!list)
		return config_missing(fail, "layers_block_type");
	c->is_linear = arena_alloc(a, n_layers * sizeof *c->is_linear);
	c->layer_parts = arena_alloc(a, n_layers * sizeof *c->layer_parts);
	c->dense_layers = arena_alloc(a, n_layers * sizeof *c->dense_layers);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(list, (size_t)i);
		int k = kind_of(v);
		if (k < 0)
			return config_unsupported(fail, "layers_block_type", v);
		n[k]++;
		c->is_linear[i] = k == SSM;
		c->layer_parts[i] = k == SSM || k == ATTENTION ? PART_MIXER : PART_MLP;
		if (k == DENSE)
			c->dense_layers[c->n_dense_layers++] = i;
	}
	c->n_linear = n[SSM];
	return OK;
}

/* Check the activation, and the keys that experts need if any layer has experts. */
static enum status read_widths(const json_t *text, struct model_config *c, const int *n,
			       struct fail *fail)
{
	const json_t *act = jsonfile_get(text, "mlp_hidden_act");
	const json_t *shared = jsonfile_get(text, "n_shared_experts");
	if (!json_is_string(act) || strcmp(json_string_value(act), "relu2") != 0)
		return act ? config_unsupported(fail, "mlp_hidden_act", act)
			   : config_missing(fail, "mlp_hidden_act");
	c->act.kind = ACT_RELU;
	if (n[DENSE] && !c->ffn_dim)
		return config_missing(fail, "intermediate_size");
	if (!n[EXPERTS]) {
		c->n_experts = c->n_experts_used = c->n_groups = c->shared_dim = 0;
		c->latent_dim = 0;
		return OK;
	}
	if (!c->n_experts || !c->n_experts_used || !c->expert_dim)
		return config_missing(fail, !c->n_experts ? "n_routed_experts"
				      : !c->n_experts_used ? "num_experts_per_tok"
							   : "moe_intermediate_size");
	if (shared && json_integer_value(shared) == 0)
		c->shared_dim = 0;
	else if (shared && json_integer_value(shared) != 1)
		return config_unsupported(fail, "n_shared_experts", shared);
	else if (!c->shared_dim)
		return config_missing(fail, "moe_shared_expert_intermediate_size");
	if (c->n_experts % c->n_groups || c->n_groups_used > c->n_groups ||
	    c->n_experts_used > c->n_experts / c->n_groups * c->n_groups_used)
		return fail_at(fail, E_FORMAT, "n_group", FILE_NAME
			       ": %d of %d experts cannot be chosen from %d of %d groups",
			       c->n_experts_used, c->n_experts, c->n_groups_used, c->n_groups);
	return OK;
}

static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	int n[ARRAY_LEN(kinds)] = {0};
	enum status st = read_kinds(text, a, c, n, fail);
	if (st == OK)
		st = read_widths(text, c, n, fail);
	if (st == OK)
		st = model_ssm_check(text, c, fail);
	if (st != OK)
		return st;
	c->is_unrotated = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_unrotated);
	memset(c->is_unrotated, true, (size_t)c->n_layers);
	return OK;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	GGUF_GROUP_KEYS,
	{"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", false,
	 false},
	{"moe_latent_size", "moe_latent_size", false, false},
	{0}};

static const struct gguf_name gguf_names[] = {
	/* of the layer's only part */ {"attn_norm", "norm"},
	GGUF_SHARED_EXPERTS("shared_experts"),
	{0}};

static const struct tensor *tensor_of(const struct gguf_model_reader *r, int64_t layer,
				      const char *part)
{
	char name[120];
	snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)layer, part);
	return tensors_find(r->tensors, name);
}

/* Find the kind of each layer, and the width of the dense ones. The last layer may be one of
 * multi-token prediction, which alone has both attention and experts. */
static enum status find_kinds(struct gguf_model_reader *r)
{
	static const char *const parts[][2] = {
		{"mamba.in_proj.weight", "linear_attention"},
		{"self_attn.q_proj.weight", "full_attention"},
		{"mlp.gate.weight", "moe"}, {"mlp.up_proj.weight", "mlp"}};
	int64_t layers = gguf_model_layers(r);
	json_t *list = json_array();
	for (int64_t i = 0; i < layers; i++) {
		const char *kind = NULL;
		for (size_t k = 0; k < 4 && !kind; k++)
			if (tensor_of(r, i, parts[k][0]))
				kind = parts[k][1];
		const struct tensor *up = tensor_of(r, i, "mlp.up_proj.weight");
		if (up && up->n_dims == 2)
			json_object_set_new(r->config, "intermediate_size",
					    json_integer(up->dim[0]));
		json_array_append_new(list, json_string(kind ? kind : "?"));
	}
	json_object_set_new(r->config, "layers_block_type", list);
	return OK;
}

/* Read the number of key heads. It is a number, or an array with 0 for layers without
 * attention. */
static enum status read_heads(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.head_count_kv", name);
	int64_t heads = 0, n;
	if (!v || !v->is_array)
		return OK;
	for (uint64_t i = 0; i < v->n; i++) {
		if (!gguf_integer(v, i, &n) || n < 0 || (n > 0 && heads > 0 && n != heads))
			return gguf_model_refuse(r, name, v);
		heads = n > 0 ? n : heads;
	}
	json_object_set_new(r->config, "num_key_value_heads", json_integer(heads ? heads : 1));
	return OK;
}

static enum status nemotron_h_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	int64_t normalises = 1;
	const struct gguf_value *v;
	enum status st = model_ssm_read_gguf(r);
	if (st != OK)
		return st;
	json_object_del(r->config, "shared_expert_intermediate_size");
	json_object_set_new(r->config, "mlp_hidden_act", json_string("relu2"));
	v = gguf_model_key(r, "expert_weights_norm", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &normalises)))
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "norm_topk_prob", json_boolean(normalises));
	st = find_kinds(r);
	return st == OK ? read_heads(r) : st;
}

/* It does not rotate: the files have rope.dimension_count without a meaning. */
const struct model_family model_family_nemotron_h = {
	.settings = settings, .reads = "n_shared_experts", .spell = nemotron_h_spell,
	.layers = read_layers, .gguf_keys = gguf_keys, .gguf_names = gguf_names,
	.gguf_reads = "rope.dimension_count", .gating = 2, .read_gguf = nemotron_h_read_gguf,
	.of_layers = "num_key_value_heads intermediate_size"};
