/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges follow vLLM where OpenAI's are narrower, because the clients that tune sampling
 * were written against it. A parameter that this version cannot serve is refused by name,
 * never dropped in silence: see fields.h.
 */
#include "api/params.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "api/api_dialect.h"
#include "chat/guide.h"
#include "base/alloc.h"
#include "base/random.h"

#define MAX_STOPS 16
#define MAX_STOP_BYTES 1024
#define MAX_STOP_IDS 256
#define MAX_BIASES 4096
#define MAX_USER_BYTES 256
#define MAX_SALT_BYTES 1024
#define PRIORITY_MAX 1000000000 /* beyond it is REQUEST_BACKGROUND */

/* --- numbers ------------------------------------------------------------ */

static const struct num_param {
	const char *name;
	double min, max;
	size_t offset; /* of the float in struct sampler_params */
} num_params[] = {
#define FIELD(f) offsetof(struct sampler_params, f)
	{"temperature", 0, 100, FIELD(temperature)},
	{"top_p", 0, 1, FIELD(top_p)},
	{"min_p", 0, 1, FIELD(min_p)},
	{"repetition_penalty", 0.01, 10, FIELD(repetition_penalty)},
	{"presence_penalty", -2, 2, FIELD(presence_penalty)},
	{"frequency_penalty", -2, 2, FIELD(frequency_penalty)},
	{"dry_multiplier", 0, 100, FIELD(dry.multiplier)},
	{"dry_base", 0, 100, FIELD(dry.base)},
	{"xtc_probability", 0, 1, FIELD(xtc.probability)},
	{"xtc_threshold", 0, 1, FIELD(xtc.threshold)},
#undef FIELD
};

/* Defaults: the values that the model's makers recommend, else OpenAI's. */
static void set_defaults(const struct generation_defaults *d,
			 struct sampler_params *s)
{
	s->temperature = isnan(d->temperature) ? 1 : d->temperature;
	s->top_p = isnan(d->top_p) ? 1 : d->top_p;
	s->min_p = isnan(d->min_p) ? 0 : d->min_p;
	s->top_k = d->top_k < 0 ? 0 : d->top_k;
	s->repetition_penalty =
		isnan(d->repetition_penalty) ? 1 : d->repetition_penalty;
	s->n_top_logprobs = -1;
	s->dry = (struct sampler_dry){.base = 1.75f, .allowed_length = 2, .last_n = -1};
	s->xtc = (struct sampler_xtc){.threshold = 0.1f};
}

static enum status read_numbers(const struct json_node *body,
				struct sampler_params *s, struct fail *fail)
{
	for (size_t i = 0; i < ARRAY_LEN(num_params); i++) {
		const struct num_param *p = &num_params[i];
		float *field = (float *)((char *)s + p->offset);
		struct json_node at = json_read_get(body, p->name);
		double v = *field;
		enum status st = json_read_num(&at, p->min, p->max, &v, fail);
		if (st != OK)
			return st;
		*field = (float)v;
	}
	/* Clients send top_p 0 for "only the best token". The sampler wants a positive
	 * number. */
	if (s->top_p <= 0)
		s->top_p = 1e-6f;
	struct json_node at = json_read_get(body, "top_k");
	int64_t top_k = s->top_k;
	enum status st = json_read_int(&at, -1, INT32_MAX, &top_k, fail);
	s->top_k = top_k < 0 ? 0 : (int32_t)top_k;
	return st;
}

static enum status read_seed(const struct json_node *body, uint64_t *out,
			     struct fail *fail)
{
	struct json_node at = json_read_get(body, "seed");
	if (at.v) {
		/* Any 64 bits will do: a negative seed is as good as another. */
		int64_t v = 0;
		enum status st =
			json_read_int(&at, INT64_MIN, INT64_MAX, &v, fail);
		*out = (uint64_t)v;
		return st;
	}
	*out = random_u64();
	return OK;
}

/* --- lists -------------------------------------------------------------- */

enum status params_read_ids(const struct json_node *at, size_t max,
			    int32_t n_vocab, struct arena *a, int32_t **out,
			    size_t *out_n, struct fail *fail)
{
	size_t n;
	enum status st = json_read_list(at, max, &n, fail);
	if (st != OK)
		return st;
	int32_t *ids = arena_try(a, n * sizeof *ids);
	if (!ids)
		return fail_default(fail, E_NOMEM);
	for (size_t i = 0; i < n; i++) {
		const json_t *plain = json_array_get(at->v, i);
		int64_t id = json_is_integer(plain) ? json_integer_value(plain) : -1;
		if (id >= 0 && id < n_vocab) { /* nearly all ids stop here, of perhaps 100,000 */
			ids[i] = (int32_t)id;
			continue;
		}
		struct json_node item = json_read_item(at, i);
		st = json_read_need(&item, fail);
		if (st == OK)
			st = json_read_int(&item, 0, n_vocab - 1, &id, fail);
		if (st != OK)
			return st;
		ids[i] = (int32_t)id;
	}
	*out = ids;
	*out_n = n;
	return OK;
}

static enum status read_stop(const struct json_node *at, struct arena *a,
			     struct str *out, struct fail *fail)
{
	enum status st = json_read_need_str(at, out, fail);
	if (st != OK)
		return st;
	if (out->n == 0)
		return json_read_fail(at, fail, "must not be empty");
	if (out->n > MAX_STOP_BYTES)
		return json_read_fail(at, fail, "must be at most %d bytes, got %zu",
				      MAX_STOP_BYTES, out->n);
	*out = arena_str(a, *out);
	return OK;
}

/* `stop`: a string, or a list of a few strings. Every string is matched against every byte
 * of every choice, so their number and length are bounded. */
static enum status read_stops(const struct json_node *body, struct request *r,
			      struct fail *fail)
{
	struct json_node at = json_read_get(body, "stop");
	/* "" asks for nothing, as text boxes of clients send it. */
	bool is_one = json_is_string(at.v) && json_string_length(at.v) > 0;
	size_t n = 1;
	if (json_is_string(at.v) && !is_one)
		at.v = NULL;
	enum status st = OK;
	if (!is_one)
		st = json_read_list(&at, MAX_STOPS, &n, fail);
	if (st != OK)
		return st;
	struct str *stops = arena_alloc(&r->arena, n * sizeof *stops);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item =
			is_one ? at : json_read_item(&at, i);
		st = read_stop(&item, &r->arena, &stops[i], fail);
	}
	r->parse.stops = stops;
	r->parse.n_stops = (int)n;
	if (st != OK)
		return st;
	at = json_read_get(body, "include_stop_str_in_output");
	return json_read_bool(&at, &r->parse.include_stop, fail);
}

/* What ends an answer: the model's end tokens unless they are ignored, and the
 * client's own. */
static enum status read_stop_ids(const struct json_node *body,
				 struct api_call *c, struct fail *fail)
{
	struct request *r = c->request;
	const struct generation_defaults *d = &c->api->defaults;
	struct json_node at = json_read_get(body, "ignore_eos");
	bool ignores = false;
	enum status st = json_read_bool(&at, &ignores, fail);
	if (st != OK)
		return st;
	int32_t *own;
	size_t n_own;
	at = json_read_get(body, "stop_token_ids");
	st = params_read_ids(&at, MAX_STOP_IDS, c->api->n_vocab, &r->arena, &own,
			     &n_own, fail);
	if (st != OK)
		return st;
	int n = ignores ? 0 : d->n_eos;
	int32_t *ids = arena_alloc(&r->arena, (n_own + n) * sizeof *ids);
	memcpy(ids, d->eos_ids, n * sizeof *ids);
	memcpy(ids + n, own, n_own * sizeof *ids);
	r->stop_ids = ids;
	r->n_stop_ids = n + (int)n_own;
	/* r->ignore_eos would turn off the whole list. A client that names ids of its own
	 * keeps those, so only the model's ids were left out above. */
	r->ignore_eos = ignores && n_own == 0;
	return OK;
}

/* Reads a decimal number. Signs and leading zeros are refused, so that no id can be given
 * twice. */
static bool parse_id(const char *key, int32_t n_vocab, int32_t *out)
{
	size_t n = strspn(key, "0123456789");
	if (n == 0 || n > 9 || key[n] || (key[0] == '0' && n > 1))
		return false;
	int32_t id = 0;
	for (size_t i = 0; i < n; i++)
		id = id * 10 + (key[i] - '0');
	*out = id;
	return id < n_vocab;
}

static enum status read_biases(const struct json_node *body, struct api_call *c,
			       struct fail *fail)
{
	struct sampler_params *s = &c->request->sampling;
	struct json_node at = json_read_get(body, "logit_bias");
	enum status st = json_read_object(&at, fail);
	if (st != OK || !at.v)
		return st;
	size_t n = json_object_size(at.v);
	if (n > MAX_BIASES)
		return json_read_fail(&at, fail, "must have at most %d entries",
				      MAX_BIASES);
	struct logit_bias *bias =
		arena_alloc(&c->request->arena, n * sizeof *bias);
	const char *key;
	json_t *value;
	n = 0;
	json_object_foreach((json_t *)at.v, key, value) {
		struct json_node item = json_read_get(&at, key);
		double v = 0;
		if (!parse_id(key, c->api->n_vocab, &bias[n].id))
			return json_read_fail(
				&item, fail,
				"must have a token id from 0 to %d for its name",
				c->api->n_vocab - 1);
		st = json_read_num(&item, -100, 100, &v, fail);
		if (st != OK)
			return st;
		bias[n++].bias = (float)v;
	}
	s->bias = bias;
	s->n_bias = (int)n;
	return OK;
}

/* --- limits ------------------------------------------------------------- */

/* Reads `speculative.*`, by llama.cpp's names. */
static enum status read_draft(const struct json_node *body, struct draft_limits *out,
			      struct fail *fail)
{
	int64_t n_max = out->n_max, n_min = out->n_min;
	double p_min = 0;
	struct json_node at = json_read_get(body, "speculative.n_max");
	enum status st = json_read_int(&at, 0, INT32_MAX, &n_max, fail);
	if (st == OK) {
		at = json_read_get(body, "speculative.n_min");
		st = json_read_int(&at, 0, INT32_MAX, &n_min, fail);
	}
	if (st == OK) {
		at = json_read_get(body, "speculative.p_min");
		st = json_read_num(&at, 0, 1, &p_min, fail);
	}
	*out = (struct draft_limits){(int32_t)n_max, (int32_t)n_min, (float)p_min};
	return st;
}

/* Reads n, max_tokens, min_tokens, speculative.*. A max_tokens above the server's cap is
 * cut and not refused: the client gets a shorter answer with finish_reason "length". */
static enum status read_limits(const struct json_node *body, struct api_call *c,
			       struct fail *fail)
{
	struct request *r = c->request;
	int64_t n = 1, max = 0, min = 0;
	bool is_given = false;
	struct json_node at = json_read_get(body, "n");
	enum status st = json_read_int(&at, 1, c->api->max_choices, &n, fail);
	/* max_completion_tokens is the newer name and wins. */
	static const char *const names[] = {"max_tokens", "max_completion_tokens"};
	bool is_openai = c->dialect->fields == DIALECT_CHAT ||
			 c->dialect->fields == DIALECT_COMPLETION;
	for (int i = 0; i < 2 && st == OK; i++) {
		at = json_read_get(body, names[i]);
		/* llama.cpp's and LM Studio's word for no limit. */
		if (is_openai && json_is_number(at.v) && json_number_value(at.v) == -1)
			continue;
		st = json_read_int(&at, c->dialect->is_chat ? 1 : 0, INT32_MAX,
				   &max, fail);
		is_given |= at.v != NULL;
	}
	r->no_output = is_given && max == 0;
	if (st != OK)
		return st;
	if (c->api->max_output_tok > 0 && max > c->api->max_output_tok)
		max = c->api->max_output_tok;
	at = json_read_get(body, "min_tokens");
	st = json_read_int(&at, 0, max ? max : c->api->n_ctx, &min, fail);
	if (st == OK)
		st = read_draft(body, &r->draft, fail);
	r->n = (int)n;
	r->max_tokens = (int32_t)max;
	r->min_tokens = (int32_t)min;
	return st;
}

/* stream_options without a stream is refused, as OpenAI does: the client would wait for a
 * usage chunk that never comes. */
static enum status read_stream(const struct json_node *body, struct api_call *c,
			       struct fail *fail)
{
	struct json_node at = json_read_get(body, "stream");
	enum status st = json_read_bool(&at, &c->is_stream, fail);
	if (st != OK)
		return st;
	at = json_read_get(body, "return_progress");
	st = json_read_bool(&at, &c->shows_progress, fail);
	c->shows_progress &= c->is_stream;
	at = json_read_get(body, "stream_options");
	if (st != OK || !at.v)
		return st;
	if (!c->is_stream)
		return json_read_fail(&at, fail, "needs `stream`: true");
	st = json_read_object(&at, fail);
	if (st != OK)
		return st;
	struct json_node usage = json_read_get(&at, "include_usage");
	return json_read_bool(&usage, &c->include_usage, fail);
}

/* Reads vLLM's prompt_logprobs: how likely each token of the prompt was. A stream has no
 * place for them. */
static enum status read_prompt_logprobs(const struct json_node *body, struct api_call *c,
					struct fail *fail)
{
	struct json_node at = json_read_get(body, "prompt_logprobs");
	int64_t n = -1;
	enum status st = json_read_int(&at, 0, SAMPLER_TOP_MAX, &n, fail);
	if (st == OK && n >= 0 && c->is_stream)
		st = json_read_fail(&at, fail, "does not go with `stream`: true");
	c->n_prompt_logprobs = (int)n;
	c->request->prompt_logprobs = (int)n;
	return st;
}

/* `user` is only logged, so an overlong one is cut and not refused. */
static enum status read_user(const struct json_node *body, struct api_call *c,
			     struct fail *fail)
{
	struct json_node at = json_read_get(body, "user");
	struct str user = STR("");
	enum status st = json_read_str(&at, &user, fail);
	c->user = arena_str(&c->arena, json_read_clip(user, MAX_USER_BYTES)).p;
	return st;
}

static enum status read_priority(const struct json_node *body, struct request *r,
				 struct fail *fail)
{
	struct json_node at = json_read_get(body, "priority");
	int64_t priority = 0;
	enum status st = json_read_int(&at, -PRIORITY_MAX, PRIORITY_MAX, &priority, fail);
	r->priority = (int32_t)priority;
	return st;
}

/* Sets which requests may resume the KV pages of this one: those of the same key (unless
 * the settings let all keys share) with the same salt, and of the same adapter with the same
 * scale. The parts of the adapter and of the key have fixed lengths, and a key's is
 * hexadecimal, so no salt can imitate them. */
static enum status read_cache_salt(const struct json_node *body, struct api_call *c,
				   struct fail *fail)
{
	struct json_node at = json_read_get(body, "cache_salt");
	struct str salt = STR("");
	enum status st = json_read_str(&at, &salt, fail);
	if (st != OK)
		return st;
	if (at.v && !json_is_null(at.v) && (salt.n == 0 || salt.n > MAX_SALT_BYTES))
		return json_read_fail(&at, fail, "must have 1 to %d bytes",
				      MAX_SALT_BYTES);
	uint64_t owner = c->api->shares_prefixes ? 0 : c->owner;
	const struct request *r = c->request;
	if (owner == 0 && salt.n == 0 && !r->lora)
		return OK;
	struct buf name = {0};
	if (r->lora) {
		uint32_t scale;
		memcpy(&scale, &r->lora_scale, sizeof scale);
		buf_addf(&name, "lora:%016" PRIx64 "%08" PRIx32, c->api->loras[r->lora - 1].hash,
			 scale);
	}
	buf_addf(&name, "%016" PRIx64, owner);
	buf_add_str(&name, salt);
	c->request->cache_space = arena_str(&c->request->arena, buf_str(&name));
	buf_deinit(&name);
	return OK;
}

/* --- what is refused ---------------------------------------------------- */

static enum status check_best_of(const struct json_node *body, int n, struct fail *fail)
{
	struct json_node at = json_read_get(body, "best_of");
	int64_t best_of = n;
	enum status st = json_read_int(&at, 1, INT32_MAX, &best_of, fail);
	if (st == OK && best_of != n)
		return json_read_fail(&at, fail,
				      "is not supported unless it equals `n`");
	return st;
}

/* Reads the parameters that all calls share, the answer's grammar last. */
enum status params_read(const struct json_node *body, struct api_call *c,
			struct fail *fail)
{
	struct request *r = c->request;
	set_defaults(&c->api->defaults, &r->sampling);
	r->skip_special = true;
	struct json_node skip = json_read_get(body, "skip_special_tokens");
	enum status st = json_read_bool(&skip, &r->skip_special, fail);
	if (st == OK)
		st = read_numbers(body, &r->sampling, fail);
	if (st == OK)
		st = params_read_dry(body, c, fail);
	if (st == OK)
		st = read_seed(body, &r->sampling.seed, fail);
	if (st == OK)
		st = read_stops(body, r, fail);
	if (st == OK)
		st = read_stop_ids(body, c, fail);
	if (st == OK)
		st = read_biases(body, c, fail);
	if (st == OK)
		st = read_limits(body, c, fail);
	if (st == OK)
		st = read_stream(body, c, fail);
	if (st == OK)
		st = read_prompt_logprobs(body, c, fail);
	if (st == OK)
		st = read_user(body, c, fail);
	if (st == OK)
		st = params_read_lora(body, c, fail);
	if (st == OK)
		st = read_cache_salt(body, c, fail);
	if (st == OK)
		st = read_priority(body, r, fail);
	if (st == OK)
		st = check_best_of(body, r->n, fail);
	if (st == OK)
		st = guide_read(body, c->api->chat.grammars, &r->grammar, fail);
	return st;
}

/* --- the context -------------------------------------------------------- */

struct json_node params_max_tokens(const struct json_node *body)
{
	struct json_node newer = json_read_get(body, "max_completion_tokens");
	return newer.v ? newer : json_read_get(body, "max_tokens");
}

/* Both counts stand in the text, for people, and in fail as numbers, for agents. */
static enum status fail_context(size_t n_prompt, int32_t n_output, int32_t n_ctx,
				const struct json_node *body, const struct json_node *prompt,
				struct fail *fail)
{
	struct json_node max = params_max_tokens(body);
	struct buf name = {0};
	json_read_path(&max, &name);
	buf_reserve(&name, 0);
	if (n_output == 0)
		fail_set(fail, E_CTX_LEN,
			 "the prompt has %zu tokens, the context holds %d and needs "
			 "room for an answer",
			 n_prompt, n_ctx);
	else
		fail_set(fail, E_CTX_LEN,
			 "the prompt has %zu tokens and `%s` asks for %d more, "
			 "the context holds %d",
			 n_prompt, name.p, n_output, n_ctx);
	json_read_locate(prompt, fail);
	buf_deinit(&name);
	if (fail) {
		fail->got = (int64_t)n_prompt;
		fail->limit = n_ctx;
	}
	return E_CTX_LEN;
}

enum status params_fit(const struct json_node *body, struct api_call *c,
		       struct fail *fail)
{
	struct request *r = c->request;
	int32_t n_ctx = c->api->n_ctx, cap = c->api->max_output_tok;
	int32_t usual = c->dialect->usual_tokens;
	struct json_node prompt = json_read_get(
		body, c->dialect->is_chat ? "messages" : "prompt");
	for (int i = 0; i < r->n_prompts; i++) {
		size_t n = r->prompts[i].n;
		if (n >= (size_t)n_ctx)
			return fail_context(n, 0, n_ctx, body, &prompt, fail);
		if (c->cuts_max_tokens)
			r->max_tokens = MIN(r->max_tokens, n_ctx - (int32_t)n);
		if (r->max_tokens > n_ctx - (int32_t)n)
			return fail_context(n, r->max_tokens, n_ctx, body, &prompt, fail);
	}
	if (r->max_tokens == 0)
		r->max_tokens = usual && cap ? MIN(usual, cap) : usual ? usual : cap;
	return OK;
}
