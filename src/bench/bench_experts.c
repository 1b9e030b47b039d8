/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_experts.h"

#include <stdio.h>

#include "base/metrics.h"

static void read_counters(struct bench_experts *x)
{
	*x = (struct bench_experts){.hits = metric_get(METRIC_EXPERT_HITS),
				    .misses = metric_get(METRIC_EXPERT_MISSES),
				    .bytes = metric_get(METRIC_EXPERT_READ_BYTES),
				    .wait_s = metric_get(METRIC_EXPERT_WAIT_SECONDS),
				    .ahead = metric_get(METRIC_EXPERT_AHEAD),
				    .ahead_used = metric_get(METRIC_EXPERT_AHEAD_USED)};
}

void bench_experts_begin(struct bench_experts *x)
{
	read_counters(x);
}

void bench_experts_end(struct bench_experts *x, double n_tok)
{
	struct bench_experts now;
	read_counters(&now);
	x->hits = now.hits - x->hits;
	x->misses = now.misses - x->misses;
	x->bytes = now.bytes - x->bytes;
	x->wait_s = now.wait_s - x->wait_s;
	x->ahead = now.ahead - x->ahead;
	x->ahead_used = now.ahead_used - x->ahead_used;
	x->wake_s = metric_get(METRIC_EXPERT_WAKE_SECONDS);
	x->n_tok = metric_get(METRIC_EXPERT_SLOTS) > 0 ? n_tok : 0;
}

static double hit_rate(const struct bench_experts *x)
{
	double uses = x->hits + x->misses;
	return uses > 0 ? x->hits / uses : 1; /* without an expert store no uses are counted: all
					       * experts are in memory */
}

void bench_experts_print(const struct bench_experts *x)
{
	if (x->n_tok == 0)
		return;
	printf("experts       %10.1f %% of uses in memory; %.2f MB and %.3f ms of waiting a "
	       "token", 100 * hit_rate(x), x->bytes * 1e-6 / x->n_tok,
	       x->wait_s * 1e3 / x->n_tok);
	if (x->ahead > 0)
		printf("; %.1f read ahead, %.0f %% of them used", x->ahead / x->n_tok,
		       100 * x->ahead_used / x->ahead);
	if (x->wake_s > 0)
		printf("; %.1f us behind a last byte", x->wake_s * 1e6);
	printf("\n");
}

void bench_experts_json(const struct bench_experts *x, struct buf *b)
{
	if (x->n_tok == 0)
		return;
	buf_addf(b, ",\"experts\":{\"hit_rate\":%.6f,\"bytes_a_token\":%.0f,"
		 "\"wait_ms_a_token\":%.6f,\"wake_us\":%.3f,\"ahead_a_token\":%.6f,"
		 "\"ahead_used_a_token\":%.6f}", hit_rate(x), x->bytes / x->n_tok,
		 x->wait_s * 1e3 / x->n_tok, x->wake_s * 1e6, x->ahead / x->n_tok,
		 x->ahead_used / x->n_tok);
}
