/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4 in GGUF. Keys that end in _swa belong to layers with a window, and the same keys
 * without _swa to layers with full attention. Numbers that differ between layers are arrays.
 * Source: llama.cpp's converter.
 */
#include <stdio.h>

#include "model/gguf_model_private.h"

static bool is_windowed(const struct gguf_model_reader *r, int64_t layer)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.sliding_window_pattern",
						    name);
	int64_t n = 0;
	return v && v->is_array && gguf_integer(v, (uint64_t)layer, &n) && n != 0;
}

/* Read the number of key heads: an array if it differs between the two kinds of layers. */
static enum status read_heads(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.head_count_kv", name);
	int64_t n, heads[2] = {0}; /* of layers with full attention, and of those with a window */
	if (!v || !v->is_array)
		return OK;
	for (int64_t i = 0; i < layers; i++) {
		bool is = is_windowed(r, i);
		if (!gguf_integer(v, (uint64_t)i, &n) || n < 1 ||
		    (heads[is] && heads[is] != n))
			return gguf_model_refuse(r, name, v);
		heads[is] = n;
	}
	json_object_set_new(r->config, "num_key_value_heads",
			    json_integer(heads[1] ? heads[1] : heads[0]));
	json_object_set_new(r->config, "num_global_key_value_heads", json_integer(heads[0]));
	return OK;
}

/* Read the widths of dense feed-forwards: an array if the layers that share keys and values are
 * twice as wide. */
static enum status read_widths(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "feed_forward_length", name);
	int64_t n, first, own = layers - gguf_model_known(r, "num_kv_shared_layers");
	bool is_wide = true, is_same = true;
	if (!v || !v->is_array)
		return OK;
	if (!gguf_integer(v, 0, &first))
		return gguf_model_refuse(r, name, v);
	for (int64_t i = 0; i < layers; i++) {
		if (!gguf_integer(v, (uint64_t)i, &n))
			return gguf_model_refuse(r, name, v);
		is_same &= n == first;
		is_wide &= n == (i < own ? first : 2 * first);
	}
	if (!is_same && !is_wide)
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "intermediate_size", json_integer(first));
	json_object_set_new(r->config, "use_double_wide_mlp", json_boolean(!is_same));
	return OK;
}

/* Full-attention layers without a v projection use k as v. The last one that has its own keys
 * decides for all. */
static void read_values(struct gguf_model_reader *r, int64_t layers)
{
	char name[80];
	int64_t i = layers - gguf_model_known(r, "num_kv_shared_layers") - 1;
	while (i > 0 && is_windowed(r, i))
		i--;
	snprintf(name, sizeof name, "model.layers.%d.self_attn.v_proj.weight", (int)i);
	json_object_set_new(r->config, "attention_k_eq_v",
			    json_boolean(!tensors_find(r->tensors, name)));
}

/* Each kind of layer has a rope of its own. The tensor rope_freqs says which pairs of the wide
 * heads rotate (model.c). */
static enum status read_ropes(struct gguf_model_reader *r)
{
	static const char factors[] = "rope_freqs.weight";
	static const char *const keys[][2] = {{"rope_theta", "full_attention"},
					      {"rope_local_base_freq", "sliding_attention"}};
	json_t *both = json_object();
	for (int i = 0; i < 2; i++) {
		json_t *theta = json_object_get(r->config, keys[i][0]);
		json_object_set_new(both, keys[i][1],
				    json_pack("{s:s, s:f}", "rope_type", "default",
					      "rope_theta", theta ? json_number_value(theta)
								  : i ? 1e4 : 1e6));
		json_object_del(r->config, keys[i][0]);
	}
	json_object_set_new(r->config, "rope_parameters", both);
	return tensors_find(r->tensors, factors)
		       ? OK
		       : fail_set(r->fail, E_MISSING, "%s: tensor %s is missing", r->path,
				  factors);
}

enum status gguf_gemma4_read(struct gguf_model_reader *r)
{
	int64_t layers = gguf_model_known(r, "num_hidden_layers");
	if (layers < 1 || layers > 1024)
		return fail_at(r->fail, E_FORMAT, "block_count", "%s: %lld layers", r->path,
			       (long long)layers);
	json_object_set(r->config, "vocab_size_per_layer_input",
			json_object_get(r->config, "vocab_size"));
	if (!json_object_get(r->config, "hidden_size_per_layer_input"))
		json_object_set_new(r->config, "hidden_size_per_layer_input", json_integer(0));
	json_object_set_new(r->config, "enable_moe_block",
			    json_boolean(gguf_model_known(r, "num_experts") > 0));
	enum status st = read_heads(r, layers);
	if (st == OK)
		st = read_widths(r, layers);
	if (st == OK)
		read_values(r, layers);
	return st == OK ? read_ropes(r) : st;
}
