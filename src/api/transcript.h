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

/* The beginning of an answer, held back until it is clear what it is. */
struct transcript_head {
	bool is_open;   /* more may come */
	struct buf text;
	char heard[40]; /* the language that the model said, or "" */
};

/* A piece of the audio, which is a prompt of its own. */
struct transcript_piece {
	int64_t from, end;       /* samples */
	struct tower_view *clip; /* what the aligner hears */
	size_t at, n;            /* its part of the text: bytes */
	char heard[40];          /* as in struct transcript_head */
};

/* api_call.state of the two dialects. */
struct transcript {
	enum transcript_shape shape;
	bool is_translation;
	const char *language; /* of the audio, as in "English"; NULL: not said */
	bool says_language;   /* the model may say the language first */
	struct transcript_head head;
	struct buf text;      /* so far */
	struct buf heard;     /* the languages that the model said, with commas between */
	bool is_whole;        /* all of it */
	unsigned times;       /* TIMES_ bits; 0: none */
	struct audio audio;   /* with times: the file, while the call is made */
	struct transcript_piece *pieces; /* (n_pieces), with times: of the audio */
	int n_pieces;
	struct buf timed;     /* what transcript_times_tell made */
};

/* Adds to *out what a piece of the model's answer adds to the text. Qwen3-ASR begins with
 * "language NAME<asr_text>", which is no part of it. */
void transcript_add(struct transcript_head *h, struct str piece, struct buf *out);
/* The answer has ended: adds what was held back. */
void transcript_end(struct transcript_head *h, struct buf *out);
#define TRANSCRIPT_MARK "<asr_text>"
/* Appends the text of a further piece of the audio, and a space before it where both sides are of
 * scripts that have spaces. Returns where it begins. */
size_t transcript_join(struct buf *text, struct str piece);
/* Adds the language that was heard in a further piece, behind a comma, unless it is the last one
 * already or "". */
void transcript_add_heard(struct buf *all, const char *heard);

/* With times: reads the file while the call is made, and cuts it where it is longer than the
 * aligner takes (audio/audio_cut.h). E_LIMIT: too many pieces. Others are of audio_decode. */
enum status transcript_times_cut(struct api_call *c, struct fail *fail) MUST_USE;
/* With times: has the aligner hear the pieces. Errors are of sound_hear. */
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
