/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of logits_top for one row of logits. C for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	/* More than any top_k or number of log-probabilities in use (64; 20). A nucleus
	 * of 0.95 in text nearly always fits too. */
	LOGITS_TOP_K = 128,
	/* Most runs that a row is divided into; a run is whole waves. */
	LOGITS_TOP_RUNS = 1024,
	LOGITS_TOP_EACH = 16, /* most elements of a run in one lane */
	LOGITS_TOP_MAX_VOCAB = LOGITS_TOP_RUNS * LOGITS_TOP_EACH * 32,
};

struct logits_top {
	float max;    /* largest logit; NaN or infinite if the row is not a distribution */
	float sum;    /* sum of exp(x - max) over all V; NaN if max is invalid */
	float sum_t;  /* sum of exp((x - max) * inv_t) */
	int32_t n;    /* entries below: min(LOGITS_TOP_K, V) */
	float logit[LOGITS_TOP_K]; /* (n), best first; of equals the lower id first */
	int32_t id[LOGITS_TOP_K];
};

/* A run of a row: its largest logit, and its sums with that logit as max. */
struct logits_run {
	uint32_t key; /* order_key of the logit (dialect.h) */
	uint32_t id;
	float sum, sum_t;
};

struct logits_top_launch {
	const float *logits; /* (R, V) */
	const float *inv_t;  /* (R) */
	struct logits_run *runs; /* (R, n_runs) */
	struct logits_top *out;  /* (R) */
	int32_t n_vocab, n_runs;
	int32_t each;        /* elements of a run in one lane, 1..LOGITS_TOP_EACH */
	int32_t filler; /* tests/lint/check-padding */
};
