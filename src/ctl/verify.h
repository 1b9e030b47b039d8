/* SPDX-License-Identifier: Apache-2.0
 *
 * What `haloctl verify` does, for other commands. Thread: main.
 */
#pragma once
#include "check/reference.h"
#include "ctl/session.h"

struct verify_result {
	int n_cases;
	int64_t n_tok;        /* positions compared; 0: the run failed */
	double max_delta, mean_delta; /* differences of log-probabilities */
	double max_allowed;   /* of max_delta, but for what a router's tie explains */
};

/* Run the reference's cases in the session that `so` opened, with the bounds that verify
 * has by default. True: it keeps them. Where a run fails, the reason is on stderr. */
bool verify_session(struct session *s, const struct session_opts *so,
		    const struct reference *ref, struct verify_result *out);
