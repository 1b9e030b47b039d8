/* SPDX-License-Identifier: Apache-2.0
 *
 * Nemotron-H: each layer has only one part: a state space, attention, a dense feed-forward or
 * experts. Source: configuration_nemotron_h.py of Hugging Face Transformers.
 */
#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config_private.h"

/* Kinds of layers: the name in layers_block_type, the older name, and the letter in
 * hybrid_override_pattern. */
static const struct kind {
	const char *name, *old;
	char letter;
} kinds[] = {{"linear_attention", "mamba", 'M'}, {"full_attention", "attention", '*'},
	     {"mlp", "mlp", '-'}, {"moe", "moe", 'E'}};
enum { SPACE, ATTENTION, DENSE, EXPERTS };

static void copy_key(json_t *text, const char *own, const char *usual)
{
	json_t *v = json_object_get(text, own);
	if (v && !json_is_null(v))
		json_object_set(text, usual, v);
}

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

void config_nemotron_spell(json_t *text)
{
	static const char *const names[][2] = {
		{"mamba_num_heads", "mamba_n_heads"}, {"mamba_head_dim", "mamba_d_head"},
		{"n_groups", "mamba_n_groups"}, {"ssm_state_size", "mamba_d_state"},
		{"conv_kernel", "mamba_d_conv"}, {"use_conv_bias", "mamba_conv_bias"},
		{"norm_eps", "rms_norm_eps"}, {"layer_norm_epsilon", "rms_norm_eps"},
		{"attention_head_dim", "head_dim"}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		copy_key(text, names[i][0], names[i][1]);
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
		c->is_linear[i] = k == SPACE;
		c->layer_parts[i] = k == SPACE || k == ATTENTION ? PART_MIXER : PART_MLP;
		if (k == DENSE)
			c->dense_layers[c->n_dense_layers++] = i;
	}
	c->n_linear = n[SPACE];
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

enum status config_nemotron_read(const json_t *text, struct arena *a, struct model_config *c,
				 struct fail *fail)
{
	int n[ARRAY_LEN(kinds)] = {0};
	enum status st = read_kinds(text, a, c, n, fail);
	if (st == OK)
		st = read_widths(text, c, n, fail);
	if (st == OK)
		st = config_space_check(text, c, fail);
	if (st != OK)
		return st;
	c->is_unrotated = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_unrotated);
	memset(c->is_unrotated, true, (size_t)c->n_layers);
	return OK;
}
