/* SPDX-License-Identifier: Apache-2.0
 *
 * What a start loads beside the model that writes, and whether the memory holds all of it
 * together: models that read, and a vision tower. The daemon loads what was opened here, and
 * haloctl doctor does not. Both then plan the model that writes by fit_tell. Thread: one at a
 * time.
 */
#pragma once
#include "embed/embed.h"
#include "vision/vision.h"

/* Settings of halod.conf that nobody gave, for the sum. */
enum {
	FIT_READER_CTX = 8192,
	FIT_IMAGE_TOKENS = 2048,
	FIT_IMAGE_CACHE = 256 << 20,
	FIT_IMAGE_BYTES = 20 << 20,
	FIT_IMAGE_SIDE = 16384,
	FIT_IMAGE_PIXELS = 50000000,
	FIT_STEP_TOKENS = 2048 - 8, /* max_batch_tokens - max_seqs */
};

struct fit_opts {
	struct embed_opts vectors, scores; /* dir NULL or "": none. ledger is not read */
	struct vision_opts vision;         /* model NULL: images are off. ledger is not read */
};

struct fit {
	struct memory_ledger ledger;    /* given: the memory; then also what is taken of it */
	struct embed *vectors, *scores; /* NULL: none */
	struct vision *vision;          /* NULL: the model sees no images … */
	struct fail unseen;             /* … and why its tower is left out; code OK: it has none */
};

/* Opens them in the order in which a start takes their memory, and counts that. Of f only the
 * ledger is read. Errors as embed_open's and vision_open's, where the server cannot start; then
 * fit_close is to be called, too. */
enum status fit_open(const struct fit_opts *o, struct fit *f, struct fail *fail) MUST_USE;
void fit_close(struct fit *f); /* what they take stays counted */

/* What engine_plan and engine_create must know of them. f must outlive their calls, and its
 * vision the engine. */
void fit_tell(const struct fit *f, struct engine_opts *io);
