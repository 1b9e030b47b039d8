/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by sound_load.c and sound_tower.c: the weights of a tower and its working memory.
 * Thread: one at a time.
 */
#pragma once
#include "engine/tower.h"
#include "sound/sound_tower.h"

/* STEP_WINDOWS: windows of a step. CONV_CHUNKS: chunks that are convolved together. SIDE: places
 * that a convolution reads. FIRST_K: numbers of a place that the first one reads, SIDE and zeros:
 * a GPU's kernels take rows of a multiple of eight. */
enum { STEP_WINDOWS = 4, CONV_CHUNKS = 4, CONVS = 3, SIDE = 9, FIRST_K = 16, SOUND_PAGE = 64 };

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

/* Working memory of a step. T: tokens of a step, D: width, M: places that convolution i leaves of
 * CONV_CHUNKS chunks, C: channels. */
struct sound_work {
	void *seen;         /* (M, FIRST_K): what the first convolution reads */
	void *left[CONVS];  /* (M + 1, C): what they leave, and a place of zeros behind */
	void *gathered;     /* (M, SIDE, C): what the others read */
	int32_t *from[CONVS - 1]; /* (M, SIDE): the places that convolution 1 + i gathers */
	float *places;      /* (tokens of CONV_CHUNKS chunks, D): sinusoids */
	float *x;           /* (T, D): tokens */
	void *norm, *q, *k, *v, *y; /* (T, D) */
	void *wide;         /* (T, ffn_dim) */
	float *out;         /* (T, out_width) */
	void *k_pages, *v_pages;
	int32_t *slot, *position, *seq_of, *last, *first_tok, *table;
};

struct sound_tower {
	struct sound_config c;
	struct backend *b;
	struct sound_linear conv[CONVS], embed; /* matrices of gathered places; of a column */
	struct sound_layer *layers;             /* (n_layers) */
	struct sound_norm norm;                 /* after the layers */
	struct sound_linear up, down;
	struct tower_memory memory;
	struct sound_work work;
	void *arrays[SOUND_ARRAYS];
	float *host;    /* places of the first convolution, of CONV_CHUNKS chunks */
	char *sent;     /* the same in act_type */
	int32_t n_cols; /* frames of a chunk for which work.from is set; 0: not yet */
};

/* Fills the weights of t, whose c, b and layers are set. */
enum status sound_load(struct sound_tower *t, const struct tensors *tensors,
		       struct fail *fail) MUST_USE;
