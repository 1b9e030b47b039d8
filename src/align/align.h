/* SPDX-License-Identifier: Apache-2.0
 *
 * A forced aligner: it hears a clip, reads what was said in it, and tells when each word was. One
 * pass reads both. Behind each word stand two tokens of time. For each of them the output head
 * tells one of its classes, which are steps of time. Thread: any, once loaded; calls of align_run
 * take turns.
 *
 * Source: Qwen3-ForcedAligner; processing_qwen3_asr.py of Hugging Face Transformers.
 */
#pragma once
#include "align/align_words.h"
#include "backend/backend.h"
#include "sound/sound.h"

struct align;

struct align_opts {
	const char *dir;             /* path or name, as for model_open */
	struct backend_opts backend; /* of the text part */
	struct backend_opts tower;   /* of the audio tower */
	int32_t n_ctx;               /* most tokens of a clip and its words (transcription_ctx);
				      * lowered to ALIGN_MAX_CTX and to what the model supports */
	struct memory_ledger *ledger; /* as in embed_opts; used until align_load returns */
};
enum { ALIGN_MAX_CTX = 8192 };

/* Opens the model's files and counts its memory, but takes none. E_CONFIG: it is no forced aligner,
 * or the memory is too small. */
enum status align_open(const struct align_opts *o, struct align **out, struct fail *fail) MUST_USE;
/* Takes all memory. Call it once, before any other. */
enum status align_load(struct align *a, struct fail *fail) MUST_USE;
void align_destroy(struct align *a); /* NULL is fine; no thread may be in a call */

/* Its audio tower: sound_hear makes the view that align_run takes. */
struct sound *align_sound(const struct align *a);
int64_t align_max_us(const struct align *a); /* longest clip */

struct align_ask {
	struct str text;                 /* what was said */
	const char *language;            /* as in align_words.h */
	const struct engine_image *clip; /* of a view of align_sound */
	/* As in struct embed_ask. */
	const _Atomic bool *is_gone;
};
/* The words of the text, with their times. Slow: for a worker thread. E_UNSUPPORTED: as
 * align_words_check. E_LIMIT: more tokens than n_ctx. E_CANCELLED, E_NOMEM, E_BACKEND. The caller
 * deinits *out, also after a failure. */
enum status align_run(struct align *a, const struct align_ask *ask, struct align_words *out,
		      struct fail *fail) MUST_USE;
