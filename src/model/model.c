/* SPDX-License-Identifier: Apache-2.0
 *
 * Order of opening: what is small and may be refused comes first, so that a
 * checkpoint of a kind we cannot run says so before its gigabytes are read.
 */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/config.h"
#include "model/experts.h"
#include "model/jsonfile.h"
#include "model/quant.h"
#include "model/tokenizer_hf.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

/* Older checkpoints of ModelOpt have their quantization beside config.json. */
static enum status read_modelopt(struct model *m, struct fail *fail)
{
	static const char name[] = "hf_quant_config.json";
	json_t *root = NULL;
	char *path = file_join(m->dir, name);
	enum status st = OK;
	if (file_exists(path))
		st = jsonfile_load(m->dir, name, MAX_CONFIG_BYTES, &root, fail);
	free(path);
	json_t *q = NULL;
	if (st == OK && root) {
		q = json_copy(json_object_get(root, "quantization"));
		if (!json_is_object(q))
			st = fail_at(fail, E_FORMAT, "quantization",
				     "%s: quantization is not an object", name);
		else
			json_object_set_new(q, "quant_method", json_string("modelopt"));
	}
	if (st == OK)
		st = quant_scheme_parse(q, &m->scheme, fail);
	json_decref(q);
	json_decref(root);
	return st;
}

static enum status read_config(struct model *m, struct fail *fail)
{
	json_t *root = NULL;
	enum status st = jsonfile_load(m->dir, "config.json", MAX_CONFIG_BYTES, &root,
				       fail);
	if (st == OK)
		st = model_config_read(root, &m->arena, &m->config, fail);
	if (st == OK) {
		const json_t *q = jsonfile_get(root, "quantization_config");
		if (!q) /* its name before 2024 */
			q = jsonfile_get(root, "compression_config");
		st = q ? quant_scheme_parse(q, &m->scheme, fail)
		       : read_modelopt(m, fail);
	}
	json_decref(root);
	return st;
}

static enum status read_defaults(struct model *m, struct fail *fail)
{
	static const char name[] = "generation_config.json";
	json_t *root = NULL;
	char *path = file_join(m->dir, name);
	enum status st = OK;
	if (file_exists(path))
		st = jsonfile_load(m->dir, name, MAX_CONFIG_BYTES, &root, fail);
	if (st == OK)
		st = model_defaults_read(root, &m->config, &m->defaults, fail);
	json_decref(root);
	free(path);
	return st;
}

static enum status read_tokenizer(struct model *m, struct fail *fail)
{
	struct tokenizer_files f = {0};
	enum status st = tokenizer_hf_load(m->dir, &f, fail);
	if (st != OK)
		return st;
	m->tokenizer = f.tokenizer;
	m->chat_template = f.chat_template;
	m->bos_text = f.bos_text;
	m->eos_text = f.eos_text;
	if (tokenizer_n_ids(m->tokenizer) > m->config.n_vocab)
		return fail_set(fail, E_FORMAT, "%s: tokenizer.json has %d ids, the "
				"model's vocabulary %d", m->dir,
				tokenizer_n_ids(m->tokenizer), m->config.n_vocab);
	return OK;
}

enum status model_open(const char *dir, const struct model_opts *opts,
		       struct model **out, struct fail *fail)
{
	static const struct model_opts plain = {.use_mmap = true};
	struct model *m = xcalloc(1, sizeof *m);
	m->dir = xstrdup(dir);
	arena_init(&m->arena, 0);
	m->is_mapped = !opts || opts->use_mmap;
	enum status st = read_config(m, fail);
	if (st == OK)
		st = read_defaults(m, fail);
	if (st == OK)
		st = read_tokenizer(m, fail);
	if (st == OK)
		st = tensors_open(dir, opts ? opts : &plain, &m->tensors, fail);
	if (st != OK) {
		model_close(m);
		return st;
	}
	*out = m;
	return OK;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	tensors_close(m->tensors);
	quant_scheme_destroy(m->scheme);
	tokenizer_destroy(m->tokenizer);
	free(m->chat_template);
	free(m->bos_text);
	free(m->eos_text);
	free(m->dir);
	arena_deinit(&m->arena);
	free(m);
}

bool model_has(const struct model *m, const char *name)
{
	struct expert_place place;
	return tensors_find(m->tensors, name) || quant_is_weight(m->tensors, name) ||
	       experts_find(m, name, 0, &place);
}

enum status model_weight(const struct model *m, const char *name, int32_t n,
			 int32_t k, struct weight *out, struct fail *fail)
{
	struct quant_want w = {m->tensors, name, n, k, {0}, NULL, NULL};
	struct expert_place place;
	struct quant_views views = {.n = 0};
	enum status st = quant_scheme_find(m->scheme, name, &w.choice, fail);
	if (st != OK)
		return st;
	if (experts_find(m, name, n, &place)) {
		w.name = place.name;
		w.part = &place.part;
		w.views = &views;
	}
	st = quant_open(&w, out, fail);
	if (st == OK)
		out->is_mapped = m->is_mapped;
	return st;
}

enum status model_vector(struct model *m, const char *name, int32_t n,
			 const float **out, struct fail *fail)
{
	const struct tensor *t = tensors_find(m->tensors, name);
	if (!t)
		return fail_set(fail, E_MISSING, "%s: tensor %s is missing", m->dir,
				name);
	if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 &&
	    t->dtype != DTYPE_BF16)
		return fail_set(fail, E_FORMAT, "%s: tensor %s is %s, not a number "
				"that fits", t->file, name, dtype_name(t->dtype));
	if (t->n_dims != 1 || t->dim[0] != n)
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not a vector of %d",
				t->file, name, n);
	float *v = arena_alloc(&m->arena, (size_t)n * sizeof *v);
	for (int32_t i = 0; i < n; i++)
		v[i] = blocks_float(t->data, t->dtype, (size_t)i);
	*out = v;
	return OK;
}

enum quant model_tensor_quant(const struct model *m, const struct tensor *t,
			      int64_t *out_n_weights)
{
	struct quant_choice c;
	char name[256];
	const char *dot = strrchr(t->name, '.');
	snprintf(name, sizeof name, "%.*s", (int)(dot ? dot - t->name : 0), t->name);
	/* A pattern too slow for this one was so when the layer was opened. */
	if (quant_scheme_find(m->scheme, name, &c, NULL) != OK)
		c = (struct quant_choice){0};
	return quant_of_tensor(t, &c, out_n_weights);
}

int64_t model_n_params(const struct model *m)
{
	int64_t n = 0, holds;
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		if (!str_starts(str_of(t->name), str_of(m->config.prefix)))
			continue;
		model_tensor_quant(m, t, &holds);
		n += holds;
	}
	return n;
}
