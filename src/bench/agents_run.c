/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/agents_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ctl/progress.h"
#include "ctl/sse_call.h"

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

struct agents_replay {
	const struct agents_trace *t;
	const struct agents_opts *o;
	struct agents_result *r;
	struct agent *agents;
	struct sse_calls streams;
	int n_all;
	bool obeys_eos; /* the server does not take ignore_eos */
};

struct agent_call {
	struct sse_call stream; /* the first member */
	struct agents_replay *replay;
	int talk, request;
	struct agents_body body;
	struct buf text, thinking;
	json_t *calls; /* as far as they have come */
	bool ends_in_calls;
	bool ignores_eos; /* it asks for an answer of a length */
	int64_t first_us;
	int n_prompt, n_answer, n_cached; /* n_cached -1: not told */
	char cause[24];                   /* halod's own word for a miss; "": none */
	int n_common; /* bytes of the flat prompt with which an earlier one begins */
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
		c->first_us = c->stream.now_us;
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

static void on_chunk(struct sse_call *s, const json_t *chunk)
{
	struct agent_call *c = (struct agent_call *)s;
	const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
	const char *end = json_string_value(json_object_get(choice, "finish_reason"));
	c->ends_in_calls |= end && strcmp(end, "tool_calls") == 0;
	take_delta(c, json_object_get(choice, "delta"));
	take_numbers(c, chunk);
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
	sse_call_deinit(&c->stream);
	agents_body_deinit(&c->body);
	buf_deinit(&c->text);
	buf_deinit(&c->thinking);
	json_decref(c->calls);
	free(c);
}

static void write_body(const struct agents_replay *x, struct agent_call *c, int n_answer)
{
	struct buf *out = &c->stream.body;
	buf_add_z(out, "{\"model\":");
	buf_add_json(out, str_of(x->o->model));
	buf_add_z(out, ",");
	buf_add_str(out, buf_str(&c->body.json));
	buf_addf(out, ",\"max_tokens\":%d%s,\"temperature\":0,\"stream\":true,"
		 "\"stream_options\":{\"include_usage\":true}}", n_answer,
		 c->ignores_eos ? ",\"ignore_eos\":true" : "");
}

static void note_turn(struct agents_replay *x, struct agent_call *c)
{
	struct agent *a = &x->agents[c->talk];
	struct agents_turn *t = &x->r->turns[x->r->n++];
	int64_t now_us = clock_now_us(&clock_monotonic), start_us = c->stream.start_us;
	*t = (struct agents_turn){
		.talk = c->talk, .request = c->request, .n_prompt = c->n_prompt,
		.n_answer = c->n_answer,
		.n_computed = c->n_cached < 0 ? -1 : c->n_prompt - c->n_cached,
		.ms = (double)(now_us - start_us) * 1e-3,
		.first_ms = (double)((c->first_us ? c->first_us : now_us) - start_us) * 1e-3};
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
static void end_request(struct agents_replay *x, int talk, bool is_good)
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

static void on_end(struct sse_call *s)
{
	struct agent_call *c = (struct agent_call *)s;
	struct agents_replay *x = c->replay;
	/* A server that refuses what OpenAI does not have is asked once more. */
	if (s->status == 400 && c->ignores_eos) {
		x->obeys_eos = true;
		x->agents[c->talk].is_busy = false;
		call_free(c);
		return;
	}
	if (!*s->error)
		note_turn(x, c);
	else if (x->r->n_failed++ == 0)
		snprintf(x->r->error, sizeof x->r->error, "%s", s->error);
	end_request(x, c->talk, !*s->error);
	call_free(c);
}

static enum status start_agent(struct agents_replay *x, int talk, struct fail *fail)
{
	struct agent *a = &x->agents[talk];
	struct agent_call *c = xcalloc(1, sizeof *c);
	*c = (struct agent_call){.stream = {.on_chunk = on_chunk, .on_end = on_end},
				 .replay = x, .talk = talk, .request = a->next, .n_cached = -1,
				 .ignores_eos = !x->obeys_eos};
	agents_render(x->t, talk, c->request, a->answers, &c->body);
	c->n_common = best_common(x, buf_str(&c->body.flat));
	write_body(x, c, MAX(x->t->talks[talk].requests[c->request].n_answer / ANSWER_BYTES,
			     MIN_ANSWER));
	enum status st = sse_calls_start(&x->streams, &c->stream, fail);
	a->is_busy = st == OK;
	if (st != OK)
		call_free(c);
	return st;
}

static bool is_ready(const struct agents_replay *x, int talk)
{
	const struct agents_talk *t = &x->t->talks[talk];
	const struct agent *a = &x->agents[talk];
	bool has_begun = t->parent < 0 || x->agents[t->parent].next > t->after;
	return has_begun && !a->is_busy && !a->is_over && a->n_awaited == 0;
}

static enum status drive_agents(struct agents_replay *x, struct fail *fail)
{
	enum status st = OK;
	while (st == OK) {
		for (int i = 0; i < x->t->n_talks && st == OK; i++)
			st = is_ready(x, i) ? start_agent(x, i, fail) : OK;
		if (st != OK || x->streams.n_active == 0)
			break;
		st = sse_calls_go_on(&x->streams, fail);
		progress_show("turns", x->r->n, x->n_all);
	}
	return st;
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
}

static void run_deinit(struct agents_replay *x)
{
	sse_calls_close(&x->streams); /* ends calls, which use the agents */
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
}

enum status agents_run(const struct agents_trace *t, const struct agents_opts *o,
		       struct agents_result *out, struct fail *fail)
{
	*out = (struct agents_result){0};
	struct agents_replay x = {.t = t, .o = o, .r = out};
	char *url = xasprintf("%s/v1/chat/completions", o->url);
	enum status st = sse_calls_open(&x.streams, url, o->api_key, o->timeout_s, fail);
	run_init(&x);
	int64_t begin_us = clock_now_us(&clock_monotonic);
	if (st == OK)
		st = drive_agents(&x, fail);
	out->seconds = (double)(clock_now_us(&clock_monotonic) - begin_us) * 1e-6;
	progress_end();
	run_deinit(&x);
	free(url);
	if (st != OK)
		agents_result_deinit(out);
	return st;
}

void agents_result_deinit(struct agents_result *r)
{
	free(r->turns);
	*r = (struct agents_result){0};
}
