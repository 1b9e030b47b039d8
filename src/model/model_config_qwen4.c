/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that Qwen4-Exp has beyond those of other hybrids, and settings of indexers. Sources,
 * of Hugging Face Transformers: configuration_qwen4_exp.py and configuration_deepseek_v32.py.
 */
#include "json/jsonfile.h"
#include "model/model_config_private.h"

/* The published checkpoint of Qwen4-Exp calls layers with an indexer "full_attention". */
void config_index_spell(json_t *text)
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

enum status config_index_read(struct model_config *c, struct fail *fail)
{
	const struct rope *r = &c->ropes[0];
	c->index.ratio = 1;
	if (!c->q_lora)
		return config_missing(fail, "q_lora_rank");
	if (c->mla.rope_dim > c->index.dim)
		return fail_at(fail, E_FORMAT, "index_head_dim", FILE_NAME
			       ": %d of %d elements rotate", c->mla.rope_dim, c->index.dim);
	/* yarn's attention factor would also multiply the rotated part of the indexer's keys
	 * and queries. */
	bool is_plain = r->attention_factor == 1 ||
			(r->attention_factor == 0 && r->mscale != 0 && r->mscale == r->mscale_all);
	if (r->kind == ROPE_YARN && !is_plain)
		return fail_at(fail, E_UNSUPPORTED, "rope_parameters", FILE_NAME
			       ": yarn that sharpens the rotated part, with an indexer");
	return OK;
}

static enum status read_gate(const json_t *text, struct model_config *c, struct fail *fail)
{
	static const char key[] = "output_gate_type";
	const json_t *v = jsonfile_get(text, key);
	const char *s = json_string_value(v);
	c->delta.sigmoid_gate = s && strcmp(s, "sigmoid") == 0;
	if (v && !c->delta.sigmoid_gate && (!s || strcmp(s, "silu") != 0))
		return config_unsupported(fail, key, v);
	return OK;
}

/* ple_layer_ids counts layers from 1. */
static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	static const char key[] = "ple_layer_ids";
	const json_t *list = jsonfile_get(text, key), *v;
	size_t i;
	if (!list || (json_is_array(list) && json_array_size(list) == 0))
		return OK;
	if (!json_is_array(list))
		return config_wrong(fail, key, list, "a list of layers");
	bool *has = arena_alloc(a, (size_t)c->n_layers * sizeof *has);
	c->ngram.of = arena_alloc(a, (size_t)c->n_layers * sizeof *c->ngram.of);
	memset(has, 0, (size_t)c->n_layers * sizeof *has);
	json_array_foreach((json_t *)(uintptr_t)list, i, v) {
		json_int_t at = json_integer_value(v) - 1;
		if (!json_is_integer(v) || at < 0 || at >= c->n_layers || !c->is_linear[at])
			return config_wrong(fail, key, v, "a layer of linear attention");
		has[at] = true;
	}
	for (int32_t l = 0; l < c->n_layers; l++)
		c->ngram.of[l] = has[l] ? c->ngram.n_tables++ : -1;
	return OK;
}

/* Read a list of n numbers from 1 to `most`; *out is NULL if the key is absent. */
static enum status read_numbers(const json_t *text, const char *key, int32_t n, int64_t most,
				struct arena *a, int64_t **out, struct fail *fail)
{
	const json_t *list = jsonfile_get(text, key), *v;
	size_t i;
	if (!list)
		return OK;
	if (json_array_size(list) != (size_t)n)
		return config_wrong(fail, key, list, "a list of as many as there are");
	*out = arena_alloc(a, (size_t)n * sizeof **out);
	json_array_foreach((json_t *)(uintptr_t)list, i, v) {
		(*out)[i] = json_integer_value(v);
		if (!json_is_integer(v) || (*out)[i] < 1 || (*out)[i] > most)
			return config_wrong(fail, key, v, "a number that fits");
	}
	return OK;
}

/* Settings from GGUF have the hash's numbers themselves (gguf_qwen4.c); else they follow from a
 * seed. */
static enum status read_hashes(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	static const char eos[] = "ple_eos_token_id";
	const json_t *v = jsonfile_get(text, eos);
	int32_t n_heads = (c->ngram.size - 1) * c->ngram.heads;
	if (v && (!json_is_integer(v) || json_integer_value(v) < 0 ||
		  json_integer_value(v) >= c->n_vocab))
		return config_wrong(fail, eos, v, "a token");
	if (v)
		c->ngram.eos = (int32_t)json_integer_value(v);
	enum status st = read_numbers(text, "ngram_multipliers", c->ngram.size,
				      INT64_MAX / c->n_vocab, a, &c->ngram.factors, fail);
	if (st == OK)
		st = read_numbers(text, "ngram_sizes", n_heads, INT32_MAX, a, &c->ngram.sizes,
				  fail);
	return st;
}

static enum status check_ngrams(const json_t *text, struct arena *a, struct model_config *c,
				struct fail *fail)
{
	int32_t n_heads = (c->ngram.size - 1) * c->ngram.heads;
	if (c->ngram.dim == 0)
		c->ngram.dim = c->d_model;
	if (c->n_eos == 0)
		return config_missing(fail, "eos_token_id");
	c->ngram.eos = c->eos_ids[0];
	enum status st = read_hashes(text, a, c, fail);
	if (st != OK)
		return st;
	if (c->ngram.dim % n_heads || c->ngram.dim / n_heads % 2)
		return fail_at(fail, E_FORMAT, "ple_embed_dim", FILE_NAME
			       ": %d numbers in %d parts", c->ngram.dim, n_heads);
	if (model_ngram_width(c) > 16)
		return fail_at(fail, E_UNSUPPORTED, "ple_conv_kernel_size", FILE_NAME
			       ": a convolution over %d tokens", model_ngram_width(c));
	return OK;
}

enum status config_qwen4_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	enum status st = read_gate(text, c, fail);
	if (st == OK)
		st = read_layers(text, a, c, fail);
	if (st == OK && c->ngram.n_tables)
		st = check_ngrams(text, a, c, fail);
	if (st == OK && c->index.budget % c->index.ratio)
		st = fail_at(fail, E_FORMAT, "indexer_budget", FILE_NAME
			     ": a budget of %d tokens in blocks of %d", c->index.budget,
			     c->index.ratio);
	if (st == OK && c->n_rot > c->index.dim)
		st = fail_at(fail, E_FORMAT, "indexer_head_dim", FILE_NAME
			     ": %d of %d elements rotate", c->n_rot, c->index.dim);
	/* The table of angles would lack yarn's attention factor (set_rope of parts/attend.c). */
	if (st == OK && c->ropes[0].kind == ROPE_YARN && c->n_rot == c->head_dim)
		st = fail_at(fail, E_UNSUPPORTED, "rope_parameters", FILE_NAME
			     ": yarn over whole heads, with an indexer");
	return st;
}
