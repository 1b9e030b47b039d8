/* SPDX-License-Identifier: Apache-2.0
 *
 * A call's events as JSON: what OpenAI's chat and completions share, and the few places
 * where the two differ. Private to the two dialects. Thread: one at a time.
 */
#pragma once
#include "api/api_private.h"

/* Where chat and completions differ. Each adds members to the object of choice i, or of its
 * log-probabilities. */
struct format {
	const char *id_prefix, *object, *chunk_object;
	/* What comes before choice i's first text; false: nothing does. */
	bool (*add_begin)(const struct api_call *c, int i, struct buf *out);
	/* A piece of text; NULL: none, for the chunk that says why it ended. */
	void (*add_delta)(const struct event_span *span, struct buf *out);
	/* A piece of choice i's last call: its name (once) or arguments. NULL: answers of
	 * this kind have no calls. */
	void (*add_call)(const struct api_call *c, int i,
			 const struct event_span *span, struct buf *out);
	/* All of the text gathered. */
	void (*add_whole)(const struct api_call *c, int i, struct buf *out);
	/* A token of the prompt to the lists of ch, for an echo; t->logprob is NAN for
	 * the first. NULL: answers of this kind have none. */
	void (*gather_prompt)(const struct api_call *c, struct choice *ch,
			      const struct event_token *t);
	/* vLLM's prompt_logprobs stands beside the text of each choice; else once at the
	 * end. */
	bool has_own_prompt;
	/* One token to the lists of ch. */
	void (*gather_token)(const struct api_call *c, struct choice *ch,
			     const struct event_token *t);
	/* The object around the lists. */
	void (*add_logprobs)(const struct choice *ch, struct buf *out);
};
/* What dialect_chat and dialect_completion share; format_init comes with their own. */
void format_init(struct api_call *c, const struct format *f, const char *request_id);
void format_on_delta(struct api_call *c, const struct event *e, struct buf *out);
void format_on_part(struct api_call *c, int i, const struct event_span *span, bool is_new,
		    struct buf *out);
void format_on_event(struct api_call *c, const struct event *e, struct buf *out);

/* "timings": {…}, as a member. */
void format_add_timings(const struct api_call *c, struct buf *out);
/* A log-probability as JSON, which has no infinity. */
void format_add_logprob(struct buf *out, float v);
/* "," before every item of a list but the first. */
void format_add_comma(struct buf *list);
