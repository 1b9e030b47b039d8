/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens what a start loads beside the text model: embedding models and towers for images
 * and sound. Does the memory hold all of it? The daemon then loads what was opened here; haloctl
 * doctor only plans. Both pass the result to the text model's plan by fit_tell. Thread: one at a
 * time.
 */
#pragma once
#include "align/align.h"
#include "embed/embed.h"
#include "sound/sound.h"
#include "vision/vision.h"

/* Defaults of halod.conf, for computing the memory. */
enum {
	FIT_EMBEDDING_CTX = 8192,
	FIT_IMAGE_TOKENS = 2048,
	FIT_IMAGE_CACHE = 256 << 20,
	FIT_AUDIO_CACHE = 64 << 20,
	FIT_IMAGE_BYTES = 20 << 20,
	FIT_IMAGE_SIDE = 16384,
	FIT_IMAGE_PIXELS = 50000000,
	FIT_STEP_TOKENS = 4096 - 8, /* max_batch_tokens - max_seqs */
	FIT_TRANSCRIPTION_CTX = 16384,
};

struct fit_opts {
	struct embed_opts vectors, scores; /* dir NULL or "": none. ledger is not read */
	struct vision_opts vision;         /* model NULL: images are off. ledger is not read */
	struct sound_opts sound;           /* the same for sound */
	/* dir NULL or "": none. It is opened where the model hears. A model that hears nothing is
	 * E_CONFIG with is_needed. ledger is not read */
	struct align_opts align;
	bool is_needed;
};

struct fit {
	/* in: the memory that is there; out: also the memory taken */
	struct memory_ledger ledger;
	struct embed *vectors, *scores; /* NULL: none */
	struct memory_ledger embedders;   /* its *_taken: what vectors and scores take */
	struct vision *vision;          /* NULL: the model sees no images … */
	struct sound *sound;            /* NULL: it hears none … */
	struct align *align;            /* NULL: none */
	/* … and why a tower is left out; code OK: the model has none */
	struct fail unseen, unheard;
	bool lacks_audio; /* unheard names a library that is missing: the model itself hears */
};

/* Opens the embedding models, the towers and the aligner in the order in which a start takes their
 * memory, and counts that memory. Reads only the ledger of f. Errors are those of embed_open,
 * vision_open, sound_open and align_open; then the server cannot start. After a failure, too,
 * fit_close must be called. */
enum status fit_open(const struct fit_opts *o, struct fit *f, struct fail *fail) MUST_USE;
void fit_close(struct fit *f); /* the ledger still counts their memory */

/* Sets in *io what engine_plan and engine_create must know of these models. f must outlive
 * those calls, and f->vision and f->sound the engine. */
void fit_tell(const struct fit *f, struct engine_opts *io);
/* E_CONFIG: the model of f, from dir, cannot be transcription_model, since it hears nothing. */
enum status fit_check_listener(const struct fit *f, const char *dir, struct fail *fail) MUST_USE;
/* Sets what differs for transcription_model: its requests share a KV cache of one context, of
 * n_ctx tokens or the model's max_ctx. */
void fit_tell_listener(int32_t n_ctx, int32_t max_ctx, struct engine_opts *io);
