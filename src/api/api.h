/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns JSON into requests, and events into JSON. Knows the wire shapes of all endpoints,
 * but nothing of connections.
 *
 * struct api is immutable and any thread may use it; a struct api_call belongs to
 * one thread at a time (a worker while it is made, io afterwards).
 */
#pragma once
#include "align/align.h"
#include "audio/audio.h"
#include "video/video.h"
#include "base/buf.h"
#include "chat/chat_template.h"
#include "embed/embed.h"
#include "fetch/fetch.h"
#include "model/model.h"
#include "sched/request.h"
#include "sound/sound.h"
#include "vision/vision.h"

struct api;
struct api_call;
/* What a model's conversations have left here: responses that can be continued by their id, and the
 * model's own words of its calls. It may outlive the api, so that the next one finds them. Thread:
 * any. */
struct api_memory;
/* first: has the responses, and outlives this memory; NULL: this one has its own. A client may go
 * on with a response of another model. */
struct api_memory *api_memory_create(const struct api_memory *first);
void api_memory_destroy(struct api_memory *m); /* NULL is fine */

/* A LoRA adapter that requests may name. */
struct api_lora {
	const char *name;
	uint64_t hash; /* of its contents */
};

struct api_opts {
	const struct model *model;
	const char *chat_template; /* replaces the model's own template; NULL: the model's */
	/* a JSON object of template variables; NULL or "": none */
	const char *chat_template_kwargs;
	enum chat_reasoning reasoning;
	/* sampling where a request says nothing, in place of what the model's files say; its
	 * eos_ids are not read; NULL: as the model */
	const struct generation_defaults *sampling;
	/* for /v1/embeddings and /v1/rerank; NULL: the endpoint is refused */
	struct embed *embedder, *reranker;
	struct vision *vision;     /* computes the images in messages; NULL: images are refused */
	struct sound *sound;       /* computes the sounds in messages; NULL: sound is refused */
	bool lacks_audio;          /* as in struct chat_model */
	struct align *align;       /* NULL: transcripts have no times */
	bool sees, watches, hears; /* what it would take, were it in memory */
	struct api_memory *memory; /* outlives the api; NULL: the api has its own */
	int32_t max_images;        /* images, sounds, videos of a request */
	struct video_limits video; /* as in struct chat_model, and so is audio */
	struct audio_limits audio;
	const struct fetch *fetch; /* gets images by their address; NULL: addresses are refused */
	const char *model_name;    /* `model` in answers; the name that requests give */
	const char *const *aliases; /* further names of the model that requests may give */
	int n_aliases;
	const struct api_lora *loras; /* (n_loras) in the order of engine_opts.loras; copied */
	int n_loras;
	int32_t n_ctx;
	int64_t max_output_tok;    /* cap on max_tokens; 0: the context's length */
	int32_t max_choices;       /* cap on a request's choices, n times its prompts; 0: 8 */
	/* the format in which the model writes tool calls; NULL: found from the template */
	const char *tool_format;
	bool strict_tools; /* hold the arguments of every tool to its schema */
	bool shares_prefixes; /* true: a request may resume a prompt that another API key sent */
	int32_t n_slots;           /* sequences computed together, for /slots */
	struct batch_store *batches; /* files and batches; NULL: their addresses are refused */
	size_t max_body; /* bytes of a line of such a file */
	const char *version;
	const char *system_fingerprint;
	const struct clock *clock;
};

/* Sets a function that is told, once for each, of the JSON schema keywords that are ignored
 * because the standard does not know them. Call at start; any thread may call `tell`. */
void api_set_on_ignored(void (*tell)(const char *keyword));

/* Sets a function that is told, once for each, of the fields of a request's body that
 * fields.def does not know, and of the types of tools that are not served. Call at start; any
 * thread may call `tell`. */
void api_set_on_unknown(void (*tell)(const char *field));

/* Compiles the chat template; a model without one refuses chat calls. */
enum status api_create(const struct api_opts *o, struct api **out,
		       struct fail *fail) MUST_USE;
void api_destroy(struct api *a);
/* Appends which sampling holds where a request says nothing, and from where. */
void api_sampling_format(const struct api *a, const struct generation_defaults *set,
			 struct buf *out);
/* How calls of tools are written and read, as the setting tool_format spells it; "none" where
 * nothing is read as a call. */
const char *api_tool_format(const struct api *a);
/* Might the body hold an image or audio, in any spelling, or name a response that did? Computing
 * one takes long, so such a body is for a worker thread. */
bool api_may_see(const struct api *a, struct str body);

/* The wire shapes of each endpoint (api_dialect.h): dialect_chat, dialect_completion, … */
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
	struct str type;    /* the Content-Type of a form; "": not said */
	struct str tail;    /* of the address: what the row's "*" stands for */
	const char *request_id;
	/* the API key, as owner of what is stored; 0: the server has no keys */
	uint64_t owner;
	int64_t arrival_us; /* when the request's first byte came; 0: now */
	int64_t received_us; /* when the whole body had come; 0: as arrival_us */
	/* True: the client has gone and waits for no answer. Read while files are fetched,
	 * and between the steps of an embedding model. NULL: the client stays. */
	const _Atomic bool *is_gone;
};

/* Parses the body, renders the template, tokenizes. Slow for large bodies: may run on a
 * worker thread. A client's mistakes are E_JSON, E_INVAL, E_TEMPLATE, E_LIMIT and E_MODEL,
 * with the path of the field in fail->param; E_CTX_LEN comes with both counts. Nothing in
 * the request points into the body. */
enum status api_call_create(const struct api *a, const struct api_input *in,
			    struct api_call **out, struct fail *fail) MUST_USE;
/* Drops the call's reference to the request. The request has a second reference, for the
 * scheduler: where sched_submit did not take the request, the caller drops that reference
 * too (request_unref). */
void api_call_destroy(struct api_call *c);
/* The request to submit to the scheduler. */
struct request *api_call_request(struct api_call *c);
bool api_call_is_stream(const struct api_call *c);
/* Of a stream of server-sent events: its Content-Type, and a comment that breaks its silence. */
#define SSE_TYPE "text/event-stream; charset=utf-8"
#define SSE_COMMENT ": keepalive\n\n"
/* Can a stream's silence be broken before anything of its body is read? NULL: there is none. */
bool api_breaks_silence(const struct dialect *d);
/* The Content-Type of an answer that is no stream, and of a stream. */
const char *api_call_type(const struct api_call *c);
const char *api_call_stream_type(const struct api_call *c);
/* Appends what breaks a stream's silence and says nothing. */
void api_call_keep_alive(struct api_call *c, struct buf *out);
/* The parts of the body that had no effect, as text for a header; "": none. */
const char *api_call_ignored(const struct api_call *c);
/* Must a worker thread run api_call_rest before api_call_on_event gets EVENT_DONE? Where that fails
 * it gets EVENT_FAILED instead. Other threads may read the call meanwhile. */
bool api_call_has_rest(const struct api_call *c);
enum status api_call_rest(struct api_call *c, struct fail *fail) MUST_USE;

/* Appends the response bytes of one event; no event may follow the last. Stream: whole SSE
 * frames; a choice's first frame comes with its first token. Not stream: nothing until
 * EVENT_DONE, then the JSON object. After EVENT_FAILED: an SSE error frame, or the JSON
 * error object whose HTTP status is api_call_status. */
void api_call_on_event(struct api_call *c, const struct event *e, struct buf *out);
bool api_call_is_done(const struct api_call *c);
enum status api_call_status(const struct api_call *c);

/* What the access log says of a call; valid after the last event. */
struct api_log {
	struct request_stats stats;
	int n_choices;
	enum finish finish; /* of the last choice */
	bool is_stream;
	const char *user; /* the request's `user`, "" if none */
	int64_t audio_us; /* of all its sounds, its history included; 0: none */
};
/* Microseconds from the last byte of a request to its last token; 0: there is none. */
static inline int64_t api_log_took_us(const struct api_log *l)
{
	return l->stats.last_token_us ? l->stats.last_token_us - l->stats.received_us : 0;
}
void api_call_log(const struct api_call *c, struct api_log *out);

/* How far one choice of a call is, by the events so far. Times are those of request_stats. */
struct api_progress {
	bool is_started; /* the request has left the queue */
	bool is_done;
	int64_t arrival_us, scheduled_us;
	int32_t n_prompt;    /* tokens of its prompt */
	/* of n_prompt, found in the prefix cache; 0 where the call has several prompts */
	int32_t n_cached;
	int32_t n_prefilled; /* of n_prompt, cached or computed so far */
	int32_t n_output;    /* tokens of its answer so far */
};
int api_call_n_choices(const struct api_call *c);
void api_call_progress(const struct api_call *c, int i, struct api_progress *out);
/* The progress of the whole call: the sums over its prompts and choices. */
void api_call_progress_all(const struct api_call *c, struct api_progress *out);
/* "queued", "prefill" or "decode". */
const char *api_progress_state(const struct api_progress *p);

/* Bodies without a request. */
void api_error_format(const struct fail *f, struct buf *out);
void api_error_format_anthropic(const struct fail *f, struct buf *out);
void api_error_format_ollama(const struct fail *f, struct buf *out);
/* A model of the server, in memory or not. */
struct api_row {
	const char *name;
	const char *const *aliases;
	int n_aliases;
	const struct api *api; /* NULL: only its names are known */
	const char *state;     /* "loaded", as llama-server's router spells it */
	bool is_loaded;
	double load_s;         /* seconds that its last load took */
	int64_t ends_s;        /* when it leaves memory if not used, since 1970; 0: it stays */
	const char *why;       /* why it could not be loaded; NULL: it could */
};
/* /api/tags, /api/ps and /api/version */
void api_ollama_tags_format(const struct api_row *rows, int n, struct buf *out);
void api_ollama_ps_format(const struct api_row *rows, int n, struct buf *out);
void api_ollama_version_format(const char *version, struct buf *out);
/* What /api/show and /api/pull answer of a model that is not in memory. a: NULL, or what is there
 * of it all the same. */
void api_ollama_show_closed(const char *name, const struct api *a, struct buf *out);
void api_ollama_pull_closed(struct buf *out);
void api_models_format(const struct api_row *rows, int n, struct buf *out);
enum status api_model_format(const struct api_row *rows, int n, struct str id,
			     struct buf *out, struct fail *fail) MUST_USE;
/* Is `name` this model's name? Ollama's clients put ":latest" behind names without a tag. */
bool api_is_named(struct str name, const char *own);
/* Or one of its aliases? */
bool api_is_one_of(struct str name, const char *own, const char *const *aliases, int n_aliases);
/* a: the model that is told of; rows: all of them. */
void api_props_format(const struct api *a, const struct api_row *rows, int n, struct buf *out);
/* The adapters as /lora-adapters lists them. None is on by itself. */
void api_loras_format(const struct api *a, struct buf *out);
/* What /slots tells of one running sequence. */
struct api_slot {
	struct api_progress progress;
	/* X-Request-Id; NULL: the sequence of another API key, whose data is not told */
	const char *id;
};
/* Formats n running sequences; the rest of the a->n_slots slots are idle. */
void api_slots_format(const struct api *a, const struct api_slot *slots, int n, struct buf *out);
void api_version_format(const char *version, struct buf *out);

/* For a stored response of /v1/responses: get its body, get its input items (newest first
 * unless is_rising), delete it. E_NOT_FOUND also where another owner made it. */
struct api_kept {
	uint64_t owner; /* as in struct api_input */
	struct str id;
};
enum status api_response_format(const struct api_memory *m, struct api_kept kept,
				struct buf *out, struct fail *fail) MUST_USE;
enum status api_response_items_format(const struct api_memory *m, struct api_kept kept,
				      bool is_rising, struct buf *out,
				      struct fail *fail) MUST_USE;
enum status api_response_delete(const struct api_memory *m, struct api_kept kept,
				struct buf *out, struct fail *fail) MUST_USE;
/* Fails in any case: what is kept is complete (E_INVAL), or nothing is (E_NOT_FOUND). */
enum status api_response_cancel(const struct api_memory *m, struct api_kept kept,
				struct fail *fail) MUST_USE;

/* Answers without the engine: appends JSON to out. Slow for large bodies: may run on a worker
 * thread. Errors are those of api_call_create, and E_CANCELLED where is_gone was true. */
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

/* What a batch may ask for; NULL: not served in batches. */
struct api_batch_endpoint {
	const char *path;
	const struct dialect *dialect; /* the engine answers; else NULL */
	api_text_fn text;
};
const struct api_batch_endpoint *api_batch_endpoint(struct str path);

/* Makes what one body asks for, within the work that a body of its length may cause
 * (base/work.h): a call in *out_call, or with text its answer in out. Any thread without a
 * budget of its own. */
enum status api_make(const struct api *a, const struct api_input *in, api_text_fn text,
		     struct api_call **out_call, struct buf *out, struct fail *fail) MUST_USE;
