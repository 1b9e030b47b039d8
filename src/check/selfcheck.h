/* SPDX-License-Identifier: Apache-2.0
 *
 * halo-tiny runs a few tokens on the backend that will serve, and its log-probabilities are
 * compared with those that transformers computed (reference.json). A wrong kernel, driver
 * or memory shows here before a client sees it. Thread: engine.
 */
#pragma once
#include "backend/backend.h"

/* Largest mean and largest single difference of a log-probability. Measured over these
 * tokens: exact CPU 0.000004 and 0.00003; CPU with avx2, avx512 or avx512_bf16 0.0003 and
 * 0.002; HIP with halves, on fibers, 0.0007 and 0.005. 64 KiB of random bytes in
 * halo-tiny's weights gave a mean of 0.0035 or more, in 60 draws. Of 60 draws of 4 KiB some
 * cannot be seen: they hit experts and rows of the vocabulary that these tokens do not use. */
#define SELFCHECK_MAX_MEAN 0.002
#define SELFCHECK_MAX_DELTA 0.02

struct selfcheck_result {
	int n_compared;        /* log-probabilities */
	double mean, max;      /* |difference|; NAN or infinite where the logits were */
	double seconds;        /* the whole check, with loading halo-tiny */
	bool is_pass;
};

/* dir: halo-tiny's folder. E_MISSING: the check could not be made, because the folder or
 * its reference cannot be used, or memory is too short. Other errors: the backend failed.
 * OK: *out has the result. */
enum status selfcheck_run(const char *dir, const struct backend_opts *opts,
			  struct selfcheck_result *out, struct fail *fail) MUST_USE;
