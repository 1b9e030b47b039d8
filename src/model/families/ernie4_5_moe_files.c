/* SPDX-License-Identifier: Apache-2.0
 *
 * ERNIE 4.5 with experts, which a softmax and a bias choose. Source:
 * configuration_ernie4_5_moe.py and modeling_ernie4_5_moe.py of Hugging Face Transformers.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"moe_num_experts", NULL, INT, AT(n_experts), 1, 4096, REQUIRED},
	{"moe_k", NULL, INT, AT(n_experts_used), 1, 256, REQUIRED},
	{"moe_intermediate_size", NULL, INT, AT(expert_dim), 8, 1 << 20, REQUIRED},
	/* a number of experts; read converts it to a width */
	{"moe_num_shared_experts", NULL, INT, AT(shared_dim), 0, 64, 2},
	{0}};

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
static enum status read(const json_t *text, struct arena *a, struct model_config *c,
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

static void ernie4_5_moe_fix(struct model_config *c)
{
	c->norm_topk = true;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"expert_count", "moe_num_experts", false, false},
	{"expert_used_count", "moe_k", false, false},
	{"expert_shared_count", "moe_num_shared_experts", false, false},
	{"interleave_moe_layer_step", "moe_layer_interval", false, false},
	{"leading_dense_block_count", "moe_layer_start_index", false, false},
	{0}};

static const struct gguf_name gguf_names[] = {
	GGUF_SHARED_EXPERTS("shared_experts"),
	{0}};

static enum status ernie4_5_moe_read_gguf(struct gguf_model_reader *r)
{
	/* The width follows from moe_num_shared_experts. */
	json_object_del(r->config, "shared_expert_intermediate_size");
	return OK;
}

const struct model_family model_family_ernie4_5_moe = {
	.settings = settings, .read = read, .fix = ernie4_5_moe_fix, .gguf_keys = gguf_keys,
	.gguf_names = gguf_names, .read_gguf = ernie4_5_moe_read_gguf};
