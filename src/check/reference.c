/* SPDX-License-Identifier: Apache-2.0 */
#include "check/reference.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define MAX_BYTES ((size_t)1 << 30)
#define MAX_TOKENS (1 << 24) /* of one case */

struct reference_reader {
	struct reference *r;
	int i_case;
	const char *path;
	struct fail *fail;
};

static enum status reference_bad(const struct reference_reader *rd, const char *key)
{
	return fail_at(rd->fail, E_FORMAT, key, "%s: cases[%d].%s is not as it "
		       "should be", rd->path, rd->i_case, key);
}

static bool read_id(const struct reference_reader *rd, const json_t *v, int32_t *out)
{
	json_int_t id = json_integer_value(v);
	if (!json_is_integer(v) || id < 0 || id > INT32_MAX)
		return false;
	*out = (int32_t)id;
	rd->r->max_id = MAX(rd->r->max_id, *out);
	return true;
}

static enum status read_tokens(const struct reference_reader *rd, const json_t *c,
			       struct reference_case *out)
{
	const json_t *prompt = json_object_get(c, "prompt_ids");
	const json_t *next = json_object_get(c, "continuation_ids");
	size_t n_prompt = json_array_size(prompt), n_next = json_array_size(next);
	if (n_prompt < 1 || n_prompt > MAX_TOKENS)
		return reference_bad(rd, "prompt_ids");
	if (n_next > MAX_TOKENS)
		return reference_bad(rd, "continuation_ids");
	int32_t *ids = arena_alloc(&rd->r->arena, (n_prompt + n_next) * sizeof *ids);
	for (size_t i = 0; i < n_prompt; i++)
		if (!read_id(rd, json_array_get(prompt, i), &ids[i]))
			return reference_bad(rd, "prompt_ids");
	for (size_t i = 0; i < n_next; i++)
		if (!read_id(rd, json_array_get(next, i), &ids[n_prompt + i]))
			return reference_bad(rd, "continuation_ids");
	out->ids = ids;
	out->n_prompt = (int)n_prompt;
	out->n_next = (int)n_next;
	rd->r->max_tok = MAX(rd->r->max_tok, out->n_prompt + out->n_next);
	return OK;
}

static enum status read_logprobs(const struct reference_reader *rd, const json_t *c,
				 struct reference_case *out)
{
	const json_t *list = json_object_get(c, "prompt_logprobs");
	size_t n = (size_t)out->n_prompt - 1;
	if (!list)
		return OK;
	if (!json_is_array(list) || json_array_size(list) != n)
		return reference_bad(rd, "prompt_logprobs");
	double *v = arena_alloc(&rd->r->arena, n * sizeof *v);
	for (size_t i = 0; i < n; i++) {
		if (!json_is_number(json_array_get(list, i)))
			return reference_bad(rd, "prompt_logprobs");
		v[i] = json_number_value(json_array_get(list, i));
	}
	out->logprobs = v;
	return OK;
}

static bool read_top(const struct reference_reader *rd, const json_t *step,
		     struct reference_step *out)
{
	const json_t *top = json_object_get(step, "top");
	size_t n = json_array_size(top);
	if (n < 1 || n > REFERENCE_MAX_TOP)
		return false;
	out->n_top = (int)n;
	for (size_t i = 0; i < n; i++) {
		const json_t *pair = json_array_get(top, i);
		const json_t *logprob = json_array_get(pair, 1);
		if (!read_id(rd, json_array_get(pair, 0), &out->id[i]) ||
		    !json_is_number(logprob))
			return false;
		out->logprob[i] = json_number_value(logprob);
	}
	return true;
}

static enum status read_steps(const struct reference_reader *rd, const json_t *c,
			      struct reference_case *out)
{
	const json_t *list = json_object_get(c, "steps");
	if (json_array_size(list) != (size_t)out->n_next)
		return reference_bad(rd, "steps");
	struct reference_step *steps = arena_alloc(
		&rd->r->arena, (size_t)out->n_next * sizeof *steps);
	for (int i = 0; i < out->n_next; i++)
		if (!read_top(rd, json_array_get(list, (size_t)i), &steps[i]))
			return reference_bad(rd, "steps");
	out->steps = steps;
	return OK;
}

static enum status read_text(const struct reference_reader *rd, const json_t *c,
			     const char *key, const char **out)
{
	const json_t *v = json_object_get(c, key);
	if (v && !json_is_string(v))
		return reference_bad(rd, key);
	*out = v ? arena_strdup(&rd->r->arena, json_string_value(v)) : NULL;
	return OK;
}

static enum status read_case(const struct reference_reader *rd, const json_t *c,
			     struct reference_case *out)
{
	enum status st = read_tokens(rd, c, out);
	if (st == OK)
		st = read_logprobs(rd, c, out);
	if (st == OK)
		st = read_steps(rd, c, out);
	if (st == OK)
		st = read_text(rd, c, "prompt", &out->prompt);
	if (st == OK)
		st = read_text(rd, c, "text", &out->text);
	return st;
}

static enum status read_peer(const struct reference_reader *rd, const json_t *root)
{
	const json_t *peer = json_object_get(root, "peer");
	double max = json_number_value(json_object_get(peer, "max"));
	double mean = json_number_value(json_object_get(peer, "mean"));
	if (peer && !(mean > 0 && max >= mean && max <= 100))
		return fail_at(rd->fail, E_FORMAT, "peer", "%s: peer is no largest and mean "
			       "difference", rd->path);
	rd->r->peer_max = max;
	rd->r->peer_mean = mean;
	return OK;
}

static enum status read_cases(struct reference_reader *rd, const json_t *root)
{
	const json_t *cases = json_object_get(root, "cases");
	size_t n = json_array_size(cases);
	if (n < 1 || n > 1 << 20)
		return fail_at(rd->fail, E_FORMAT, "cases",
			       "%s: there is no list of cases", rd->path);
	rd->r->cases = arena_alloc(&rd->r->arena, n * sizeof *rd->r->cases);
	for (size_t i = 0; i < n; i++) {
		rd->i_case = (int)i;
		enum status st = read_case(rd, json_array_get(cases, i),
					   &rd->r->cases[rd->r->n_cases++]);
		if (st != OK)
			return st;
	}
	return OK;
}

enum status reference_load(const char *path, struct reference *out,
			   struct fail *fail)
{
	struct buf text = {0};
	json_t *root = NULL;
	*out = (struct reference){0};
	arena_init(&out->arena);
	enum status st = file_read(path, MAX_BYTES, &text, fail);
	if (st == OK) {
		json_error_t e;
		root = json_loadb(text.p ? text.p : "", text.n, 0, &e);
		if (!root)
			st = fail_set(fail, E_FORMAT, "%s, line %d: %s", path, e.line,
				      e.text);
	}
	struct reference_reader rd = {out, 0, path, fail};
	if (st == OK)
		st = read_cases(&rd, root);
	if (st == OK)
		st = read_peer(&rd, root);
	if (st != OK)
		reference_deinit(out);
	json_decref(root);
	buf_deinit(&text);
	return st;
}

void reference_deinit(struct reference *r)
{
	arena_deinit(&r->arena);
	*r = (struct reference){0};
}
