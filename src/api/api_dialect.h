/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire shapes: what one endpoint's bodies and answers look like. OpenAI's chat and
 * completions, Anthropic's Messages, OpenAI's Responses, llama.cpp's /completion and /infill, and
 * Ollama's two are a struct dialect each.
 *
 * A dialect may rewrite its body into one of a chat or a completion, so that parameters,
 * tools and templates are read in one place. The dialect notes where each part came from
 * (json_paths.h), so that faults name the client's own place. Thread: one at a time.
 */
#pragma once
#include <jansson.h>

#include "api/api_private.h"
#include "json/json_paths.h"

/* A body that was rewritten from the client's. */
struct dialect_body {
	json_t *chat; /* the rewritten body, an object */
	struct json_paths paths;
	/* What it takes beside text becomes parts of type image_url and input_audio. */
	const struct chat_model *model;
	struct buf ignored; /* parts of the client's body without effect, see fields_ignore */
};
void dialect_body_init(struct dialect_body *b);
void dialect_body_deinit(struct dialect_body *b);
/* The rewritten body's root: a view, which b must outlive. */
struct json_node dialect_body_root(const struct dialect_body *b);

/* The column of an endpoint in the `uses` of fields.def: one letter each. */
enum dialect_column {
	DIALECT_CHAT,
	DIALECT_COMPLETION,
	DIALECT_RESPONSES,
	DIALECT_MESSAGES,
	DIALECT_INFILL,
	DIALECT_OWN, /* none: `rewrite` looks at the body's fields itself */
};

/* An endpoint's wire shapes. Its row in endpoint.def declares the variable. */
struct dialect {
	enum dialect_column fields; /* which fields a body may have */
	bool is_chat; /* bodies are rewritten as a chat's (true) or as a completion's (false) */
	bool has_parts; /* an answer has one choice and is a list of parts */
	/* max_tokens where the body does not say; 0: only the server's cap */
	int32_t usual_tokens;
	bool may_write_nothing; /* max_tokens may be 0: then the prompt only fills the cache */
	const char *stream_type; /* a stream's Content-Type; NULL: server-sent events */
	/* Takes a form apart: NULL where the body is JSON. *out_file: a file in it, a view into the
	 * body, which becomes api_call.form. */
	enum status (*read_form)(const struct api_input *in, json_t **out, struct str *out_file,
				 struct fail *fail);
	/* Fills *to from the client's body; NULL: the body is read as it is. It may choose
	 * another dialect for the rest, by c->dialect. */
	enum status (*rewrite)(const struct json_node *body, struct api_call *c,
			       struct dialect_body *to, struct fail *fail);
	/* Reads the prompt and all that belongs to it: chat_body_read or completion_read. */
	enum status (*read)(const struct json_node *body, struct api_call *c,
			    struct fail *fail);
	/* Called when the request is complete; NULL: nothing to do. */
	void (*init)(struct api_call *c, const char *request_id);
	/* Is there something left to compute when the last token has come? Then rest does it, on a
	 * worker thread, before on_event gets EVENT_DONE. rest may read the call, and changes
	 * c->state alone. NULL: there is never anything. */
	bool (*has_rest)(const struct api_call *c);
	enum status (*rest)(struct api_call *c, struct fail *fail);
	/* Called for a delta, before on_part; NULL: nothing to do. */
	void (*on_delta)(struct api_call *c, const struct event *e, struct buf *out);
	/* Streams only: a piece of text or of a call of choice i, already gathered. is_new
	 * (with has_parts): this piece began a new part. */
	void (*on_part)(struct api_call *c, int i, const struct event_span *span,
			bool is_new, struct buf *out);
	/* Called for every event, after on_part. The call already has its stats and status. */
	void (*on_event)(struct api_call *c, const struct event *e,
			 struct buf *out);
	/* The Content-Type of an answer that is no stream; NULL: JSON. */
	const char *(*type)(const struct api_call *c);
	/* Streams: bytes that break a silence; NULL: a comment, as server-sent events have it. */
	void (*keep_alive)(struct api_call *c, struct buf *out);
	/* Frees c->state, which may be NULL. A NULL deinit: the dialect has no state. */
	void (*deinit)(struct api_call *c);
};

/* Rewrites a body of the Messages API as a chat's. needs_max_tokens: refuse a body without
 * max_tokens. */
enum status anthropic_to_chat(const struct json_node *body, bool needs_max_tokens,
			      struct dialect_body *to, struct fail *fail) MUST_USE;

/* The prompt's tokens that stand for audio. */
int32_t dialect_audio_tokens(const struct api_call *c);

/* The tool call of this part; NULL: the part is text or reasoning. */
const struct call *dialect_call(const struct api_call *c, const struct answer_part *p);
/* Appends a call's arguments as a JSON object. `text` is what the model wrote of them; where it
 * breaks off they are closed, as clients close those of a stream. */
void dialect_add_arguments(const struct call *call, struct str text, struct buf *out);
/* The part's text; of a tool call, its arguments. */
struct str dialect_text(const struct api_call *c, const struct answer_part *p);
/* True: a tool call whose end never came. Clients must not act on such a call. */
bool dialect_is_broken(const struct api_call *c, const struct answer_part *p);

/* --- building JSON: the functions take ownership of a json_t that is passed ---------- */
void dialect_set(json_t *object, const char *key, json_t *v);
void dialect_set_str(json_t *object, const char *key, struct str s);
/* Copies a member under another name and notes the client's path. The value is shared.
 * Does nothing where the member is absent. */
void dialect_copy(struct dialect_body *b, json_t *object, const char *key,
		  const struct json_node *from, const char *from_key);
/* Adds a tool of type function to the chat's tools. `from` is the client's tool. */
void dialect_add_tool(struct dialect_body *b, json_t *fn, const struct json_node *from);
/* Sets the chat's tool_choice to the function of that name. `from` is the client's choice. */
void dialect_demand_tool(struct dialect_body *b, struct str name,
			 const struct json_node *from);
/* Sets the chat's response_format to this kind with this schema. `from` is the client's. */
void dialect_demand_format(struct dialect_body *b, struct str kind, json_t *schema,
			   const struct json_node *from);
/* {"role": role, "content": text} */
json_t *dialect_message(const char *role, struct str text);

/* Appends a string, or the texts of a list of blocks with newlines between. */
enum status dialect_read_texts(const struct json_node *at, struct buf *out,
			       struct fail *fail) MUST_USE;
/* Collects the content of one chat message: texts with newlines between, or a list of parts
 * once there is an image or audio. */
struct dialect_content {
	struct buf text;
	json_t *parts; /* NULL: only text has come */
};
void dialect_add_text(struct dialect_content *c, struct str text);
/* Adds an image as chat completions spell it; takes `url`. `from` is the client's place of the
 * address, `block` that of the whole image. */
void dialect_add_image(struct dialect_body *b, struct dialect_content *c, json_t *url,
		       const struct json_node *block, const struct json_node *from);
/* Adds a block of text, of an image or of audio to c; any API's spelling is taken. */
enum status dialect_read_block(const struct json_node *at, struct dialect_body *b,
			       struct dialect_content *c, struct fail *fail) MUST_USE;
/* Adds a string, or all blocks of a list, to c. */
enum status dialect_read_content(const struct json_node *at, struct dialect_body *b,
				 struct dialect_content *c, struct fail *fail) MUST_USE;
bool dialect_has_content(const struct dialect_content *c);
/* The content as a new string or list; c is empty afterwards. */
json_t *dialect_take_content(struct dialect_content *c);
void dialect_content_deinit(struct dialect_content *c);
/* A new {"role": role, "content": …} with the content taken from c. */
json_t *dialect_message_of(const char *role, struct dialect_content *c);

/* Refuses a content block of this kind, and says what the model takes. m NULL: only text may be at
 * this place. */
enum status dialect_fail_type(const struct json_node *type, struct str kind,
			      const struct chat_model *m, struct fail *fail);
