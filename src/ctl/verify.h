/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs `haloctl verify`'s comparison for other commands. Thread: main.
 */
#pragma once
#include "check/reference.h"
#include "ctl/session.h"

struct verify_result {
	int n_cases;
	int64_t n_tok;        /* positions compared; 0: the run failed */
	double max_delta, mean_delta; /* differences of log-probabilities */
	double max_allowed;   /* bound of max_delta, which only a router's tie may exceed */
};

/* Runs the reference's cases in the session that `so` opened, with the default bounds of
 * verify. True: the session keeps them. If a run fails, the reason is printed on stderr. */
bool verify_session(struct session *s, const struct session_opts *so,
		    const struct reference *ref, struct verify_result *out);
