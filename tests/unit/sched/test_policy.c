/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "sched/policy.h"
#include "tests/tap.h"

static const struct policy_limits limits = {.max_batch_tok = 100,
					    .prefill_chunk = 20};

/* Sequences as text: d a stream, d5 one with five tokens pending, a number a prefill
 * with so many left. */
static void plan(const char *seqs, const char *want)
{
	struct policy_seq s[16];
	int n_tok[16], n = 0;
	char copy[200], got[200] = "";
	snprintf(copy, sizeof copy, "%s", seqs);
	for (char *save, *w = strtok_r(copy, " ", &save); w;
	     w = strtok_r(NULL, " ", &save)) {
		bool is_decoding = *w == 'd';
		int n_pending = atoi(w + is_decoding);
		s[n++] = (struct policy_seq){n_pending > 0 ? n_pending : 1, is_decoding};
	}
	policy_plan(&limits, s, n, n_tok);
	for (int i = 0; i < n; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d",
			 i ? " " : "", n_tok[i]);
	is_str(got, want, "plan of [%s]", seqs);
}

static void chunks(void)
{
	struct policy_cost none = {0}, c = {.step_us = 2000, .tok_us = 1000};
	is_int(policy_chunk(256, 0, &c), 256, "no target: the whole chunk");
	is_int(policy_chunk(256, 50000, &none), 32, "a careful first one");
	is_int(policy_chunk(8, 50000, &none), 8, "within the bound");
	is_int(policy_chunk(256, 50000, &c), 48, "what fits into the target");
	c.tok_us = 1;
	is_int(policy_chunk(256, 50000, &c), 256, "at most the bound");
	c.tok_us = 1e9;
	is_int(policy_chunk(256, 50000, &c), 16, "never so few that prefill stands still");
	c = (struct policy_cost){.step_us = 40000, .tok_us = 2000};
	is_int(policy_chunk(256, 50000, &c), 80, "nor so few that the step is for itself");
	c.is_short = true;
	is_int(policy_chunk(256, 50000, &c), 53, "every other time fewer");
}

static void alone(void)
{
	struct policy_cost none = {0}, c = {.step_us = 100000, .tok_us = 600};
	is_int(policy_alone_chunk(2048, &none), 512, "alone, of unknown cost");
	is_int(policy_alone_chunk(2048, &c), 1500, "what fits into a second");
	is_int(policy_alone_chunk(300, &c), 300, "within the bound");
	c.tok_us = 60;
	is_int(policy_alone_chunk(2048, &c), 2048, "all, where it is fast");
	c.tok_us = 6000;
	is_int(policy_alone_chunk(2048, &c), 512, "as ever, where it is slow");
	struct policy_limits l = {.max_batch_tok = 2048, .prefill_chunk = 256,
				  .alone_chunk = 1500};
	struct policy_seq seqs[] = {{4000, false}, {1, true}};
	int n_tok[2];
	policy_plan(&l, seqs, 1, n_tok);
	is_int(n_tok[0], 1500, "a prompt without a stream");
	policy_plan(&l, seqs, 2, n_tok);
	is_int(n_tok[0], 256, "and beside one");
}

/* Twenty steps as long as the policy makes them, of a machine whose steps cost so much,
 * more or less; then the tokens of the last long one. */
static int settled(struct policy_cost *c, double step_us, double tok_us, double noise)
{
	int n = 0;
	for (int i = 0; i < 20; i++) {
		n = policy_chunk(256, 50000, c);
		double us = step_us + tok_us * n;
		policy_cost_note(c, n, (int64_t)(us * (i % 4 < 2 ? 1 + noise : 1 - noise)));
	}
	return c->is_short ? n : policy_chunk(256, 50000, c);
}

static void costs(void)
{
	struct policy_cost c = {0};
	policy_cost_note(&c, 128, 2000 + 128 * 1000);
	is_near(settled(&c, 2000, 1000, 0), 48, 12, "little for a step");
	is_near(settled(&c, 2000, 2500, 0), 19, 4, "tokens have become dear");
	c = (struct policy_cost){0};
	policy_cost_note(&c, 128, 45000 + 128 * 2100);
	is_near(settled(&c, 45000, 2100, 0), 85, 21, "much for a step");
	is_near(settled(&c, 45000, 2100, 0.05), 85, 21, "on a machine with other work");
	policy_cost_note(&c, 85, 3000000);
	int n = policy_chunk(256, 50000, &c);
	is_near(n, 105, 65, "one step that was held up");
	is_near(settled(&c, 45000, 2100, 0), 85, 21, "that is forgotten");
}

static void test_plan(void)
{
	plan("", "");
	plan("d d d", "1 1 1");
	plan("7", "7");
	plan("1000", "100");
	plan("30 50 90", "30 50 20");
	plan("100 5", "100 0");
	/* Beside streams, prefill is held to its chunk, all prompts together. */
	plan("d 1000", "1 20");
	plan("1000 d", "20 1");
	plan("d 5 1000 7", "1 5 15 0");
	plan("d d d d d d d d d d 3", "1 1 1 1 1 1 1 1 1 1 3");
	/* Tokens that a stream has ahead go in one step, if they fit. */
	plan("d d7 1000", "1 7 20");
	plan("d90 d90 d", "90 9 1");
	/* One token left of a prompt is still prefill: it is not yet a stream. */
	plan("1 1000", "1 99");

	chunks();
	alone();
	costs();

	struct policy_limits tight = {.max_batch_tok = 3, .prefill_chunk = 20};
	struct policy_seq s[4] = {{1, true}, {1, true}, {9, false}, {1, true}};
	int n_tok[4];
	policy_plan(&tight, s, 4, n_tok);
	ok(n_tok[0] == 1 && n_tok[1] == 1 && n_tok[2] == 0 && n_tok[3] == 1,
	   "a full batch has no room for prompt tokens");
	policy_plan(&tight, s, 3, n_tok);
	is_int(n_tok[2], 1, "what the streams leave is less than a chunk");
}

static void test_slots(void)
{
	is_int(policy_slots(8, 512), 8, "as many as the engine takes");
	is_int(policy_slots(8, 8), 7, "a token is left for prefill");
	is_int(policy_slots(8, 1), 1, "never none");
	is_int(policy_slots(1, 512), 1, "one at a time");
}

static void test_pages(void)
{
	is_int(policy_pages(0, 16), 0, "no tokens, no pages");
	is_int(policy_pages(1, 16), 1, "one token");
	is_int(policy_pages(16, 16), 1, "a full page");
	is_int(policy_pages(17, 16), 2, "one more");
	is_int(policy_pages(INT32_MAX, 16), INT32_MAX / 16 + 1, "no overflow");
}

static void test_admits(void)
{
	struct policy_capacity room = {.pages_free = 4, .page_size = 16};
	ok(policy_admits(&room, 64, 1000), "alone: what it needs now is enough");
	ok(!policy_admits(&room, 65, 1), "but that must be there");
	room.n_running = 2;
	/* 1 page now, 1 for its growth, 2 for the others. */
	ok(policy_admits(&room, 16, 16), "beside others: a page for each of them");
	ok(!policy_admits(&room, 17, 16), "or it waits");
	room.n_running = 3;
	ok(!policy_admits(&room, 16, 16), "one more running: waits too");
	room.pages_free = 1000;
	room.n_running = 1;
	ok(policy_admits(&room, 16 * 995, 100000), "growth counts up to 64 tokens");
	ok(!policy_admits(&room, 16 * 996, 100000), "and no less");
}

static void test_patience(void)
{
	struct policy_cost none = {0}, c = {.tok_us = 500};
	struct policy_cost first = {0};
	is_int(policy_patience(&none, 16384), 24576000, "of unknown cost: a millisecond a token");
	/* What a GPU did after its start: the first prompt looked kernels up, and the next one
	 * seemed to cost no more than the step itself. */
	policy_cost_note(&first, 64, 400000);
	policy_cost_note(&first, 128, 43000);
	policy_cost_note(&first, 128, 43000);
	ok(policy_patience(&first, 100000) > 10000000, "a long prompt takes more than steps "
	   "of a short one: %ld us", (long)policy_patience(&first, 100000));
	is_int(policy_patience(&c, 100), 1000000, "a second in any case");
	is_int(policy_patience(&c, 16384), 12288000, "as long as computing would take");
	is_int(policy_patience(&c, 163840), 491520000, "more a token of a long one");
	struct policy_cost steps = {.step_us = 51200, .tok_us = 1};
	is_int(policy_patience(&steps, 16384), 2482176, "its steps count, one for 512 tokens");
}

int main(void)
{
	test_patience();
	test_plan();
	test_slots();
	test_pages();
	test_admits();
	return tap_done();
}
