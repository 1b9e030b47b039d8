/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kind each layer is of: with a window, without, or with a recurrent state.
 */
#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_arch.h"
#include "model/model_config_private.h"

enum status config_layer_types(const json_t *root, const char *name, bool *out,
			       const struct model_config *c, struct fail *fail)
{
	const json_t *types = jsonfile_get(root, "layer_types");
	if (types && json_array_size(types) != (size_t)c->n_layers)
		return config_wrong(fail, "layer_types", types, "a list of a type a layer");
	for (int32_t i = 0; types && i < c->n_layers; i++) {
		const json_t *type = json_array_get(types, (size_t)i);
		const char *s = json_string_value(type);
		out[i] = s && strcmp(s, name) == 0;
		if (!out[i] && (!s || strcmp(s, "full_attention") != 0))
			return config_unsupported(fail, "layer_types", type);
	}
	return OK;
}

enum status config_linear_layers(const json_t *root, const char *name, struct model_config *c,
				 struct fail *fail)
{
	enum status st = config_layer_types(root, name, c->is_linear, c, fail);
	for (int32_t i = 0; i < c->n_layers; i++)
		c->n_linear += c->is_linear[i];
	return st;
}

void config_rename_indexed(json_t *text)
{
	const json_t *types = json_object_get(text, "layer_types"), *type;
	size_t i;
	if (!json_is_array(types))
		return;
	json_t *usual = json_array();
	json_array_foreach((json_t *)(uintptr_t)types, i, type) {
		const char *s = json_string_value(type);
		if (s && strcmp(s, "indexed_attention") == 0)
			json_array_append_new(usual, json_string("full_attention"));
		else
			json_array_append(usual, (json_t *)(uintptr_t)type);
	}
	json_object_set_new(text, "layer_types", usual);
}

/* Find the delta-net layers: those in layer_types, or all but every
 * full_attention_interval'th. */
static enum status read_delta_layers(const json_t *root, struct arena *a,
				     struct model_config *c, struct fail *fail)
{
	static const char key[] = "full_attention_interval";
	const json_t *v = jsonfile_get(root, key);
	json_int_t interval = v ? json_integer_value(v) : 4;
	if ((v && !json_is_integer(v)) || interval < 1)
		return config_wrong(fail, key, v, "a number of layers");
	if (c->delta.v_heads % c->delta.k_heads)
		return fail_at(fail, E_FORMAT, "linear_num_value_heads",
			       FILE_NAME ": %d value heads cannot share %d key heads",
			       c->delta.v_heads, c->delta.k_heads);
	if (c->delta.k_dim % 4 || c->delta.v_dim % 4)
		return fail_at(fail, E_UNSUPPORTED, "linear_key_head_dim",
			       FILE_NAME ": heads of %d and %d are no multiples of 4",
			       c->delta.k_dim, c->delta.v_dim);
	c->is_linear = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_linear);
	for (int32_t i = 0; i < c->n_layers; i++)
		c->is_linear[i] = (i + 1) % interval != 0;
	return config_linear_layers(root, "linear_attention", c, fail);
}

/* Find the windowed layers: those in layer_types, or all from max_window_layers on. */
static enum status read_some_windows(const json_t *root, struct model_config *c,
				     struct fail *fail)
{
	const json_t *first = jsonfile_get(root, "max_window_layers");
	if (first && !json_is_integer(first))
		return config_wrong(fail, "max_window_layers", first, "an integer");
	json_int_t from = first ? json_integer_value(first) : 28;
	for (int32_t i = 0; i < c->n_layers; i++)
		c->is_windowed[i] = i >= from;
	return config_layer_types(root, "sliding_attention", c->is_windowed, c, fail);
}

enum status config_windows_read(const json_t *root, const struct model_arch *arch,
				struct arena *a, struct model_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, "sliding_window");
	const json_t *use = jsonfile_get(root, "use_sliding_window");
	if (use && !json_is_boolean(use))
		return config_wrong(fail, "use_sliding_window", use, "true or false");
	if (arch->keys & KEYS_DELTA)
		return read_delta_layers(root, a, c, fail);
	bool has = arch->keys & (KEYS_WINDOW | KEYS_WINDOW_LIST) ||
		   (arch->keys & KEYS_WINDOW_SOME && json_is_true(use));
	if (has && v) {
		json_int_t n = json_integer_value(v);
		if (!json_is_integer(v) || n < 1 || n > 1 << 27)
			return config_wrong(fail, "sliding_window", v,
				     "a number of tokens above 0");
		c->window = (int32_t)n;
		c->is_windowed = arena_alloc(a, (size_t)c->n_layers *
							sizeof *c->is_windowed);
		if (arch->keys & KEYS_WINDOW_SOME)
			return read_some_windows(root, c, fail);
		if (arch->keys & KEYS_WINDOW_LIST && !c->window_pattern) {
			if (!jsonfile_get(root, "layer_types"))
				return config_missing(fail, "sliding_window_pattern");
			c->window_pattern = 1;
		}
		for (int32_t i = 0; arch->keys & KEYS_WINDOW_LIST && i < c->n_layers; i++)
			c->is_windowed[i] = (i + 1) % c->window_pattern != 0;
		if (arch->keys & KEYS_WINDOW_LIST)
			return config_layer_types(root, "sliding_attention", c->is_windowed,
						c, fail);
		memset(c->is_windowed, true, (size_t)c->n_layers);
	}
	/* All layers have the same kind here, so layer_types must name it for each. */
	const char *same = c->window ? "sliding_attention" : "full_attention";
	const json_t *types = jsonfile_get(root, "layer_types");
	const json_t *type;
	size_t i;
	json_array_foreach((json_t *)types, i, type)
		if (!json_is_string(type) || strcmp(json_string_value(type), same) != 0)
			return config_unsupported(fail, "layer_types", type);
	return OK;
}
