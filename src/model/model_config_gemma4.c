/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4 has two kinds of layers, with and without a window, which differ in other settings
 * too. Source: configuration_gemma4.py of Hugging Face Transformers.
 */
#include "json/jsonfile.h"
#include "model/model_config_private.h"

static const char per_layer[] = "per_layer_config";

/* The number `key` of layer i, or 0. */
static json_int_t own_number(const json_t *all, int32_t i, const char *key)
{
	char layer[16];
	snprintf(layer, sizeof layer, "%d", i);
	const json_t *own = json_object_get(all, layer);
	return json_integer_value(json_object_get(own, key));
}

/* Read per_layer_config, the settings of single layers. All layers without a window must have
 * the same settings, and the others must have none. */
static enum status read_per_layer(const json_t *all, struct model_config *c,
				  struct fail *fail)
{
	static const char dim[] = "head_dim", heads[] = "num_key_value_heads";
	json_int_t n_dim = 0, n_heads = 0;
	for (int32_t i = 0; i < c->n_layers; i++)
		if (!model_has_window(c, i)) {
			n_dim = own_number(all, i, dim);
			n_heads = own_number(all, i, heads);
		}
	for (int32_t i = 0; i < c->n_layers; i++) {
		bool is_full = !model_has_window(c, i);
		if (own_number(all, i, dim) != (is_full ? n_dim : 0) ||
		    own_number(all, i, heads) != (is_full ? n_heads : 0))
			return config_unsupported(fail, per_layer, all);
	}
	if (n_dim < 0 || n_dim > 1024 || n_heads < 0 || n_heads > 1024)
		return config_unsupported(fail, per_layer, all);
	c->gemma4.head_dim = (int32_t)n_dim;
	c->gemma4.kv_heads = (int32_t)n_heads;
	return OK;
}

enum status config_gemma4_read(const json_t *text, struct model_config *c, struct fail *fail)
{
	const json_t *all = jsonfile_get(text, per_layer);
	enum status st = OK;
	if (!c->is_windowed)
		return config_missing(fail, "sliding_window");
	c->is_windowed[c->n_layers - 1] = false; /* the last layer has no window */
	if (!c->gemma4.keys_are_values)
		c->gemma4.kv_heads = 0;
	if (all)
		st = read_per_layer(all, c, fail);
	if (st != OK)
		return st;
	if (model_head_dim(c, c->n_layers - 1) % 2 ||
	    c->n_heads % model_kv_heads(c, c->n_layers - 1))
		return fail_at(fail, E_FORMAT, "global_head_dim", FILE_NAME
			       ": %d query heads of %d elements cannot share %d key heads",
			       c->n_heads, model_head_dim(c, c->n_layers - 1),
			       model_kv_heads(c, c->n_layers - 1));
	for (int32_t i = c->n_layers - c->gemma4.n_kv_shared; i < c->n_layers; i++)
		if (i < 1 || model_has_window(c, model_kv_layer(c, i)) != model_has_window(c, i))
			return fail_at(fail, E_FORMAT, "num_kv_shared_layers", FILE_NAME
				       ": no layer before the last %d is as layer %d",
				       c->gemma4.n_kv_shared, i);
	if (c->gemma4.has_experts && (c->n_experts == 0 || c->n_experts_used == 0 ||
				  c->expert_dim == 0))
		return config_missing(fail, "num_experts");
	if (!c->gemma4.has_experts)
		c->n_experts = 0;
	c->ropes[0].n_rot = model_head_dim(c, c->n_layers - 1);
	return OK;
}
