/* SPDX-License-Identifier: Apache-2.0
 *
 * A call's events as JSON: what OpenAI's chat and completions share, and the few places
 * where the two differ. Private to the two dialects. Thread: one at a time.
 */
#pragma once
#include "api/api_private.h"

/* Where chat and completions differ. The add functions write members into the object of
 * choice i, or into the object of its log-probabilities. */
struct format {
	const char *id_prefix, *object, *chunk_object;
	/* Writes what comes before choice i's first text. False: nothing was written. */
	bool (*add_begin)(const struct api_call *c, int i, struct buf *out);
	/* Writes a piece of text; NULL: none, in the chunk that carries finish_reason. */
	void (*add_delta)(const struct event_span *span, struct buf *out);
	/* A piece of choice i's last call: its name (once) or arguments. NULL: answers of
	 * this kind have no calls. */
	void (*add_call)(const struct api_call *c, int i,
			 const struct event_span *span, struct buf *out);
	/* Writes all text gathered for choice i. */
	void (*add_whole)(const struct api_call *c, int i, struct buf *out);
	/* For an echo: adds a token of the prompt to ch's lists; t->logprob is NAN for the
	 * first token. NULL: this kind has no echo. */
	void (*gather_prompt)(const struct api_call *c, struct choice *ch,
			      const struct event_token *t);
	/* True: vLLM's prompt_logprobs stands in each choice. False: once, at the answer's
	 * end. */
	bool has_own_prompt;
	/* Adds a token of the answer to ch's lists. */
	void (*gather_token)(const struct api_call *c, struct choice *ch,
			     const struct event_token *t);
	/* Writes the object that holds ch's lists. */
	void (*add_logprobs)(const struct choice *ch, struct buf *out);
};
/* The functions that dialect_chat and dialect_completion share. Each dialect passes its own
 * struct format to format_init. */
void format_init(struct api_call *c, const struct format *f, const char *request_id);
void format_on_delta(struct api_call *c, const struct event *e, struct buf *out);
void format_on_part(struct api_call *c, int i, const struct event_span *span, bool is_new,
		    struct buf *out);
void format_on_event(struct api_call *c, const struct event *e, struct buf *out);

/* A dialect's on_delta: only adds the tokens to the choice's first list, as chat has them. */
void format_gather_logprobs(struct api_call *c, const struct event *e, struct buf *out);

/* Writes the members "token", "logprob" and "bytes". The bytes are exact where a token is a part
 * of a character, which text cannot show. */
void format_add_token(const struct tokenizer *t, int32_t id, float logprob, struct buf *out);

/* Writes the member "timings": {…}. */
void format_add_timings(const struct api_call *c, struct buf *out);
/* Writes a log-probability as JSON; JSON has no infinity, so -9999 stands for it. */
void format_add_logprob(struct buf *out, float v);
/* "," before every item of a list but the first. */
void format_add_comma(struct buf *list);
