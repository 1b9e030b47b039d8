/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a prompt and of a token goes: the runs and the tables of
 * `haloctl bench model --profile`. Thread: main.
 */
#pragma once
#include "ctl/session.h"

struct bench_profile_args {
	const int32_t *ids; /* (depth + MAX(prompt, 1)) */
	int depth;          /* tokens in the KV cache before the prompt or token */
	int prompt, decode; /* numbers of tokens to measure; 0: do not measure */
	int n_threads;
	bool per_layer;
};

/* The measurement of a whole prompt, or of one decoded token. */
struct bench_profile_part {
	const char *name;       /* "prompt" or "token" */
	int n;                  /* tokens of the prompt; tokens decoded */
	struct profile *profile; /* sums over all measured steps; NULL: not measured */
	double share;           /* factor from these sums to one prompt or one token */
};

struct bench_profile {
	double read_gbs;
	struct bench_profile_part part[2];
};

/* False: the reason was printed on stderr. Call bench_profile_deinit in any case. */
bool bench_profile_run(struct session *s, const struct bench_profile_args *a,
		       struct bench_profile *out);
void bench_profile_deinit(struct bench_profile *p);
void bench_profile_print(const struct bench_profile *p, const struct bench_profile_args *a);
/* Appends the JSON value of the key "profile". */
void bench_profile_json(const struct bench_profile *p, const struct bench_profile_args *a,
			struct buf *out);
