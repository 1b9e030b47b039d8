/* SPDX-License-Identifier: Apache-2.0
 *
 * halo-tiny behind the API, and calls made of literal bodies.
 */
#pragma once
#include <jansson.h>

#include "api/api.h"
#include "base/clock.h"
#include "tests/tap.h"

/* One model a program; a test that wants another template copies the struct. */
__attribute__((unused)) static struct model *fixture_model(void)
{
	static struct model *m;
	struct fail fail;
	if (!m && model_open(tap_src("models/halo-tiny"), NULL, &m, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return m;
}

__attribute__((unused)) static struct api *fixture_api_with(const struct api_opts *o)
{
	struct api *a;
	struct fail fail;
	if (api_create(o, &a, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return a;
}

__attribute__((unused)) static struct api *fixture_api_of(const struct model *m)
{
	static const char *const aliases[] = {"gpt-tiny", "default"};
	const struct api_opts o = {
		.model = m,
		.model_name = "halo-tiny",
		.aliases = aliases,
		.n_aliases = 2,
		.n_ctx = 512,
		.n_slots = 2,
		.version = "1.2.3",
		.system_fingerprint = "fp_test",
		.clock = &clock_monotonic,
	};
	return fixture_api_with(&o);
}

__attribute__((unused)) static struct api *fixture_api(void)
{
	static struct api *a;
	if (!a)
		a = fixture_api_of(fixture_model());
	return a;
}

__attribute__((unused)) static enum status
fixture_try(const struct api *a, const struct dialect *kind, struct str body,
	    struct api_call **out, struct fail *fail)
{
	const struct api_input in = {
		.dialect = kind, .body = body, .request_id = "r1", .arrival_us = 1000};
	*fail = (struct fail){0};
	return api_call_create(a, &in, out, fail);
}

/* A call that must be accepted. */
__attribute__((unused)) static struct api_call *
fixture_call(const struct api *a, const struct dialect *kind, const char *body)
{
	struct api_call *c;
	struct fail fail;
	if (fixture_try(a, kind, str_of(body), &c, &fail) != OK) {
		printf("Bail out! %s refused: %s\n", body, fail.text);
		exit(1);
	}
	return c;
}

/* Both references: no scheduler takes the other one here. */
__attribute__((unused)) static void fixture_drop(struct api_call *c)
{
	request_unref(api_call_request(c));
	api_call_destroy(c);
}

/* The text of the first prompt's ids, control tokens spelled out. */
__attribute__((unused)) static char *fixture_prompt(struct api_call *c)
{
	const struct request *r = api_call_request(c);
	struct buf text = {0};
	tokenizer_decode(fixture_model()->tokenizer, r->prompts[0].p,
			 r->prompts[0].n, false, &text);
	return buf_take(&text);
}

/* One span of text with one token. */
struct fixture_text {
	struct event_span span;
	struct event_token token;
	struct event event;
};
__attribute__((unused)) static struct event *
fixture_text(struct fixture_text *t, enum out_channel channel, const char *text)
{
	*t = (struct fixture_text){.span = {channel, str_of(text)}};
	t->event = (struct event){.kind = EVENT_DELTA, .spans = &t->span, .n_spans = 1,
				  .tokens = &t->token, .n_tokens = 1};
	return &t->event;
}

/* A body of another kind makes the prompt that a chat's body makes. */
__attribute__((unused)) static void
fixture_check_same(const struct dialect *kind, const char *body, const char *chat,
		   const char *fact)
{
	struct api_call *a = fixture_call(fixture_api(), kind, body);
	struct api_call *b = fixture_call(fixture_api(), &dialect_chat, chat);
	char *got = fixture_prompt(a), *want = fixture_prompt(b);
	is_str(got, want, "%s", fact);
	free(got);
	free(want);
	fixture_drop(a);
	fixture_drop(b);
}

/* A row of a table of bodies that are refused. */
struct refused {
	const char *body;
	enum status status;
	const char *param; /* whole */
	const char *says;  /* part of the message */
};

__attribute__((unused)) static void
fixture_check_refused(const struct api *a, const struct dialect *kind,
		      const struct refused *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct api_call *c = NULL;
		struct fail fail;
		enum status st =
			fixture_try(a, kind, str_of(rows[i].body), &c, &fail);
		bool good = st == rows[i].status && fail.code == st &&
			    strcmp(fail.param, rows[i].param) == 0 &&
			    strstr(fail.text, rows[i].says);
		ok(good, "refused: %.60s", rows[i].body);
		if (!good)
			printf("# %s, param [%s], text [%s]\n", status_name(st),
			       st ? fail.param : "", st ? fail.text : "");
		if (st == OK)
			fixture_drop(c);
	}
}

/* Text, a call that is whole, and one that breaks off. */
__attribute__((unused)) static struct event_span fixture_call_spans[] = {
	{OUT_CONTENT, {"A", 1}},
	{OUT_CALL_NAME, {"f", 1}},
	{OUT_CALL_ARGS, {"{\"x\":", 5}},
	{OUT_CALL_ARGS, {"1}", 2}},
	{OUT_CALL_END, {"<tool_call>", 11}},
	{OUT_CALL_NAME, {"g", 1}},
	{OUT_CALL_ARGS, {"{", 1}},
	{OUT_CALL_BROKEN, {"<g", 2}},
};

/* Bytes for one event; `created` is set to 0, the only thing that differs from run
 * to run. */
__attribute__((unused)) static char *fixture_event(struct api_call *c,
						   const struct event *e)
{
	static const char key[] = "\"created\":";
	struct buf out = {0}, clean = {0};
	api_call_on_event(c, e, &out);
	struct str s = buf_str(&out);
	size_t from = 0;
	ptrdiff_t at;
	while ((at = str_find(s, STR(key), from)) >= 0) {
		size_t end = (size_t)at + sizeof key - 1;
		buf_add(&clean, s.p + from, end - from);
		buf_add_c(&clean, '0');
		from = end + strspn(s.p + end, "0123456789");
	}
	buf_add(&clean, s.p + from, s.n - from);
	buf_deinit(&out);
	return buf_take(&clean);
}
