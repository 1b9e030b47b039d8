/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers after the pooling: y = act(W x + b). Sentence Transformers' module Dense, and the
 * head of a reranker. Thread: any, once loaded.
 */
#pragma once
#include "model/tensors.h"

struct embed_dense {
	int32_t n_in, n_out;
	bool is_tanh; /* act is tanh; else the identity */
	float *w;     /* (n_out, n_in), owned */
	float *bias;  /* (n_out), owned; or NULL */
};

/* Reads NAME.weight (n_out, n_in; n_in is known) and, if it is there, NAME.bias. E_MISSING;
 * E_FORMAT: other sizes; E_UNSUPPORTED: not in 16 or 32 bits. */
enum status embed_dense_read(const struct tensors *ts, const char *name, int32_t n_in,
			     struct embed_dense *out, struct fail *fail) MUST_USE;
void embed_dense_deinit(struct embed_dense *d);
/* y (n_out) from x (n_in). */
void embed_dense_run(const struct embed_dense *d, const float *x, float *y);
