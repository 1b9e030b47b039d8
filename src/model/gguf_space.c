/* SPDX-License-Identifier: Apache-2.0
 *
 * Granite 4's hybrids in GGUF ("granitehybrid"). Source: llama.cpp's converter.
 */
#include "model/gguf_model_private.h"

/* Read the width of the feed-forward of a model without experts from its tensors, which have
 * the usual names. */
static void read_widths(struct gguf_model_reader *r)
{
	static const char key[] = "shared_intermediate_size";
	json_t *experts = json_object_get(r->config, "num_experts");
	json_t *shared = json_object_get(r->config, "shared_expert_intermediate_size");
	const struct tensor *gate =
		tensors_find(r->tensors, "model.layers.0.mlp.gate_proj.weight");
	json_object_set_new(r->config, "num_local_experts",
			    json_integer(json_integer_value(experts)));
	if (gate && gate->n_dims == 2)
		json_object_set_new(r->config, key, json_integer(gate->dim[0]));
	else if (shared)
		json_object_set(r->config, key, shared);
	json_object_del(r->config, "shared_expert_intermediate_size");
	if (gguf_model_known(r, "moe_intermediate_size") > 0)
		json_object_set(r->config, "intermediate_size",
				json_object_get(r->config, "moe_intermediate_size"));
	if (!json_object_get(r->config, "intermediate_size"))
		json_object_set(r->config, "intermediate_size",
				json_object_get(r->config, key));
}

enum status gguf_space_sizes(struct gguf_model_reader *r)
{
	char name[96];
	int64_t heads = gguf_model_known(r, "mamba_n_heads"), n;
	const struct gguf_value *v = gguf_model_key(r, "ssm.inner_size", name);
	if (!v || v->is_array || !gguf_integer(v, 0, &n) || heads < 1 || n % heads)
		return fail_at(r->fail, E_FORMAT, name, "%s: %s is missing, or no multiple of "
			       "ssm.time_step_rank", r->path, name);
	json_object_set_new(r->config, "mamba_d_head", json_integer(n / heads));
	json_object_set_new(r->config, "mamba_conv_bias", json_boolean(tensors_find(
		r->tensors, "model.layers.0.mamba.conv1d.bias")));
	return OK;
}

enum status gguf_space_read(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n_rope = 0;
	const struct gguf_value *v;
	enum status st = gguf_space_sizes(r);
	if (st != OK)
		return st;
	v = gguf_model_key(r, "rope.scaling.finetuned", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n_rope)))
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "position_embedding_type",
			    json_string(n_rope ? "rope" : "nope"));
	read_widths(r);
	return OK;
}
