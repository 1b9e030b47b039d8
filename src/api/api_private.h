/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: the served model as the API sees it, and
 * one call. Thread: struct api any (immutable), struct api_call one at a time.
 */
#pragma once
#include <jansson.h>

#include "api/api.h"
#include "api/callstore.h"
#include "api/chat_template.h"
#include "api/grammarcache.h"
#include "api/infill.h"
#include "api/parts.h"
#include "api/response_store.h"
#include "tokenizer/encodings.h"
#include "vision/vision.h"

struct api {
	const struct model *model;
	struct embed *embedder, *reranker; /* NULL: none */
	struct vision *vision; /* NULL: messages are text */
	int32_t max_images;
	const struct fetch *fetch; /* NULL: nothing is fetched for a client */
	struct arena arena; /* the strings below */
	const char *model_name, *version, *system_fingerprint;
	const char **aliases;
	int n_aliases;
	int32_t n_ctx, n_vocab;
	int32_t max_output_tok; /* 0: the context */
	int32_t max_choices;
	int32_t n_slots;
	const struct clock *clock;
	int64_t created;             /* seconds since 1970, said of the model */
	struct chat_template *chat;  /* NULL: the model has none */
	const char *template_text;   /* its source, "" where there is none */
	json_t *template_kwargs;     /* an object, or NULL */
	enum api_reasoning reasoning;
	const struct tool_format *tool_format; /* NULL: none is known */
	struct toolgrammar_specials {
		struct str *p;
		size_t n;
	} specials; /* tokens that stand in its words */
	bool strict_tools;
	bool shares_prefixes;
	struct fim fim;
	struct grammarcache *grammars; /* has a lock */
	struct encodings *encodings; /* of prompts; the same */
	struct callstore *calls;     /* these two change, and have locks */
	struct response_store *responses;
};

/* The name or one of the aliases. */
bool api_has_name(const struct api *a, struct str name);

/* E_MODEL for another. */
enum status api_fail_name(const struct api *a, struct str name,
			  struct fail *fail);

/* Choices of one request, n for each prompt: bounds what a call gathers. */
#define API_MAX_CHOICES 128

/* Log-probabilities waiting to be sent: list items in JSON, commas between. Chat
 * uses the first only; completions one for each of their four lists. */
enum { LOGPROB_LISTS = 4 };

/* A tool call of an answer. */
struct call {
	char id[32];
	struct buf name, args;
	bool is_broken; /* it never ends: its text has become content */
};

struct choice {
	bool is_begun, is_done;
	int32_t n_prefilled, n_tokens; /* of its prompt, by the last event; of its answer */
	enum finish finish;
	struct buf text, reasoning; /* not a stream: gathered until the end */
	struct buf logprobs[LOGPROB_LISTS];
	struct call *calls;         /* as they come */
	int n_calls, n_whole;       /* begun; complete */
	bool is_calling;            /* the last one goes on */
	struct buf prompt_logprobs; /* items of vLLM's list, of the first choice that
	                             * answers a prompt */
	int64_t n_chars;            /* completions: where the next token's text starts */
};

struct format;
struct dialect;

struct api_call {
	const struct api *api;
	struct request *request;
	const struct dialect *dialect; /* the endpoint's shapes */
	const struct format *format;   /* OpenAI's: which of their two; else NULL */
	uint64_t owner;                /* of what is kept; 0: there are no keys */
	const _Atomic bool *is_gone;   /* as api_input has it: while it is made */
	struct arena arena;   /* echo, user, stop_string */
	bool is_stream, include_usage, is_done;
	bool is_started;      /* it has left the queue; then stats says when */
	enum status status;
	const char *user;
	const struct str *echo; /* (n_prompts) text put before each answer, or NULL */
	bool echoes_logprobs;   /* of its tokens, too */
	int n_prompt_logprobs;  /* vLLM's prompt_logprobs; -1: not asked */
	struct buf head;        /* what every object of this call begins with */
	struct choice *choices;
	int n_choices, n_open;
	int i_held; /* the choice whose finish waits for the timings */
	enum finish last_finish;
	struct request_stats stats;

	/* of a dialect with parts, which has one choice */
	void *state;             /* the dialect's own */
	struct parts parts;      /* the answer so far */
	const char *stop_string; /* that ended it, or NULL */
	bool cuts_max_tokens;    /* a max_tokens beyond the context is cut, not refused */
};
