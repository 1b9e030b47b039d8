/* SPDX-License-Identifier: Apache-2.0
 *
 * Granite 4 hybrids and Bamba: state spaces of Mamba-2 beside attention. Sources:
 * configuration_granitemoehybrid.py and configuration_bamba.py of Hugging Face Transformers.
 */
#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config_private.h"

/* Bamba has a list of attention layers. Rope rotates half of each head, and no layer has
 * experts. Settings from GGUF have layer_types and the rotated part already. */
static void spell_bamba(json_t *text)
{
	static const char list[] = "attn_layer_indices";
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	json_t *attends = json_object_get(text, list), *types, *v;
	size_t i;
	json_object_set(text, "shared_intermediate_size",
			json_object_get(text, "intermediate_size"));
	json_object_set_new(text, "num_local_experts", json_integer(0));
	if (!attends && json_object_get(text, "layer_types"))
		return;
	types = json_array();
	for (json_int_t l = 0; l < MIN(n, 10000); l++)
		json_array_append_new(types, json_string("linear_attention"));
	json_array_foreach(attends, i, v)
		if (!json_is_integer(v) || json_array_set_new(types,
				(size_t)json_integer_value(v), json_string("full_attention")))
			json_array_append_new(types, json_string("?")); /* is refused later */
	json_object_set_new(text, "layer_types", types);
	json_object_set_new(text, "position_embedding_type", json_string("rope"));
	json_object_set_new(text, "partial_rotary_factor", json_real(0.5));
}

void config_space_spell(json_t *text)
{
	const char *model = json_string_value(json_object_get(text, "model_type"));
	if (model && strcmp(model, "bamba") == 0)
		spell_bamba(text);
	static const char *const types[][2] = {{"mamba", "linear_attention"},
					       {"mamba2", "linear_attention"},
					       {"attention", "full_attention"}};
	json_t *list = json_object_get(text, "layer_types"), *spelled = json_array(), *v;
	size_t i;
	if (!json_is_array(list))
		list = json_object_get(text, "layers_block_type");
	json_array_foreach(list, i, v) {
		const char *name = json_string_value(v);
		for (size_t k = 0; name && k < ARRAY_LEN(types); k++)
			if (strcmp(name, types[k][0]) == 0)
				name = types[k][1];
		json_array_append_new(spelled, json_string(name ? name : "?"));
	}
	if (json_is_array(list))
		json_object_set(text, "layer_types", spelled);
	json_decref(spelled);
	json_int_t heads = json_integer_value(json_object_get(text, "mamba_n_heads"));
	const json_t *by = json_object_get(text, "mamba_expand");
	const json_t *dim = json_object_get(text, "mamba_d_head");
	json_int_t width = json_integer_value(json_object_get(text, "hidden_size"));
	const char *own = json_string_value(dim);
	if ((!dim || (own && strcmp(own, "auto") == 0)) && heads > 0)
		json_object_set_new(text, "mamba_d_head", json_integer(
			(by ? json_integer_value(by) : 2) * width / heads));
	if (!json_object_get(text, "num_key_value_heads"))
		json_object_set(text, "num_key_value_heads",
				json_object_get(text, "num_attention_heads"));
}

/* Steps are not limited: [0, Infinity]. */
static bool is_no_limit(const json_t *v)
{
	const char *text = json_text_odd_float(json_array_get(v, 1));
	if (!v)
		return true;
	return json_array_size(v) == 2 && json_number_value(json_array_get(v, 0)) == 0 &&
	       text && strcmp(text, "Infinity") == 0;
}

enum status config_space_check(const json_t *text, const struct model_config *c,
			       struct fail *fail)
{
	static const char limit[] = "time_step_limit";
	if (!is_no_limit(jsonfile_get(text, limit)))
		return config_unsupported(fail, limit, jsonfile_get(text, limit));
	if (c->delta.v_heads % c->delta.k_heads || c->delta.k_dim % 4 || c->delta.v_dim % 4)
		return fail_at(fail, E_UNSUPPORTED, "mamba_n_heads", FILE_NAME
			       ": %d heads of %d in %d groups of %d", c->delta.v_heads,
			       c->delta.v_dim, c->delta.k_heads, c->delta.k_dim);
	return OK;
}

enum status config_space_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	static const char rope[] = "position_embedding_type";
	const json_t *v = jsonfile_get(text, rope);
	const char *kind = v ? json_string_value(v) : "nope";
	if (!kind || (strcmp(kind, "nope") != 0 && strcmp(kind, "rope") != 0))
		return config_unsupported(fail, rope, v);
	enum status st = config_space_check(text, c, fail);
	if (st != OK)
		return st;
	if (strcmp(kind, "nope") == 0) {
		c->is_unrotated = arena_alloc(a, (size_t)c->n_layers *
							 sizeof *c->is_unrotated);
		memset(c->is_unrotated, true, (size_t)c->n_layers);
	}
	if (c->n_experts > 0 && c->n_experts_used == 0)
		return config_missing(fail, "num_experts_per_tok");
	if (c->n_experts > 0)
		return OK;
	/* Without experts, the shared expert becomes a dense feed-forward. */
	c->n_experts_used = 0;
	c->ffn_dim = c->shared_dim;
	c->shared_dim = 0;
	return OK;
}
