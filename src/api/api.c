/* SPDX-License-Identifier: Apache-2.0
 *
 * The served model as the API sees it. A request passes a dialect (api_dialect.h: the wire shape
 * of an endpoint, rewritten as a chat or a completion), params.c (what all endpoints share),
 * chat_body.c or completion.c, and api_call.c, which turns events to bytes.
 *
 * A new endpoint is a <name>.c that reads its body and a format_<name>.c that writes its
 * answer. A new parameter is a row in fields.def, and a row or a function in params.c;
 * until it does something, its row in fields.def refuses it.
 */
#include "api/api_private.h"

#include <math.h>
#include <stdlib.h>

#include "json/json_read.h"
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
	a->n_loras = o->n_loras;
	a->loras = arena_alloc(&a->arena, (size_t)o->n_loras * sizeof *a->loras);
	for (int i = 0; i < o->n_loras; i++)
		a->loras[i] = (struct api_lora){arena_strdup(&a->arena, o->loras[i].name),
						o->loras[i].hash};
}

void api_set_on_ignored(void (*tell)(const char *keyword))
{
	schema_set_on_ignored(tell);
}

static void set_sampling(struct generation_defaults *d, const struct generation_defaults *set)
{
	if (!isnan(set->temperature))
		d->temperature = set->temperature;
	if (!isnan(set->top_p))
		d->top_p = set->top_p;
	if (!isnan(set->min_p))
		d->min_p = set->min_p;
	if (set->top_k >= 0)
		d->top_k = set->top_k;
}

/* Walks all tensors: some checkpoints have a hundred thousand. */
static void add_served(struct api *a, const char *name, const struct model *m, int32_t n_ctx)
{
	int64_t n[QUANT_COUNT] = {0}, holds;
	struct served *s = &a->served[a->n_served++];
	*s = (struct served){.name = name, .model = m, .n_ctx = n_ctx,
			     .is_embedder = a->n_served > 1, .n_params = model_n_params(m),
			     .format = QUANT_F32};
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		enum quant q = model_tensor_quant(m, t, &holds);
		n[q] += (int64_t)t->n_bytes;
		s->n_bytes += (int64_t)t->n_bytes;
		if (n[q] > n[s->format])
			s->format = q;
	}
}

static void add_all_served(struct api *a)
{
	const struct embed *embedders[] = {a->embedder, a->reranker};
	add_served(a, a->model_name, a->chat.model, a->n_ctx);
	for (size_t i = 0; i < ARRAY_LEN(embedders); i++)
		if (embedders[i])
			add_served(a, embed_name(embedders[i]), embed_model(embedders[i]),
				   embed_n_ctx(embedders[i]));
}

struct api_memory *api_memory_create(const struct api_memory *first)
{
	struct api_memory *m = xcalloc(1, sizeof *m);
	m->has_responses = !first;
	m->responses = first ? first->responses
			     : response_store_create(STORED_RESPONSES, STORED_BYTES);
	m->calls = callstore_create();
	m->created = clock_wall_s();
	return m;
}

void api_memory_destroy(struct api_memory *m)
{
	if (!m)
		return;
	if (m->has_responses)
		response_store_destroy(m->responses);
	callstore_destroy(m->calls);
	free(m);
}

enum status api_create(const struct api_opts *o, struct api **out,
		       struct fail *fail)
{
	const struct model *m = o->model;
	struct api *a = xcalloc(1, sizeof *a);
	a->own_memory = o->memory ? NULL : api_memory_create(NULL);
	const struct api_memory *memory = o->memory ? o->memory : a->own_memory;
	arena_init(&a->arena);
	copy_names(a, o);
	a->chat = (struct chat_model){.model = m, .vision = o->vision, .sound = o->sound,
				      .max_images = o->max_images, .fetch = o->fetch,
				      .video = o->video, .audio = o->audio,
				      .lacks_audio = o->lacks_audio,
				      .calls = memory->calls,
				      .reasoning = o->reasoning,
				      .strict_tools = o->strict_tools};
	a->sees = o->vision || o->sees;
	a->watches = vision_frames(o->vision) > 0 || o->watches;
	a->hears = o->sound || o->hears;
	a->embedder = o->embedder;
	a->align = o->align;
	a->reranker = o->reranker;
	a->n_ctx = o->n_ctx;
	add_all_served(a);
	a->n_vocab = m->config.n_vocab;
	a->defaults = m->defaults;
	if (o->sampling)
		set_sampling(&a->defaults, o->sampling);
	/* A bound above the context's length bounds nothing; after the cut it fits 32 bits. */
	a->max_output_tok = (int32_t)MIN(o->max_output_tok, (int64_t)o->n_ctx);
	a->max_choices = o->max_choices > 0
				 ? MIN(o->max_choices, API_MAX_CHOICES)
				 : DEFAULT_MAX_CHOICES;
	a->n_slots = o->n_slots;
	a->batches = o->batches;
	a->max_body = o->max_body;
	a->clock = o->clock;
	a->created = memory->created;
	a->responses = memory->responses;
	const struct chat_model_opts chat = {o->chat_template, o->chat_template_kwargs,
					     o->tool_format, &a->arena};
	enum status st = chat_model_init(&a->chat, &chat, fail);
	if (st == OK && a->chat.template)
		model_ends_add(&a->defaults, chat_template_end(a->chat.template, m->tokenizer));
	infill_find_tokens(m->tokenizer, &a->fim);
	a->shares_prefixes = o->shares_prefixes;
	if (st == OK)
		*out = a;
	else
		api_destroy(a);
	return st;
}

const char *api_tool_format(const struct api *a)
{
	return a->chat.tool_format ? a->chat.tool_format->name : "none";
}

void api_sampling_format(const struct api *a, const struct generation_defaults *set,
			 struct buf *out)
{
	const struct generation_defaults *d = &a->defaults;
	const struct {
		const char *name, *own;
		bool is_set, is_given;
		double value;
	} rows[] = {
		{"temperature", "1", !isnan(set->temperature), !isnan(d->temperature),
		 (double)d->temperature},
		{"top_p", "1", !isnan(set->top_p), !isnan(d->top_p), (double)d->top_p},
		{"top_k", "off", set->top_k >= 0, d->top_k >= 0, d->top_k},
		{"min_p", "0", !isnan(set->min_p), !isnan(d->min_p), (double)d->min_p},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		buf_addf(out, "%s%s ", i ? ", " : "", rows[i].name);
		if (rows[i].is_given)
			buf_addf(out, "%g (%s)", rows[i].value,
				 rows[i].is_set ? "halod.conf" : "the model's files");
		else
			buf_addf(out, "%s (as OpenAI)", rows[i].own);
	}
}

/* Has the body an escape of a letter, as "\u0069mage"? Clients escape what is no ASCII. */
static bool has_escaped_letter(struct str body)
{
	ptrdiff_t at = 0;
	while ((at = str_find(body, STR("\\u00"), (size_t)at)) >= 0) {
		at += 4;
		if ((size_t)at < body.n && is_char_of(body.p[at], "4567"))
			return true;
	}
	return false;
}

bool api_may_see(const struct api *a, struct str body)
{
	bool has_tower = a->chat.vision || a->chat.sound;
	if (has_tower && (str_find(body, STR("previous_response_id"), 0) >= 0 ||
			  has_escaped_letter(body)))
		return true;
	return (a->chat.vision && memmem(body.p, body.n, "image", 5)) ||
	       (vision_frames(a->chat.vision) && memmem(body.p, body.n, "video", 5)) ||
	       (a->chat.sound && memmem(body.p, body.n, "audio", 5));
}

void api_destroy(struct api *a)
{
	if (!a)
		return;
	chat_model_deinit(&a->chat);
	api_memory_destroy(a->own_memory);
	arena_deinit(&a->arena);
	free(a);
}

bool api_is_named(struct str name, const char *own)
{
	static const char tag[] = ":latest";
	if (str_is(name, own) || strchr(own, ':') || !str_ends(name, STR(tag)))
		return str_is(name, own);
	return str_is((struct str){name.p, name.n - strlen(tag)}, own);
}

bool api_is_one_of(struct str name, const char *own, const char *const *aliases, int n_aliases)
{
	bool is_one = api_is_named(name, own);
	for (int i = 0; i < n_aliases && !is_one; i++)
		is_one = api_is_named(name, aliases[i]);
	return is_one;
}

bool api_has_name(const struct api *a, struct str name)
{
	return api_is_one_of(name, a->model_name, a->aliases, a->n_aliases) ||
	       api_lora_named(a, name) >= 0;
}

enum status api_fail_name(const struct api *a, struct str name,
			  struct fail *fail)
{
	name = json_read_clip(name, 100);
	if (!a)
		return fail_at(fail, E_MODEL, "model", "the model `%.*s` is not served here: "
			       "/v1/models lists those that are", (int)name.n, name.p);
	return fail_at(fail, E_MODEL, "model",
		       "the model `%.*s` is not served here: this is `%s`",
		       (int)name.n, name.p, a->model_name);
}
