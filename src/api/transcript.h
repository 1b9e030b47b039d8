/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/audio/transcriptions and /v1/audio/translations: a form with a file becomes a chat of one
 * message, and the answer is the text alone. Thread: one at a time.
 */
#pragma once
#include "api/api_dialect.h"

/* How a transcript is answered. */
enum transcript_shape {
	TRANSCRIPT_JSON, TRANSCRIPT_TEXT, TRANSCRIPT_VERBOSE, TRANSCRIPT_SRT, TRANSCRIPT_VTT,
};

/* Which times it has. */
enum {
	TIMES_WORDS = 1,
	TIMES_SEGMENTS = 2,
	TIMES_MAY_LACK = 4, /* nobody asked: where none can be told the answer goes without */
};

/* api_call.state of the two dialects. */
struct transcript {
	enum transcript_shape shape;
	bool is_translation;
	const char *language; /* of the audio, as in "English"; NULL: not said */
	/* The model may say the language first: transcript_add holds `head` back until it is
	 * clear. */
	bool has_head;
	struct buf head;
	char heard[40];       /* the language that it said, or "" */
	struct buf text;      /* so far */
	bool is_whole;        /* all of it */
	unsigned times;       /* TIMES_ bits; 0: none */
	struct tower_view *clip; /* with times: what the aligner hears */
	struct buf timed;     /* what transcript_times_tell made */
};

/* Adds a piece of the model's answer to t->text, and to *out what that added. Qwen3-ASR begins with
 * "language NAME<asr_text>", which is no part of the text. */
void transcript_add(struct transcript *t, struct str piece, struct buf *out);
/* The answer has ended: adds what was held back. */
void transcript_end(struct transcript *t, struct buf *out);
#define TRANSCRIPT_MARK "<asr_text>"

/* With times: has the aligner hear the file, which is read while the call is made. E_LIMIT: it is
 * longer than the aligner can tell times of. Others are of audio_decode and sound_hear. */
enum status transcript_times_hear(struct api_call *c, struct fail *fail) MUST_USE;
/* With times: t->timed becomes the members `words` and `segments` of verbose_json, or all of srt
 * and vtt. t->text is whole. Slow: for a worker thread. Errors are those of align_run. */
enum status transcript_times_tell(struct api_call *c, struct fail *fail) MUST_USE;

/* Reads a form as JSON: an object of its fields, where `file` is true. *out_file: the file's bytes,
 * a view into the body. E_MEDIA_TYPE, E_INVAL at the field. */
enum status transcript_read_form(const struct api_input *in, json_t **out, struct str *out_file,
				 struct fail *fail) MUST_USE;
/* Rewrites these fields as a chat's. E_UNSUPPORTED: the model hears nothing. */
enum status transcript_to_chat(const struct json_node *body, struct api_call *c,
			       struct dialect_body *to, struct fail *fail) MUST_USE;
enum status transcript_to_english(const struct json_node *body, struct api_call *c,
				  struct dialect_body *to, struct fail *fail) MUST_USE;
