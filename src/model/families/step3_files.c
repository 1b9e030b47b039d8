/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 3.5 and 3.7: their config.json has names of its own, a number a layer where other models
 * have one, and such lists go on for the MTP layers, which are not used. Sources:
 * configuration_step3p7.py of Hugging Face Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

static const char other_key[] = "attention_other_setting";
static const char *const limit_keys[] = {"swiglu_limits", "swiglu_limits_shared"};

static json_int_t layers_of(const json_t *text)
{
	json_int_t n = json_integer_value(jsonfile_get(text, "num_hidden_layers"));
	return n > 0 && n <= 1024 ? n : 0; /* others are refused later */
}

/* Lists with a number for each MTP layer too become those of the layers. */
static void cut_lists(json_t *text)
{
	static const char *const keys[] = {
		"layer_types", "mlp_layer_types", "rope_theta", "partial_rotary_factors",
		"num_attention_heads_per_layer"};
	json_int_t n = layers_of(text);
	json_int_t more = json_integer_value(jsonfile_get(text, "num_nextn_predict_layers"));
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		const json_t *list = jsonfile_get(text, keys[k]);
		if (!json_is_array(list) || (json_int_t)json_array_size(list) - n != more)
			continue;
		json_t *cut = json_array();
		for (json_int_t i = 0; i < n; i++)
			json_array_append(cut, json_array_get(list, (size_t)i));
		json_object_set_new(text, keys[k], cut);
	}
}

static bool is_layer(const json_t *text, json_int_t i, const char *kind)
{
	const json_t *types = jsonfile_get(text, "layer_types");
	const char *s = json_string_value(json_array_get(types, (size_t)i));
	return strcmp(s ? s : "full_attention", kind) == 0;
}

/* Set `own` to what `key` says of the layers of a kind, in a list or for all; to "?", which is
 * refused later, if they differ. */
static void set_of_kind(json_t *out, const char *own, const json_t *text, const char *key,
			const char *kind)
{
	json_t *v = json_object_get(text, key);
	if (v && !json_is_array(v))
		json_object_set(out, own, v);
	for (json_int_t i = 0; json_is_array(v) && i < layers_of(text); i++) {
		json_t *one = json_array_get(v, (size_t)i), *old = json_object_get(out, own);
		if (!is_layer(text, i, kind))
			continue;
		if (one && (!old || json_equal(old, one)))
			json_object_set(out, own, one);
		else
			json_object_set_new(out, own, json_string("?"));
	}
}

/* rope_parameters. Only layers without a window are stretched (rope_scaling). */
static void spell_rope(json_t *text)
{
	static const char *const kinds[] = {"full_attention", "sliding_attention"};
	static const char *const keys[][2] = {{"rope_theta", "rope_theta"},
					      {"partial_rotary_factors", "partial_rotary_factor"}};
	const json_t *old = jsonfile_get(text, "rope_parameters");
	json_t *scaling = json_object_get(text, "rope_scaling"), *both = json_object();
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		json_t *one = json_pack("{s:s}", "rope_type", "default");
		for (size_t k = 0; k < ARRAY_LEN(keys); k++)
			set_of_kind(one, keys[k][1], text, keys[k][0], kinds[i]);
		if (i == 0 && json_is_object(scaling))
			json_object_update(one, scaling);
		json_object_set_new(both, kinds[i], one);
	}
	if (json_is_object(jsonfile_get(old, "full_attention")) ||
	    json_is_object(jsonfile_get(old, "sliding_attention"))) {
		json_decref(both);
		return;
	}
	json_object_set_new(text, "rope_parameters", both);
	json_object_del(text, "rope_theta");
	json_object_del(text, "rope_scaling");
}

/* Heads of layers with a window, as a list of the heads of each layer. */
static void spell_heads(json_t *text)
{
	json_t *all = json_object_get(text, "num_attention_heads");
	json_t *other = json_object_get(text, "num_sliding_attention_heads");
	const json_t *setting = jsonfile_get(text, other_key);
	if (!other || json_is_null(other))
		other = json_object_get(setting, "num_attention_heads");
	if (!all || !other || jsonfile_get(text, "num_attention_heads_per_layer"))
		return;
	json_t *list = json_array();
	for (json_int_t i = 0; i < layers_of(text); i++)
		json_array_append(list, is_layer(text, i, "sliding_attention") ? other : all);
	json_object_set_new(text, "num_attention_heads_per_layer", list);
}

/* True if the text "3,4,5", or a list, has i. */
static bool lists(const json_t *v, json_int_t i)
{
	const char *s = json_string_value(v);
	const json_t *one;
	size_t k;
	json_array_foreach((json_t *)(uintptr_t)v, k, one)
		if (json_is_integer(one) && json_integer_value(one) == i)
			return true;
	while (s && *s) {
		char *end;
		long n = strtol(s, &end, 10);
		if (end == s)
			return false;
		if (n == i)
			return true;
		s = end + strspn(end, ", ");
	}
	return false;
}

/* mlp_layer_types, of the list of layers with experts; without it the first three have none. */
static void spell_layers(json_t *text)
{
	const json_t *v = jsonfile_get(text, "moe_layers_enum");
	if (jsonfile_get(text, "mlp_layer_types") || jsonfile_get(text, "first_k_dense_replace"))
		return;
	json_t *types = json_array();
	for (json_int_t i = 0; i < layers_of(text); i++)
		json_array_append_new(types, json_string(
			(v ? lists(v, i) : i >= 3) ? "sparse" : "dense"));
	json_object_set_new(text, "mlp_layer_types", types);
}

static void step3_spell(json_t *text)
{
	static const char *const names[][2] = {
		{"num_attention_groups", "num_key_value_heads"},
		{"moe_num_experts", "n_routed_experts"},
		{"num_local_experts", "n_routed_experts"},
		{"moe_top_k", "num_experts_per_tok"},
		{"share_expert_dims", "shared_expert_intermediate_size"},
		{"share_expert_dim", "shared_expert_intermediate_size"},
		{"moe_router_scaling_factor", "routed_scaling_factor"}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!jsonfile_get(text, names[i][1]))
			config_rename(text, names[i][0], names[i][1]);
	cut_lists(text);
	spell_rope(text);
	spell_heads(text);
	spell_layers(text);
	config_default(text, "n_shared_experts", 1);
	config_default(text, "n_group", 1);
	config_default(text, "topk_group", 1);
	config_default(text, "routed_scaling_factor", 1);
	json_object_set_new(text, "use_qk_norm", json_true());
	if (json_equal(json_object_get(text, "query_pre_attn_scalar"),
		       json_object_get(text, "head_dim"))) /* as without it */
		json_object_del(text, "query_pre_attn_scalar");
	if (!jsonfile_get(text, "layer_types")) /* all layers see all */
		json_object_del(text, "sliding_window");
}

/* Read a limit a layer; 0 and null are none. */
static enum status read_limits(const json_t *text, const char *key, struct arena *a,
			       const struct model_config *c, float **out, struct fail *fail)
{
	const json_t *list = jsonfile_get(text, key);
	json_int_t more = json_integer_value(jsonfile_get(text, "num_nextn_predict_layers"));
	json_int_t size = (json_int_t)json_array_size(list);
	if (!list)
		return OK;
	if (size != c->n_layers && size - c->n_layers != more)
		return config_wrong(fail, key, list, "a list of a number a layer");
	*out = arena_alloc(a, (size_t)c->n_layers * sizeof **out);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(list, (size_t)i);
		double limit = json_number_value(v);
		if ((!json_is_number(v) && !json_is_null(v)) ||
		    (limit != 0 && !(limit >= 1e-3 && limit <= 1e4)))
			return config_wrong(fail, key, v, "a limit of 0.001 to 10000, or 0");
		(*out)[i] = (float)limit;
	}
	return OK;
}

enum status step3_files_limits(const json_t *text, const char *const keys[2], struct arena *a,
			       struct model_config *c, struct fail *fail)
{
	enum status st = read_limits(text, keys[0], a, c, &c->limits.routed, fail);
	return st == OK ? read_limits(text, keys[1], a, c, &c->limits.others, fail) : st;
}

static enum status step3_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	const json_t *other = jsonfile_get(text, other_key);
	const json_t *groups = json_object_get(other, "num_attention_groups");
	const json_t *dim = json_object_get(other, "head_dim");
	if ((groups && json_integer_value(groups) != c->n_kv_heads) ||
	    (dim && json_integer_value(dim) != c->head_dim))
		return config_unsupported(fail, other_key, other);
	enum status st = laguna_files_sizes(text, a, c, fail);
	c->gate_span = c->head_dim;
	return st == OK ? step3_files_limits(text, limit_keys, a, c, fail) : st;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_name gguf_names[] = {
	{"attn_gate", "self_attn.g_proj"},
	GGUF_SHARED_EXPERTS("shared_experts"),
	{0}};

enum status step3_files_gguf_limits(struct gguf_model_reader *r, const char *const hf[2])
{
	static const char *const keys[] = {"swiglu_clamp_exp", "swiglu_clamp_shexp"};
	int64_t layers = gguf_model_layers(r);
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		char name[96];
		const struct gguf_value *v = gguf_model_key(r, keys[k], name);
		double d;
		if (!v)
			continue;
		json_t *list = json_array();
		for (int64_t i = 0; i < layers &&
		     gguf_number(v, v->is_array ? (uint64_t)i : 0, &d) && isfinite(d); i++)
			json_array_append_new(list, json_real(d));
		bool is_whole = (int64_t)json_array_size(list) == layers;
		json_object_set_new(r->config, hf[k], list);
		if (!is_whole)
			return gguf_model_refuse(r, name, v);
	}
	return OK;
}

/* Layers with a window rotate rope.dimension_count elements of a head, the others half of them,
 * which the file does not say. */
static enum status gguf_ropes(struct gguf_model_reader *r)
{
	static const char *const thetas[] = {"rope_theta", "rope_local_base_freq"};
	static const char *const kinds[] = {"full_attention", "sliding_attention"};
	char name[96];
	int64_t dim = gguf_model_known(r, "head_dim"), n = dim;
	const struct gguf_value *v = gguf_model_key(r, "rope.dimension_count", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n < 4 || n > dim))
		return gguf_model_refuse(r, name, v);
	json_t *both = json_object();
	for (int i = 0; i < 2 && dim > 0; i++) {
		json_t *theta = json_object_get(r->config, thetas[i]);
		json_object_set_new(both, kinds[i], json_pack(
			"{s:s, s:f, s:f}", "rope_type", "default", "rope_theta",
			theta ? json_number_value(theta) : 1e4, "partial_rotary_factor",
			(double)n / (double)dim / (i ? 1 : 2)));
	}
	for (int i = 0; i < 2; i++)
		json_object_del(r->config, thetas[i]);
	json_object_set_new(r->config, "rope_parameters", both);
	return OK;
}

static enum status step3_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "nextn_predict_layers", name);
	int64_t n = 0;
	if (v && !v->is_array && gguf_integer(v, 0, &n))
		json_object_set_new(r->config, "num_nextn_predict_layers", json_integer(n));
	enum status st = laguna_files_gguf_heads(r);
	if (st == OK)
		st = step3_files_gguf_limits(r, limit_keys);
	return st == OK ? gguf_ropes(r) : st;
}

const struct model_family model_family_step3 = {
	.reads = "shared_expert_intermediate_size", .spell = step3_spell, .read = step3_read,
	.gguf_names = gguf_names, .of_layers = "num_attention_heads",
	.gguf_reads = "swiglu_clamp_exp swiglu_clamp_shexp rope.dimension_count",
	.read_gguf = step3_read_gguf};
