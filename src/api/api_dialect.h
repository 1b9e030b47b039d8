/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat under other names: Anthropic's Messages, OpenAI's Responses; and completions under
 * another, llama.cpp's /infill. A dialect turns
 * its body into one of a chat call, so that parameters, tools and templates are read
 * in one place, and writes the events in its own shapes. Thread: one at a time.
 */
#pragma once
#include <jansson.h>

#include "api/api_private.h"
#include "json/json_read.h"

struct dialect {
	enum api_kind base; /* what to_chat makes of it: a chat, or a raw completion */
	const char *messages; /* what `messages` of a chat are called here */
	/* Parts of paths in a chat's body, and what they are called here; the first that
	 * fits. Ends with NULL; NULL: none. */
	const struct dialect_name {
		const char *chat, *here;
	} *names;
	/* *out is freed with json_decref. Faults carry the path in this dialect. */
	enum status (*to_chat)(const struct json_node *body, struct api_call *c,
			       json_t **out, struct fail *fail);
	/* The request is filled; NULL: nothing to do. */
	void (*init)(struct api_call *c, const char *request_id);
	/* Text or a piece of a call, which is in the call's parts already; is_new: it
	 * began one. For a stream. */
	void (*on_part)(struct api_call *c, const struct event_span *span,
			bool is_new, struct buf *out);
	/* Every event, after its parts; stats, status and the like are in the call. */
	void (*on_event)(struct api_call *c, const struct event *e,
			 struct buf *out);
	/* Free c->state, which may be NULL; NULL: there is none. */
	void (*deinit)(struct api_call *c);
};
extern const struct dialect dialect_anthropic, dialect_responses, dialect_infill;

/* A body of the Messages API as one of a chat call, max_tokens wanted or not. */
enum status anthropic_to_chat(const struct json_node *body,
			      bool needs_max_tokens, json_t **out,
			      struct fail *fail) MUST_USE;

/* The tool call that a part is; NULL: it is none. */
const struct call *dialect_call(const struct api_call *c, const struct answer_part *p);
/* Its text, or the arguments of its call. */
struct str dialect_text(const struct api_call *c, const struct answer_part *p);
/* A call of which the end never came: nobody is to act on it. */
bool dialect_is_broken(const struct api_call *c, const struct answer_part *p);

/* --- building JSON; what is set is taken over ----------------------------------- */
void dialect_set(json_t *object, const char *key, json_t *v);
void dialect_set_str(json_t *object, const char *key, struct str s);
/* The same value, shared, under another name; nothing where it is absent. */
void dialect_copy(json_t *object, const char *key, const struct json_node *from,
		  const char *from_key);
/* To a chat's tools: one of type function, which is the client's i-th. That is kept beside
 * them, for words about faults. */
void dialect_add_tool(json_t *chat, json_t *fn, size_t i);
#define DIALECT_TOOLS_AT "tools_at"
/* The chat's tool_choice: the function of that name. */
void dialect_demand_tool(json_t *chat, struct str name);
/* {"role": role, "content": text} */
json_t *dialect_message(const char *role, struct str text);

/* A string, or a list of blocks of text with newlines between, appended. */
enum status dialect_read_texts(const struct json_node *at, struct buf *out,
			       struct fail *fail) MUST_USE;
/* A kind of content that there is no way to show to the model. */
enum status dialect_fail_type(const struct json_node *type, struct str kind,
			      struct fail *fail);
