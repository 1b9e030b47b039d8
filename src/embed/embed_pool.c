/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/embed_pool.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/alloc.h"
#include "embed/embed_gguf.h"
#include "json/jsonfile.h"

#define MAX_BYTES ((size_t)1 << 20)

static const struct {
	const char *name; /* value of pooling_mode in newer files */
	const char *flag; /* the key that is true in older files */
	enum embed_pool_kind kind;
} kinds[] = {
	{"mean", "pooling_mode_mean_tokens", EMBED_POOL_MEAN},
	{"cls", "pooling_mode_cls_token", EMBED_POOL_CLS},
	{"lasttoken", "pooling_mode_lasttoken", EMBED_POOL_LAST},
};

/* Reads the config.json of the Pooling module. */
static enum status read_pooling(const char *dir, const json_t *file, struct embed_pool *out,
				struct fail *fail)
{
	const json_t *mode = jsonfile_get(file, "pooling_mode");
	int n_found = 0;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		bool is_it = mode ? json_is_string(mode) &&
				    strcmp(json_string_value(mode), kinds[i].name) == 0
				  : json_is_true(jsonfile_get(file, kinds[i].flag));
		if (is_it)
			out->kind = kinds[i].kind;
		n_found += is_it;
	}
	if (n_found != 1)
		return fail_at(fail, E_UNSUPPORTED, "pooling_mode",
			       "%s/config.json: only a pooling by mean, by the first token "
			       "(cls) or by the last token is supported", dir);
	return OK;
}

/* Reads the folder of a Dense module: its config.json and model.safetensors. */
static enum status read_dense(const char *dir, const json_t *file, struct embed_pool *out,
			      struct fail *fail)
{
	const json_t *act = jsonfile_get(file, "activation_function");
	const char *name = json_is_string(act) ? json_string_value(act) : "Tanh";
	const char *dot = strrchr(name, '.');
	bool is_tanh = strcmp(dot ? dot + 1 : name, "Tanh") == 0;
	struct tensors *ts = NULL;
	if (out->n_dense == EMBED_POOL_MAX_DENSE || out->normalizes)
		return fail_set(fail, E_UNSUPPORTED, "%s: such a place of a Dense module is not "
				"supported", dir);
	if (!is_tanh && strcmp(dot ? dot + 1 : name, "Identity") != 0)
		return fail_at(fail, E_UNSUPPORTED, "activation_function", "%s/config.json: "
			       "only Tanh and Identity are supported", dir);
	struct embed_dense *d = &out->dense[out->n_dense];
	enum status st = tensors_open(dir, &(struct model_opts){.use_mmap = true}, &ts, fail);
	if (st == OK) {
		out->n_dense++;
		st = embed_dense_read(ts, "linear", out->width, d, fail);
	}
	d->is_tanh = is_tanh;
	out->width = st == OK ? d->n_out : out->width;
	tensors_close(ts);
	return st;
}

/* Reads the settings of the Transformer module, if there are some. Older versions named the file
 * by the kind of model. */
static enum status read_transformer(const char *dir, struct embed_pool *out, struct fail *fail)
{
	static const char *const names[] = {
		"sentence_bert_config.json", "sentence_roberta_config.json",
		"sentence_distilbert_config.json", "sentence_camembert_config.json",
		"sentence_albert_config.json", "sentence_xlm-roberta_config.json",
		"sentence_xlnet_config.json"};
	enum status st = OK;
	json_t *file = NULL;
	for (size_t i = 0; !file && st == OK && i < ARRAY_LEN(names); i++) {
		char *path = file_join(dir, names[i]);
		if (file_exists(path))
			st = jsonfile_load(dir, names[i], MAX_BYTES, &file, fail);
		free(path);
	}
	json_int_t most = json_integer_value(jsonfile_get(file, "max_seq_length"));
	out->max_tok = most > 0 && most <= INT32_MAX ? (int32_t)most : 0;
	out->lowers = json_is_true(jsonfile_get(file, "do_lower_case"));
	json_decref(file);
	return st;
}

/* Reads one module of modules.json. Its type is a Python class, and the last part of the name
 * says which. */
static enum status read_module(const struct model *m, const json_t *module,
			       struct embed_pool *out, struct fail *fail)
{
	const json_t *type = jsonfile_get(module, "type");
	const json_t *path = jsonfile_get(module, "path");
	const char *class = json_is_string(type) ? json_string_value(type) : "";
	const char *dot = strrchr(class, '.');
	class = dot ? dot + 1 : class;
	if (strcmp(class, "Normalize") == 0) {
		out->normalizes = true;
		return OK;
	}
	bool is_dense = strcmp(class, "Dense") == 0, is_body = strcmp(class, "Transformer") == 0;
	if ((!is_dense && !is_body && strcmp(class, "Pooling") != 0) || !json_is_string(path))
		return fail_at(fail, E_UNSUPPORTED, "type",
			       "%s/modules.json: a module of type \"%.40s\" is not supported, "
			       "only Transformer, Pooling, Dense and Normalize", m->dir, class);
	json_t *file = NULL;
	char *dir = file_join(m->dir, json_string_value(path));
	enum status st = is_body ? read_transformer(dir, out, fail)
				 : jsonfile_load(dir, "config.json", MAX_BYTES, &file, fail);
	if (st == OK && !is_body)
		st = is_dense ? read_dense(dir, file, out, fail)
			      : read_pooling(dir, file, out, fail);
	json_decref(file);
	free(dir);
	return st;
}

/* Reads modules.json. It is a list, and jsonfile reads only objects, so the list is wrapped in
 * one. */
static enum status read_modules(const struct model *m, const char *path,
				struct embed_pool *out, struct fail *fail)
{
	struct buf text = {0}, whole = {0};
	json_t *root = NULL;
	enum status st = file_read(path, MAX_BYTES, &text, fail);
	if (st == OK) {
		buf_add_z(&whole, "{\"modules\":");
		buf_add(&whole, text.p, text.n);
		buf_add_c(&whole, '}');
		st = jsonfile_parse(buf_str(&whole), path, JSON_TEXT_PYTHON, &root, fail);
	}
	const json_t *list = st == OK ? jsonfile_get(root, "modules") : NULL;
	if (st == OK && !json_is_array(list))
		st = fail_set(fail, E_FORMAT, "%s is not a list", path);
	out->normalizes = false;
	for (size_t i = 0; st == OK && i < json_array_size(list); i++)
		st = read_module(m, json_array_get(list, i), out, fail);
	json_decref(root);
	buf_deinit(&text);
	buf_deinit(&whole);
	return st;
}

enum status embed_pool_read(const struct model *m, struct embed_pool *out, struct fail *fail)
{
	*out = (struct embed_pool){.kind = EMBED_POOL_LAST, .normalizes = true,
				   .width = m->config.d_model};
	if (tensors_gguf(m->tensors))
		return embed_gguf_pooling(m, out, fail);
	char *path = file_join(m->dir, "modules.json");
	enum status st = OK;
	out->is_said = file_exists(path);
	if (out->is_said)
		st = read_modules(m, path, out, fail);
	else if (m->config.is_encoder)
		st = fail_set(fail, E_UNSUPPORTED, "%s is an encoder without modules.json, "
			      "which says how it makes a vector of a text", m->dir);
	free(path);
	return st;
}

enum status embed_pool_read_head(const struct model *m, struct embed_pool *out,
				 struct fail *fail)
{
	static const char *const names[] = {"classifier.dense", "classifier.out_proj"};
	enum status st = OK;
	*out = (struct embed_pool){.kind = EMBED_POOL_CLS, .width = m->config.d_model};
	for (; out->n_dense < 2 && st == OK; out->n_dense++) {
		struct embed_dense *d = &out->dense[out->n_dense];
		st = embed_dense_read(m->tensors, names[out->n_dense], out->width, d, fail);
		d->is_tanh = out->n_dense == 0;
		out->width = d->n_out;
	}
	return st != OK || out->width == 1
		       ? st
		       : fail_set(fail, E_UNSUPPORTED, "%s is not a reranker: its head makes %d "
				  "numbers", m->dir, (int)out->width);
}

void embed_pool_deinit(struct embed_pool *p)
{
	for (int i = 0; i < p->n_dense; i++)
		embed_dense_deinit(&p->dense[i]);
}

/* --- arithmetic ---------------------------------------------------------------- */

void embed_pool_add(const struct embed_pool *p, const struct embed_rows *r, float *sum)
{
	for (int32_t i = 0; i < r->n; i++) {
		int32_t position = r->first + i;
		bool is_used = p->kind == EMBED_POOL_MEAN ||
			       position == (p->kind == EMBED_POOL_CLS ? 0 : r->n_text - 1);
		for (int32_t d = 0; is_used && d < r->dim; d++)
			sum[d] += r->rows[(size_t)i * (size_t)r->dim + (size_t)d];
	}
}

void embed_pool_normalize(float *v, int32_t dim)
{
	double sum = 0;
	for (int32_t d = 0; d < dim; d++)
		sum += (double)v[d] * v[d];
	double scale = sum > 0 ? 1 / sqrt(sum) : 1;
	for (int32_t d = 0; d < dim; d++)
		v[d] = (float)(v[d] * scale);
}

/* Runs the layers after the pooling, from x (dim) to out. */
static void run_dense(const struct embed_pool *p, const float *x, float *out)
{
	float *wide[2] = {NULL, NULL};
	for (int i = 0; i < p->n_dense; i++) {
		const struct embed_dense *d = &p->dense[i];
		bool is_last = i + 1 == p->n_dense;
		float **to = &wide[i % 2];
		if (!is_last)
			*to = xrealloc(*to, (size_t)d->n_out * sizeof **to);
		embed_dense_run(d, x, is_last ? out : *to);
		x = *to;
	}
	free(wide[0]);
	free(wide[1]);
}

void embed_pool_end(const struct embed_pool *p, int32_t n_text, int32_t dim, float *sum,
		    float *out)
{
	for (int32_t d = 0; p->kind == EMBED_POOL_MEAN && d < dim; d++)
		sum[d] /= (float)n_text;
	if (p->n_dense)
		run_dense(p, sum, out);
	else
		memcpy(out, sum, (size_t)dim * sizeof *out);
	if (p->normalizes)
		embed_pool_normalize(out, p->width);
}
