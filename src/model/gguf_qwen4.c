/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the arrays of Qwen4-Exp in GGUF ("qwen4exp"). The file stores the factors and table
 * sizes that hash n-grams; a config.json has a seed and a smallest size instead. Source:
 * llama.cpp's converter.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/gguf_model_private.h"

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

enum status gguf_qwen4_read(struct gguf_model_reader *r)
{
	json_object_set_new(r->config, "output_gate_type", json_string("sigmoid"));
	enum status st = read_ratio(r);
	return st == OK ? read_ngrams(r) : st;
}
