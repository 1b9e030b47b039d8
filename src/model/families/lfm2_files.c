/* SPDX-License-Identifier: Apache-2.0
 *
 * LFM2, dense and with experts. Source: configuration_lfm2.py and modeling_lfm2.py of Hugging
 * Face Transformers.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"conv_L_cache", NULL, INT, AT(delta.conv_width), 2, 8, REQUIRED},
	{0}};

/* Dense layers are two thirds as wide as intermediate_size says, rounded up to a multiple. */
static void adjust_width(json_t *text)
{
	static const char key[] = "intermediate_size";
	const json_t *adjusts = json_object_get(text, "block_auto_adjust_ff_dim");
	const json_t *by = json_object_get(text, "block_ffn_dim_multiplier");
	const json_t *of = json_object_get(text, "block_multiple_of");
	json_int_t width = json_integer_value(json_object_get(text, key));
	json_int_t multiple = of ? json_integer_value(of) : 256;
	if (json_is_false(adjusts) || width < 8 || width > 1 << 20 || multiple < 1 ||
	    multiple > 1 << 20)
		return;
	width = 2 * width / 3;
	if (!json_is_null(by)) {
		double factor = by ? json_number_value(by) : 1;
		if (!(factor > 0 && factor <= 64))
			return;
		width = (json_int_t)(factor * (double)width);
		width = ROUND_UP(width, multiple);
	}
	json_object_set_new(text, key, json_integer(width));
}

/* Layers in the list full_attn_idxs are attention layers; the others are convolutions. */
static void spell_layers(json_t *text)
{
	const json_t *list = json_object_get(text, "full_attn_idxs");
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	if (!json_is_array(list) || json_is_array(json_object_get(text, "layer_types")) ||
	    n < 1 || n > 1024)
		return;
	json_t *types = json_array(), *v;
	size_t i;
	for (json_int_t k = 0; k < n; k++)
		json_array_append_new(types, json_string("conv"));
	json_array_foreach(list, i, v)
		if (json_is_integer(v) && json_integer_value(v) >= 0)
			json_array_set_new(types, (size_t)json_integer_value(v),
					   json_string("full_attention"));
	json_object_set_new(text, "layer_types", types);
}

/* The first num_dense_layers layers have no experts. */
static void spell_dense_layers(json_t *text)
{
	const json_t *v = json_object_get(text, "num_dense_layers");
	json_int_t n = json_integer_value(v);
	if (!json_is_integer(v) || n < 0 || n > 1024)
		return;
	json_t *list = json_array();
	for (json_int_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(i));
	json_object_set_new(text, "mlp_only_layers", list);
}

static void lfm2_spell(json_t *text)
{
	config_rename(text, "norm_eps", "rms_norm_eps");
	config_rename(text, "block_ff_dim", "intermediate_size");
	config_rename(text, "tie_embedding", "tie_word_embeddings");
	if (!json_object_get(text, "tie_word_embeddings"))
		json_object_set_new(text, "tie_word_embeddings", json_true());
	if (json_object_get(text, "num_experts"))
		spell_dense_layers(text);
	else
		adjust_width(text);
	spell_layers(text);
}

/* Layers of type "conv" are short convolutions. They count as gated delta nets with one value
 * head as wide as the model and no keys, so their state is the convolution's. */
static enum status read_layers(const json_t *root, struct arena *a,
			       struct model_config *c, struct fail *fail)
{
	if (!jsonfile_get(root, "layer_types"))
		return config_missing(fail, "layer_types");
	c->is_linear = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_linear);
	enum status st = config_linear_layers(root, "conv", c, fail);
	c->delta.v_heads = 1;
	c->delta.v_dim = c->d_model;
	return st;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"shortconv.l_cache", "conv_L_cache", true, false},
	{"leading_dense_block_count", "num_dense_layers", false, false},
	{0}};

static enum status lfm2_read_gguf(struct gguf_model_reader *r)
{
	return gguf_model_read_types(r, "conv");
}

const struct model_family model_family_lfm2 = {
	.settings = settings, .spell = lfm2_spell, .layers = read_layers, .gguf_keys = gguf_keys,
	.of_layers = "num_key_value_heads", .read_gguf = lfm2_read_gguf};
