/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's vision tower on a backend, for an image of any size, or its audio tower, for a clip of
 * any length. Thread: main.
 */
#pragma once
#include "backend/backend.h"
#include "model/model.h"

struct predict_tower;

struct predict_tower_opts {
	int32_t side;    /* a picture of so many pixels a side; 0: a clip … */
	int32_t seconds; /* … of so many seconds */
};

/* Loads the tower of m. E_UNSUPPORTED: m has none. */
enum status predict_tower_open(const struct model *m, struct backend *b,
			       const struct predict_tower_opts *o, struct predict_tower **out,
			       struct fail *fail) MUST_USE;
/* "image of 1024 x 1024 pixels: 4096 patches, 1024 tokens" */
const char *predict_tower_name(const struct predict_tower *p);
/* Runs the tower on the picture, or on the clip. */
enum status predict_tower_run(struct predict_tower *p, struct fail *fail) MUST_USE;
void predict_tower_close(struct predict_tower *p); /* NULL is fine */
