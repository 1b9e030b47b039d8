/* SPDX-License-Identifier: Apache-2.0
 *
 * `verify --answers`: are the answers of a running server those of a sound model?
 *
 * Each check is a request that a client would send, so it goes through HTTP, the chat
 * template, the tokenizer, the engine and the sampler. Any chat model that was trained
 * passes by rules; a model with a reference.json must also give its texts exactly.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "ctl/answer_rules.h"
#include "ctl/command.h"
#include "ctl/load.h"
#include "ctl/options.h"
#include "ctl/post.h"
#include "check/reference.h"

struct answers_args {
	const char *url, *model, *api_key, *reference;
	int64_t timeout_s, max_tokens;
	bool answers, json;
};

/* The results that a check may have. */
enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_SKIP };
static const char *const verdict_name[] = {"pass", "FAIL", "skip"};

struct answers_run {
	const struct answers_args *a;
	const char *model;
	struct post chat, completions;
	char said[400]; /* what the running check saw, for the report */
	json_t *rows;
	int n_failed;
};

/* --- requests ---------------------------------------------------------------- */

static json_t *question(const struct answers_run *r, const char *text)
{
	return json_pack("{s:s, s:i, s:i, s:[{s:s, s:s}]}", "model", r->model, "temperature",
			 0, "max_tokens", (int)r->a->max_tokens, "messages", "role", "user",
			 "content", text);
}

static enum verdict failed(struct answers_run *r, const char *why)
{
	snprintf(r->said, sizeof r->said, "%.*s", (int)sizeof r->said - 1, why);
	return VERDICT_FAIL;
}

/* The message of an answer's only choice; NULL: there is none, and `said` tells why. */
static json_t *message_of(struct answers_run *r, const struct post_answer *a)
{
	json_t *m = json_object_get(
		json_array_get(json_object_get(a->body, "choices"), 0), "message");
	if (a->status != 200 || !m)
		failed(r, *a->error ? a->error : "the answer has no message");
	return a->status == 200 ? m : NULL;
}

/* Sends the request `body`, which it frees. False: no message came, and `said` tells why. */
static bool ask(struct answers_run *r, json_t *body, struct post_answer *out, json_t **message)
{
	struct fail fail = {0};
	bool good = post_json(&r->chat, &body, 1, out, &fail) == OK;
	json_decref(body);
	if (!good)
		failed(r, fail.text);
	*message = good ? message_of(r, out) : NULL;
	return *message != NULL;
}

static struct str content_of(const json_t *message)
{
	const char *text = json_string_value(json_object_get(message, "content"));
	return str_of(text ? text : "");
}

static void show(struct answers_run *r, struct str text)
{
	snprintf(r->said, sizeof r->said, "%.*s", (int)MIN(text.n, 120), text.p);
	for (char *p = r->said; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
}

/* --- checks ------------------------------------------------------------------ */

static enum verdict check_word(struct answers_run *r, const char *text, const char *word,
			       const char *other)
{
	struct post_answer a = {0};
	json_t *m;
	enum verdict v = VERDICT_FAIL;
	if (ask(r, question(r, text), &a, &m)) {
		struct str said = content_of(m);
		show(r, said);
		v = answer_has_word(said, word) || answer_has_word(said, other)
			    ? VERDICT_PASS : VERDICT_FAIL;
	}
	post_answer_deinit(&a);
	return v;
}

static enum verdict check_sum(struct answers_run *r)
{
	return check_word(r, "What is 2+2? Answer in one word.", "four", "4");
}

static enum verdict check_fact(struct answers_run *r)
{
	return check_word(r, "What is the capital of France? Answer in one word.", "Paris",
			  "Paris");
}

static enum verdict check_story(struct answers_run *r)
{
	struct post_answer a = {0};
	json_t *m;
	enum verdict v = VERDICT_FAIL;
	if (ask(r, question(r, "Tell me a short story about a fox."), &a, &m)) {
		struct str said = content_of(m);
		const char *fault = answer_story_fault(said);
		show(r, said);
		if (fault)
			failed(r, fault);
		v = fault ? VERDICT_FAIL : VERDICT_PASS;
	}
	post_answer_deinit(&a);
	return v;
}

static json_t *weather_tools(void)
{
	return json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s}}, s:[s]}}}]", "type",
			 "function", "function", "name", "get_current_weather", "description",
			 "Look up the weather", "parameters", "type", "object", "properties",
			 "city", "type", "string", "required", "city");
}

static enum verdict judge_call(struct answers_run *r, const json_t *message)
{
	const json_t *f = json_object_get(
		json_array_get(json_object_get(message, "tool_calls"), 0), "function");
	const char *name = json_string_value(json_object_get(f, "name"));
	const char *text = json_string_value(json_object_get(f, "arguments"));
	json_t *args = json_loads(text ? text : "", 0, NULL);
	const char *city = json_string_value(json_object_get(args, "city"));
	bool good = name && strcmp(name, "get_current_weather") == 0 && city &&
		    answer_has_word(str_of(city), "Paris");
	if (!name)
		failed(r, "the model called no tool");
	else
		snprintf(r->said, sizeof r->said, "%.100s(%.200s)", name, text ? text : "");
	json_decref(args);
	return good ? VERDICT_PASS : VERDICT_FAIL;
}

static enum verdict check_tool(struct answers_run *r)
{
	struct post_answer a = {0};
	json_t *m, *body = question(r, "What is the weather in Paris?");
	json_object_set_new(body, "tools", weather_tools());
	enum verdict v = VERDICT_FAIL;
	if (ask(r, body, &a, &m))
		v = judge_call(r, m);
	else if (a.status == 400 || a.status == 501) /* the model's template has no tools */
		v = VERDICT_SKIP;
	post_answer_deinit(&a);
	return v;
}

static enum verdict check_schema(struct answers_run *r)
{
	struct post_answer a = {0};
	json_t *m, *body = question(r, "Maria is 31 years old. Give her name and age as JSON.");
	json_object_set_new(
		body, "response_format",
		json_pack("{s:s, s:{s:s, s:b, s:{s:s, s:{s:{s:s}, s:{s:s}}, s:[s,s], s:b}}}",
			  "type", "json_schema", "json_schema", "name", "person", "strict", 1,
			  "schema", "type", "object", "properties", "name", "type", "string",
			  "age", "type", "integer", "required", "name", "age",
			  "additionalProperties", 0));
	enum verdict v = VERDICT_FAIL;
	if (ask(r, body, &a, &m)) {
		struct str said = content_of(m);
		json_t *o = json_loadb(said.p, said.n, 0, NULL);
		show(r, said);
		if (json_object_size(o) == 2 && json_is_string(json_object_get(o, "name")) &&
		    json_is_integer(json_object_get(o, "age")))
			v = VERDICT_PASS;
		json_decref(o);
	}
	post_answer_deinit(&a);
	return v;
}

/* A streamed answer must have the same text as the answer in one piece. */
static enum verdict check_stream(struct answers_run *r)
{
	struct fail fail = {0};
	struct post_answer whole = {0}, parts = {0};
	struct buf text = {0};
	json_t *m, *body = question(r, "Tell me a short story about a dog.");
	enum verdict v = VERDICT_FAIL;
	if (!ask(r, json_copy(body), &whole, &m))
		goto out;
	json_object_set_new(body, "stream", json_true());
	if (post_stream(&r->chat, body, &parts, &fail) != OK || *parts.error) {
		failed(r, *parts.error ? parts.error : fail.text);
		goto out;
	}
	size_t i;
	json_t *chunk;
	json_array_foreach(parts.body, i, chunk) {
		json_t *delta = json_object_get(
			json_array_get(json_object_get(chunk, "choices"), 0), "delta");
		buf_add_str(&text, content_of(delta));
	}
	struct str want = content_of(m), got = buf_str(&text);
	v = want.n && str_eq(got, want) ? VERDICT_PASS : VERDICT_FAIL;
	if (v == VERDICT_PASS)
		snprintf(r->said, sizeof r->said, "%zu chunks", json_array_size(parts.body));
	else
		failed(r, "the streamed text is another than the whole one");
out:
	json_decref(body);
	buf_deinit(&text);
	post_answer_deinit(&whole);
	post_answer_deinit(&parts);
	return v;
}

/* Four questions at the same time must get the answers that each gets alone. */
static enum verdict check_batch(struct answers_run *r)
{
	enum { N = 4 };
	static const char *const text[N] = {
		"Tell me a short story about a cat.", "Name three colors.",
		"What is 7+5? Answer in one word.", "What is the capital of Italy?"};
	struct post_answer one[N] = {{0}}, all[N] = {{0}};
	json_t *body[N], *m;
	struct fail fail = {0};
	bool good = true;
	int n_same = 0;
	for (int i = 0; i < N; i++)
		body[i] = question(r, text[i]);
	for (int i = 0; i < N && good; i++)
		good = ask(r, json_copy(body[i]), &one[i], &m);
	if (good && post_json(&r->chat, body, N, all, &fail) != OK)
		good = false;
	for (int i = 0; i < N && good; i++) {
		json_t *alone = message_of(r, &one[i]);
		m = message_of(r, &all[i]);
		good = m && alone;
		n_same += good && str_eq(content_of(m), content_of(alone));
	}
	if (good)
		snprintf(r->said, sizeof r->said, "%d of %d answers are the same as alone",
			 n_same, N);
	for (int i = 0; i < N; i++) {
		json_decref(body[i]);
		post_answer_deinit(&one[i]);
		post_answer_deinit(&all[i]);
	}
	return good && n_same == N ? VERDICT_PASS : VERDICT_FAIL;
}

/* True if the server continues a case's token ids with the reference's text. */
static bool is_case_right(struct answers_run *r, const struct reference_case *c)
{
	struct fail fail = {0};
	struct post_answer a = {0};
	json_t *ids = json_array();
	for (int i = 0; i < c->n_prompt; i++)
		json_array_append_new(ids, json_integer(c->ids[i]));
	/* The reference's texts may contain the token that ends an answer. */
	json_t *body = json_pack("{s:s, s:i, s:i, s:o, s:b, s:b}", "model", r->model,
				 "temperature", 0, "max_tokens", c->n_next, "prompt", ids,
				 "ignore_eos", 1, "skip_special_tokens", 0);
	bool good = post_json(&r->completions, &body, 1, &a, &fail) == OK && a.status == 200;
	const char *text = json_string_value(json_object_get(
		json_array_get(json_object_get(a.body, "choices"), 0), "text"));
	if (!good)
		failed(r, *a.error ? a.error : fail.text);
	good = good && text && strcmp(text, c->text) == 0;
	json_decref(body);
	post_answer_deinit(&a);
	return good;
}

static enum verdict check_reference(struct answers_run *r)
{
	struct reference ref;
	struct fail fail = {0};
	int n = 0, n_right = 0;
	if (!r->a->reference) {
		snprintf(r->said, sizeof r->said, "--reference names no file");
		return VERDICT_SKIP;
	}
	if (reference_load(r->a->reference, &ref, &fail) != OK)
		return failed(r, fail.text);
	for (int i = 0; i < ref.n_cases; i++)
		if (ref.cases[i].text) {
			n++;
			n_right += is_case_right(r, &ref.cases[i]);
		}
	reference_deinit(&ref);
	if (n == n_right || !*r->said)
		snprintf(r->said, sizeof r->said, "%d of %d texts are the reference's", n_right,
			 n);
	return n && n == n_right ? VERDICT_PASS : VERDICT_FAIL;
}

static const struct {
	const char *name;
	enum verdict (*run)(struct answers_run *r);
} checks[] = {
	{"arithmetic", check_sum}, {"fact", check_fact}, {"story", check_story},
	{"tool call", check_tool}, {"JSON schema", check_schema}, {"stream", check_stream},
	{"batch of four", check_batch}, {"reference", check_reference},
};

/* --- the command --------------------------------------------------------------- */

static void run_checks(struct answers_run *r)
{
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		*r->said = '\0';
		enum verdict v = checks[i].run(r);
		/* A text that was cut may end inside a character. */
		struct str said = str_of(r->said);
		r->said[said.n - utf8_partial_tail(said)] = '\0';
		r->n_failed += v == VERDICT_FAIL;
		if (r->a->json)
			json_array_append_new(r->rows, json_pack(
				"{s:s, s:s, s:s}", "check", checks[i].name, "verdict",
				verdict_name[v], "said", r->said));
		else
			printf("%-14s %-5s %s\n", checks[i].name, verdict_name[v], r->said);
		fflush(stdout);
	}
}

static int verify_answers(const struct answers_args *a, const struct load_server *server)
{
	struct answers_run r = {.a = a, .model = server->model, .rows = json_array()};
	char *chat = xasprintf("%s/v1/chat/completions", server->url);
	char *completions = xasprintf("%s/v1/completions", server->url);
	r.chat = (struct post){chat, server->api_key, (long)a->timeout_s};
	r.completions = (struct post){completions, server->api_key, (long)a->timeout_s};
	run_checks(&r);
	if (a->json) {
		json_t *all = json_pack("{s:s, s:O, s:i, s:b}", "model", r.model, "checks", r.rows,
					"failed", r.n_failed, "pass", r.n_failed == 0);
		char *text = json_dumps(all, JSON_COMPACT);
		puts(text ? text : "{}");
		free(text);
		json_decref(all);
	} else {
		puts(r.n_failed ? "FAIL" : "PASS");
	}
	json_decref(r.rows);
	free(chat);
	free(completions);
	return r.n_failed ? EXIT_FAILED : EXIT_OK;
}

int cmd_verify_answers(int argc, char **argv)
{
	struct answers_args a = {.url = "http://127.0.0.1:8080", .timeout_s = 600,
				 .max_tokens = 1024};
	const struct option_row rows[] = {
		{"answers", 0, OPTION_FLAG, &a.answers, 0, 0, NULL,
		 "ask a running server, as this help tells"},
		LOAD_SERVER_OPTIONS(a),
		{"reference", 'r', OPTION_TEXT, &a.reference, 0, 0, "FILE",
		 "reference.json whose texts must come out exactly"},
		{"max-tokens", 0, OPTION_INT, &a.max_tokens, 16, 1 << 20, "N",
		 "of an answer, reasoning included (1024)"},
		{"timeout", 0, OPTION_INT, &a.timeout_s, 1, 86400, "S",
		 "seconds a request may take (600)"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"verify --answers",
				 "Ask a running server what every sound chat model can answer: a "
				 "sum, a fact, a story,\na tool call, JSON by a schema, four "
				 "questions at once. Exits with 1 where one fails.", rows,
				 ARRAY_LEN(rows)};
	struct load_server server;
	struct fail fail = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (load_server_open(a.url, a.model, a.api_key, &server, &fail) != OK)
		rc = options_failure("%s", fail.text);
	else
		rc = verify_answers(&a, &server);
	load_server_close(&server);
	return rc;
}
