/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's audio tower. Like the vision tower (vision/vision.h) it has a backend of its own, so
 * that it runs beside the text model's steps. A clip is encoded in steps of a few windows, and
 * clips take turns after each step: a short clip does not wait for a long one. Thread: any, once
 * created.
 */
#pragma once
#include "backend/backend.h"
#include "engine/memory_plan.h"
#include "engine/tower_view.h"

struct sound;

struct sound_opts {
	struct model *model;         /* outlives the sound */
	const char *mmproj;          /* file with the tower of a GGUF file; NULL or "": the only
				      * one beside it, if there is one */
	struct backend_opts backend; /* where the tower runs; on the CPU if this backend's
				      * kernels do not support it */
	size_t cache_bytes;          /* memory for results that are kept; 0: none is kept */
	struct memory_ledger *ledger; /* as in embed_opts; used until sound_load_tower returns */
};

/* Reads the tower's settings and counts its memory, but takes none. *out NULL: the model has no
 * tower that is known here. E_UNSUPPORTED, E_MISSING and E_FORMAT name what cannot be read: the
 * model can still be served without sound. E_CONFIG: the memory is too small. */
enum status sound_open(const struct sound_opts *o, struct sound **out, struct fail *fail) MUST_USE;
/* Takes the tower's memory. Call it once, before any clip. If it fails, the ledger no longer
 * counts that memory, and only sound_destroy may be called. */
enum status sound_load_tower(struct sound *s, struct fail *fail) MUST_USE;
void sound_destroy(struct sound *s); /* NULL is fine; views may live on */

/* What the text model's engine must know (engine_opts.image_rules) if the model sees no images:
 * with images, vision_image_rules serves both. Always valid. */
const struct engine_image_rules *sound_image_rules(void);
int32_t sound_token(const struct sound *s);       /* the token that stands for a clip */
int32_t sound_width(const struct sound *s);       /* numbers of a token's row */
/* How Qwen3-Omni's prompts write a clip. */
#define SOUND_OPEN "<|audio_start|>"
#define SOUND_PAD "<|audio_pad|>"
#define SOUND_END "<|audio_end|>"
const char *sound_device(const struct sound *s);  /* for the log */
const char *sound_note(const struct sound *s);    /* as vision_note */

/* The spectrogram that the tower reads: of one channel of 16,000 samples a second, a frame of 400
 * samples every 160 samples. */
struct sound_format {
	int32_t n_mels; /* numbers of a frame */
	int32_t least;  /* samples: a shorter clip is filled up with zeros before; 0: none is */
	int32_t each;   /* samples: a clip is filled up to a multiple of them; 0: it is not */
};
const struct sound_format *sound_format(const struct sound *s);
/* Samples to which a clip of n samples is filled up with zeros before its spectrogram is made. */
int64_t sound_filled(const struct sound *s, int64_t n);
/* Tokens of a clip of n_frames frames; 0 only for 0 frames. */
int32_t sound_tokens(const struct sound *s, int32_t n_frames);

struct sound_clip {
	const float *mel; /* (n_mels, n_frames), borrowed for the call */
	int32_t n_frames; /* of sound_filled samples */
	uint64_t owner;   /* only calls with the same owner share a view (struct lru_key) */
	/* Not NULL: true once the client has gone; the call then ends at its next step. */
	const _Atomic bool *is_gone;
};

/* A file of audio: the same bytes are one clip. */
struct sound_file {
	uint64_t owner;   /* as in sound_clip */
	uint8_t hash[32];
};
/* E_INTERNAL: SHA-256 is not there. */
enum status sound_file_of(struct str bytes, uint64_t owner, struct sound_file *out,
			  struct fail *fail) MUST_USE;
/* *out: the view that sound_keep was told for this file, which the caller unrefs; *out_us: how long
 * the file is. False: it is not kept, or not any more. */
bool sound_recall(struct sound *s, const struct sound_file *f, struct tower_view **out,
		  int64_t *out_us);
/* w is what sound_hear made of this file, which is `us` microseconds long. */
void sound_keep(struct sound *s, const struct sound_file *f, struct tower_view *w, int64_t us);

/* The view of a clip; the caller unrefs it. Slow: for a worker thread. Its image has is_sound, and
 * all its n = sound_tokens tokens are sound_token. The caller's copy in request.images gets the
 * place in the prompt, between images, in the order of the prompt. E_INVAL: no frames, frames that
 * are no multiple of format.each samples, or numbers that are not finite. E_CANCELLED, E_NOMEM,
 * E_BACKEND. */
enum status sound_hear(struct sound *s, const struct sound_clip *c, struct tower_view **out,
		       struct fail *fail) MUST_USE;
