/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/agents_trace.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"

#define MAX_FILE ((size_t)16 << 20)
#define MAX_TEXT (1 << 24) /* bytes */
#define TOOL_BYTES 130 /* about what a tool has beside its description */

static const char *const words[] = {
	"the", "file", "of", "this", "test", "with", "and", "line",
	"value", "is", "in", "change", "to", "call", "list", "a",
	"then", "build", "name", "result", "read", "from", "first", "that",
	"error", "at", "string", "part", "return", "it", "code", "when",
};

/* --- texts ------------------------------------------------------------------ */

static void add_words(struct buf *b, uint64_t seed, size_t n)
{
	size_t end = b->n + n;
	uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
	while (b->n < end) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		buf_add_z(b, words[x >> 59]);
		buf_add_c(b, ' ');
	}
	b->n = end;
}

static enum status read_text(struct agents_trace *t, int i, const json_t *v, double scale,
			     struct fail *fail)
{
	json_int_t base = -1, keep = 0, more = json_integer_value(v);
	if (json_is_array(v)) {
		base = json_integer_value(json_array_get(v, 0));
		keep = json_integer_value(json_array_get(v, 1));
		more = json_integer_value(json_array_get(v, 2));
	} else if (!json_is_integer(v)) {
		more = -1;
	}
	if (more < 0 || more > MAX_TEXT || keep < 0 || (json_is_array(v) && base < 0) || base >= i)
		return fail_set(fail, E_FORMAT, "texts[%d] is neither a length nor [an earlier "
				"text, the length in common, the length behind]", i);
	size_t n_keep = (size_t)((double)keep * scale);
	struct buf b = {0};
	if (base >= 0 && n_keep > t->texts[base].n)
		return fail_set(fail, E_FORMAT, "texts[%d] has more in common with texts[%d] "
				"than that one is long", i, (int)base);
	if (base >= 0)
		buf_add(&b, t->texts[base].p, n_keep);
	add_words(&b, (uint64_t)i + 1, (size_t)((double)more * scale));
	t->texts[i].n = b.n;
	t->texts[i].p = buf_take(&b);
	return OK;
}

static enum status read_texts(struct agents_trace *t, double scale, struct fail *fail)
{
	const json_t *list = json_object_get(t->root, "texts");
	int n = (int)json_array_size(list);
	t->texts = xcalloc((size_t)n + 1, sizeof *t->texts);
	t->n_texts = n;
	for (int i = 0; i < n; i++) {
		enum status st = read_text(t, i, json_array_get(list, (size_t)i), scale, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

/* --- talks -------------------------------------------------------------------- */

static bool are_ids(const struct agents_trace *t, const json_t *ids)
{
	if (ids && !json_is_array(ids))
		return false;
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const json_t *v = json_array_get(ids, i);
		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) >= t->n_texts)
			return false;
	}
	return true;
}

static bool read_message(const struct agents_trace *t, const json_t *v, struct agents_message *out)
{
	static const char *const roles[] = {"system", "user", "assistant", "tool"};
	const char *role = json_string_value(json_object_get(v, "role"));
	for (size_t i = 0; role && i < ARRAY_LEN(roles); i++)
		if (strcmp(role, roles[i]) == 0)
			out->role = *role;
	out->answer_of = -1;
	out->text = json_object_get(v, "text");
	out->thinking = json_object_get(v, "thinking");
	out->calls = json_object_get(v, "calls");
	return out->role && are_ids(t, out->text) && are_ids(t, out->thinking) &&
	       are_ids(t, out->calls);
}

/* A request repeats the messages of the one before and adds to them. The first answer that it adds
 * is the answer to the one before. */
static enum status read_request(const struct agents_trace *t, struct agents_talk *talk, int i,
				const json_t *v, double scale, struct fail *fail)
{
	struct agents_request *r = &talk->requests[i], *before = i ? r - 1 : NULL;
	const json_t *add = json_object_get(v, "add"), *tools = json_object_get(v, "tools");
	json_int_t keep = json_integer_value(json_object_get(v, "keep"));
	if (keep < 0 || keep > (before ? before->n : 0) || !json_is_array(add) ||
	    keep + (json_int_t)json_array_size(add) == 0 || !are_ids(t, tools))
		return fail_set(fail, E_FORMAT, "requests[%d] has no messages, or keeps more "
				"than there are, or a tool that is no text", i);
	r->keep = (int)keep;
	r->n = (int)keep + (int)json_array_size(add);
	r->tools = tools ? tools : before ? before->tools : NULL;
	r->n_answer = (int)((double)json_integer_value(json_object_get(v, "answer")) * scale);
	r->messages = xcalloc((size_t)r->n, sizeof *r->messages);
	for (int k = 0; k < (int)keep; k++)
		r->messages[k] = before->messages[k];
	bool is_answered = !before || keep < before->n;
	for (int k = (int)keep; k < r->n; k++) {
		struct agents_message *m = &talk->messages[talk->n_messages];
		if (!read_message(t, json_array_get(add, (size_t)(k - (int)keep)), m))
			return fail_set(fail, E_FORMAT, "requests[%d].add[%d] is no message with "
					"texts that there are", i, k - (int)keep);
		if (m->role == 'a' && !is_answered) {
			m->answer_of = i - 1;
			is_answered = true;
		}
		m->serial = talk->n_messages++;
		r->messages[k] = m;
	}
	return OK;
}

static enum status read_talk(const struct agents_trace *t, int i, const json_t *v, double scale,
			     struct fail *fail)
{
	struct agents_talk *talk = &t->talks[i];
	const json_t *requests = json_object_get(v, "requests");
	const json_t *parent = json_object_get(v, "parent");
	size_t n = json_array_size(requests), n_messages = 0;
	talk->parent = parent ? (int)json_integer_value(parent) : -1;
	talk->after = (int)json_integer_value(json_object_get(v, "after"));
	if (n == 0 || talk->parent >= i || talk->parent < -1 ||
	    (talk->parent >= 0 &&
	     (talk->after < 0 || talk->after >= t->talks[talk->parent].n)))
		return fail_set(fail, E_FORMAT, "it has no requests, or no request of an "
				"earlier talk starts it");
	for (size_t k = 0; k < n; k++)
		n_messages += json_array_size(json_object_get(json_array_get(requests, k), "add"));
	talk->messages = xcalloc(n_messages + 1, sizeof *talk->messages);
	talk->requests = xcalloc(n, sizeof *talk->requests);
	talk->n = (int)n;
	for (size_t k = 0; k < n; k++) {
		enum status st = read_request(t, talk, (int)k, json_array_get(requests, k), scale,
					      fail);
		if (st != OK)
			return st;
	}
	return OK;
}

enum status agents_trace_read(const char *path, double scale, struct agents_trace *out,
			      struct fail *fail)
{
	struct buf file = {0};
	json_error_t error;
	*out = (struct agents_trace){0};
	enum status st = file_read(path, MAX_FILE, &file, fail);
	if (st != OK)
		return st;
	out->root = json_loadb(file.p ? file.p : "", file.n, 0, &error);
	buf_deinit(&file);
	const json_t *talks = json_object_get(out->root, "talks");
	if (!json_is_array(talks) || json_array_size(talks) == 0) {
		agents_trace_deinit(out);
		return fail_set(fail, E_FORMAT, "%s is no trace of agents: it has no \"talks\"",
				path);
	}
	st = read_texts(out, scale, fail);
	out->talks = xcalloc(json_array_size(talks), sizeof *out->talks);
	for (size_t i = 0; i < json_array_size(talks) && st == OK; i++) {
		char at[32];
		st = read_talk(out, (int)i, json_array_get(talks, i), scale, fail);
		out->n_talks = (int)i + 1;
		snprintf(at, sizeof at, "talks[%zu]", i);
		if (st != OK)
			fail_within(fail, st, at);
	}
	if (st != OK) {
		fail_within(fail, st, path);
		agents_trace_deinit(out);
	}
	return st;
}

void agents_trace_deinit(struct agents_trace *t)
{
	for (int i = 0; i < t->n_texts; i++)
		free((char *)t->texts[i].p);
	for (int i = 0; i < t->n_talks; i++) {
		for (int k = 0; k < t->talks[i].n; k++)
			free(t->talks[i].requests[k].messages);
		free(t->talks[i].requests);
		free(t->talks[i].messages);
	}
	free(t->texts);
	free(t->talks);
	json_decref(t->root);
	*t = (struct agents_trace){0};
}

/* --- bodies ------------------------------------------------------------------- */

static struct str text_at(const struct agents_trace *t, const json_t *ids, size_t i, int *out_id)
{
	*out_id = (int)json_integer_value(json_array_get(ids, i));
	return t->texts[*out_id];
}

/* Appends the texts, a line for each. */
static void add_texts(const struct agents_trace *t, const json_t *ids, struct buf *out)
{
	int id;
	for (size_t i = 0; i < json_array_size(ids); i++) {
		if (i > 0)
			buf_add_c(out, '\n');
		buf_add_str(out, text_at(t, ids, i, &id));
	}
}

static void add_tools(const struct agents_trace *t, const json_t *ids, struct agents_body *out)
{
	int id;
	if (json_array_size(ids) == 0)
		return;
	buf_add_z(&out->json, ",\"tools\":[");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		struct str text = text_at(t, ids, i, &id);
		text.n -= MIN(text.n, TOOL_BYTES);
		buf_addf(&out->json, "%s{\"type\":\"function\",\"function\":{\"name\":\"tool_%d\","
			 "\"description\":", i > 0 ? "," : "", id);
		buf_add_json(&out->json, text);
		buf_add_z(&out->json, ",\"parameters\":{\"type\":\"object\",\"properties\":"
			  "{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}}}");
	}
	buf_add_z(&out->json, "]");
}

static void flat_tools(const struct agents_trace *t, const json_t *ids, struct buf *flat)
{
	int id;
	for (size_t i = 0; i < json_array_size(ids); i++) {
		struct str text = text_at(t, ids, i, &id);
		buf_addf(flat, "\ntool_%d %*s", id, TOOL_BYTES, "");
		text.n -= MIN(text.n, TOOL_BYTES);
		buf_add_str(flat, text);
	}
}

/* The server's own id, by which it may find the call again, or else one of ours. */
static void add_call_id(const struct agents_message *m, size_t i, const char *own, struct buf *out)
{
	if (own)
		buf_add_json(out, str_of(own));
	else
		buf_addf(out, "\"call_%d_%zu\"", m->serial, i);
}

/* Call i of a message: what the server itself has called, or else the recorded text. */
static void call_words(const struct agents_trace *t, const struct agents_request *r,
		       const struct agents_message *m, size_t i, const json_t *said,
		       struct buf *out_name, struct buf *out_args)
{
	const json_t *own = json_object_get(json_array_get(said, i), "function");
	const char *name = json_string_value(json_object_get(own, "name"));
	const char *args = json_string_value(json_object_get(own, "arguments"));
	int id, tool = 0;
	if (name && args) {
		buf_add_z(out_name, name);
		buf_add_z(out_args, args);
		return;
	}
	if (json_array_size(r->tools))
		text_at(t, r->tools, 0, &tool);
	buf_addf(out_name, "tool_%d", tool);
	buf_add_z(out_args, "{\"text\":");
	buf_add_json(out_args, text_at(t, m->calls, i, &id));
	buf_add_z(out_args, "}");
}

static void add_calls(const struct agents_trace *t, const struct agents_request *r,
		      const struct agents_message *m, const json_t *said, struct agents_body *out)
{
	buf_add_z(&out->json, ",\"tool_calls\":[");
	for (size_t i = 0; i < json_array_size(m->calls); i++) {
		struct buf name = {0}, args = {0};
		const char *id = json_string_value(json_object_get(json_array_get(said, i), "id"));
		call_words(t, r, m, i, said, &name, &args);
		buf_add_z(&out->json, i > 0 ? ",{\"id\":" : "{\"id\":");
		add_call_id(m, i, id, &out->json);
		buf_add_z(&out->json, ",\"type\":\"function\",\"function\":{\"name\":");
		buf_add_json(&out->json, buf_str(&name));
		buf_add_z(&out->json, ",\"arguments\":");
		buf_add_json(&out->json, buf_str(&args));
		buf_add_z(&out->json, "}}");
		buf_add_z(&out->flat, "\ncall ");
		buf_add_str(&out->flat, buf_str(&args));
		buf_deinit(&name);
		buf_deinit(&args);
	}
	buf_add_z(&out->json, "]");
}

/* The call that message i, a tool's result, belongs to: those behind an answer belong to its
 * calls in their order. NULL: there is none. */
static const struct agents_message *call_of(const struct agents_request *r, int i, int *out_call)
{
	int k = i;
	while (k > 0 && r->messages[k]->role == 't')
		k--;
	*out_call = i - k - 1;
	return r->messages[k]->role == 'a' &&
	       *out_call < (int)json_array_size(r->messages[k]->calls) ? r->messages[k] : NULL;
}

static void add_message(const struct agents_trace *t, const struct agents_request *r, int i,
			const struct agents_answer *answers, struct agents_body *out)
{
	const struct agents_message *m = r->messages[i];
	static const struct agents_answer none;
	const struct agents_answer *said = m->answer_of >= 0 ? &answers[m->answer_of] : &none;
	int i_call = 0;
	const struct agents_message *asked = m->role == 't' ? call_of(r, i, &i_call) : NULL;
	const char *role = m->role == 's' ? "system" : m->role == 'a' ? "assistant" :
			   asked ? "tool" : "user";
	struct buf text = {0}, thinking = {0};
	if (said->text)
		buf_add_z(&text, said->text);
	else
		add_texts(t, m->text, &text);
	if (said->thinking)
		buf_add_z(&thinking, said->thinking);
	else
		add_texts(t, m->thinking, &thinking);
	buf_addf(&out->json, "{\"role\":\"%s\",\"content\":", role);
	buf_add_json(&out->json, buf_str(&text));
	buf_addf(&out->flat, "\n<%s>", role);
	if (thinking.n) {
		buf_add_z(&out->json, ",\"reasoning_content\":");
		buf_add_json(&out->json, buf_str(&thinking));
		buf_add_str(&out->flat, buf_str(&thinking));
	}
	buf_add_str(&out->flat, buf_str(&text));
	if (asked) {
		const json_t *own = asked->answer_of >= 0 ? answers[asked->answer_of].calls : NULL;
		buf_add_z(&out->json, ",\"tool_call_id\":");
		add_call_id(asked, (size_t)i_call, json_string_value(json_object_get(
				    json_array_get(own, (size_t)i_call), "id")), &out->json);
	}
	if (json_array_size(m->calls))
		add_calls(t, r, m, said->calls, out);
	buf_add_z(&out->json, "}");
	buf_deinit(&text);
	buf_deinit(&thinking);
}

void agents_render(const struct agents_trace *t, int talk, int request,
		   const struct agents_answer *answers, struct agents_body *out)
{
	const struct agents_request *r = &t->talks[talk].requests[request];
	buf_add_z(&out->json, "\"messages\":[");
	for (int i = 0; i < r->n; i++) {
		if (i == (r->messages[0]->role == 's'))
			flat_tools(t, r->tools, &out->flat);
		if (i > 0)
			buf_add_z(&out->json, ",");
		add_message(t, r, i, answers, out);
	}
	buf_add_z(&out->json, "]");
	add_tools(t, r->tools, out);
}

void agents_body_deinit(struct agents_body *b)
{
	buf_deinit(&b->json);
	buf_deinit(&b->flat);
}
