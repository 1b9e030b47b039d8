/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections: several residual streams (streams.c). Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

/* The two of a layer, and the one after the last layer. */
enum streams_part { STREAMS_MIXER, STREAMS_MLP, STREAMS_LAST, STREAMS_PARTS };
struct stream_gates {
	const float *norm;              /* (S, D) */
	struct weight down, up, inject; /* (R, S D), (S D, R), (S, S D); the last has no inject */
	/* With n_iters: ((2 + S) S, S D), and in the last part (S, S D); as in
	 * hyper_split_args. */
	struct weight fn;
	const float *scale, *base;
};

struct streams_scratch {
	/* A family says this. */
	int32_t count, rank; /* S, R; count 0: the model has one stream */
	int32_t n_iters;     /* > 0: steps that make the gates doubly stochastic, without rank */
	float eps;           /* of these steps */
	bool has_plain_end;  /* with n_iters: the last part is the mean, without weights */

	struct stream_gates last;
	float *x;            /* (T, S, D) the residual streams */
	void *n;             /* (T, S, D) act: their norms */
	float *wide;         /* (T, S, D) gates; keys and values of n-grams */
	float *low, *inject; /* (T, R), (T, S) */
	void *low_n;         /* (T, R) act */
	/* With n_iters: (T, (2 + S) S), (T, (1 + S) S), (T, D); ones (S D). */
	float *mix, *gates, *in;
	const float *ones;
	const float *zeros, *even; /* has_plain_end: (T, S); (S), of which the gate is 1 / S */
};

/* Gates of a mean at an end: of the model (layer -1), or behind its MTP layer. */
enum status streams_load_last(struct graph *g, int i, struct stream_gates *h,
			      struct fail *fail) MUST_USE;
enum status streams_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status streams_alloc(struct graph *g, struct fail *fail) MUST_USE;

/* All streams become x. */
enum status streams_begin(struct graph *g, const struct graph_step *s, struct fail *fail) MUST_USE;
/* Writes what a part reads to g->n, and 0 to x. */
struct streams_enter {
	enum streams_part part;
	const void *add;   /* (T, S, D) act, first added to the streams; NULL: nothing */
	const float *norm; /* with n_iters: of the sum of the streams */
};
enum status streams_enter(struct graph *g, const struct layer *l, const struct graph_step *s,
			const struct streams_enter *x, struct fail *fail) MUST_USE;
/* Adds x to the streams. */
enum status streams_leave(struct graph *g, const struct graph_step *s, struct fail *fail) MUST_USE;
/* Writes the mean of the streams to x. */
enum status streams_end(struct graph *g, const struct graph_step *s, struct fail *fail) MUST_USE;
/* The same for t tokens, by gates h without n_iters. */
enum status streams_mean(struct graph *g, const struct stream_gates *h, int32_t t,
			 struct fail *fail) MUST_USE;
