/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/embed_gguf.h"

#include <stdio.h>

#include "base/alloc.h"
#include "model/gguf.h"

/* Values of pooling_type. */
enum { UNSAID = -1, MEAN = 1, CLS = 2, LAST = 3, RANK = 4 };

enum { MAX_KEY = 120, MAX_WIDTH = 1 << 16 };

/* The value of the architecture's key `name`, or NULL. key gets its whole name. */
static const struct gguf_value *embed_gguf_find(const struct model *m, const char *name,
						char key[MAX_KEY])
{
	const struct gguf *g = tensors_gguf(m->tensors);
	const struct gguf_value *v = gguf_find(g, "general.architecture");
	struct str arch;
	if (!v || !gguf_string(v, &arch))
		return NULL;
	snprintf(key, MAX_KEY, "%.*s.%s", (int)MIN(arch.n, 60), arch.p, name);
	return gguf_find(g, key);
}

static enum status read_type(const struct model *m, char key[MAX_KEY], int64_t *out,
			     struct fail *fail)
{
	const struct gguf_value *v = embed_gguf_find(m, "pooling_type", key);
	*out = UNSAID;
	if (v && (v->is_array || !gguf_integer(v, 0, out)))
		return fail_at(fail, E_FORMAT, key, "%s: %s is %s, not an integer", m->dir, key,
			       gguf_type_name(v));
	if (*out == UINT32_MAX) /* -1 in 32 bits, as llama.cpp saves it */
		*out = UNSAID;
	return OK;
}

/* Reads NAME.weight (n, k) in any format, without a bias, and appends it to the layers. */
static enum status read_layer(const struct model *m, const char *name, int32_t n,
			      struct embed_pool *out, struct fail *fail)
{
	struct embed_dense *d = &out->dense[out->n_dense];
	struct weight w;
	enum status st = model_weight(m, name, n, out->width, &w, fail);
	if (st != OK)
		return st;
	*d = (struct embed_dense){.n_in = out->width, .n_out = n};
	d->w = xmalloc((size_t)n * (size_t)out->width * sizeof *d->w);
	weight_decode(&w, 0, n, d->w);
	out->n_dense++;
	out->width = n;
	return OK;
}

/* The layers after the pooling. A file may lack them, as llama.cpp's converter writes them only
 * if it is told to. */
static enum status read_dense(const struct model *m, struct embed_pool *out, struct fail *fail)
{
	static const char *const names[] = {"dense_2", "dense_3"};
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(names) && st == OK; i++) {
		char full[40];
		snprintf(full, sizeof full, "%s.weight", names[i]);
		const struct tensor *t = tensors_find(m->tensors, full);
		if (t && (t->n_dims != 2 || t->dim[0] < 1 || t->dim[0] > MAX_WIDTH))
			st = fail_at(fail, E_FORMAT, full, "%s: tensor %s is no matrix of 1 to "
				     "%d rows", m->dir, full, MAX_WIDTH);
		else if (t)
			st = read_layer(m, names[i], (int32_t)t->dim[0], out, fail);
	}
	return st;
}

enum status embed_gguf_pooling(const struct model *m, struct embed_pool *out,
			       struct fail *fail)
{
	static const enum embed_pool_kind kinds[] = {
		[MEAN] = EMBED_POOL_MEAN, [CLS] = EMBED_POOL_CLS, [LAST] = EMBED_POOL_LAST};
	char key[MAX_KEY];
	int64_t type;
	enum status st = read_type(m, key, &type, fail);
	if (st == OK)
		st = read_dense(m, out, fail);
	if (st != OK || (type == UNSAID && !m->config.is_encoder))
		return st;
	if (type == UNSAID)
		return fail_at(fail, E_MISSING, key, "%s: %s is missing, and an encoder needs "
			       "it: 1 (mean), 2 (first token) or 3 (last token)", m->dir, key);
	if (type == RANK)
		return fail_at(fail, E_UNSUPPORTED, key, "%s: %s 4 (rank): it is a reranker; "
			       "name it with rerank_model", m->dir, key);
	if (type != MEAN && type != CLS && type != LAST)
		return fail_at(fail, E_UNSUPPORTED, key, "%s: %s %lld says no pooling that is "
			       "known here; set it as the model was trained, to 1 (mean), "
			       "2 (first token) or 3 (last token)", m->dir, key,
			       (long long)type);
	out->kind = kinds[type];
	out->is_said = true;
	return OK;
}

/* Which row of the head is that of "yes". A file that says no labels has it first. */
static enum status read_labels(const struct model *m, int32_t *out_yes, struct fail *fail)
{
	char key[MAX_KEY];
	const struct gguf_value *v = embed_gguf_find(m, "classifier.output_labels", key);
	struct str label[2] = {STR("yes"), STR("no")};
	bool is_list = !v || (v->is_array && v->type == GGUF_STRING && v->n == 2);
	const char *at = v ? v->p : NULL;
	for (int i = 0; v && is_list && i < 2; i++)
		label[i] = gguf_next_string(&at);
	*out_yes = str_is(label[0], "yes") ? 0 : 1;
	if (!is_list || !str_is(label[*out_yes], "yes") || !str_is(label[1 - *out_yes], "no"))
		return fail_at(fail, E_UNSUPPORTED, key, "%s: %s: only a reranker that says "
			       "\"yes\" or \"no\" is supported", m->dir, key);
	return OK;
}

enum status embed_gguf_head(const struct model *m, struct embed_pool *out, struct fail *fail)
{
	static const char name[] = "cls.output";
	char key[MAX_KEY];
	int64_t type;
	int32_t width = m->config.d_model, yes = 0;
	enum status st = read_type(m, key, &type, fail);
	if (st == OK && type >= MEAN && type <= LAST)
		st = fail_at(fail, E_UNSUPPORTED, key, "%s: %s %d: it is an embedding model; "
			     "name it with embedding_model", m->dir, key, (int)type);
	if (st != OK || !tensors_find(m->tensors, "cls.output.weight"))
		return st;
	if (tensors_find(m->tensors, "cls.weight") || tensors_find(m->tensors, "cls.output.bias"))
		return fail_at(fail, E_UNSUPPORTED, name, "%s: a reranker with cls.weight or "
			       "cls.output.bias is not supported", m->dir);
	*out = (struct embed_pool){.kind = EMBED_POOL_LAST, .width = width};
	st = read_labels(m, &yes, fail);
	if (st == OK)
		st = read_layer(m, name, 2, out, fail);
	for (int32_t i = 0; st == OK && yes && i < width; i++) {
		float *row = out->dense[0].w, no = row[i];
		row[i] = row[width + i];
		row[width + i] = no;
	}
	return st;
}
