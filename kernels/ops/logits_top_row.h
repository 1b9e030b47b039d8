/* SPDX-License-Identifier: Apache-2.0
 *
 * What logits_top says of a row of logits. C for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	/* More than any top_k or number of log-probabilities in use (64; 20), and where
	 * a text's nucleus of 0.95 nearly always ends. */
	LOGITS_TOP_K = 128,
	/* A row is cut into so many runs at most, each of whole waves. */
	LOGITS_TOP_RUNS = 1024,
	LOGITS_TOP_EACH = 16, /* elements of a run that a lane has, at most */
	LOGITS_TOP_MAX_VOCAB = LOGITS_TOP_RUNS * LOGITS_TOP_EACH * 32,
};

struct logits_top {
	float max;    /* of all V; a NaN or infinite where the row is no distribution */
	float sum;    /* of exp(x - max) over all V; a NaN as max */
	float sum_t;  /* of exp((x - max) * inv_t) */
	int32_t n;    /* min(LOGITS_TOP_K, V) */
	float logit[LOGITS_TOP_K]; /* best first, of equals the lower id first; (n) */
	int32_t id[LOGITS_TOP_K];
};

/* A run: its largest, and the sums with that as max. */
struct logits_run {
	uint32_t key; /* order_key (dialect.h) */
	uint32_t id;
	float sum, sum_t;
};

struct logits_top_launch {
	const float *logits; /* (R, V) */
	const float *inv_t;  /* (R) */
	struct logits_run *runs; /* (R, n_runs) */
	struct logits_top *out;  /* (R) */
	int32_t n_vocab, n_runs;
	int32_t each;        /* elements of a lane of a run, 1..LOGITS_TOP_EACH */
};
