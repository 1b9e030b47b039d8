/* SPDX-License-Identifier: Apache-2.0
 *
 * ERNIE 4.5 with experts. Source: configuration_ernie4_5_moe.py and
 * modeling_ernie4_5_moe.py of Hugging Face Transformers.
 */
#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config_private.h"

/* Read a number of `text`; `usual` if the key is absent. */
static enum status read_layer(const json_t *text, const char *key, json_int_t usual,
			      json_int_t least, json_int_t *out, struct fail *fail)
{
	const json_t *v = jsonfile_get(text, key);
	*out = v ? json_integer_value(v) : usual;
	if (v && (!json_is_integer(v) || *out < least))
		return config_wrong(fail, key, v, "a layer");
	return OK;
}

/* Find the layers with experts: every moe_layer_interval'th from `first` to `last`. */
enum status config_ernie_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	json_int_t first, last, every;
	enum status st = read_layer(text, "moe_layer_start_index", 1, 0, &first, fail);
	if (st == OK)
		st = read_layer(text, "moe_layer_end_index", -1, -1, &last, fail);
	if (st == OK)
		st = read_layer(text, "moe_layer_interval", 1, 1, &every, fail);
	if (st != OK)
		return st;
	last = last < 0 ? c->n_layers - 1 : last;
	c->dense_layers = arena_alloc(a, (size_t)c->n_layers * sizeof *c->dense_layers);
	for (int32_t i = 0; i < c->n_layers; i++)
		if ((i + 1) % every || i < first || i > last)
			c->dense_layers[c->n_dense_layers++] = i;
	c->sparse_step = 1;
	c->shared_dim *= c->expert_dim;
	return OK;
}
