/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a prompt and of a token goes: the runs and the tables of
 * `haloctl bench model --profile`. Thread: main.
 */
#pragma once
#include "ctl/session.h"

struct bench_profile_args {
	const int32_t *ids; /* (depth + MAX(prompt, 1)) */
	int depth;          /* tokens in the cache before it */
	int prompt, decode; /* tokens; 0: none */
	int n_threads;
	bool per_layer;
};

/* What was measured: of a whole prompt, or of one decoded token. */
struct bench_profile_part {
	const char *name;       /* "prompt" or "token" */
	int n;                  /* tokens of the prompt; tokens decoded */
	struct profile *profile; /* sums; NULL: not measured */
	double share;           /* sums times this: one prompt, or one token */
};

struct bench_profile {
	double read_gbs;
	struct bench_profile_part part[2];
};

/* Says on stderr what is wrong and returns false. bench_profile_deinit either way. */
bool bench_profile_run(struct session *s, const struct bench_profile_args *a,
		       struct bench_profile *out);
void bench_profile_deinit(struct bench_profile *p);
void bench_profile_print(const struct bench_profile *p, const struct bench_profile_args *a);
/* Appends the value of the key "profile". */
void bench_profile_json(const struct bench_profile *p, const struct bench_profile_args *a,
			struct buf *out);
