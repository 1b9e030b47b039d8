/* SPDX-License-Identifier: Apache-2.0
 *
 * What Qwen4-Exp has beyond other hybrids: several residual streams, attention by an indexer,
 * n-grams. GGUF files store the factors and table sizes that hash n-grams; a config.json has a
 * seed and a smallest size instead. Sources: configuration_qwen4_exp.py of Hugging Face
 * Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"hc_count", NULL, INT, AT(streams.count), 2, 16, 4},
	{"hc_lowrank", NULL, INT, AT(streams.rank), 8, 1 << 14, 320},
	{"indexer_n_heads", NULL, INT, AT(index.heads), 1, 256, REQUIRED},
	{"indexer_head_dim", NULL, INT, AT(index.dim), 8, 512, REQUIRED},
	{"indexer_budget", NULL, INT, AT(index.budget), 1, 1 << 20, REQUIRED},
	{"indexer_compress_ratio", NULL, INT, AT(index.ratio), 1, 256, REQUIRED},
	{"ple_embed_dim", NULL, INT, AT(ngram.dim), 8, 1 << 16, 0},
	{"ple_conv_kernel_size", NULL, INT, AT(ngram.taps), 2, 8, 4},
	{"ngram_size", NULL, INT, AT(ngram.size), 2, MODEL_MAX_NGRAM, 3},
	{"heads_per_ngram", NULL, INT, AT(ngram.heads), 1, 64, 8},
	{"ngram_vocab_size_base", NULL, INT, AT(ngram.vocab), 2, 1 << 26, 20000000},
	{"seed", NULL, INT, AT(ngram.seed), 0, INT32_MAX, 1234},
	{0}};

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

/* Settings from GGUF have the hash's numbers themselves (read_ngrams); else they follow from a
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

/* A setting of the MTP layer that no published file has; NULL: there is none. */
static const char *find_unlike(const json_t *text, const struct model_config *c)
{
	const json_t *mtp = jsonfile_get(text, "mtp"), *theta = jsonfile_get(mtp, "rope_theta");
	const json_t *type = json_array_get(jsonfile_get(mtp, "layer_types"), 0);
	const char *name = json_string_value(type);
	if (json_is_true(jsonfile_get(text, "mtp_use_dedicated_embeddings")))
		return "mtp_use_dedicated_embeddings";
	if (jsonfile_get(mtp, "mtp_use_hidden_state_from_layer"))
		return "mtp.mtp_use_hidden_state_from_layer";
	if (theta && json_number_value(theta) != c->ropes[0].theta)
		return "mtp.rope_theta";
	if (type && (!name || !strstr(name, "attention") || strcmp(name, "linear_attention") == 0))
		return "mtp.layer_types";
	return NULL;
}

static enum status qwen4_check(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	enum status st = read_gate(text, c, fail);
	c->mtp_unlike = find_unlike(text, c);
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

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"hyper_connection.count", "hc_count", true, false},
	{"hyper_connection.low_rank", "hc_lowrank", true, false},
	{"attention.indexer.head_count", "indexer_n_heads", true, false},
	{"attention.indexer.key_length", "indexer_head_dim", true, false},
	{"attention.indexer.top_k", "indexer_budget", true, false},
	{0}};

static const struct gguf_name gguf_names[] = {
	{"hc_attn_norm", "attn_hyper_connection.hc_norm"},
	{"hc_attn_down", "attn_hyper_connection.input_mix_weight_down"},
	{"hc_attn_up", "attn_hyper_connection.input_mix_weight_up"},
	{"hc_attn_inject", "attn_hyper_connection.block_inject_weight"},
	{"hc_ffn_norm", "mlp_hyper_connection.hc_norm"},
	{"hc_ffn_down", "mlp_hyper_connection.input_mix_weight_down"},
	{"hc_ffn_up", "mlp_hyper_connection.input_mix_weight_up"},
	{"hc_ffn_inject", "mlp_hyper_connection.block_inject_weight"},
	{"nextn.hc_head_norm", "hyper_connection_mixer.hc_norm"},
	{"nextn.hc_head_down", "hyper_connection_mixer.input_mix_weight_down"},
	{"nextn.hc_head_up", "hyper_connection_mixer.input_mix_weight_up"},
	{"indexer.q_proj", "self_attn.indexer.q_proj"},
	{"indexer.k_proj", "self_attn.indexer.k_proj"},
	{"indexer.q_norm", "self_attn.indexer.q_layernorm"},
	{"indexer.k_norm", "self_attn.indexer.k_layernorm"},
	{"ple_conv1d", "ple.conv1d"},
	{"ple_key", "ple.key_proj"},
	{"ple_value", "ple.value_proj"},
	{"ple_norm_key", "ple.norm_key"},
	{"ple_norm_query", "ple.norm_query"},
	{"ple_norm_conv", "ple.norm_conv"},
	{0}};

/* Read the compression ratio, which all layers with an indexer share; the others have 0. */
static enum status read_ratio(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.compress_ratios", name);
	int64_t ratio = 0, n;
	if (!v)
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	for (uint64_t i = 0; i < (v->is_array ? v->n : 1); i++) {
		if (!gguf_integer(v, i, &n) || n < 0 || (n && ratio && n != ratio))
			return gguf_model_refuse(r, name, v);
		ratio = n ? n : ratio;
	}
	json_object_set_new(r->config, "indexer_compress_ratio", json_integer(ratio));
	return OK;
}

/* Copy an array of n integers to the config under the name `hf`, adding `more` to each. */
static enum status read_list(struct gguf_model_reader *r, const char *key, uint64_t n,
			     int64_t more, const char *hf)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, key, name);
	int64_t one;
	if (!v)
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	if (!v->is_array || v->n != n)
		return gguf_model_refuse(r, name, v);
	json_t *list = json_array();
	for (uint64_t i = 0; i < n; i++) {
		if (!gguf_integer(v, i, &one) || one > INT64_MAX - more) {
			json_decref(list);
			return gguf_model_refuse(r, name, v);
		}
		json_array_append_new(list, json_integer(one + more));
	}
	json_object_set_new(r->config, hf, list);
	return OK;
}

/* Reads the number `key` of the file, and enters it into the config as `hf`. */
static enum status read_number(struct gguf_model_reader *r, const char *key, const char *hf,
			       int64_t *out)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, key, name);
	if (!v)
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	if (v->is_array || !gguf_integer(v, 0, out) || *out < 0 || *out > INT32_MAX)
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, hf, json_integer(*out));
	return OK;
}

/* Check that the parts of the n-gram table follow each other without gaps. */
static enum status check_offsets(struct gguf_model_reader *r)
{
	static const char key[] = "ple.head_offsets";
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, key, name);
	const json_t *sizes = json_object_get(r->config, "ngram_sizes");
	int64_t sum = 0, at;
	for (size_t i = 0; v && i < json_array_size(sizes); i++) {
		if (!gguf_integer(v, i, &at) || at != sum ||
		    __builtin_add_overflow(sum, json_integer_value(json_array_get(sizes, i)),
					   &sum))
			return gguf_model_refuse(r, name, v);
	}
	return OK;
}

/* Check that a file whose list of n-gram layers is empty has no n-gram tensor. */
static enum status check_no_ngrams(struct gguf_model_reader *r, const char *key)
{
	for (size_t i = 0; i < tensors_count(r->tensors); i++)
		if (strstr(tensors_at(r->tensors, i)->name, ".ple."))
			return fail_at(r->fail, E_MISSING, key, "%s: %s names no layer, but the "
				       "file has tensors of n-grams, %s", r->path, key,
				       tensors_at(r->tensors, i)->name);
	return OK;
}

static enum status read_ngrams(struct gguf_model_reader *r)
{
	char name[96];
	int64_t size, heads, width, n;
	const struct gguf_value *layers = gguf_model_key(r, "ple.layers", name);
	if (!layers || (layers->is_array && layers->n == 0))
		return check_no_ngrams(r, name);
	if (!layers->is_array)
		return gguf_model_refuse(r, name, layers);
	if (layers->n != 1) /* the keys and the table's name can describe only one layer */
		return fail_at(r->fail, E_UNSUPPORTED, name, "%s: %s names %llu layers; a GGUF "
			       "file has one table of n-grams", r->path, name,
			       (unsigned long long)layers->n);
	enum status st = read_list(r, "ple.layers", 1, 1, "ple_layer_ids");
	if (st == OK)
		st = read_number(r, "ple.ngram_size", "ngram_size", &size);
	if (st == OK)
		st = read_number(r, "ple.heads_per_ngram", "heads_per_ngram", &heads);
	if (st == OK)
		st = read_number(r, "ple.conv_kernel", "ple_conv_kernel_size", &n);
	if (st == OK)
		st = read_number(r, "ple.eos_token_id", "ple_eos_token_id", &n);
	if (st == OK)
		st = read_number(r, "embedding_length_per_layer_input", "ple_embed_dim", &width);
	if (st != OK)
		return st;
	size = MIN(MAX(size, 1), 64);
	heads = MIN(heads, 64);
	json_object_set_new(r->config, "ple_embed_dim",
			    json_integer(MIN(width, 1 << 20) * (size - 1) * heads));
	st = read_list(r, "ple.layer_multipliers", (uint64_t)size, 0, "ngram_multipliers");
	if (st == OK)
		st = read_list(r, "ple.head_vocab_sizes", (uint64_t)((size - 1) * heads), 0,
			       "ngram_sizes");
	return st == OK ? check_offsets(r) : st;
}

static enum status qwen4_read_gguf(struct gguf_model_reader *r)
{
	json_object_set_new(r->config, "output_gate_type", json_string("sigmoid"));
	enum status st = read_ratio(r);
	return st == OK ? read_ngrams(r) : st;
}

const struct model_family model_family_qwen4 = {
	.settings = settings, .reads = "output_gate_type", .spell = config_rename_indexed,
	.check = qwen4_check, .gguf_keys = gguf_keys, .gguf_names = gguf_names,
	.gguf_reads = "embedding_length_per_layer_input", .read_gguf = qwen4_read_gguf};
