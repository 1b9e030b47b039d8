/* SPDX-License-Identifier: Apache-2.0
 *
 * What llama.cpp's own endpoints share: /completion and /infill. Thread: a call's, one at a time.
 */
#pragma once
#include "api/api_dialect.h"
#include "api/completion.h"

/* c->state of a call. */
struct native {
	bool is_cut;       /* the prompt was cut to fit */
	bool wants_tokens; /* whole answers have the ids of their tokens; streams always */
	json_t *fields;    /* members that the client picks: a list of strings, or NULL */
};

void native_begin(struct api_call *c);
/* Reads the options. *n_predict: tokens of the answer; -1: no limit. */
enum status native_read_options(const struct json_node *body, struct api_call *c,
				int64_t *n_predict, struct dialect_body *to,
				struct fail *fail) MUST_USE;

void native_on_delta(struct api_call *c, const struct event *e, struct buf *out);
void native_on_part(struct api_call *c, int i, const struct event_span *span, bool is_new,
		    struct buf *out);
void native_on_event(struct api_call *c, const struct event *e, struct buf *out);
void native_deinit(struct api_call *c);

#define NATIVE_SHAPE                                                                      \
	.fields = DIALECT_INFILL, .has_parts = true, .may_write_nothing = true,           \
	.read = completion_read, .on_delta = native_on_delta, .on_part = native_on_part,      \
	.on_event = native_on_event, .deinit = native_deinit
