/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/agents_run.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ctl/post.h"
#include "ctl/progress.h"
#include "ctl/sse_read.h"

#define MAX_ERROR_BYTES 4096
#define ANSWER_BYTES 4 /* of a recorded answer, for each token that is asked for */
#define MIN_ANSWER 4
/* A server may compute a page more than is needed. `needed` is an estimate, so a part of the
 * prompt is allowed, too. */
#define SLACK_TOK 64
#define SLACK_PART 16

struct agent {
	int next;        /* request that comes next */
	int n_awaited;   /* subagents that must end before it */
	bool is_busy, is_over;
	struct agents_answer *answers; /* (talk->n) */
	struct buf *flats; /* (talk->n) each prompt that was answered */
	int n_before;    /* prompt tokens of the request before; 0: not known */
};

struct agent_call {
	int talk, request;
	CURL *easy;
	struct agents_body body;
	struct buf sent, text, thinking, other; /* other: a response that is no stream */
	json_t *calls; /* as far as they have come */
	bool ends_in_calls;
	bool ignores_eos; /* it asks for an answer of a length */
	struct sse sse;
	int64_t start_us, first_us;
	int n_prompt, n_answer, n_cached; /* n_cached -1: not told */
	char cause[24];                   /* halod's own word for a miss; "": none */
	int n_common; /* bytes of the flat prompt with which an earlier one begins */
	bool is_done;
	char error[200];
};

struct agents_replay {
	const struct agents_trace *t;
	const struct agents_opts *o;
	struct agents_result *r;
	struct agent *agents;
	CURLM *multi;
	struct curl_slist *headers;
	char *url;
	int n_active, n_all;
	bool obeys_eos; /* the server does not take ignore_eos */
};

const char *agents_why_name(enum agents_why why)
{
	static const char *const names[AGENTS_WHYS] = {
		[AGENTS_NEW] = "new text",           [AGENTS_SUBAGENT] = "new subagent",
		[AGENTS_EDITED] = "edited history",  [AGENTS_COMPACTED] = "compaction",
		[AGENTS_THINKING] = "thinking dropped", [AGENTS_RENDERED] = "rendered anew",
		[AGENTS_EVICTED] = "evicted",        [AGENTS_UNTOLD] = "not found",
	};
	return names[why];
}

/* --- the stream of an answer --------------------------------------------------- */

static void note_error(struct agent_call *c, const char *text)
{
	if (!*c->error)
		snprintf(c->error, sizeof c->error, "%s", text);
}

/* Appends a string of the delta to that of the call. */
static void add_piece(json_t *to, const char *key, const json_t *delta)
{
	const char *piece = json_string_value(json_object_get(delta, key));
	const char *before = json_string_value(json_object_get(to, key));
	if (!piece)
		return;
	char *all = xasprintf("%s%s", before ? before : "", piece);
	json_object_set_new(to, key, json_string(all));
	free(all);
}

static void take_calls(struct agent_call *c, const json_t *deltas)
{
	for (size_t i = 0; i < json_array_size(deltas); i++) {
		const json_t *delta = json_array_get(deltas, i);
		size_t at = (size_t)json_integer_value(json_object_get(delta, "index"));
		if (!c->calls)
			c->calls = json_array();
		if (at == json_array_size(c->calls))
			json_array_append_new(c->calls, json_pack("{s:{}}", "function"));
		json_t *call = json_array_get(c->calls, at);
		add_piece(call, "id", delta);
		add_piece(json_object_get(call, "function"), "name",
			  json_object_get(delta, "function"));
		add_piece(json_object_get(call, "function"), "arguments",
			  json_object_get(delta, "function"));
	}
}

static void take_delta(struct agent_call *c, const json_t *delta)
{
	const char *text = json_string_value(json_object_get(delta, "content"));
	const char *thinking = json_string_value(json_object_get(delta, "reasoning_content"));
	if (!thinking)
		thinking = json_string_value(json_object_get(delta, "reasoning"));
	bool has_call = json_array_size(json_object_get(delta, "tool_calls")) > 0;
	take_calls(c, json_object_get(delta, "tool_calls"));
	if (c->first_us == 0 && ((text && *text) || (thinking && *thinking) || has_call))
		c->first_us = clock_now_us(&clock_monotonic);
	if (text)
		buf_add_z(&c->text, text);
	if (thinking)
		buf_add_z(&c->thinking, thinking);
}

static void take_numbers(struct agent_call *c, const json_t *chunk)
{
	const json_t *usage = json_object_get(chunk, "usage");
	const json_t *timings = json_object_get(chunk, "timings");
	const json_t *cached = json_object_get(json_object_get(usage, "prompt_tokens_details"),
					       "cached_tokens");
	const char *cause = json_string_value(json_object_get(timings, "cache_miss"));
	if (json_is_object(usage)) {
		c->n_prompt = (int)json_integer_value(json_object_get(usage, "prompt_tokens"));
		c->n_answer = (int)json_integer_value(json_object_get(usage, "completion_tokens"));
	}
	if (!cached)
		cached = json_object_get(timings, "cache_n");
	if (json_is_integer(cached))
		c->n_cached = (int)json_integer_value(cached);
	if (cause)
		snprintf(c->cause, sizeof c->cause, "%s", cause);
}

static void on_data(void *ctx, struct str data)
{
	struct agent_call *c = ctx;
	if (str_is(data, "[DONE]")) {
		c->is_done = true;
		return;
	}
	json_t *chunk = json_loadb(data.p, data.n, 0, NULL);
	const json_t *error = json_object_get(chunk, "error");
	if (!chunk)
		note_error(c, "a chunk is not JSON");
	if (error) {
		const char *said = json_string_value(json_object_get(error, "message"));
		note_error(c, said ? said : "an error without a message");
	}
	const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
	const char *end = json_string_value(json_object_get(choice, "finish_reason"));
	c->ends_in_calls |= end && strcmp(end, "tool_calls") == 0;
	take_delta(c, json_object_get(choice, "delta"));
	take_numbers(c, chunk);
	json_decref(chunk);
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct agent_call *c = ctx;
	long status = 0;
	n *= size;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		if (c->other.n < MAX_ERROR_BYTES)
			buf_add(&c->other, p, MIN(n, MAX_ERROR_BYTES));
		return n;
	}
	return sse_push(&c->sse, p, n, on_data, c) == OK ? n : 0;
}

/* --- what a turn computed, and why --------------------------------------------- */

static int common_bytes(struct str a, struct str b)
{
	size_t i = 0, n = MIN(a.n, b.n);
	while (i < n && a.p[i] == b.p[i])
		i++;
	return (int)i;
}

/* Bytes of the prompt with which a request that was answered begins, too. */
static int best_common(const struct agents_replay *x, struct str flat)
{
	int best = 0;
	for (int i = 0; i < x->t->n_talks; i++)
		for (int k = 0; k < x->t->talks[i].n; k++)
			best = MAX(best, common_bytes(buf_str(&x->agents[i].flats[k]), flat));
	return best;
}

static bool are_equal(const json_t *a, const json_t *b)
{
	return a && b ? json_equal(a, b) : !a && !b;
}

static bool is_same_without_thinking(const struct agents_message *a, const struct agents_message *b)
{
	return a->role == b->role && a->thinking && !b->thinking && are_equal(a->text, b->text) &&
	       are_equal(a->calls, b->calls);
}

/* Where tools stand in a prompt is the template's affair, so `needed` does not hold then. */
static bool has_other_tools(const struct agents_request *r, int i)
{
	return i > 0 && !are_equal(r->tools, r[-1].tools);
}

/* What the client did to its history, by the trace alone. */
static enum agents_why client_why(const struct agents_replay *x, const struct agent_call *c)
{
	const struct agents_talk *talk = &x->t->talks[c->talk];
	const struct agents_request *r = &talk->requests[c->request];
	if (c->request == 0)
		return talk->parent >= 0 ? AGENTS_SUBAGENT : AGENTS_NEW;
	const struct agents_request *before = r - 1;
	if (r->keep == before->n)
		return has_other_tools(r, c->request) ? AGENTS_EDITED : AGENTS_NEW;
	if (r->keep == 0 || r->n < before->n / 2)
		return AGENTS_COMPACTED;
	if (r->keep < r->n &&
	    is_same_without_thinking(before->messages[r->keep], r->messages[r->keep]))
		return AGENTS_THINKING;
	return AGENTS_EDITED;
}

/* Did the user speak behind an answer with thinking? Many templates then leave it out. */
static bool may_drop_thinking(const struct agents_request *r)
{
	bool has_thinking = false, has_said = false;
	for (int i = 0; i < r->n; i++) {
		has_thinking |= r->messages[i]->thinking && i < r->keep;
		has_said |= r->messages[i]->role == 'u' && i >= r->keep;
	}
	return has_thinking && has_said;
}

static void judge_turn(const struct agents_replay *x, const struct agent_call *c,
		       struct agents_turn *t)
{
	const struct agents_request *r = &x->t->talks[c->talk].requests[c->request];
	double share = (double)c->n_common / (double)MAX(c->body.flat.n, 1);
	int n_before = x->agents[c->talk].n_before;
	t->n_needed = (int)((double)t->n_prompt * (1 - share) + 0.5);
	t->why = client_why(x, c);
	if (t->why == AGENTS_NEW && n_before > 0 && t->n_prompt > n_before)
		t->n_needed = t->n_prompt - n_before;
	if (t->n_computed <= t->n_needed + SLACK_TOK + t->n_prompt / SLACK_PART ||
	    has_other_tools(r, c->request))
		return;
	if (strcmp(c->cause, "evicted") == 0 || strcmp(c->cause, "no_state") == 0)
		t->why = AGENTS_EVICTED;
	else if (may_drop_thinking(r))
		t->why = AGENTS_THINKING;
	else
		t->why = *c->cause ? AGENTS_RENDERED : AGENTS_UNTOLD;
}

/* --- requests ---------------------------------------------------------------------- */

static void call_free(struct agent_call *c)
{
	curl_easy_cleanup(c->easy);
	agents_body_deinit(&c->body);
	buf_deinit(&c->sent);
	buf_deinit(&c->text);
	buf_deinit(&c->thinking);
	json_decref(c->calls);
	buf_deinit(&c->other);
	sse_deinit(&c->sse);
	free(c);
}

static void write_body(const struct agents_replay *x, struct agent_call *c, int n_answer)
{
	buf_add_z(&c->sent, "{\"model\":");
	buf_add_json(&c->sent, str_of(x->o->model));
	buf_add_z(&c->sent, ",");
	buf_add_str(&c->sent, buf_str(&c->body.json));
	buf_addf(&c->sent, ",\"max_tokens\":%d%s,\"temperature\":0,\"stream\":true,"
		 "\"stream_options\":{\"include_usage\":true}}", n_answer,
		 c->ignores_eos ? ",\"ignore_eos\":true" : "");
}

static enum status start(struct agents_replay *x, int talk, struct fail *fail)
{
	struct agent *a = &x->agents[talk];
	struct agent_call *c = xcalloc(1, sizeof *c);
	*c = (struct agent_call){.talk = talk, .request = a->next, .n_cached = -1,
				 .easy = curl_easy_init(), .ignores_eos = !x->obeys_eos};
	agents_render(x->t, talk, c->request, a->answers, &c->body);
	c->n_common = best_common(x, buf_str(&c->body.flat));
	write_body(x, c, MAX(x->t->talks[talk].requests[c->request].n_answer / ANSWER_BYTES,
			     MIN_ANSWER));
	if (!c->easy) {
		call_free(c);
		return fail_set(fail, E_IO, "curl gives no handle");
	}
	curl_easy_setopt(c->easy, CURLOPT_URL, x->url);
	curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, (long)x->o->timeout_s);
	/* Measure the server, not a proxy that the environment names. */
	curl_easy_setopt(c->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->sent.n);
	curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->sent.p);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, x->headers);
	curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
	c->start_us = clock_now_us(&clock_monotonic);
	if (curl_multi_add_handle(x->multi, c->easy) != CURLM_OK) {
		call_free(c);
		return fail_set(fail, E_IO, "curl takes no request");
	}
	a->is_busy = true;
	x->n_active++;
	return OK;
}

/* Notes in the call why it is no good answer, if it is none. */
static void judge_call(struct agent_call *c, CURLcode code)
{
	long status = 0;
	char text[200];
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK) {
		note_error(c, post_why((int)code));
	} else if (status != 200) {
		json_t *body = json_loadb(c->other.p ? c->other.p : "", c->other.n, 0, NULL);
		const char *said = json_string_value(
			json_object_get(json_object_get(body, "error"), "message"));
		snprintf(text, sizeof text, "HTTP %ld: %.160s", status, said ? said : "no message");
		note_error(c, text);
		json_decref(body);
	} else if (!c->is_done) {
		note_error(c, "the stream ended without [DONE]");
	}
}

static void note_turn(struct agents_replay *x, struct agent_call *c)
{
	struct agent *a = &x->agents[c->talk];
	struct agents_turn *t = &x->r->turns[x->r->n++];
	int64_t now_us = clock_now_us(&clock_monotonic);
	*t = (struct agents_turn){
		.talk = c->talk, .request = c->request, .n_prompt = c->n_prompt,
		.n_answer = c->n_answer,
		.n_computed = c->n_cached < 0 ? -1 : c->n_prompt - c->n_cached,
		.ms = (double)(now_us - c->start_us) * 1e-3,
		.first_ms = (double)((c->first_us ? c->first_us : now_us) - c->start_us) * 1e-3};
	judge_turn(x, c, t);
	a->n_before = c->n_prompt;
	buf_add_str(&a->flats[c->request], buf_str(&c->body.flat));
	if (c->text.n + c->thinking.n == 0 && !c->ends_in_calls)
		return;
	struct agents_answer *said = &a->answers[c->request];
	said->text = buf_take(&c->text);
	if (c->thinking.n)
		said->thinking = buf_take(&c->thinking);
	if (c->ends_in_calls)
		said->calls = json_incref(c->calls);
}

/* An agent's request has ended: its subagents may begin, or the agent that waits for it goes
 * on. */
static void step(struct agents_replay *x, int talk, bool is_good)
{
	struct agent *a = &x->agents[talk];
	const struct agents_talk *t = &x->t->talks[talk];
	a->is_busy = false;
	for (int i = 0; is_good && i < x->t->n_talks; i++)
		a->n_awaited += x->t->talks[i].parent == talk && x->t->talks[i].after == a->next;
	a->next += is_good;
	if (is_good && a->next < t->n)
		return;
	a->is_over = true;
	if (t->parent >= 0)
		x->agents[t->parent].n_awaited--;
}

static void finish(struct agents_replay *x, struct agent_call *c, CURLcode code)
{
	long status = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	judge_call(c, code);
	curl_multi_remove_handle(x->multi, c->easy);
	x->n_active--;
	if (status == 400 && c->ignores_eos) { /* a server that refuses what OpenAI does not have */
		x->obeys_eos = true;
		x->agents[c->talk].is_busy = false;
		call_free(c);
		return;
	}
	if (!*c->error)
		note_turn(x, c);
	else if (x->r->n_failed++ == 0)
		snprintf(x->r->error, sizeof x->r->error, "%s", c->error);
	step(x, c->talk, !*c->error);
	call_free(c);
}

static bool is_ready(const struct agents_replay *x, int talk)
{
	const struct agents_talk *t = &x->t->talks[talk];
	const struct agent *a = &x->agents[talk];
	bool has_begun = t->parent < 0 || x->agents[t->parent].next > t->after;
	return has_begun && !a->is_busy && !a->is_over && a->n_awaited == 0;
}

static enum status drive(struct agents_replay *x, struct fail *fail)
{
	int left, running;
	for (;;) {
		for (int i = 0; i < x->t->n_talks; i++) {
			enum status st = is_ready(x, i) ? start(x, i, fail) : OK;
			if (st != OK)
				return st;
		}
		if (x->n_active == 0)
			return OK;
		CURLMcode code = curl_multi_perform(x->multi, &running);
		if (code == CURLM_OK && running == x->n_active)
			code = curl_multi_poll(x->multi, NULL, 0, 1000, NULL);
		if (code != CURLM_OK)
			return fail_set(fail, E_IO, "curl: %s", curl_multi_strerror(code));
		for (CURLMsg *m; (m = curl_multi_info_read(x->multi, &left));) {
			struct agent_call *c = NULL;
			curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
			finish(x, c, m->data.result);
		}
		progress_show("turns", x->r->n, x->n_all);
	}
}

static void run_init(struct agents_replay *x)
{
	x->agents = xcalloc((size_t)x->t->n_talks, sizeof *x->agents);
	for (int i = 0; i < x->t->n_talks; i++) {
		size_t n = (size_t)x->t->talks[i].n;
		x->agents[i].answers = xcalloc(n, sizeof *x->agents[i].answers);
		x->agents[i].flats = xcalloc(n, sizeof(struct buf));
		x->n_all += (int)n;
	}
	x->r->turns = xcalloc((size_t)x->n_all, sizeof *x->r->turns);
	x->url = xasprintf("%s/v1/chat/completions", x->o->url);
	x->headers = curl_slist_append(NULL, "Content-Type: application/json");
	/* Do not wait for "100 Continue" with long prompts. */
	x->headers = curl_slist_append(x->headers, "Expect:");
	if (x->o->api_key) {
		char *line = xasprintf("Authorization: Bearer %s", x->o->api_key);
		x->headers = curl_slist_append(x->headers, line);
		free(line);
	}
}

static void run_deinit(struct agents_replay *x)
{
	for (int i = 0; i < x->t->n_talks; i++) {
		for (int k = 0; k < x->t->talks[i].n; k++) {
			free(x->agents[i].answers[k].text);
			free(x->agents[i].answers[k].thinking);
			json_decref(x->agents[i].answers[k].calls);
			buf_deinit(&x->agents[i].flats[k]);
		}
		free(x->agents[i].answers);
		free(x->agents[i].flats);
	}
	free(x->agents);
	free(x->url);
	curl_slist_free_all(x->headers);
	curl_multi_cleanup(x->multi);
}

enum status agents_run(const struct agents_trace *t, const struct agents_opts *o,
		       struct agents_result *out, struct fail *fail)
{
	*out = (struct agents_result){0};
	struct agents_replay x = {.t = t, .o = o, .r = out, .multi = curl_multi_init()};
	if (!x.multi)
		return fail_set(fail, E_IO, "curl gives no handle");
	run_init(&x);
	int64_t begin_us = clock_now_us(&clock_monotonic);
	enum status st = drive(&x, fail);
	out->seconds = (double)(clock_now_us(&clock_monotonic) - begin_us) * 1e-6;
	progress_end();
	run_deinit(&x);
	if (st != OK)
		agents_result_deinit(out);
	return st;
}

void agents_result_deinit(struct agents_result *r)
{
	free(r->turns);
	*r = (struct agents_result){0};
}
