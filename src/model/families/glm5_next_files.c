/* SPDX-License-Identifier: Apache-2.0
 *
 * GLM-5.3-Flash. Published files have settings of Kimi delta attention in an object of their own,
 * linear_attn_config. Source: configuration_glm5_next.py of Hugging Face Transformers.
 */
#include "model/model_family.h"

#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"linear_num_heads", NULL, INT, AT(delta.k_heads), 1, 1024, REQUIRED},
	{"linear_head_dim", NULL, INT, AT(delta.k_dim), 4, 256, REQUIRED},
	{"linear_conv_kernel_dim", NULL, INT, AT(delta.conv_width), 2, 8, REQUIRED},
	{"linear_lower_bound", NULL, FLOAT, AT(delta.g_min), -1e3, -1e-3, -5},
	{"swiglu_limit", NULL, FLOAT, AT(act.limit), 1e-3, 1e4, 10},
	{"hc_mult", NULL, INT, AT(streams.count), 2, 16, 4},
	{"hc_sinkhorn_iters", NULL, INT, AT(streams.iters), 1, 1000, 20},
	{"hc_eps", NULL, FLOAT, AT(streams.eps), 1e-12, 1e-2, 1e-6},
	CONFIG_INDEX_SETTINGS,
	{"index_kpool", NULL, INT, AT(index.ratio), 2, 256, REQUIRED},
	{0}};

static const char types_key[] = "layer_types", modes_key[] = "indexer_types";
static const char bound_key[] = "linear_lower_bound";

/* Without a list every fourth layer has latent attention. */
static void spell_layers(json_t *text)
{
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	json_t *types = json_array();
	const json_t *given = jsonfile_get(text, types_key), *v;
	size_t at;
	for (json_int_t i = 0; !given && i < n && n <= 1024; i++)
		json_array_append_new(types, json_string(i % 4 == 3 ? "full_attention"
								    : "linear_attention"));
	json_array_foreach((json_t *)(uintptr_t)given, at, v) {
		const char *s = json_string_value(v);
		if (s && (strcmp(s, "deepseek_sparse_attention") == 0 ||
			  strcmp(s, "indexed_attention") == 0))
			json_array_append_new(types, json_string("full_attention"));
		else
			json_array_append(types, (json_t *)(uintptr_t)v);
	}
	json_object_set_new(text, types_key, types);
}

/* Without a list a pattern of F and S, or every index_topk_freq'th layer has an indexer. */
static void spell_modes(json_t *text)
{
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	const char *pattern = json_string_value(jsonfile_get(text, "index_topk_pattern"));
	json_int_t every = json_integer_value(jsonfile_get(text, "index_topk_freq"));
	const json_t *skip = jsonfile_get(text, "index_skip_topk_offset");
	json_int_t offset = skip ? json_integer_value(skip) : 2;
	if (jsonfile_get(text, modes_key))
		return;
	json_t *modes = json_array();
	for (json_int_t i = 0; i < n && n <= 1024; i++) {
		json_int_t k = i - offset + 1;
		bool is_full = k <= 0 || every <= 1 || k % every == 0;
		if (pattern)
			is_full = i >= (json_int_t)strlen(pattern) || pattern[i] != 'S';
		json_array_append_new(modes, json_string(is_full ? "full" : "shared"));
	}
	json_object_set_new(text, modes_key, modes);
}

static void glm5_next_spell(json_t *text)
{
	const json_t *own = jsonfile_get(text, "linear_attn_config");
	const json_t *bound = jsonfile_get(own, "gate_lower_bound");
	kimi_linear_files_inner(text);
	if (bound)
		json_object_set(text, bound_key, (json_t *)(uintptr_t)bound);
	else if (own && !json_is_false(jsonfile_get(own, "safe_gate")))
		json_object_del(text, bound_key);
	spell_layers(text);
	spell_modes(text);
}

/* Which layers see what the one before them chose. */
static enum status read_modes(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	const json_t *modes = jsonfile_get(text, modes_key);
	bool has_choice = false; /* of the layer before */
	if (json_array_size(modes) != (size_t)c->n_layers)
		return config_wrong(fail, modes_key, modes, "a list of a mode a layer");
	c->index.is_shared = arena_alloc(a, (size_t)c->n_layers * sizeof *c->index.is_shared);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(modes, (size_t)i);
		const char *mode = json_is_string(v) ? json_string_value(v) : "";
		bool is_shared = strcmp(mode, "shared") == 0;
		if (!is_shared && strcmp(mode, "full") != 0)
			return config_unsupported(fail, modes_key, v);
		c->index.is_shared[i] = is_shared && !c->is_linear[i];
		if (c->index.is_shared[i] && !has_choice)
			return fail_at(fail, E_UNSUPPORTED, modes_key, FILE_NAME ": %s: layer %d "
				       "shares a choice, and the layer before it makes none",
				       modes_key, (int)i);
		has_choice = !c->is_linear[i] && !is_shared;
	}
	return OK;
}

static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	const json_t *rope = jsonfile_get(text, "qk_rope_head_dim");
	if (c->mla.rope_dim)
		return config_unsupported(fail, "qk_rope_head_dim", rope);
	c->n_ropes = 0;
	enum status st = kimi_linear_files_delta(text, a, c, fail);
	return st == OK ? read_modes(text, a, c, fail) : st;
}

static enum status glm5_next_check(const json_t *text, struct arena *a, struct model_config *c,
				   struct fail *fail)
{
	static const char *const on[] = {"mhc", "mla_use_nope", "index_kpool_compress",
					 "index_kpool_always_select_tail"};
	(void)a;
	for (size_t i = 0; i < ARRAY_LEN(on); i++)
		if (json_is_false(jsonfile_get(text, on[i])))
			return config_unsupported(fail, on[i], jsonfile_get(text, on[i]));
	if (!c->q_lora)
		return config_missing(fail, "q_lora_rank");
	if (c->index.budget % c->index.ratio)
		return fail_at(fail, E_FORMAT, "index_topk", FILE_NAME ": index_topk %d is no "
			       "multiple of index_kpool, %d", c->index.budget, c->index.ratio);
	/* Null says that decays have no bound. */
	if (json_is_null(json_object_get(text, bound_key)))
		c->delta.g_min = 0;
	return OK;
}

static void glm5_next_fix(struct model_config *c)
{
	c->act.kind = ACT_CLIPPED;
	c->act.gate_limit = c->act.limit;
	c->index.is_pooled = true;
}

const struct model_family model_family_glm5_next = {
	.settings = settings, .spell = glm5_next_spell, .layers = read_layers,
	.check = glm5_next_check, .fix = glm5_next_fix};
