/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of a tower, between vision_load.c and vision_tower.c. Thread: one at a time.
 */
#pragma once
#include "vision/vision_tower.h"

struct vision_linear {
	struct weight w;
	const float *bias;
};
struct vision_norm {
	const float *weight, *bias;
};
struct vision_layer {
	struct vision_norm norm1, norm2;
	struct vision_linear q, k, v, out, up, down;
};
/* Of neighbours to a token. */
struct vision_merger {
	struct vision_norm norm;
	struct vision_linear up, down;
	bool is_late; /* the norm is over all neighbours together */
};

struct vision_tower {
	struct vision_config c;
	struct backend *b;
	struct vision_linear patch;
	float *places;                /* host (side, side, width), learned positions */
	struct vision_layer *layers;  /* (depth) */
	struct vision_merger merger[1 + VISION_MAX_DEEP]; /* the last one's, then deep_at's */
	void **blocks;                /* device memory */
	size_t n_blocks;
};

/* Fills the weights of t, whose c, b and layers are set. */
enum status vision_load(struct vision_tower *t, struct model *m, struct fail *fail) MUST_USE;
