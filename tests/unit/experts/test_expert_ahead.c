/* SPDX-License-Identifier: Apache-2.0
 *
 * When reading ahead pays: enough right predictions, and less waiting.
 */
#include "experts/expert_ahead.h"

#include "tests/tap.h"

static void test_predictions(void)
{
	struct expert_ahead a = {0};
	ok(expert_ahead_wants(&a) && !expert_ahead_pays(&a), "predictions are only counted");
	expert_ahead_count(&a, 20, 9);
	expert_ahead_step(&a, 0, 10);
	ok(!expert_ahead_pays(&a), "nine of twenty are too few");
	ok(!expert_ahead_wants(&a), "then a prediction is wanted no longer");
	int n_wanted = 0;
	for (int i = 0; i < 4 * EXPERT_AHEAD_EVERY; i++) {
		n_wanted += expert_ahead_wants(&a);
		expert_ahead_step(&a, 0, 10);
	}
	is_int(n_wanted, 4, "but now and then");
	a.n_steps = 2 * EXPERT_AHEAD_TRIAL;
	expert_ahead_count(&a, 20, 16);
	ok(expert_ahead_pays(&a), "25 of 40 are enough");
	for (int i = 0; i < 40; i++)
		expert_ahead_count(&a, 20, 0);
	ok(!expert_ahead_pays(&a), "old predictions are forgotten");
}

/* Steps of 10 uses, each of which waits for with_s or without_s. Returns in how many of the
 * last period experts were read ahead. */
static int run(double without_s, double with_s)
{
	struct expert_ahead a = {0};
	int n = 0;
	for (int i = 0; i < 3 * EXPERT_AHEAD_PERIOD; i++) {
		bool pays = expert_ahead_pays(&a);
		n += pays && i >= 2 * EXPERT_AHEAD_PERIOD;
		expert_ahead_count(&a, 10, 8);
		expert_ahead_step(&a, 10 * (pays ? with_s : without_s), 10);
	}
	return n;
}

static void test_waiting(void)
{
	is_int(run(3e-3, 2e-3), EXPERT_AHEAD_PERIOD - EXPERT_AHEAD_TRIAL,
	       "less waiting: in all steps but those of the trial");
	is_int(run(2e-3, 3e-3), EXPERT_AHEAD_TRIAL, "more waiting: in those of the trial only");
	is_int(run(0, 0), EXPERT_AHEAD_TRIAL, "no waiting at all: there is nothing to gain");
}

int main(void)
{
	test_predictions();
	test_waiting();
	return tap_done();
}
