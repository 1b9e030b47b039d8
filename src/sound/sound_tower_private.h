/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by sound_load.c and sound_tower.c: the weights of a tower and its working memory.
 * Thread: one at a time.
 */
#pragma once
#include "engine/tower.h"
#include "sound/sound_tower.h"

/* Windows of a step, and chunks that are convolved together: one of Whisper's half minutes is as
 * many places as many windows of eight seconds. */
static inline int32_t sound_windows(const struct sound_config *c)
{
	return c->is_conv1d ? 1 : 4;
}

static inline int32_t sound_chunks(const struct sound_config *c)
{
	return c->is_conv1d ? 1 : 4;
}

enum { CONVS = 3, SOUND_PAGE = 64 }; /* CONVS: at most */
static inline int sound_convs(const struct sound_config *c)
{
	return c->is_conv1d ? 2 : CONVS;
}

/* Places that a convolution reads: of a line or of a square. */
static inline int32_t sound_side(const struct sound_config *c)
{
	return c->is_conv1d ? 3 : 9;
}

/* Numbers of a place that the first convolution reads: a GPU's kernels take rows of a multiple of
 * eight, so zeros follow a square's nine. */
static inline int32_t sound_first_k(const struct sound_config *c)
{
	return c->is_conv1d ? 3 * c->n_mels : 16;
}

struct sound_linear {
	struct weight w;
	const float *bias; /* NULL: there is none */
};
struct sound_norm {
	const float *weight, *bias;
};
struct sound_layer {
	struct sound_norm norm1, norm2;
	struct sound_linear q, k, v, out, up, down;
};

enum { SOUND_ARRAYS = 22 }; /* device arrays of a sound_work */

/* Working memory of a step. T: places that the layers see in a step, N: its tokens, D: width, M:
 * places that convolution i leaves of sound_chunks chunks, S: sound_side, C: channels. */
struct sound_work {
	void *seen;         /* (M, sound_first_k): what the first convolution reads */
	void *left[CONVS];  /* (M + 1, C): what they leave, and a place of zeros behind */
	void *gathered;     /* (M, S, C): what the others read */
	int32_t *from[CONVS - 1]; /* (M, S): the places that convolution 1 + i gathers */
	float *x;           /* (T, D) */
	void *norm, *q, *k, *v, *y; /* (T, D) */
	void *wide;         /* (T, ffn_dim) */
	void *mid;          /* (N, mid_width) */
	float *out;         /* (N, out_width) */
	void *k_pages, *v_pages;
	int32_t *slot, *position, *seq_of, *last, *first_tok, *table;
};

struct sound_tower {
	struct sound_config c;
	struct backend *b;
	struct sound_linear conv[CONVS], embed; /* matrices of gathered places; of a column,
						 * unless is_conv1d */
	const float *positions;     /* (T of sound_chunks chunks, D): sinusoids, or learned ones */
	struct sound_layer *layers; /* (n_layers) */
	struct sound_norm norm;                 /* after the layers */
	struct sound_linear up, down;
	struct tower_memory memory;
	struct sound_work work;
	void *arrays[SOUND_ARRAYS];
	float *host;    /* what the first convolution reads, of sound_chunks chunks */
	char *sent;     /* the same in act_type */
	int32_t n_cols; /* frames of a chunk for which work.from is set; 0: not yet */
};

/* Fills the weights of t, whose c, b and layers are set. */
enum status sound_load(struct sound_tower *t, const struct tensors *tensors,
		       struct fail *fail) MUST_USE;
