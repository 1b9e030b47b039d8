/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/audio/transcriptions and /v1/audio/translations: a form with a file becomes a chat of one
 * message, and the answer is the text alone. Thread: one at a time.
 */
#pragma once
#include "api/api_dialect.h"

/* How a transcript is answered. */
enum transcript_shape { TRANSCRIPT_JSON, TRANSCRIPT_TEXT, TRANSCRIPT_VERBOSE };

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
};

/* Adds a piece of the model's answer to t->text, and to *out what that added. Qwen3-ASR begins with
 * "language NAME<asr_text>", which is no part of the text. */
void transcript_add(struct transcript *t, struct str piece, struct buf *out);
/* The answer has ended: adds what was held back. */
void transcript_end(struct transcript *t, struct buf *out);
#define TRANSCRIPT_MARK "<asr_text>"

/* Reads a form as JSON: an object of its fields, where `file` is true. *out_file: the file's bytes,
 * a view into the body. E_MEDIA_TYPE, E_INVAL at the field. */
enum status transcript_read_form(const struct api_input *in, json_t **out, struct str *out_file,
				 struct fail *fail) MUST_USE;
/* Rewrites these fields as a chat's. E_UNSUPPORTED: the model hears nothing. */
enum status transcript_to_chat(const struct json_node *body, struct api_call *c,
			       struct dialect_body *to, struct fail *fail) MUST_USE;
enum status transcript_to_english(const struct json_node *body, struct api_call *c,
				  struct dialect_body *to, struct fail *fail) MUST_USE;
