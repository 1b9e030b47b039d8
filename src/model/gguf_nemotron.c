/* SPDX-License-Identifier: Apache-2.0
 *
 * Nemotron-H in GGUF ("nemotron_h", and "nemotron_h_moe" with experts). The tensors of a layer
 * show its kind. Source: llama.cpp's converter.
 */
#include <stdio.h>

#include "model/gguf_model_private.h"

static const struct tensor *tensor_of(const struct gguf_model_reader *r, int64_t layer,
				      const char *part)
{
	char name[120];
	snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)layer, part);
	return tensors_find(r->tensors, name);
}

/* Find the kind of each layer, and the width of the dense ones. The last layer may be one of
 * multi-token prediction, which alone has both attention and experts. */
static enum status read_kinds(struct gguf_model_reader *r)
{
	static const char *const kinds[][2] = {
		{"mamba.in_proj.weight", "linear_attention"},
		{"self_attn.q_proj.weight", "full_attention"},
		{"mlp.gate.weight", "moe"}, {"mlp.up_proj.weight", "mlp"}};
	int64_t layers = gguf_model_known(r, "num_hidden_layers");
	char own[96];
	int64_t n_mtp = 0;
	const struct gguf_value *v = gguf_model_key(r, "nextn_predict_layers", own);
	if (v && !v->is_array && gguf_integer(v, 0, &n_mtp) && n_mtp > 0)
		layers -= n_mtp; /* read_family checks the number */
	json_t *list = json_array();
	for (int64_t i = 0; i < layers && i < 1024; i++) {
		const char *kind = NULL;
		for (size_t k = 0; k < 4 && !kind; k++)
			if (tensor_of(r, i, kinds[k][0]))
				kind = kinds[k][1];
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

enum status gguf_nemotron_read(struct gguf_model_reader *r)
{
	char name[96];
	int64_t normalises = 1;
	const struct gguf_value *v;
	enum status st = gguf_space_sizes(r);
	if (st != OK)
		return st;
	json_object_set_new(r->config, "mlp_hidden_act", json_string("relu2"));
	v = gguf_model_key(r, "expert_weights_norm", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &normalises)))
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "norm_topk_prob", json_boolean(normalises));
	st = read_kinds(r);
	return st == OK ? read_heads(r) : st;
}
