/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of this folder, in the order in which a request passes through them:
 *
 *   json_read        bytes to a tree, typed access, the path of every fault
 *   params           what all endpoints share
 *   chat             messages (messages.c), tools and variables through the model's
 *                    template (chat_template.c, chat_vars.c, value.c)
 *   chat_plain       tools and calls as text, for templates that know none
 *   tools            what may, must or must not be called, and in which format
 *   toolgrammar      what a call must look like
 *   callstore, replay  calls of the history in the model's own words
 *   completion       raw prompts
 *   prompt           text to ids
 *   api_dialect      one interface for the wire shapes of all endpoints; how a body is
 *                    rewritten, so that faults keep the client's paths
 *   anthropic_read, _format   Messages, rewritten as a chat (parts.h)
 *   responses_read, _format   Responses, rewritten as a chat, with response_store
 *   infill           a completion between two texts
 *   format_<kind>    OpenAI's chat and completions; format has what they share
 *   api_call         the above in order, then events to bytes
 *   tokenize         text to ids and back, and the prompt alone
 *   embeddings, rerank   what the models that read are asked (readers)
 *   errors, models, props, version   bodies without a request
 *
 * A new endpoint is a <name>.c that reads its body and a format_<name>.c that writes its
 * answer. A new parameter is a row in fields.def, and a row or a function in params.c;
 * until it does something, its row in fields.def refuses it.
 */
#include "api/api_private.h"

#include <stdlib.h>

#include "json/json_read.h"
#include "api/chat_vars.h"
#include "api/toolgrammar.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "model/model_ends.h"
#include "schema/schema.h"

/* Choices of a request (n times its prompts) where the settings do not say. Each choice is
 * a sequence that holds pages of the KV cache from start to end. */
#define DEFAULT_MAX_CHOICES 8
/* Bounds of the store of conversations that a client may continue by id: their number,
 * their bytes. */
#define STORED_RESPONSES 1000
#define STORED_BYTES (64u << 20)
/* Bounds of the cache of compiled grammars and their masks: their number, their bytes. */
#define GRAMMARS 64
#define GRAMMAR_BYTES (64u << 20)
/* Bound of the cache of prompts' texts with their tokens. An entry takes about twice its
 * text's bytes. */
#define ENCODING_BYTES ((size_t)32 << 20)

static void copy_names(struct api *a, const struct api_opts *o)
{
	a->model_name = arena_strdup(&a->arena, o->model_name);
	a->version = arena_strdup(&a->arena, o->version ? o->version : "");
	a->system_fingerprint = arena_strdup(
		&a->arena, o->system_fingerprint ? o->system_fingerprint : "");
	a->n_aliases = o->n_aliases;
	a->aliases = arena_alloc(&a->arena,
				 (size_t)o->n_aliases * sizeof *a->aliases);
	for (int i = 0; i < o->n_aliases; i++)
		a->aliases[i] = arena_strdup(&a->arena, o->aliases[i]);
}

void api_set_on_ignored(void (*tell)(const char *keyword))
{
	schema_set_on_ignored(tell);
}

/* A template without tools names no format of calls. The model is then told to write the calls
 * of Hermes: see chat_plain.h. */
static void choose_plain(struct api *a, const char *name)
{
	bool is_auto = !name || strcmp(name, "auto") == 0;
	if (is_auto && !a->tool_format && a->chat && !chat_template_shows_tools(a->chat))
		a->tool_format = toolformat_find(STR("hermes"));
}

enum status api_create(const struct api_opts *o, struct api **out,
		       struct fail *fail)
{
	const struct model *m = o->model;
	struct api *a = xcalloc(1, sizeof *a);
	arena_init(&a->arena);
	copy_names(a, o);
	a->model = m;
	a->embedder = o->embedder;
	a->reranker = o->reranker;
	a->vision = o->vision;
	a->max_images = o->max_images;
	a->fetch = o->fetch;
	a->n_ctx = o->n_ctx;
	a->n_vocab = m->config.n_vocab;
	a->defaults = m->defaults;
	/* A bound above the context's length bounds nothing; after the cut it fits 32 bits. */
	a->max_output_tok = (int32_t)MIN(o->max_output_tok, (int64_t)o->n_ctx);
	a->max_choices = o->max_choices > 0
				 ? MIN(o->max_choices, API_MAX_CHOICES)
				 : DEFAULT_MAX_CHOICES;
	a->n_slots = o->n_slots;
	a->clock = o->clock;
	a->created = clock_wall_s();
	a->responses = response_store_create(STORED_RESPONSES, STORED_BYTES);
	a->calls = callstore_create();
	a->grammars = grammarcache_create(GRAMMARS, GRAMMAR_BYTES);
	a->encodings = encodings_create(ENCODING_BYTES);
	const char *template = o->chat_template ? o->chat_template : m->chat_template;
	a->template_text = arena_strdup(&a->arena, template ? template : "");
	a->reasoning = o->reasoning;
	enum status st = chat_vars_parse(o->chat_template_kwargs, &a->template_kwargs,
					 fail);
	if (st == OK)
		st = tools_choose_format(o->tool_format, a->template_text,
					 &a->tool_format, fail);
	infill_find_tokens(m->tokenizer, &a->fim);
	a->strict_tools = o->strict_tools;
	a->shares_prefixes = o->shares_prefixes;
	/* A model without a template still completes raw prompts. */
	if (st == OK && a->template_text[0]) {
		const struct chat_template_opts t = {
			.source = str_of(a->template_text),
			.bos_text = m->bos_text,
			.eos_text = m->eos_text,
		};
		st = chat_template_create(&t, &a->chat, fail);
		if (st == OK)
			model_ends_add(&a->defaults, chat_template_end(a->chat, m->tokenizer));
	}
	if (st == OK)
		choose_plain(a, o->tool_format);
	toolgrammar_find_specials(m->tokenizer, a->tool_format, &a->arena, &a->specials);
	if (st == OK)
		*out = a;
	else
		api_destroy(a);
	return st;
}

bool api_may_see(const struct api *a, struct str body)
{
	return a->vision && memmem(body.p, body.n, "image", 5);
}

void api_destroy(struct api *a)
{
	if (!a)
		return;
	chat_template_destroy(a->chat);
	json_decref(a->template_kwargs);
	callstore_destroy(a->calls);
	grammarcache_destroy(a->grammars);
	encodings_destroy(a->encodings);
	response_store_destroy(a->responses);
	arena_deinit(&a->arena);
	free(a);
}

bool api_has_name(const struct api *a, struct str name)
{
	if (str_is(name, a->model_name))
		return true;
	for (int i = 0; i < a->n_aliases; i++)
		if (str_is(name, a->aliases[i]))
			return true;
	return false;
}

enum status api_fail_name(const struct api *a, struct str name,
			  struct fail *fail)
{
	name = json_read_clip(name, 100);
	return fail_at(fail, E_MODEL, "model",
		       "the model `%.*s` is not served here: this is `%s`",
		       (int)name.n, name.p, a->model_name);
}
