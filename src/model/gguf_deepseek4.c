/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the arrays of DeepSeek-V4 in GGUF ("deepseek4"). A layer compresses its keys in blocks.
 * Blocks of 4 positions overlap, and an indexer chooses among them; larger blocks are all
 * attended to. Source: llama.cpp's converter, and its deepseek4.cpp.
 */
#include "base/alloc.h"
#include "model/gguf_model_private.h"

enum { CHOSEN = 4, HEAVY = 128 }; /* ratios in config.json: of chosen blocks, and of larger ones */

static enum status read_ratios(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.compress_ratios", name);
	int64_t layers = gguf_model_known(r, "num_hidden_layers"), heavy = 0, n;
	if (!v)
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	if (!v->is_array || v->n < (uint64_t)layers)
		return gguf_model_refuse(r, name, v);
	json_t *list = json_array();
	bool fits = true;
	for (int64_t i = 0; i < layers && fits; i++) {
		fits = gguf_integer(v, (uint64_t)i, &n) && n >= 0 &&
		       (n == 0 || n == CHOSEN || !heavy || n == heavy);
		heavy = fits && n && n != CHOSEN ? n : heavy;
		json_array_append_new(list, json_integer(n && n != CHOSEN ? HEAVY : n));
	}
	json_object_set_new(r->config, "compress_ratios", list);
	if (heavy)
		json_object_set_new(r->config, "compress_rate_hca", json_integer(heavy));
	return fits ? OK : gguf_model_refuse(r, name, v);
}

/* The shared expert's limit must be that of the routed experts. */
static enum status check_limits(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "swiglu_clamp_shexp", name);
	double want = json_number_value(json_object_get(r->config, "swiglu_limit")), d;
	for (uint64_t i = 0; v && i < (v->is_array ? v->n : 1); i++)
		if (!gguf_number(v, i, &d) || d != want)
			return gguf_model_refuse(r, name, v);
	return OK;
}

enum status gguf_deepseek4_read(struct gguf_model_reader *r)
{
	enum status st = read_ratios(r);
	return st == OK ? check_limits(r) : st;
}
