/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON to request, event to JSON. Knows every wire shape and no connection.
 *
 * struct api is immutable and any thread may use it; a struct api_call belongs to
 * one thread at a time (a worker while it is made, io afterwards).
 */
#pragma once
#include "base/buf.h"
#include "embed/embed.h"
#include "fetch/fetch.h"
#include "model/model.h"
#include "sched/request.h"
#include "vision/vision.h"

struct api;
struct api_call;

/* What templates are told to do where a request does not say it. */
enum api_reasoning { API_REASONING_AUTO, API_REASONING_ON, API_REASONING_OFF };

struct api_opts {
	const struct model *model;
	const char *chat_template; /* in place of the model's own; NULL: that one */
	const char *chat_template_kwargs; /* JSON object of variables; NULL or "": none */
	enum api_reasoning reasoning;
	struct embed *embedder, *reranker; /* of /v1/embeddings and /v1/rerank; or NULL */
	struct vision *vision;     /* of images in messages; NULL: refused */
	int32_t max_images;        /* of a request */
	const struct fetch *fetch; /* of images by their address; NULL: refused */
	const char *model_name;    /* `model` in answers and requests */
	const char *const *aliases; /* further names it answers to */
	int n_aliases;
	int32_t n_ctx;
	int64_t max_output_tok;    /* cap on max_tokens; 0: the context */
	int32_t max_choices;       /* bound on n; 0: 8 */
	const char *tool_format;   /* how it writes tool calls; NULL: see the template */
	bool strict_tools; /* hold the arguments of every tool to its schema */
	bool shares_prefixes; /* owners resume each other's prompts */
	int32_t n_slots;           /* sequences computed together, for /slots */
	const char *version;
	const char *system_fingerprint;
	const struct clock *clock;
};

/* From now on, tell once of each keyword of a JSON schema that is ignored, because the
 * standard does not know it. At start; `tell` may be called by any thread. */
void api_set_on_ignored(void (*tell)(const char *keyword));

/* From now on, tell once of each field of a request's body that fields.def does not know. At
 * start; `tell` may be called by any thread. */
void api_set_on_unknown(void (*tell)(const char *field));

/* Compiles the chat template; a model without one refuses chat calls. */
enum status api_create(const struct api_opts *o, struct api **out,
		       struct fail *fail) MUST_USE;
void api_destroy(struct api *a);
/* Might the body have an image, whose tower takes long? Then it is for a worker thread. */
bool api_may_see(const struct api *a, struct str body);

/* The shapes of an endpoint, api_dialect.h: dialect_chat, dialect_completion, … */
struct dialect;
#define ENDPOINT_CALL(path, name, flags, docs) extern const struct dialect dialect_##name;
#define ENDPOINT_TEXT(path, name, flags, docs)
#define ENDPOINT_PAGE(method, path, name, flags, docs)
#include "api/endpoint.def"
#undef ENDPOINT_CALL
#undef ENDPOINT_TEXT
#undef ENDPOINT_PAGE

struct api_input {
	const struct dialect *dialect;
	struct str body;
	const char *request_id;
	uint64_t owner;     /* the API key, for what is kept; 0: there are no keys */
	int64_t arrival_us; /* 0: now */
	int64_t received_us; /* all of the body; 0: with its first byte */
	/* True: nobody waits for the answer. Looked at while files are fetched and between the
	 * steps of an embedding model; NULL: never. */
	const _Atomic bool *is_gone;
};

/* Parse, render, tokenize. Slow for large bodies: may run on a worker thread. What a
 * client got wrong: E_JSON, E_INVAL, E_TEMPLATE, E_LIMIT, E_MODEL, with the path to it
 * in fail->param; E_CTX_LEN with both counts. Nothing in the request points into the
 * body. */
enum status api_call_create(const struct api *a, const struct api_input *in,
			    struct api_call **out, struct fail *fail) MUST_USE;
/* Lets go of the call's reference to the request. The other one is the scheduler's:
 * where sched_submit did not take it, the caller lets go of it (request_unref). */
void api_call_destroy(struct api_call *c);
/* To be submitted. */
struct request *api_call_request(struct api_call *c);
bool api_call_is_stream(const struct api_call *c);

/* Turn one event into response bytes, appended; none may follow the last. Stream:
 * whole SSE frames; a choice's first one comes with its first token. Not stream:
 * nothing until EVENT_DONE, then the JSON object. After EVENT_FAILED: an SSE error
 * frame, or the JSON error object whose HTTP status is api_call_status. */
void api_call_on_event(struct api_call *c, const struct event *e,
		       struct buf *out);
bool api_call_is_done(const struct api_call *c);
enum status api_call_status(const struct api_call *c);

/* What the access log wants, after the last event. */
struct api_log {
	struct request_stats stats;
	int n_choices;
	enum finish finish; /* of the last choice */
	bool is_stream;
	const char *user; /* the request's `user`, "" if none */
};
void api_call_log(const struct api_call *c, struct api_log *out);

/* How far one of its choices is, as the events so far tell. Times as request_stats has
 * them. */
struct api_progress {
	bool is_started; /* it has left the queue */
	bool is_done;
	int64_t arrival_us, scheduled_us;
	int32_t n_prompt;    /* tokens of its prompt */
	int32_t n_cached;    /* of those, found in the prefix cache; 0 beside other prompts */
	int32_t n_prefilled; /* of those, cached or computed */
	int32_t n_output;    /* tokens of its answer */
};
int api_call_n_choices(const struct api_call *c);
void api_call_progress(const struct api_call *c, int i, struct api_progress *out);
/* The same of all its choices and prompts together. */
void api_call_progress_all(const struct api_call *c, struct api_progress *out);
/* "queued", "prefill" or "decode". */
const char *api_progress_state(const struct api_progress *p);

/* Bodies without a request. */
void api_error_format(const struct fail *f, struct buf *out);
void api_error_format_anthropic(const struct fail *f, struct buf *out);
void api_models_format(const struct api *a, struct buf *out);
enum status api_model_format(const struct api *a, struct str id,
			     struct buf *out, struct fail *fail) MUST_USE;
void api_props_format(const struct api *a, struct buf *out);
/* What is told of a sequence that runs. */
struct api_slot {
	struct api_progress progress;
	const char *id;   /* X-Request-Id; NULL: another key's, of which nothing is told */
};
/* As many of the slots as there are. */
void api_slots_format(const struct api *a, const struct api_slot *slots, int n,
		      struct buf *out);
void api_version_format(const struct api *a, struct buf *out);

/* A response of /v1/responses that is kept; its input items, newest first unless is_rising;
 * and away with it. E_NOT_FOUND, also where another owner made it. */
struct api_kept {
	uint64_t owner; /* as api_input has it */
	struct str id;
};
enum status api_response_format(const struct api *a, struct api_kept kept,
				struct buf *out, struct fail *fail) MUST_USE;
enum status api_response_items_format(const struct api *a, struct api_kept kept,
				      bool is_rising, struct buf *out,
				      struct fail *fail) MUST_USE;
enum status api_response_delete(const struct api *a, struct api_kept kept,
				struct buf *out, struct fail *fail) MUST_USE;

/* Answers that need no engine: JSON is appended. Of the input only body and is_gone are
 * read. Slow for large bodies: may run on a worker thread. Errors as those of
 * api_call_create, and E_CANCELLED where is_gone was seen. */
typedef enum status (*api_text_fn)(const struct api *a, const struct api_input *in,
				   struct buf *out, struct fail *fail);
#define ENDPOINT_CALL(path, name, flags, docs)
#define ENDPOINT_TEXT(path, name, flags, docs)                                           \
	enum status api_##name(const struct api *a, const struct api_input *in,          \
			       struct buf *out, struct fail *fail) MUST_USE;
#define ENDPOINT_PAGE(method, path, name, flags, docs)
#include "api/endpoint.def"
#undef ENDPOINT_CALL
#undef ENDPOINT_TEXT
#undef ENDPOINT_PAGE
