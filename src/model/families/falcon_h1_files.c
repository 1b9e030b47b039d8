/* SPDX-License-Identifier: Apache-2.0
 *
 * Falcon-H1: attention beside a state space in each layer, and a multiplier for each part. In GGUF
 * the converter has multiplied the matrices, so the file has none. Sources:
 * configuration_falcon_h1.py of Hugging Face Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include <math.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

/* Multipliers are neither 0 nor beyond these. */
#define LEAST 1e-4
#define MOST 1e4

#define MULTIPLIER(key, field) {key, NULL, FLOAT, AT(falcon_h1.field), LEAST, MOST, 1}
static const struct config_setting settings[] = {
	MULTIPLIER("embedding_multiplier", embed),
	MULTIPLIER("lm_head_multiplier", logits),
	MULTIPLIER("key_multiplier", key),
	MULTIPLIER("attention_in_multiplier", attention_in),
	MULTIPLIER("attention_out_multiplier", attention_out),
	MULTIPLIER("ssm_in_multiplier", ssm_in),
	MULTIPLIER("ssm_out_multiplier", ssm_out),
	{"mamba_rms_norm", NULL, BOOL, AT(falcon_h1.has_norm), 0, 1, 0},
	{"mamba_norm_before_gate", NULL, BOOL, AT(falcon_h1.norm_comes_first), 0, 1, 1},
	{0}};

/* The size of a head, where the file says the size of all. */
static void falcon_h1_spell(json_t *text)
{
	json_int_t heads = json_integer_value(json_object_get(text, "mamba_n_heads"));
	json_int_t width = json_integer_value(json_object_get(text, "hidden_size"));
	const json_t *all = jsonfile_get(text, "mamba_d_ssm");
	const json_t *by = jsonfile_get(text, "mamba_expand");
	const json_t *dim = jsonfile_get(text, "mamba_d_head");
	const char *own = json_string_value(dim);
	json_int_t expand = by ? json_integer_value(by) : 2;
	if (width < 1 || width > 1 << 16 || expand < 1 || expand > 64)
		return; /* hidden_size is refused later */
	json_int_t n = all ? json_integer_value(all) : expand * width;
	if ((!dim || (own && strcmp(own, "auto") == 0)) && heads > 0)
		json_object_set_new(text, "mamba_d_head", json_integer(n / heads));
}

/* Read a list of n multipliers; without it all are 1. */
static enum status read_list(const json_t *text, const char *key, size_t n, double *out,
			     struct fail *fail)
{
	const json_t *list = jsonfile_get(text, key);
	char want[60];
	snprintf(want, sizeof want, "a list of %zu numbers", n);
	if (list && json_array_size(list) != n)
		return config_wrong(fail, key, list, want);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		out[i] = list ? json_number_value(v) : 1;
		if (list && !json_is_number(v))
			return config_wrong(fail, key, v, "a number");
		if (!(out[i] >= LEAST && out[i] <= MOST))
			return fail_at(fail, E_FORMAT, key, FILE_NAME
				       ": %s has %g, outside %g to %g", key, out[i], LEAST, MOST);
	}
	return OK;
}

/* All layers have a state and keys and values. */
static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	const json_t *types = jsonfile_get(text, "layer_types"), *v;
	const json_t *all = jsonfile_get(text, "mamba_d_ssm");
	size_t i;
	json_array_foreach((json_t *)(uintptr_t)types, i, v) {
		const char *type = json_string_value(v);
		if (!type || strcmp(type, "hybrid") != 0)
			return config_unsupported(fail, "layer_types", v);
	}
	if (all && json_integer_value(all) != (json_int_t)c->delta.v_heads * c->delta.v_dim)
		return fail_at(fail, E_FORMAT, "mamba_d_ssm", FILE_NAME
			       ": mamba_d_ssm is not mamba_n_heads times mamba_d_head, %d",
			       c->delta.v_heads * c->delta.v_dim);
	if (c->falcon_h1.has_norm && c->falcon_h1.norm_comes_first)
		return config_unsupported(fail, "mamba_norm_before_gate", json_true());
	c->is_linear = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_linear);
	memset(c->is_linear, true, (size_t)c->n_layers);
	c->n_linear = c->n_layers;
	c->linear_attends = true;
	c->delta.skips_norm = !c->falcon_h1.has_norm;
	return model_ssm_check(text, c, fail);
}

/* x is kept divided by what multiplies attention's output, as for Granite (set_scales), so that no
 * factor is left there. What multiplies attention's input counts in q and in k, which only meet in
 * a product, and in v, so in the output. */
static enum status falcon_h1_check(const json_t *text, struct arena *a, struct model_config *c,
				   struct fail *fail)
{
	const struct falcon_h1_settings *m = &c->falcon_h1;
	double mlp[2], ssm[5], in = m->attention_in, out = in * m->attention_out;
	double sharp = in * in * m->key, ssm_in = m->ssm_in;
	(void)a;
	enum status st = read_list(text, "mlp_multipliers", 2, mlp, fail);
	if (st == OK)
		st = read_list(text, "ssm_multipliers", 5, ssm, fail);
	if (st != OK)
		return st;
	c->query_scalar = (float)(c->head_dim / (sharp * sharp));
	c->delta.by = (struct delta_scales){
		.z = (float)(ssm_in * ssm[0]), .v = (float)(ssm_in * ssm[1]),
		.k = (float)(ssm_in * ssm[2]), .q = (float)(ssm_in * ssm[3]),
		.a = (float)(ssm_in * ssm[4]), .out = (float)(m->ssm_out / out)};
	if (mlp[0] != 1 || mlp[1] != out)
		c->act = (struct activation){.kind = ACT_SCALED, .alpha = (float)mlp[0],
					     .scale = (float)(mlp[1] / out)};
	return OK;
}

static void falcon_h1_fix(struct model_config *c)
{
	const struct falcon_h1_settings *m = &c->falcon_h1;
	double out = (double)m->attention_in * m->attention_out;
	c->embed_scale = (float)(m->embed / out);
	c->norm_eps = (float)(c->norm_eps / (out * out));
	c->logit_scale = m->logits;
}

/* --- GGUF ---------------------------------------------------------------------------- */

/* The converter's own name has no ".weight" behind it. */
static const struct gguf_name gguf_names[] = {
	{"ffn_norm.weight", "post_attention_layernorm.weight"},
	{"ffn_norm", "post_attention_layernorm.weight"},
	{0}};

static enum status falcon_h1_read_gguf(struct gguf_model_reader *r)
{
	json_object_set_new(r->config, "mamba_rms_norm", json_boolean(tensors_find(
		r->tensors, "model.layers.0.mamba.norm.weight")));
	json_object_set_new(r->config, "mamba_norm_before_gate", json_false());
	return model_ssm_read_gguf(r);
}

const struct model_family model_family_falcon_h1 = {
	.settings = settings, .fixes_act = true, .spell = falcon_h1_spell,
	.layers = read_layers, .check = falcon_h1_check, .fix = falcon_h1_fix,
	.gguf_names = gguf_names, .read_gguf = falcon_h1_read_gguf};
