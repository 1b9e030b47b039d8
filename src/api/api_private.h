/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: the served model as the API sees it, and
 * one call. Thread: struct api any (immutable), struct api_call one at a time.
 */
#pragma once
#include <jansson.h>

#include "api/api.h"
#include "api/infill.h"
#include "api/parts.h"
#include "api/response_store.h"
#include "chat/chat_model.h"
#include "chat/images.h"

/* One of the models that are served, and what its tensors add up to. */
struct served {
	const char *name;
	const struct model *model;
	int32_t n_ctx;
	bool is_embedder; /* it writes no text */
	int64_t n_bytes, n_params;
	enum quant format; /* of most bytes of its weights */
};
enum { MAX_SERVED = 3 };

struct api_memory {
	struct response_store *responses; /* has a lock */
	bool has_responses;               /* they are its own */
	struct callstore *calls;          /* the same */
	int64_t created; /* seconds since 1970 */
};

struct api {
	struct chat_model chat; /* the model as a conversation sees it */
	bool sees, watches, hears; /* images, video, sound, when it is in memory */
	struct embed *embedder, *reranker; /* NULL: none */
	struct align *align;               /* NULL: none */
	struct served served[MAX_SERVED];  /* the first one writes */
	int n_served;
	struct arena arena; /* holds the strings below */
	const char *model_name, *version, *system_fingerprint;
	const char **aliases;
	int n_aliases;
	struct api_lora *loras; /* (n_loras) */
	int n_loras;
	int32_t n_ctx, n_vocab;
	int32_t max_output_tok; /* cap on max_tokens; 0: the context's length */
	int32_t max_choices;
	int32_t n_slots;
	const struct clock *clock;
	int64_t created;             /* seconds since 1970: `created` of the model */
	struct generation_defaults defaults; /* the model's, with the template's end of a turn */
	bool shares_prefixes;
	struct fim fim;
	struct api_memory *own_memory;    /* NULL: it is api_opts.memory */
	struct response_store *responses; /* of that memory */
	struct batch_store *batches; /* has a lock; NULL: none */
	size_t max_body; /* bytes of a line of a batch's file */
};

/* The index of the adapter of this name; -1: none has it. */
int api_lora_named(const struct api *a, struct str name);
/* Is this the model's name, one of its aliases, or an adapter's name? */
bool api_has_name(const struct api *a, struct str name);

/* Fails with E_MODEL: a request asks for a model that is not served. NULL: several are. */
enum status api_fail_name(const struct api *a, struct str name,
			  struct fail *fail);

/* Most choices of one request (n for each prompt). Bounds the memory of a call. */
#define API_MAX_CHOICES 128

/* Lists of log-probabilities that wait to be sent, as JSON items with commas between. Chat
 * uses the first list; completions use all four. */
enum { LOGPROB_LISTS = 4 };

/* A tool call of an answer. */
struct call {
	char id[32];
	struct buf name, args;
	bool is_broken; /* malformed: its text has become content */
	bool is_cut;    /* max_tokens or a stop string ended it: arguments so far */
};

struct choice {
	bool is_begun, is_done;
	/* tokens of its prompt done, by the last event; tokens of its answer */
	int32_t n_prefilled, n_tokens;
	enum finish finish;
	struct buf text, reasoning; /* the answer so far; only where the client wants no stream */
	struct buf logprobs[LOGPROB_LISTS];
	struct call *calls;         /* in the order in which they began */
	int n_calls, n_whole;       /* calls begun; calls complete or cut */
	bool is_calling;            /* the last call is not complete */
	/* items of vLLM's prompt_logprobs list; only in a prompt's first choice */
	struct buf prompt_logprobs;
	int64_t n_chars;            /* completions: where the next token's text starts */
};

struct format;
struct dialect;

struct api_call {
	const struct api *api;
	struct request *request;
	const struct dialect *dialect; /* the endpoint's wire shapes */
	const struct format *format;   /* which of OpenAI's two shapes; NULL: another API's */
	uint64_t owner;                /* the API key that owns what is stored; 0: no keys */
	const _Atomic bool *is_gone;   /* the client has gone; read by workers */
	/* Of a form, while the call is made: its file is a view into the body. With `audio` there
	 * is a prompt for each of n_pieces, which end at these samples of it. */
	struct images_form form;
	const int64_t *piece_ends;
	int n_pieces;         /* 0: one prompt */
	int64_t audio_us;     /* how long its audio is */
	struct str opening;   /* what halod writes between the prompt and the model's answer */
	struct arena arena;   /* holds echo, user, stop_string */
	bool is_stream, include_usage, is_done;
	bool shows_progress;  /* a stream tells how far its prompt is */
	bool is_started;      /* it has left the queue; stats has the time */
	enum status status;
	const char *user;
	const char *model_name; /* `model` of the answer: the model's own, or its adapter's */
	const char *ignored;  /* parts of the body without effect, for a header; "": none */
	const struct str *echo; /* (n_prompts) text put before each answer, or NULL */
	bool echoes_logprobs;   /* an echo has log-probabilities, too */
	int n_prompt_logprobs;  /* candidates for vLLM's prompt_logprobs; -1: not asked */
	struct buf head;        /* what every object of this call begins with */
	struct choice *choices;
	int n_choices, n_open;
	int i_held; /* the choice whose finish waits for the timings */
	enum finish last_finish;
	struct request_stats stats;

	/* only for a dialect with parts, which has one choice */
	void *state;             /* the dialect's own */
	struct parts parts;      /* the answer so far */
	const char *stop_string; /* the stop string that ended the answer, or NULL */
	bool cuts_max_tokens;    /* max_tokens beyond the context is cut, not refused */
};
