/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/model_config.h"
#include "json/jsonfile.h"

#define FILE_NAME "generation_config.json"

static enum status add_id(int64_t id, const char *file, const char *key,
			  int32_t n_vocab, int32_t *ids, int *n,
			  struct fail *fail)
{
	if (id < 0 || id >= n_vocab)
		return fail_at(fail, E_FORMAT, key,
			       "%s: %s must be an id below %d, or a list of such",
			       file, key, n_vocab);
	for (int i = 0; i < *n; i++)
		if (ids[i] == id)
			return OK;
	if (*n == MODEL_MAX_EOS)
		return fail_at(fail, E_UNSUPPORTED, key,
			       "%s: %s has more than %d ids", file, key, *n);
	ids[(*n)++] = (int32_t)id;
	return OK;
}

enum status model_ids_read(const json_t *v, const char *file, const char *key,
			   int32_t n_vocab, int32_t *ids, int *n,
			   struct fail *fail)
{
	size_t count = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
	for (size_t i = 0; i < count; i++) {
		const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
		/* A value that is not an integer becomes -1, which add_id refuses. */
		int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
		enum status st = add_id(value, file, key, n_vocab, ids, n, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

/* If the key is absent, *out keeps its value. */
static enum status read_number(const json_t *root, const char *key, double min,
			       double max, float *out, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, key);
	if (!v)
		return OK;
	double d = json_number_value(v);
	if (!json_is_number(v) || !(d >= min && d <= max))
		return fail_at(fail, E_FORMAT, key,
			       FILE_NAME ": %s must be a number from %g to %g", key,
			       min, max);
	*out = (float)d;
	return OK;
}

static enum status read_sampling(const json_t *root,
				 struct generation_defaults *d,
				 struct fail *fail)
{
	float top_k = -1;
	enum status st = read_number(root, "temperature", 0, 100, &d->temperature,
				     fail);
	if (st == OK)
		st = read_number(root, "top_p", 1e-9, 1, &d->top_p, fail);
	if (st == OK)
		st = read_number(root, "min_p", 0, 1, &d->min_p, fail);
	if (st == OK)
		st = read_number(root, "repetition_penalty", 1e-3, 1e3,
				 &d->repetition_penalty, fail);
	if (st == OK)
		st = read_number(root, "top_k", -1, 1 << 24, &top_k, fail);
	d->top_k = (int32_t)top_k;
	return st;
}

enum status model_defaults_read(const json_t *root, const struct model_config *c,
				struct generation_defaults *out,
				struct fail *fail)
{
	struct generation_defaults d = {.temperature = NAN, .top_p = NAN,
					.min_p = NAN, .repetition_penalty = NAN,
					.top_k = -1};
	enum status st = read_sampling(root, &d, fail);
	if (st == OK)
		st = model_ids_read(jsonfile_get(root, "eos_token_id"), FILE_NAME,
				    "eos_token_id", c->n_vocab, d.eos_ids, &d.n_eos,
				    fail);
	if (st != OK)
		return st;
	for (int i = 0; i < c->n_eos; i++) {
		st = add_id(c->eos_ids[i], FILE_NAME, "eos_token_id", c->n_vocab,
			    d.eos_ids, &d.n_eos, fail);
		if (st != OK)
			return st;
	}
	*out = d;
	return OK;
}
