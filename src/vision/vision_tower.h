/* SPDX-License-Identifier: Apache-2.0
 *
 * The tower itself, as operations of a backend:
 *
 *   x = W patch + b + learned position
 *   each layer:  x += attention(norm(x)), over all patches, rotated by row and column;
 *                x += mlp(norm(x))
 *   a token = mlp of merge x merge neighbours of norm(x); the layers in deep_at give such
 *   rows too, with the norm over all neighbours together
 *
 * Gemma 4 also normalises what a layer adds, and clamps inputs and outputs of its matrices to
 * ranges. Gemma 4 Unified has no layers (vision_plain.c).
 *
 * Sources: modeling_qwen3_vl.py and modeling_gemma4.py of Hugging Face Transformers. Thread: one
 * at a time.
 */
#pragma once
#include "backend/backend.h"
#include "image/image.h"
#include "vision/vision_config.h"
#include "vision/vision_patches.h"

struct vision_tower;

/* Loads every weight of `tensors`, which outlive it. E_MISSING, E_FORMAT and E_UNSUPPORTED
 * name the tensor, or what b cannot compute. */
enum status vision_tower_create(const struct tensors *tensors, struct backend *b,
				const struct vision_config *c, struct vision_tower **out,
				struct fail *fail) MUST_USE;
/* Bytes of those tensors that belong to a tower. */
int64_t vision_tower_weight_bytes(const struct tensors *tensors);
/* Bytes of working memory for an image of n patches, while the tower runs. */
int64_t vision_tower_work_bytes(const struct vision_config *c, struct backend *b, int32_t n);
void vision_tower_destroy(struct vision_tower *t); /* NULL is fine; not the backend */

/* Takes the memory for images of up to n patches now, in this thread. Without this call
 * vision_tower_run takes memory for each image. */
enum status vision_tower_keep(struct vision_tower *t, int32_t n, struct fail *fail) MUST_USE;

/* The images have a size of vision_patches_size or vision_patches_video. Writes rows (1 + n_deep,
 * n, out_width) for n tokens. E_NOMEM, E_BACKEND. */
enum status vision_tower_run(struct vision_tower *t, const struct vision_pixels *p, float *rows,
			     struct fail *fail) MUST_USE;
