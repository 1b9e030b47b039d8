/* SPDX-License-Identifier: Apache-2.0
 *
 * Hunyuan, dense and with experts. Sources: modeling_hunyuan_v1_dense.py and
 * configuration_hunyuan_v1_moe.py of Hugging Face Transformers.
 */
#include "model/model_family.h"

#include <math.h>

#include "json/jsonfile.h"

/* Replace a list that has the same number for each layer by that number. */
static void take_same(json_t *text, const char *key, const char *usual)
{
	json_t *v = json_object_get(text, key), *first = json_array_get(v, 0), *one;
	size_t i;
	bool is_same = json_is_array(v) && first;
	json_array_foreach(v, i, one)
		is_same &= json_equal(one, first);
	if (v && !json_is_null(v))
		json_object_set(text, usual, is_same ? first : v);
}

/* "dynamic" with alpha: the base is theta alpha^(K / (K - 2)), for sequences of any length. */
static void stretch_rope(json_t *text)
{
	static const char *const names[] = {"rope_parameters", "rope_scaling"};
	double dim = json_number_value(json_object_get(text, "head_dim"));
	for (size_t i = 0; i < 2; i++) {
		json_t *old = json_object_get(text, names[i]);
		const json_t *type = json_object_get(old, "rope_type");
		const char *kind = json_string_value(type ? type : json_object_get(old, "type"));
		const json_t *base = json_object_get(old, "rope_theta");
		double alpha = json_number_value(json_object_get(old, "alpha"));
		double theta = json_number_value(
			base ? base : json_object_get(text, "rope_theta"));
		theta = theta > 0 ? theta : 10000;
		if (!kind || strcmp(kind, "dynamic") != 0 || !(alpha > 0) || !(dim > 2))
			continue;
		json_object_set_new(text, names[i], json_pack(
			"{ss}", "rope_type", "default"));
		json_object_set_new(text, "rope_theta",
				    json_real(theta * pow(alpha, dim / (dim - 2))));
		json_object_set_new(json_object_get(text, names[i]), "rope_theta",
				    json_incref(json_object_get(text, "rope_theta")));
	}
}

static void hunyuan_spell(json_t *text)
{
	take_same(text, "num_experts", "num_experts");
	take_same(text, "moe_topk", "num_experts_per_tok");
	if (!json_object_get(text, "num_key_value_heads"))
		json_object_set(text, "num_key_value_heads",
				json_object_get(text, "num_attention_heads"));
	if (!json_object_get(text, "head_dim")) {
		json_int_t n = json_integer_value(json_object_get(text, "num_attention_heads"));
		json_int_t d = json_integer_value(json_object_get(text, "hidden_size"));
		json_object_set_new(text, "head_dim", json_integer(n > 0 ? d / n : 0));
	}
	stretch_rope(text);
}

/* The shared expert is as wide as the routed ones. */
static void hunyuan_fix(struct model_config *c)
{
	if (c->n_experts)
		c->shared_dim = c->expert_dim;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_name gguf_names[] = {
	GGUF_SHARED_EXPERTS("shared_experts"),
	{0}};

static enum status hunyuan_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n = 0;
	const struct gguf_value *v = gguf_model_key(r, "expert_shared_feed_forward_length", name);
	if (v && (!gguf_integer(v, 0, &n) || n != gguf_model_known(r, "moe_intermediate_size")))
		return gguf_model_refuse(r, name, v);
	json_object_del(r->config, "shared_expert_intermediate_size");
	return OK;
}

const struct model_family model_family_hunyuan = {
	.spell = hunyuan_spell, .fix = hunyuan_fix, .gguf_names = gguf_names,
	.gguf_reads = "expert_shared_count rope.scaling.alpha", .read_gguf = hunyuan_read_gguf};
