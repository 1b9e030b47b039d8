/* SPDX-License-Identifier: Apache-2.0
 *
 * The text model of Llama 4. intermediate_size is the width of a routed and of the shared
 * expert; intermediate_size_mlp is that of dense layers. Source: configuration_llama4.py of
 * Hugging Face Transformers.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"use_qk_norm", NULL, BOOL, AT(llama4.has_norms), 0, 1, 1},
	{"floor_scale", NULL, INT, AT(llama4.attn_temp_every), 1, 1 << 27, 8192},
	{"attn_scale", NULL, FLOAT, AT(llama4.attn_temp_scale), 0, 10, 0.1},
	{0}};

/* moe_layers lists the layers with experts. The others become mlp_only_layers. */
static void spell_layers(json_t *text)
{
	const json_t *list = json_object_get(text, "moe_layers"), *v;
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	size_t at;
	if (!json_is_array(list) || n < 1 || n > 1024)
		return;
	json_t *dense = json_array();
	for (json_int_t i = 0; i < n; i++) {
		bool has = false;
		json_array_foreach((json_t *)(uintptr_t)list, at, v)
			has |= json_integer_value(v) == i;
		if (!has)
			json_array_append_new(dense, json_integer(i));
	}
	json_object_set_new(text, "mlp_only_layers", dense);
	json_object_set_new(text, "decoder_sparse_step", json_integer(1));
}

static void llama4_spell(json_t *text)
{
	json_t *dense = json_object_get(text, "intermediate_size_mlp");
	json_t *step = json_object_get(text, "interleave_moe_layer_step");
	if (dense) { /* absent in settings from GGUF, which have these names already */
		json_object_set(text, "moe_intermediate_size",
				json_object_get(text, "intermediate_size"));
		json_object_set(text, "intermediate_size", dense);
	}
	if (step)
		json_object_set(text, "decoder_sparse_step", step);
	if (json_array_size(json_object_get(text, "no_rope_layers")) == 0)
		json_object_del(text, "no_rope_layers");
	spell_layers(text);
}

/* Read the positions of a chunk. null means 0: no layer has chunks. */
static enum status read_chunk(const json_t *text, struct model_config *c, struct fail *fail)
{
	static const char key[] = "attention_chunk_size";
	const json_t *v = json_object_get(text, key);
	json_int_t n = v ? json_integer_value(v) : 8192;
	c->window = 0;
	if (json_is_null(v))
		return OK;
	if ((v && !json_is_integer(v)) || n < 1 || n > 1 << 27)
		return config_wrong(fail, key, v, "a number of tokens above 0");
	if (n & (n - 1))
		return config_unsupported(fail, key, v); /* GPU kernels take powers of two */
	c->window = (int32_t)n;
	return OK;
}

static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	static const char tuning[] = "attn_temperature_tuning", used[] = "num_experts_per_tok";
	const json_t *v = jsonfile_get(text, tuning);
	enum status st = read_chunk(text, c, fail);
	if (st != OK)
		return st;
	if (c->n_experts_used != 1) /* with two, each expert would read an input of its own */
		return config_unsupported(fail, used, jsonfile_get(text, used));
	if (v && !json_is_boolean(v) && !json_is_integer(v))
		return config_wrong(fail, tuning, v, "true or false");
	if (json_is_false(v) || (json_is_integer(v) && json_integer_value(v) == 0))
		c->llama4.attn_temp_every = 0;
	c->shared_dim = c->expert_dim;
	c->is_windowed = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_windowed);
	for (int32_t i = 0; i < c->n_layers; i++)
		c->is_windowed[i] = !c->is_unrotated[i];
	st = config_layer_types(text, "chunked_attention", c->is_windowed, c, fail);
	if (c->window == 0)
		c->is_windowed = NULL;
	return st;
}

static void llama4_fix(struct model_config *c)
{
	c->norm_topk = false;
	c->n_groups = c->n_groups_used = 1;
	c->routed_scale = 1;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"interleave_moe_layer_step", "interleave_moe_layer_step", true, false},
	{0}};

static const struct gguf_name gguf_names[] = {
	{"ffn_gate_inp", "mlp.router"},
	{0}};

/* Files of Llama 4 say neither the size of chunks nor whether q and k are normalised. They are,
 * except in Maverick, which has 128 experts. The key sliding_window is refused: its value 0
 * would mean that no layer has chunks. */
static enum status llama4_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.sliding_window", name);
	bool is_maverick = gguf_model_known(r, "num_experts") == 128;
	if (v)
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "use_qk_norm", json_boolean(!is_maverick));
	return OK;
}

const struct model_family model_family_llama4 = {
	.settings = settings, .reads = "attention_chunk_size", .spell = llama4_spell,
	.layers = read_layers, .fix = llama4_fix, .gguf_keys = gguf_keys, .gguf_names = gguf_names,
	.gating = 2, .read_gguf = llama4_read_gguf};
