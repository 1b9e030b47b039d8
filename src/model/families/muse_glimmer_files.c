/* SPDX-License-Identifier: Apache-2.0
 *
 * Muse Glimmer's text. Sources: configuration_muse_glimmer.py of Hugging Face Transformers, and
 * llama.cpp's converter.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"final_logit_softcapping", NULL, FLOAT, AT(logit_cap), 1e-3, 1e6, 20},
	{"post_norm_eps", NULL, FLOAT, AT(post_eps), 1e-12, 1e-2, 1e-8},
	/* a factor of queries; check converts it */
	{"qk_scale_factor", NULL, FLOAT, AT(query_scalar), 1e-3, 1e3, 1},
	{0}};

/* Every fourth layer sees all, the last one too. */
static void muse_glimmer_spell(json_t *text)
{
	json_t *v = json_object_get(text, "output_multiplier");
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	if (!jsonfile_get(text, "logit_scale"))
		json_object_set(text, "logit_scale", v);
	json_object_set_new(text, "sliding_window_pattern", json_integer(1));
	if (jsonfile_get(text, "layer_types"))
		return;
	json_t *types = json_array();
	for (json_int_t i = 0; i < MIN(n, 10000); i++)
		json_array_append_new(types, json_string((n - 1 - i) % 4 ? "sliding_attention"
									 : "full_attention"));
	json_object_set_new(text, "layer_types", types);
}

/* A base of 0 says that a layer does not rotate: those that see all, and no others. */
static enum status muse_glimmer_check(const json_t *text, struct arena *a, struct model_config *c,
				      struct fail *fail)
{
	static const char key[] = "layer_rope_theta";
	const json_t *list = jsonfile_get(text, key), *v;
	size_t i;
	(void)a;
	c->query_scalar = (float)(c->head_dim / ((double)c->query_scalar * c->query_scalar));
	if (list && json_array_size(list) != (size_t)c->n_layers)
		return config_wrong(fail, key, list, "a list of a number a layer");
	json_array_foreach((json_t *)(uintptr_t)list, i, v) {
		bool rotates = !c->is_unrotated || !c->is_unrotated[i];
		if (json_number_value(v) != (rotates ? c->ropes[0].theta : 0))
			return config_unsupported(fail, key, v);
	}
	return OK;
}

static void muse_glimmer_fix(struct model_config *c)
{
	c->last_norm_whole = true;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"final_logit_softcapping", "final_logit_softcapping", true, true},
	{0}};

static const struct gguf_name gguf_names[] = {
	{"attn_gate", "self_attn.g_proj"},
	{0}};

/* Weights of norms have the factor of queries. */
static enum status muse_glimmer_read_gguf(struct gguf_model_reader *r)
{
	json_object_set_new(r->config, "qk_scale_factor", json_integer(1));
	return OK;
}

const struct model_family model_family_muse_glimmer = {
	.settings = settings, .reads = "logit_scale", .spell = muse_glimmer_spell,
	.check = muse_glimmer_check, .fix = muse_glimmer_fix, .gguf_keys = gguf_keys,
	.gguf_names = gguf_names, .read_gguf = muse_glimmer_read_gguf};
