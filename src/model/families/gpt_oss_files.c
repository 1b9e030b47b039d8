/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt-oss. Source: configuration_gpt_oss.py of Hugging Face Transformers.
 */
#include "model/model_family.h"

static const struct config_setting settings[] = {
	{"swiglu_alpha", NULL, FLOAT, AT(act.alpha), 0.1, 10, 1.702},
	{"swiglu_limit", NULL, FLOAT, AT(act.limit), 0.1, 1000, 7},
	{0}};

static void gpt_oss_fix(struct model_config *c)
{
	c->act.kind = ACT_CLAMPED;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_name gguf_names[] = {
	{"ffn_gate_inp", "mlp.router"},
	{0}};

/* Every second layer has a window, the first one too. */
static enum status gpt_oss_read_gguf(struct gguf_model_reader *r)
{
	int64_t layers = gguf_model_known(r, "num_hidden_layers");
	json_t *types = json_array();
	for (int64_t i = 0; i < layers; i++)
		json_array_append_new(types, json_string(i % 2 ? "full_attention"
							       : "sliding_attention"));
	json_object_set_new(r->config, "layer_types", types);
	json_object_set(r->config, "intermediate_size",
			json_object_get(r->config, "moe_intermediate_size"));
	return OK;
}

const struct model_family model_family_gpt_oss = {
	.settings = settings, .fixes_act = true, .fix = gpt_oss_fix, .gguf_names = gguf_names,
	.gating = 3, .yarn_is_exact = true, .read_gguf = gpt_oss_read_gguf};
