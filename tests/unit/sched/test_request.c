/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests, their events and the ready list, without an engine.
 */
#include "sched/emit.h"
#include "tests/tap.h"

static int n_wakes;

static void on_ready(void *ctx)
{
	(void)ctx;
	n_wakes++;
}

static void test_stats(void)
{
	struct request_stats s = {.arrival_us = 1000, .first_token_us = 5000,
				  .last_token_us = 25000, .n_output = 11};
	is_near(request_ttft_ms(&s), 4, 1e-9, "TTFT from arrival");
	is_near(request_tpot_ms(&s, 1), 2, 1e-9, "TPOT: ten gaps in 20 ms");
	s.n_output = 22;
	is_near(request_tpot_ms(&s, 2), 2, 1e-9, "two streams at once pace alike");
	s.n_output = 2;
	ok(isnan(request_tpot_ms(&s, 2)), "no gap, no TPOT");
	s.first_token_us = 0;
	ok(isnan(request_ttft_ms(&s)), "no token, no TTFT");
	is_str(finish_name(FINISH_STOP), "stop", "names of finishes");
	is_str(finish_name(FINISH_LENGTH), "length", "names of finishes");
}

/* Kind of the next event, or -1; destroys it. */
static int next_kind(struct request *r)
{
	struct event *e = request_next_event(r);
	int kind = e ? (int)e->kind : -1;
	event_destroy(e);
	return kind;
}

static void test_ready_list(void)
{
	struct emit em;
	struct request *a = request_create("a"), *b = request_create("b");
	emit_init(&em, on_ready, NULL);
	n_wakes = 0;
	is_int(next_kind(a), -1, "no event yet");
	ok(!emit_next_ready(&em), "nobody is ready");
	emit_flush(&em);
	is_int(n_wakes, 0, "no news, no wake");

	emit_started(&em, a);
	emit_progress(&em, a, 0, 5);
	emit_started(&em, b);
	is_int(n_wakes, 0, "news wait for the flush");
	emit_flush(&em);
	emit_flush(&em);
	is_int(n_wakes, 1, "one wake for all of it");
	ok(emit_next_ready(&em) == a, "first a");
	is_int(next_kind(a), EVENT_STARTED, "in order");
	emit_progress(&em, a, 0, 6);
	is_int(next_kind(a), EVENT_PROGRESS, "in order");
	is_int(next_kind(a), EVENT_PROGRESS, "what came meanwhile is there too");
	ok(emit_next_ready(&em) == b, "then b");
	ok(!emit_next_ready(&em), "a is not named again: it was not drained");
	is_int(next_kind(a), -1, "now it is");
	emit_progress(&em, a, 0, 7);
	ok(emit_next_ready(&em) == a, "so it is named again");
	emit_flush(&em);
	is_int(n_wakes, 2, "and woken for");

	request_unref(a);
	request_unref(b);
	request_unref(b); /* its undrained event goes along */
	request_unref(a);
	emit_deinit(&em);
}

/* The io side lets go early (its client is gone): what is on the list must
 * outlive that until it has been named. */
static void test_lifetime(void)
{
	struct emit em;
	struct request *a = request_create("a");
	emit_init(&em, NULL, NULL);
	int marker;
	a->user = &marker;
	emit_started(&em, a);
	request_unref(a);
	request_unref(a);
	struct request *r = emit_next_ready(&em);
	ok(r == a && r->user == &marker, "named although both sides let go");
	is_int(next_kind(r), EVENT_STARTED, "with its events");
	ok(!emit_next_ready(&em), "the next call lets it go");

	struct request *b = request_create("b");
	emit_started(&em, b);
	request_unref(b);
	request_unref(b);
	emit_deinit(&em); /* frees b; the leak checker says so if not */
}

static void test_delta(void)
{
	struct emit em;
	struct request *r = request_create("r");
	emit_init(&em, NULL, NULL);
	const struct out_span one[] = {{OUT_REASONING, STR("ab")},
				       {OUT_CONTENT, STR("cd")}};
	const struct out_span more[] = {{OUT_CONTENT, STR("e")}};
	struct sampled token = {.id = 7, .logprob = -0.5f, .n_top = 2,
				.top = {{7, -0.5f}, {9, -1.5f}}};
	emit_add_spans(&em, one, 2);
	emit_add_spans(&em, more, 1);
	emit_delta(&em, r, 3, &token);
	token.n_top = 0;
	emit_delta(&em, r, 3, &token);
	emit_choice_done(&em, r, 3, FINISH_STOP, STR("END"));
	emit_choice_done(&em, r, 3, FINISH_LENGTH, (struct str){0});
	struct fail f;
	fail_at(&f, E_BACKEND, "x", "broken");
	r->stats.n_output = 2;
	emit_failed(&em, r, &f);

	struct event *e = request_next_event(r);
	is_int(e->choice, 3, "the choice");
	is_int(e->n_spans, 2, "neighbours of one channel are one span");
	ok(str_is(e->spans[0].text, "ab") && e->spans[0].channel == OUT_REASONING,
	   "reasoning");
	ok(str_is(e->spans[1].text, "cde") && e->spans[1].channel == OUT_CONTENT,
	   "content");
	is_int(e->n_tokens, 1, "one token");
	ok(e->tokens[0].id == 7 && e->tokens[0].n_top == 2 &&
	   e->tokens[0].top[1].id == 9, "with its alternatives");
	event_destroy(e);
	e = request_next_event(r);
	ok(e->n_spans == 0 && e->n_tokens == 1, "a token without text");
	event_destroy(e);
	e = request_next_event(r);
	is_str(e->stop_string, "END", "the stop string");
	event_destroy(e);
	e = request_next_event(r);
	ok(!e->stop_string && e->finish == FINISH_LENGTH, "none");
	event_destroy(e);
	e = request_next_event(r);
	is_str(e->fail.text, "broken", "what failed");
	is_int(e->stats.n_output, 2, "with what was done until then");
	event_destroy(e);
	request_unref(r);
	request_unref(r);
	emit_deinit(&em);
}

int main(void)
{
	test_stats();
	test_ready_list();
	test_lifetime();
	test_delta();
	return tap_done();
}
