/* SPDX-License-Identifier: Apache-2.0 */
#include "http/recent.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

#define BUCKET_US (RECENT_BUCKET_S * INT64_C(1000000))
#define BINS_PER_OCTAVE 16
#define LEAST_MS 0.01
/* 29 octaves above LEAST_MS: up to an hour and a half. Longer times count in the last bin. */
#define N_BINS (29 * BINS_PER_OCTAVE)

struct bucket {
	int64_t number; /* the clock's time in tens of seconds; -1: never used */
	uint16_t bins[RECENT_KINDS][N_BINS];
	int64_t n_requests, n_output, n_failed, n_made;
	struct recent_gauges most;
};

struct recent {
	struct bucket buckets[RECENT_BUCKETS];
	struct recent_row rows[RECENT_ROWS];
	int64_t n_made; /* tokens by the last sample */
	int64_t n_rows; /* rows ever added; the newest is at (n_rows - 1) % RECENT_ROWS */
	/* Over all prompts since the start, with n tokens computed in t ms: the sums of n*t
	 * and n*n. */
	double sum_nt, sum_nn;
};

struct recent *recent_create(void)
{
	struct recent *r = xcalloc(1, sizeof *r);
	for (int i = 0; i < RECENT_BUCKETS; i++)
		r->buckets[i].number = -1;
	return r;
}

void recent_destroy(struct recent *r)
{
	free(r);
}

/* --- phases ------------------------------------------------------------------------- */

static double span_ms(int64_t from_us, int64_t to_us)
{
	return from_us && to_us ? (double)(to_us - from_us) / 1000 : NAN;
}

double recent_queue_ms(const struct request_stats *s)
{
	return span_ms(s->arrival_us, s->scheduled_us);
}

double recent_prefill_ms(const struct request_stats *s)
{
	return span_ms(s->scheduled_us, s->first_token_us);
}

double recent_decode_ms(const struct request_stats *s)
{
	return s->first_token_us ? span_ms(s->first_token_us, s->last_token_us) : NAN;
}

/* --- in ----------------------------------------------------------------------------- */

static struct bucket *bucket_at(struct recent *r, int64_t now_us)
{
	int64_t number = now_us / BUCKET_US;
	struct bucket *b = &r->buckets[number % RECENT_BUCKETS];
	if (b->number != number)
		*b = (struct bucket){.number = number};
	return b;
}

static void recent_count(struct bucket *b, enum recent_kind kind, double ms)
{
	if (isnan(ms))
		return;
	double bin = floor(log2(fmax(ms, LEAST_MS) / LEAST_MS) * BINS_PER_OCTAVE);
	uint16_t *n = &b->bins[kind][bin < N_BINS ? (int)bin : N_BINS - 1];
	if (*n < UINT16_MAX)
		++*n;
}

/* Estimates the cost c of a computed prompt token: least squares of t = c*n over all
 * prompts since the start, this one included. So long prompts decide. A few tokens behind a
 * long cached prefix would make c too large: each step has a fixed cost. */
static double cache_saved_ms(struct recent *r, const struct request_stats *s)
{
	double ms = recent_prefill_ms(s);
	int n_computed = s->n_prompt - s->n_cached;
	if (!isnan(ms) && n_computed > 0) {
		r->sum_nt += n_computed * ms;
		r->sum_nn += (double)n_computed * n_computed;
	}
	return r->sum_nn > 0 ? s->n_cached * r->sum_nt / r->sum_nn : 0;
}

/* Each accepted draft token saved one decode step. */
static double spec_saved_ms(const struct request_stats *s, int n_choices)
{
	double ms = recent_decode_ms(s);
	int n_steps = s->n_output - n_choices - s->n_accepted;
	return s->n_accepted && n_steps > 0 && !isnan(ms) ? s->n_accepted * ms / n_steps : 0;
}

void recent_add(struct recent *r, int64_t now_us, const struct recent_row *row)
{
	const struct request_stats *s = &row->stats;
	struct bucket *b = bucket_at(r, now_us);
	struct recent_row *to = &r->rows[r->n_rows++ % RECENT_ROWS];
	*to = *row;
	to->cache_saved_ms = cache_saved_ms(r, s);
	to->spec_saved_ms = spec_saved_ms(s, row->n_choices);
	b->n_requests++;
	b->n_failed += row->finish == FINISH_ERROR && row->status < 400;
	b->n_output += s->n_output;
	if (!s->first_token_us)
		return;
	recent_count(b, RECENT_TTFT, request_ttft_ms(s));
	recent_count(b, RECENT_TPOT, request_tpot_ms(s, row->n_choices));
}

void recent_refused(struct recent *r, int64_t now_us)
{
	bucket_at(r, now_us)->n_failed++;
}

void recent_sample(struct recent *r, int64_t now_us, int64_t n_made,
		   const struct recent_gauges *g)
{
	struct bucket *b = bucket_at(r, now_us);
	struct recent_gauges *most = &b->most;
	b->n_made += n_made - r->n_made;
	r->n_made = n_made;
	most->n_running = MAX(most->n_running, g->n_running);
	most->n_waiting = MAX(most->n_waiting, g->n_waiting);
	most->kv_usage = fmax(most->kv_usage, g->kv_usage);
	most->memory_bytes = MAX(most->memory_bytes, g->memory_bytes);
}

/* --- out ---------------------------------------------------------------------------- */

static const struct bucket *bucket_back(const struct recent *r, int64_t now_us, int back)
{
	int64_t number = now_us / BUCKET_US - back;
	const struct bucket *b = number < 0 ? NULL : &r->buckets[number % RECENT_BUCKETS];
	return b && b->number == number ? b : NULL;
}

/* Nearest rank: the smallest time that at least `share` of all times do not exceed. The
 * result is the bin's middle on a logarithmic scale. */
static double quantile(const uint32_t *bins, int64_t n, double share)
{
	int64_t rank = MAX((int64_t)ceil(share * (double)n), 1), seen = 0;
	for (int i = 0; i < N_BINS && n > 0; i++) {
		seen += bins[i];
		if (seen >= rank)
			return LEAST_MS * exp2((i + 0.5) / BINS_PER_OCTAVE);
	}
	return NAN;
}

/* Quantiles over n_back buckets, from bucket `back` into the past. */
static struct recent_quantiles quantiles_of(const struct recent *r, int64_t now_us,
					    enum recent_kind kind, int back, int n_back)
{
	uint32_t sum[N_BINS] = {0};
	struct recent_quantiles q = {0};
	for (int k = back; k < back + n_back; k++) {
		const struct bucket *b = bucket_back(r, now_us, k);
		for (int i = 0; b && i < N_BINS; i++) {
			sum[i] += b->bins[kind][i];
			q.n += b->bins[kind][i];
		}
	}
	q.median = quantile(sum, q.n, 0.5);
	q.p95 = quantile(sum, q.n, 0.95);
	return q;
}

struct recent_quantiles recent_quantiles(const struct recent *r, int64_t now_us,
					 enum recent_kind kind)
{
	return quantiles_of(r, now_us, kind, 0, RECENT_BUCKETS);
}

void recent_bucket(const struct recent *r, int64_t now_us, int back,
		   struct recent_bucket_stats *out)
{
	const struct bucket *b = bucket_back(r, now_us, back);
	*out = (struct recent_bucket_stats){0};
	for (int k = 0; k < RECENT_KINDS; k++)
		out->kinds[k] = quantiles_of(r, now_us, k, back, 1);
	if (!b)
		return;
	out->n_requests = b->n_requests;
	out->n_output = b->n_output;
	out->n_failed = b->n_failed;
	/* The bucket that is being filled: what came per second so far. */
	int64_t us = back ? BUCKET_US : MAX(now_us % BUCKET_US, 1000000);
	out->tok_per_s = (double)b->n_made * 1e6 / (double)us;
	out->most = b->most;
}

const struct recent_row *recent_row(const struct recent *r, uint64_t owner, int i)
{
	int64_t first = MAX(r->n_rows - RECENT_ROWS, 0);
	for (int64_t k = r->n_rows - 1; k >= first; k--) {
		const struct recent_row *row = &r->rows[k % RECENT_ROWS];
		if (row->owner == owner && i-- == 0)
			return row;
	}
	return NULL;
}
