/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of an encoder, shared by encoder_load.c and encoder.c. Thread: one at a time.
 */
#pragma once
#include "embed/encoder.h"

struct encoder_norm {
	const float *weight, *bias; /* bias NULL: it is an RMS norm */
};
struct encoder_linear {
	struct weight w;
	const float *bias; /* or NULL */
};
struct encoder_layer {
	struct encoder_norm mixer, mlp;           /* before each part; not BERT */
	struct encoder_norm mixer_post, mlp_post; /* after each part */
	struct encoder_linear q, k, v, out, gate, up, down; /* gate: not if is_ungated */
	const float *q_norm, *k_norm;             /* (head_dim) or NULL */
	int32_t window; /* tokens that it sees to each side, itself included; 0: all */
	int rope;       /* index in ropes; -1: no rope */
};

struct encoder {
	struct model *m;
	const struct model_config *c;
	struct backend *b;
	struct weight embed;
	const float *places, *types; /* host: (n_places, d_model), (n_types, d_model) or NULL */
	struct encoder_norm embed_norm, out_norm; /* embed_norm: BERT only; out_norm: others
						   * only */
	struct encoder_layer *layers; /* (n_layers) */
	const double *inv_freq[MODEL_MAX_ROPES];
	double rope_scale[MODEL_MAX_ROPES];
	void **blocks; /* device memory of the weights */
	size_t n_blocks;
};

/* Fills the weights of e, whose m, c, b and layers are set. */
enum status encoder_load(struct encoder *e, struct fail *fail) MUST_USE;
