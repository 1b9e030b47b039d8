/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's vision tower on a backend, for an image of any size. Thread: main.
 */
#pragma once
#include "backend/backend.h"
#include "model/model.h"

struct predict_image;

/* Loads the tower of m for a picture of side x side pixels. E_UNSUPPORTED: m has none. */
enum status predict_image_open(const struct model *m, struct backend *b, int32_t side,
			       struct predict_image **out, struct fail *fail) MUST_USE;
/* "image of 1024 x 1024 pixels: 4096 patches, 1024 tokens" */
const char *predict_image_name(const struct predict_image *p);
/* Runs the tower on the picture. */
enum status predict_image_run(struct predict_image *p, struct fail *fail) MUST_USE;
void predict_image_close(struct predict_image *p); /* NULL is fine */
