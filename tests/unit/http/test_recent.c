/* SPDX-License-Identifier: Apache-2.0 */
#include "http/recent.h"

#include "tests/tap.h"

#define SECOND INT64_C(1000000)
#define BUCKET (RECENT_BUCKET_S * SECOND)
/* Half of a bin, as the header says. */
#define NEAR 0.022

static int64_t now = 1000 * SECOND + 3;

/* A request of n tokens whose phases took so long. It found half of 100 tokens cached. */
static struct recent_row row(double queue_ms, double prefill_ms, double decode_ms, int n)
{
	struct recent_row r = {.id = "r", .path = "/p", .n_choices = 1};
	int64_t at = 5000 * SECOND;
	r.stats = (struct request_stats){.arrival_us = at, .n_prompt = 100, .n_cached = 50,
					 .n_output = n};
	r.stats.scheduled_us = at += (int64_t)(queue_ms * 1000);
	r.stats.first_token_us = at += (int64_t)(prefill_ms * 1000);
	r.stats.last_token_us = at + (int64_t)(decode_ms * 1000);
	return r;
}

static void add(struct recent *r, struct recent_row x)
{
	recent_add(r, now, &x);
}

static void test_empty(void)
{
	struct recent *r = recent_create();
	struct recent_bucket_stats b;
	struct recent_quantiles q = recent_quantiles(r, now, RECENT_TTFT);
	ok(q.n == 0 && isnan(q.median) && isnan(q.p95), "nothing has no median");
	recent_bucket(r, now, 0, &b);
	ok(b.n_requests == 0 && b.most.n_running == 0 && isnan(b.kinds[RECENT_TPOT].p95),
	   "nor has a bucket");
	ok(!recent_row(r, 0, 0), "no row");
	recent_destroy(r);
	recent_destroy(NULL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Times over six decades, in no order; what is true of them is read off the sorted list. */
static void test_quantiles(void)
{
	enum { N = 999 };
	struct recent *r = recent_create();
	double times[N];
	for (int i = 0; i < N; i++) {
		times[i] = 0.05 * pow(10, 6.0 * (i * 577 % N) / N);
		add(r, row(0, times[i], 0, 1));
	}
	qsort(times, N, sizeof *times, by_value);
	struct recent_quantiles q = recent_quantiles(r, now, RECENT_TTFT);
	is_int(q.n, N, "all are counted");
	is_near(q.median / times[499], 1, NEAR, "the median");
	is_near(q.p95 / times[949], 1, NEAR, "the 95th percentile");
	is_int(recent_quantiles(r, now, RECENT_TPOT).n, 0, "one token has no TPOT");
	recent_destroy(r);
}

static void test_ends(void)
{
	struct recent *r = recent_create();
	add(r, row(1, 0, 90, 10)); /* TTFT 1 ms, TPOT 10 ms */
	struct recent_quantiles q = recent_quantiles(r, now, RECENT_TTFT);
	ok(q.median == q.p95, "one time is every quantile");
	is_near(q.median, 1, NEAR, "TTFT has the queue in it");
	is_near(recent_quantiles(r, now, RECENT_TPOT).p95 / 10, 1, NEAR, "TPOT");
	struct recent_row none = row(0, 0, 0, 0);
	none.stats.first_token_us = none.stats.last_token_us = 0;
	add(r, none);
	is_int(recent_quantiles(r, now, RECENT_TTFT).n, 1, "no token, no TTFT");
	add(r, row(0, 1e9, 0, 1));
	add(r, row(0, 0, 0, 1));
	q = recent_quantiles(r, now, RECENT_TTFT);
	ok(q.n == 3 && q.p95 > 5e6 && isfinite(q.p95), "a time of days is in the last bin");
	recent_destroy(r);
}

/* Of two that end by a fault one has an error's status: that one was counted when it got it. */
static void test_failed(void)
{
	struct recent *r = recent_create();
	struct recent_bucket_stats b;
	struct recent_row x = row(0, 10, 0, 7);
	x.finish = FINISH_ERROR;
	x.status = 200;
	add(r, x);
	x.status = 500;
	add(r, x);
	x.finish = FINISH_ABORT;
	x.status = 499;
	add(r, x);
	recent_refused(r, now);
	recent_bucket(r, now, 0, &b);
	is_int(b.n_failed, 2, "a fault in a stream and a refusal have failed");
	is_int(b.n_requests, 3, "a refusal has not run");
	recent_destroy(r);
}

/* The bucket that is being filled counts the seconds so far, at least one. */
static void test_speed(void)
{
	struct recent *r = recent_create();
	struct recent_bucket_stats b;
	int64_t start = now / BUCKET * BUCKET + BUCKET;
	recent_sample(r, start + SECOND / 10, 30, &(struct recent_gauges){0});
	recent_bucket(r, start + SECOND / 10, 0, &b);
	is_near(b.tok_per_s, 30, 1e-9, "the first second");
	recent_sample(r, start + 2 * SECOND, 80, &(struct recent_gauges){0});
	recent_bucket(r, start + 4 * SECOND, 0, &b);
	is_near(b.tok_per_s, 20, 1e-9, "80 tokens in four");
	recent_destroy(r);
}

static void test_buckets(void)
{
	struct recent *r = recent_create();
	struct recent_bucket_stats b;
	int64_t start = now;
	add(r, row(0, 10, 0, 7));
	recent_sample(r, now, 100, &(struct recent_gauges){2, 5, 0.5, 0});
	recent_sample(r, now, 130, &(struct recent_gauges){3, 1, 0.25, 7});
	now += BUCKET;
	add(r, row(0, 1000, 0, 1));
	recent_bucket(r, now, 1, &b);
	ok(b.n_requests == 1 && b.n_output == 7 && b.most.n_running == 3 &&
		   b.most.n_waiting == 5 && b.most.kv_usage == 0.5,
	   "a bucket has the most of what was");
	is_int(b.most.memory_bytes, 7, "of memory, too");
	is_near(b.tok_per_s, 13, 1e-9, "130 tokens in ten seconds");
	is_near(b.kinds[RECENT_TTFT].median / 10, 1, NEAR, "and its own times");
	recent_bucket(r, now, 0, &b);
	is_near(b.kinds[RECENT_TTFT].median / 1000, 1, NEAR, "the next one has others");
	is_int(b.most.n_running, 0, "and begins anew");
	now = start + (RECENT_BUCKETS - 1) * BUCKET;
	is_int(recent_quantiles(r, now, RECENT_TTFT).n, 2, "ten minutes are kept");
	now += BUCKET;
	is_int(recent_quantiles(r, now, RECENT_TTFT).n, 1, "what is older is not");
	recent_bucket(r, now, 0, &b);
	is_int(b.n_requests, 0, "nor does it come back when the ring is round");
	add(r, row(0, 30, 0, 2));
	recent_bucket(r, now, 0, &b);
	ok(b.n_requests == 1 && b.n_output == 2 && b.most.n_running == 0,
	   "its bucket is used again, empty");
	is_int(recent_quantiles(r, now, RECENT_TTFT).n, 2, "and counts");
	now += 1000 * BUCKET;
	is_int(recent_quantiles(r, now, RECENT_TTFT).n, 0, "after a long silence");
	recent_destroy(r);
}

static void test_rows(void)
{
	struct recent *r = recent_create();
	for (int i = 0; i < RECENT_ROWS + 10; i++) {
		struct recent_row x = row(0, 1, 0, 1);
		snprintf(x.id, sizeof x.id, "%d", i);
		x.owner = i % 2 ? 7 : 8;
		add(r, x);
	}
	is_str(recent_row(r, 7, 0)->id, "265", "the newest of an owner");
	is_str(recent_row(r, 8, 1)->id, "262", "the one before of another");
	is_str(recent_row(r, 8, RECENT_ROWS / 2 - 1)->id, "10", "the oldest");
	ok(!recent_row(r, 8, RECENT_ROWS / 2), "older ones are gone");
	ok(!recent_row(r, 0, 0), "an owner without requests");
	recent_destroy(r);
}

static void test_saved(void)
{
	struct recent *r = recent_create();
	add(r, row(0, 100, 0, 1)); /* 50 computed tokens: 2 ms each */
	is_near(recent_row(r, 0, 0)->cache_saved_ms, 100, 1e-9, "50 cached tokens saved that");
	struct recent_row x = row(0, 5, 0, 1);
	x.stats.n_cached = 99; /* one token behind a long prefix: 5 ms */
	add(r, x);
	is_near(recent_row(r, 0, 0)->cache_saved_ms, 99 * 5005 / 2501.0, 1e-9,
		"at what fits both prompts best: the long one says it");
	x = row(0, 5, 120, 19);
	x.stats.n_drafted = 8;
	x.stats.n_accepted = 6; /* 18 tokens in 12 steps of 10 ms */
	add(r, x);
	is_near(recent_row(r, 0, 0)->spec_saved_ms, 60, 1e-9, "6 accepted draft tokens");
	recent_destroy(r);
}

static void test_phases(void)
{
	struct recent_row x = row(1, 20, 300, 5);
	is_near(recent_queue_ms(&x.stats), 1, 1e-9, "queue");
	is_near(recent_prefill_ms(&x.stats), 20, 1e-9, "prefill");
	is_near(recent_decode_ms(&x.stats), 300, 1e-9, "decode");
	x.stats.first_token_us = x.stats.last_token_us = 0;
	ok(isnan(recent_prefill_ms(&x.stats)) && isnan(recent_decode_ms(&x.stats)),
	   "what was not reached");
	x.stats.scheduled_us = 0;
	ok(isnan(recent_queue_ms(&x.stats)), "a request that never left the queue");
}

int main(void)
{
	test_empty();
	test_quantiles();
	test_ends();
	test_failed();
	test_speed();
	test_buckets();
	test_rows();
	test_saved();
	test_phases();
	return tap_done();
}
