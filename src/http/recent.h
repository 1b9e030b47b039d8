/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of the requests of the last ten minutes, for GET /stats. Memory is fixed.
 *
 * Times go into buckets of ten seconds, by the moment at which a request ended. A bucket
 * counts them in bins whose edges rise by a sixteenth of an octave. A quantile is therefore
 * within 2.2 % of the nearest-rank quantile of the times themselves. The last
 * RECENT_ROWS requests are kept one by one as well, each with the API key that made it.
 *
 * Thread: io.
 */
#pragma once
#include "sched/request.h"

enum { RECENT_BUCKETS = 60, RECENT_BUCKET_S = 10, RECENT_ROWS = 256 };

struct recent;

/* A request that was submitted to the scheduler and has ended. Holds no text of it. */
struct recent_row {
	char id[129];     /* X-Request-Id */
	uint64_t owner;   /* keys_id; 0: there are no keys */
	const char *path; /* of the request's route; outlives the row */
	int status;       /* of the HTTP answer */
	enum finish finish;
	bool is_stream;
	int n_choices;
	int64_t ended_s; /* seconds since 1970 */
	struct request_stats stats;
	/* Estimates that recent_add fills in; 0: nothing was saved. */
	double cache_saved_ms; /* cached tokens, at the mean cost of a computed one so far */
	double spec_saved_ms;  /* accepted draft tokens, at this request's mean cost of a step */
};

struct recent *recent_create(void);
void recent_destroy(struct recent *r); /* NULL is fine */
void recent_add(struct recent *r, int64_t now_us, const struct recent_row *row);

/* A request was answered with an error's status. recent_add counts those that failed behind a
 * head that said 200. */
void recent_refused(struct recent *r, int64_t now_us);

/* Values at one moment. A bucket keeps the largest of each. */
struct recent_gauges {
	int n_running, n_waiting;
	double kv_usage; /* 0 to 1 */
	int64_t memory_bytes; /* in use on this machine; 0: not looked at now */
};
/* n_made: tokens generated since the start. */
void recent_sample(struct recent *r, int64_t now_us, int64_t n_made,
		   const struct recent_gauges *g);

enum recent_kind { RECENT_TTFT, RECENT_TPOT, RECENT_KINDS };

struct recent_quantiles {
	int64_t n;          /* requests for which this time is known */
	double median, p95; /* ms; NAN where n is 0 */
};

struct recent_bucket_stats {
	struct recent_quantiles kinds[RECENT_KINDS];
	int64_t n_requests, n_output; /* requests that ended; their output tokens */
	int64_t n_failed; /* refused, or ended by a fault; not those whose client went away */
	double tok_per_s; /* generated in this time, whenever their requests end */
	struct recent_gauges most;
};

/* The figures of one bucket. back counts buckets into the past: 0 is being filled now,
 * RECENT_BUCKETS - 1 is the oldest. */
void recent_bucket(const struct recent *r, int64_t now_us, int back,
		   struct recent_bucket_stats *out);
/* Quantiles over all buckets together. */
struct recent_quantiles recent_quantiles(const struct recent *r, int64_t now_us,
					 enum recent_kind kind);
/* The owner's i-th newest row, i from 0; NULL: no more rows are kept. */
const struct recent_row *recent_row(const struct recent *r, uint64_t owner, int i);

/* A request's phases in ms; NAN where a phase was not reached. */
double recent_queue_ms(const struct request_stats *s);
double recent_prefill_ms(const struct request_stats *s); /* to the first token */
double recent_decode_ms(const struct request_stats *s);  /* first to last token */
