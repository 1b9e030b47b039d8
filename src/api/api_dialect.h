/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire shapes: what one endpoint's bodies and answers look like. OpenAI's chat and
 * completions, Anthropic's Messages, OpenAI's Responses and llama.cpp's /infill are a
 * struct dialect each.
 *
 * A dialect may rewrite its body into one of a chat or a completion, so that parameters,
 * tools and templates are read in one place. While it does so it notes where each part
 * came from (json_paths.h): faults name the client's own place. Thread: one at a time.
 */
#pragma once
#include <jansson.h>

#include "api/api_private.h"
#include "json/json_paths.h"

/* A body that is made of the client's. */
struct dialect_body {
	json_t *chat; /* an object */
	struct json_paths paths;
	bool sees; /* the model: images become parts of type image_url */
};
void dialect_body_init(struct dialect_body *b);
void dialect_body_deinit(struct dialect_body *b);
/* A view: b must outlive it. */
struct json_node dialect_body_root(const struct dialect_body *b);

/* The letters of fields.def. */
enum dialect_column {
	DIALECT_CHAT,
	DIALECT_COMPLETION,
	DIALECT_RESPONSES,
	DIALECT_MESSAGES,
	DIALECT_INFILL,
};

/* Each is declared by its row in endpoint.def. */
struct dialect {
	enum dialect_column fields; /* which the body may have */
	bool is_chat; /* true: bodies become a chat's; false: a completion's */
	bool has_parts; /* one choice, and its answer is a list of parts */
	int32_t usual_tokens; /* of an answer whose length is not said; 0: no bound */
	bool may_write_nothing; /* max_tokens 0 fills the cache */
	/* Fills *to from the client's body; NULL: the body is read as it is. */
	enum status (*rewrite)(const struct json_node *body, struct api_call *c,
			       struct dialect_body *to, struct fail *fail);
	/* The prompt and what goes with it: chat_read or completion_read. */
	enum status (*read)(const struct json_node *body, struct api_call *c,
			    struct fail *fail);
	/* The request is filled; NULL: nothing to do. */
	void (*init)(struct api_call *c, const char *request_id);
	/* A delta, before its parts; NULL: nothing to do. */
	void (*on_delta)(struct api_call *c, const struct event *e, struct buf *out);
	/* Text or a piece of a call of choice i, which has been gathered. is_new: with
	 * has_parts, it began a part. For a stream. */
	void (*on_part)(struct api_call *c, int i, const struct event_span *span,
			bool is_new, struct buf *out);
	/* Every event, after its parts; stats, status and the like are in the call. */
	void (*on_event)(struct api_call *c, const struct event *e,
			 struct buf *out);
	/* Free c->state, which may be NULL; NULL: there is none. */
	void (*deinit)(struct api_call *c);
};

/* A body of the Messages API as one of a chat call, max_tokens wanted or not. */
enum status anthropic_to_chat(const struct json_node *body, bool needs_max_tokens,
			      struct dialect_body *to, struct fail *fail) MUST_USE;

/* The tool call that a part is; NULL: it is none. */
const struct call *dialect_call(const struct api_call *c, const struct answer_part *p);
/* Its text, or the arguments of its call. */
struct str dialect_text(const struct api_call *c, const struct answer_part *p);
/* A call of which the end never came: nobody is to act on it. */
bool dialect_is_broken(const struct api_call *c, const struct answer_part *p);

/* --- building JSON; what is set is taken over ----------------------------------- */
void dialect_set(json_t *object, const char *key, json_t *v);
void dialect_set_str(json_t *object, const char *key, struct str s);
/* Copies a member under another name and notes the client's path. The value is shared.
 * Does nothing where the member is absent. */
void dialect_copy(struct dialect_body *b, json_t *object, const char *key,
		  const struct json_node *from, const char *from_key);
/* To the chat's tools: one of type function, which is the client's `from`. */
void dialect_add_tool(struct dialect_body *b, json_t *fn, const struct json_node *from);
/* The chat's tool_choice: the function of that name. `from` is the client's choice. */
void dialect_demand_tool(struct dialect_body *b, struct str name,
			 const struct json_node *from);
/* The chat's response_format: of this kind, with this schema. `from` is the client's. */
void dialect_demand_format(struct dialect_body *b, struct str kind, json_t *schema,
			   const struct json_node *from);
/* {"role": role, "content": text} */
json_t *dialect_message(const char *role, struct str text);

/* A string, or a list of blocks of text with newlines between, appended. */
enum status dialect_read_texts(const struct json_node *at, struct buf *out,
			       struct fail *fail) MUST_USE;
/* What becomes the content of a chat message: texts with newlines between, or where there are
 * images a list of parts. */
struct dialect_content {
	struct buf text;
	json_t *parts; /* NULL: no image so far */
};
void dialect_add_text(struct dialect_content *c, struct str text);
/* A block of text or of an image, in the words of any API. */
enum status dialect_read_block(const struct json_node *at, struct dialect_body *b,
			       struct dialect_content *c, struct fail *fail) MUST_USE;
/* The whole of a string or of a list of blocks. */
enum status dialect_read_content(const struct json_node *at, struct dialect_body *b,
				 struct dialect_content *c, struct fail *fail) MUST_USE;
bool dialect_has_content(const struct dialect_content *c);
/* A string or a list, new; c is empty again. */
json_t *dialect_take_content(struct dialect_content *c);
void dialect_content_deinit(struct dialect_content *c);
/* {"role": role, "content": what c has} */
json_t *dialect_message_of(const char *role, struct dialect_content *c);

/* A kind of content that there is no way to show to the model. */
enum status dialect_fail_type(const struct json_node *type, struct str kind,
			      struct fail *fail);
