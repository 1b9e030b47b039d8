/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"
#include "base/profile.h"
#include "tests/tap.h"

/* A device whose mark i is reached i * i seconds after mark 0. */
static bool mark(void *ctx, int i)
{
	*(int *)ctx = i;
	return true;
}

static bool times(void *ctx, int n, double *out_s)
{
	for (int i = 0; i < n; i++)
		out_s[i] = i * i;
	return n == *(int *)ctx + 1;
}

static bool times_fail(void *ctx, int n, double *out_s)
{
	(void)ctx, (void)n, (void)out_s;
	return false;
}

/* EMBED 1 s, layer 0 QKV 3 s, layer 1 QKV 5 s, HEAD 7 s. */
static void step(struct profile *p, bool is_good)
{
	if (!profile_begin(p)) {
		profile_end(p, 2, is_good);
		return;
	}
	profile_layer(p, 0);
	profile_enter(p, PROFILE_QKV);
	profile_enter(p, PROFILE_QKV); /* no second mark */
	profile_bytes(p, PROFILE_QKV, 100);
	profile_layer(p, 1);
	profile_mark(p, PROFILE_QKV);
	profile_bytes(p, PROFILE_QKV, 11);
	profile_layer(p, -1);
	profile_enter(p, PROFILE_HEAD);
	profile_end(p, 2, is_good);
}

static double all_stages(const struct profile *p)
{
	double s = 0;
	for (int i = 0; i < PROFILE_COUNT; i++)
		s += profile_sum(p, -1, (enum profile_stage)i).s;
	return s;
}

static void test_device(void)
{
	int last = -1;
	struct profile_device d = {mark, times, &last};
	struct profile *p = profile_create(2, 3);
	p->device = &d;
	for (int i = 0; i < 4; i++)
		step(p, true);
	is_int(p->n_steps, 2, "of four steps, the first and the fourth are measured");
	is_int(p->n_tok, 4, "with their tokens");
	ok(profile_sum(p, 0, PROFILE_QKV).s == 6 && profile_sum(p, 1, PROFILE_QKV).s == 10,
	   "a layer has what its stages took");
	ok(profile_sum(p, -1, PROFILE_QKV).s == 16, "and their sum is that of the stage");
	ok(profile_sum(p, -1, PROFILE_EMBED).s == 2 && profile_sum(p, -1, PROFILE_HEAD).s == 14,
	   "stages outside of layers count as well");
	ok(profile_sum(p, -1, PROFILE_QKV).bytes == 222, "bytes add up");
	ok(metric_get_by(METRIC_STAGE_SECONDS, "qkv") == 16 &&
		   metric_get_by(METRIC_STAGE_BYTES, "qkv") == 222 &&
		   metric_get(METRIC_PROFILED_STEPS) == 2,
	   "the metrics have the same");
	profile_add(p, PROFILE_SAMPLING, 1); /* the fourth step was measured */
	step(p, true);                       /* the fifth is not */
	profile_add(p, PROFILE_SAMPLING, 10);
	ok(profile_sum(p, -1, PROFILE_SAMPLING).s == 1,
	   "sampling counts behind measured steps only");
	d.times = times_fail;
	profile_reset(p);
	step(p, true);
	is_int(p->n_steps, 0, "a device that lost its times leaves no numbers");
	ok(all_stages(p) == 0, "none of any stage");
	profile_destroy(p);
}

static void test_host(void)
{
	struct profile *p = profile_create(1, 1);
	step(NULL, true); /* nothing is measured, nothing happens */
	ok(profile_begin(p), "every step is measured");
	for (int i = 0; i < 100; i++) { /* more marks than there is room for at first */
		profile_layer(p, 0);
		profile_enter(p, PROFILE_NORM);
		profile_enter(p, PROFILE_QKV);
	}
	is_int(profile_now(p), PROFILE_QKV, "the stage now, to go back to");
	profile_end(p, 1, true);
	ok(all_stages(p) > 0, "the host's clock is used without a device");
	profile_reset(p);
	step(p, false);
	is_int(p->n_steps, 0, "a step that failed is forgotten");
	struct profile_cell qkv = profile_sum(p, -1, PROFILE_QKV);
	ok(qkv.s == 0 && qkv.bytes == 0, "its time and its bytes with it");
	profile_destroy(p);
}

int main(void)
{
	for (int i = 0; i < PROFILE_COUNT; i++) /* asserts that the metrics' label has it */
		metric_add_by(METRIC_STAGE_SECONDS, profile_name((enum profile_stage)i), 0);
	ok(true, "the metrics know every stage");
	test_device();
	test_host();
	return tap_done();
}
