/* SPDX-License-Identifier: Apache-2.0
 *
 * The audio tower itself, as operations of a backend:
 *
 *   each chunk of frames:  three convolutions with GELU, 3 by 3 in steps of 2, over numbers and
 *                          frames; x = W of all that a column has left + a sinusoid
 *     or, is_conv1d:         two convolutions with GELU, 3 frames in steps of 1 and of 2;
 *                          x = what they leave + the file's position
 *   each layer:            x += attention(norm(x)), over the places of a window of chunks;
 *                          x += mlp(norm(x))
 *   a token's row = W2 gelu(W1 norm(x)), of `joined` neighbours' norm(x)
 *
 * Windows do not see each other, so a clip is run in steps of sound_windows windows, which have
 * the bits of the whole. A convolution is a matrix, whose inputs are gathered from the rows of
 * the one before: a row is a place, of a column and a frame, with all its channels.
 *
 * Sources: modeling_qwen3_omni_moe.py and modeling_voxtral.py of Hugging Face Transformers.
 * Thread: one at a time.
 */
#pragma once
#include "backend/backend.h"
#include "sound/sound_config.h"

struct sound_tower;

/* Loads every weight of `tensors`, which outlive it, and takes all memory of a step. E_MISSING,
 * E_FORMAT and E_UNSUPPORTED name the tensor, or what b cannot compute. */
enum status sound_tower_create(const struct tensors *tensors, struct backend *b,
			       const struct sound_config *c, struct sound_tower **out,
			       struct fail *fail) MUST_USE;
/* Bytes of those tensors that belong to an audio tower. */
int64_t sound_tower_weight_bytes(const struct tensors *tensors);
/* Bytes of working memory. */
int64_t sound_tower_work_bytes(const struct sound_config *c, struct backend *b);
void sound_tower_destroy(struct sound_tower *t); /* NULL is fine; not the backend */

/* Frames of a step. */
int32_t sound_tower_step(const struct sound_tower *t);

struct sound_piece {
	const float *mel; /* (n_mels, n_frames), the whole clip */
	int32_t n_frames;
	int32_t at;       /* first frame of the step, a multiple of sound_tower_step */
};
/* Runs a step. Writes its tokens' rows, (n, out_width): sound_config_tokens of its frames.
 * E_NOMEM, E_BACKEND. */
enum status sound_tower_run(struct sound_tower *t, const struct sound_piece *p, float *rows,
			    struct fail *fail) MUST_USE;
