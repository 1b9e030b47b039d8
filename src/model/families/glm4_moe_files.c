/* SPDX-License-Identifier: Apache-2.0
 *
 * HY 3 and EXAONE-MoE, whose layers are those of GLM-4-MoE: they name the settings of their experts
 * in other ways. Sources: configuration_hy_v3.py and configuration_exaone_moe.py of Hugging Face
 * Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include <stdio.h>

#include "json/jsonfile.h"

/* Switches that llama.cpp and Transformers do not read. Each may only say true, as all
 * files do. */
static const char *const fixed[] = {"qk_norm", "moe_router_use_sigmoid",
				    "moe_router_enable_expert_bias"};

/* EXAONE-MoE's first files say for each layer whether it has experts. */
static void spell_layers(json_t *text)
{
	const json_t *list = jsonfile_get(text, "is_moe_layer"), *v;
	size_t i;
	if (!json_is_array(list) || jsonfile_get(text, "mlp_layer_types"))
		return;
	json_t *types = json_array();
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
		json_array_append_new(types, json_string(json_is_true(v)    ? "sparse"
							 : json_is_false(v) ? "dense"
									    : "?"));
	json_object_set_new(text, "mlp_layer_types", types);
}

static void glm4_moe_spell(json_t *text)
{
	static const char *const names[][2] = {
		{"num_local_experts", "n_routed_experts"}, {"num_experts", "n_routed_experts"},
		{"num_shared_experts", "n_shared_experts"},
		{"router_scaling_factor", "routed_scaling_factor"},
		{"first_last_k_dense_replace", "first_k_dense_replace"},
		{"route_norm", "norm_topk_prob"}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		config_rename(text, names[i][0], names[i][1]);
	config_default(text, "n_shared_experts", 1);
	config_default(text, "n_group", 1);
	config_default(text, "topk_group", 1);
	config_default(text, "first_k_dense_replace", 1);
	json_object_set_new(text, "use_qk_norm", json_true());
	spell_layers(text);
}

static enum status glm4_moe_check(const json_t *text, struct arena *a, struct model_config *c,
				  struct fail *fail)
{
	(void)a;
	(void)c;
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		const json_t *v = jsonfile_get(text, fixed[i]);
		if (v && !json_is_true(v))
			return config_unsupported(fail, fixed[i], v);
	}
	return OK;
}

/* --- GGUF ---------------------------------------------------------------------------- */

/* The file has the width of all shared experts together. Layers without a router are dense; they
 * come first. */
static enum status glm4_moe_read_gguf(struct gguf_model_reader *r)
{
	static const char shared[] = "shared_expert_intermediate_size";
	char name[96];
	int64_t layers = gguf_model_known(r, "num_hidden_layers"), dense = 0;
	int64_t width = gguf_model_known(r, "moe_intermediate_size");
	int64_t all = json_object_get(r->config, shared) ? gguf_model_known(r, shared) : width;
	const struct gguf_value *v = gguf_model_key(r, "expert_feed_forward_length", name);
	if (width < 1)
		return v ? gguf_model_refuse(r, name, v)
			 : fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	v = gguf_model_key(r, "expert_shared_feed_forward_length", name);
	if (v && all % width)
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "n_shared_experts", json_integer(all / width));
	json_object_del(r->config, shared);
	for (; dense < layers; dense++) {
		char router[64];
		snprintf(router, sizeof router, "model.layers.%lld.mlp.gate.weight",
			 (long long)dense);
		if (tensors_find(r->tensors, router))
			break;
	}
	json_object_set_new(r->config, "first_k_dense_replace", json_integer(dense));
	return OK;
}

const struct model_family model_family_glm4_moe = {
	.spell = glm4_moe_spell, .check = glm4_moe_check, .read_gguf = glm4_moe_read_gguf};
