/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON is written by hand, piece by piece: a chunk is made for every token of every
 * stream, and a JSON tree would cost more than the token's own text.
 *
 *   stream   begin_0 delta_0 … delta_0 finish_0  (choices interleave)
 *            usage            only if asked for: choices is empty
 *            [DONE]
 *
 * All chunks of a call begin with the same members, up to "choices": the call's head.
 * `timings` stands in the last chunk, whichever that is. Log-probabilities wait for the
 * next chunk that has text, or for the finish.
 */
#include "api/format.h"

#include <math.h>

#include "api/api_dialect.h"
#include "base/alloc.h"
#include "base/clock.h"

static void begin_scores(struct api_call *c);

void format_init(struct api_call *c, const struct format *f, const char *request_id)
{
	const struct api *a = c->api;
	struct buf id = {0}, *head = &c->head;
	c->format = f;
	buf_addf(&id, "%s%s", f->id_prefix, request_id);
	buf_add_z(head, "{\"id\":");
	buf_add_json(head, buf_str(&id));
	buf_addf(head, ",\"object\":\"%s\",\"created\":%lld,\"model\":",
		 c->is_stream ? f->chunk_object : f->object,
		 (long long)clock_wall_s());
	buf_add_json(head, str_of(c->model_name));
	buf_add_z(head, ",\"system_fingerprint\":");
	buf_add_json(head, str_of(a->system_fingerprint));
	buf_add_z(head, ",\"choices\":[");
	buf_deinit(&id);
	if (c->request->prompt_logprobs >= 0)
		begin_scores(c);
}

/* --- numbers ------------------------------------------------------------- */

void format_add_logprob(struct buf *out, float v)
{
	/* vLLM writes -9999 for a token that cannot come. v is never a NaN here. */
	buf_add_json_num(out, v > -9999 ? v : -9999);
}

void format_add_comma(struct buf *list)
{
	if (list->n)
		buf_add_c(list, ',');
}

/* Adds a member with three decimals. A value that is not finite becomes null. */
static void add_num(struct buf *out, const char *name, double v)
{
	buf_addf(out, "\"%s\":", name);
	buf_add_json_num(out, round(v * 1000) / 1000);
}

/* Of a model that hears: the prompt's tokens that stand for audio. */
static void add_audio_tokens(const struct api_call *c, struct buf *out)
{
	if (c->api->chat.sound)
		buf_addf(out, ",\"audio_tokens\":%d", dialect_audio_tokens(c));
}

static void add_usage(const struct api_call *c, struct buf *out)
{
	const struct request_stats *s = &c->stats;
	buf_addf(out,
		 "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,"
		 "\"total_tokens\":%d,"
		 "\"prompt_tokens_details\":{\"cached_tokens\":%d",
		 s->n_prompt, s->n_output, s->n_prompt + s->n_output, s->n_cached);
	add_audio_tokens(c, out);
	buf_addf(out, "},\"completion_tokens_details\":{\"reasoning_tokens\":%d}}",
		 s->n_reasoning);
}

/* A rate or a mean over nothing is 0 and not null: clients calculate with these. */
static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double span_ms(int64_t from_us, int64_t to_us)
{
	return to_us > from_us ? (double)(to_us - from_us) / 1e3 : 0;
}

/* ttft_ms and tpot_ms are those of /metrics. queue_ms runs to the first step and includes
 * body_ms and parse_ms. The others have llama.cpp's names. prompt_n counts the computed
 * tokens, without cached ones. predicted_ms runs from first to last token, so n tokens make
 * n - 1 steps in each choice. */
void format_add_timings(const struct api_call *c, struct buf *out)
{
	const struct request_stats *s = &c->stats;
	int n_prompt = s->n_prompt - s->n_cached;
	int n_steps = MAX(s->n_output - c->n_choices, 0);
	bool answered = s->first_token_us > 0;
	double prompt_ms =
		answered ? (s->first_token_us - s->scheduled_us) / 1e3 : 0;
	double predicted_ms =
		answered ? (s->last_token_us - s->first_token_us) / 1e3 : 0;
	buf_add_z(out, "\"timings\":{");
	add_num(out, "ttft_ms", request_ttft_ms(s));
	buf_add_c(out, ',');
	add_num(out, "tpot_ms", request_tpot_ms(s, c->n_choices));
	buf_add_c(out, ',');
	add_num(out, "queue_ms", span_ms(s->arrival_us, s->scheduled_us));
	buf_add_c(out, ',');
	add_num(out, "body_ms", span_ms(s->arrival_us, s->received_us));
	buf_add_c(out, ',');
	add_num(out, "parse_ms", span_ms(s->received_us, s->parsed_us));
	buf_addf(out, ",\"cache_n\":%d,\"disk_n\":%d,\"cache_miss\":\"%s\","
		 "\"cache_miss_at\":%d,\"prompt_n\":%d,", s->n_cached, s->n_disk,
		 miss_name(s->miss.reason), s->miss.at, n_prompt);
	add_num(out, "prompt_ms", prompt_ms);
	buf_add_c(out, ',');
	add_num(out, "prompt_per_token_ms", ratio(prompt_ms, n_prompt));
	buf_add_c(out, ',');
	add_num(out, "prompt_per_second", ratio(n_prompt * 1e3, prompt_ms));
	buf_addf(out, ",\"predicted_n\":%d,", s->n_output);
	add_num(out, "predicted_ms", predicted_ms);
	buf_add_c(out, ',');
	add_num(out, "predicted_per_token_ms", ratio(predicted_ms, n_steps));
	buf_add_c(out, ',');
	add_num(out, "predicted_per_second", ratio(n_steps * 1e3, predicted_ms));
	if (s->n_drafted) /* as llama.cpp: only where drafts were made */
		buf_addf(out, ",\"draft_n\":%d,\"draft_n_accepted\":%d", s->n_drafted,
			 s->n_accepted);
	buf_add_c(out, '}');
}

/* --- chunks -------------------------------------------------------------- */

static void open_chunk(const struct api_call *c, struct buf *out)
{
	buf_add_z(out, "data: ");
	buf_add_str(out, buf_str(&c->head));
}

static void add_gathered_logprobs(struct api_call *c, struct choice *ch,
				  struct buf *out)
{
	buf_add_z(out, ",\"logprobs\":");
	if (ch->logprobs[0].n == 0) {
		buf_add_z(out, "null");
		return;
	}
	c->format->add_logprobs(ch, out);
	for (int i = 0; i < LOGPROB_LISTS; i++)
		buf_clear(&ch->logprobs[i]);
}

/* Writes the choice's last members and the end of the chunk. */
static void close_choice(const struct api_call *c, enum finish finish, struct buf *out)
{
	buf_add_z(out, ",\"finish_reason\":");
	if (finish == FINISH_NONE)
		buf_add_z(out, "null");
	else
		buf_add_json(out, str_of(finish_name(finish)));
	buf_add_c(out, '}');
}

static void close_chunk(const struct api_call *c, bool with_timings,
			struct buf *out)
{
	buf_add_c(out, ']');
	if (c->include_usage)
		buf_add_z(out, ",\"usage\":null");
	if (with_timings) {
		buf_add_c(out, ',');
		format_add_timings(c, out);
	}
	buf_add_z(out, "}\n\n");
}

/* As llama.cpp's return_progress. Prompt tokens of all prompts together. */
static void add_progress(const struct api_call *c, int i, struct buf *out)
{
	int n_done = 0;
	for (int k = 0; k < c->n_choices; k += c->request->n)
		n_done += c->choices[k].n_prefilled;
	open_chunk(c, out);
	buf_addf(out, "{\"index\":%d,", i);
	c->format->add_delta(NULL, out);
	buf_add_z(out, ",\"logprobs\":null");
	close_choice(c, FINISH_NONE, out);
	buf_addf(out, "],\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d,",
		 c->stats.n_prompt, c->stats.n_cached, n_done);
	add_num(out, "time_ms", span_ms(c->stats.scheduled_us, clock_now_us(c->api->clock)));
	buf_add_z(out, "}}\n\n");
}

static void begin_choice(struct api_call *c, int i, struct buf *out)
{
	size_t before = out->n;
	c->choices[i].is_begun = true;
	open_chunk(c, out);
	buf_addf(out, "{\"index\":%d,", i);
	if (!c->format->add_begin(c, i, out)) {
		out->n = before;
		return;
	}
	add_gathered_logprobs(c, &c->choices[i], out);
	close_choice(c, FINISH_NONE, out);
	close_chunk(c, false, out);
}

void format_on_part(struct api_call *c, int i, const struct event_span *span, bool is_new,
		    struct buf *out)
{
	open_chunk(c, out);
	buf_addf(out, "{\"index\":%d,", i);
	bool is_call = span->channel == OUT_CALL_NAME || span->channel == OUT_CALL_ARGS;
	if (is_call)
		c->format->add_call(c, i, span, out);
	else
		c->format->add_delta(span, out);
	add_gathered_logprobs(c, &c->choices[i], out);
	close_choice(c, FINISH_NONE, out);
	close_chunk(c, false, out);
}

static void finish_choice(struct api_call *c, int i, bool with_timings, struct buf *out)
{
	struct choice *ch = &c->choices[i];
	open_chunk(c, out);
	buf_addf(out, "{\"index\":%d,", i);
	c->format->add_delta(NULL, out);
	add_gathered_logprobs(c, ch, out);
	close_choice(c, ch->finish, out);
	close_chunk(c, with_timings, out);
}

static void add_usage_chunk(struct api_call *c, struct buf *out)
{
	open_chunk(c, out);
	buf_add_z(out, "],");
	add_usage(c, out);
	buf_add_c(out, ',');
	format_add_timings(c, out);
	buf_add_z(out, "}\n\n");
}

/* --- the prompt ---------------------------------------------------------- */

static void add_candidate(struct buf *out, const struct tokenizer *t, int32_t id,
			  float logprob, int rank)
{
	buf_addf(out, "%s\"%d\":{\"logprob\":", out->p[out->n - 1] == '{' ? "" : ",",
		 id);
	format_add_logprob(out, logprob);
	buf_addf(out, ",\"rank\":%d,\"decoded_token\":", rank);
	buf_add_json(out, tokenizer_bytes(t, id));
	buf_add_c(out, '}');
}

/* Adds a prompt token's scores as an object by token id, like vLLM: the best ones, and the
 * token itself. */
static void add_scored(const struct api_call *c, const struct event_token *t,
		       struct buf *out)
{
	const struct tokenizer *tok = c->api->chat.model->tokenizer;
	bool has_own = false;
	format_add_comma(out);
	buf_add_c(out, '{');
	for (int i = 0; i < MIN(t->n_top, c->n_prompt_logprobs); i++) {
		add_candidate(out, tok, t->top[i].id, t->top[i].logprob, i + 1);
		has_own |= t->top[i].id == t->id;
	}
	if (!has_own)
		add_candidate(out, tok, t->id, t->logprob, t->rank);
	buf_add_c(out, '}');
}

/* Adds the first token of each prompt, which has no log-probability. */
static void begin_scores(struct api_call *c)
{
	const struct request *r = c->request;
	for (int i = 0; i < c->n_choices; i++) {
		const struct event_token first = {.id = r->prompts[i / r->n].p[0],
						  .logprob = NAN};
		if (c->echoes_logprobs)
			c->format->gather_prompt(c, &c->choices[i], &first);
		if (c->n_prompt_logprobs >= 0)
			buf_add_z(&c->choices[i].prompt_logprobs, "null");
	}
}

static void gather_scores(struct api_call *c, int i, const struct event_token *tokens,
			  int n)
{
	for (int k = 0; k < n && c->n_prompt_logprobs >= 0; k++)
		add_scored(c, &tokens[k], &c->choices[i].prompt_logprobs);
	/* Each of the prompt's choices echoes the prompt. */
	for (int k = 0; k < c->request->n && c->echoes_logprobs; k++)
		for (int j = 0; j < n; j++)
			c->format->gather_prompt(c, &c->choices[i + k], &tokens[j]);
}

static void add_prompt_logprobs(const struct api_call *c, int i, struct buf *out)
{
	if (c->n_prompt_logprobs < 0)
		return;
	buf_add_z(out, ",\"prompt_logprobs\":[");
	i -= i % c->request->n; /* the prompt's first choice, which has gathered its scores */
	buf_add_str(out, buf_str(&c->choices[i].prompt_logprobs));
	buf_add_c(out, ']');
}

/* --- the whole ----------------------------------------------------------- */

static void add_answer(struct api_call *c, struct buf *out)
{
	buf_add_str(out, buf_str(&c->head));
	for (int i = 0; i < c->n_choices; i++) {
		struct choice *ch = &c->choices[i];
		buf_addf(out, "%s{\"index\":%d,", i ? "," : "", i);
		c->format->add_whole(c, i, out);
		add_gathered_logprobs(c, ch, out);
		if (c->format->has_own_prompt)
			add_prompt_logprobs(c, i, out);
		close_choice(c, ch->finish, out);
	}
	buf_add_c(out, ']');
	if (!c->format->has_own_prompt)
		add_prompt_logprobs(c, 0, out);
	buf_add_c(out, ',');
	add_usage(c, out);
	buf_add_c(out, ',');
	format_add_timings(c, out);
	buf_add_c(out, '}');
}

/* --- events --------------------------------------------------------------- */

void format_on_delta(struct api_call *c, const struct event *e, struct buf *out)
{
	struct choice *ch = &c->choices[e->choice];
	/* The first token opens the choice even where its text is held back. Clients
	 * measure the time to the first chunk: so it is the time to the first token. */
	if (c->is_stream && !ch->is_begun)
		begin_choice(c, e->choice, out);
	if (c->request->sampling.n_top_logprobs >= 0)
		for (int i = 0; i < e->n_tokens; i++)
			c->format->gather_token(c, ch, &e->tokens[i]);
}

static void on_choice_done(struct api_call *c, const struct event *e, struct buf *out)
{
	if (!c->is_stream)
		return;
	if (!c->choices[e->choice].is_begun)
		begin_choice(c, e->choice, out);
	/* The last choice's finish waits: it may have to carry the timings, which
	 * EVENT_DONE brings. */
	if (c->n_open > 0 || c->include_usage)
		finish_choice(c, e->choice, false, out);
	else
		c->i_held = e->choice;
}

static void on_done(struct api_call *c, struct buf *out)
{
	if (!c->is_stream) {
		add_answer(c, out);
		return;
	}
	if (c->include_usage)
		add_usage_chunk(c, out);
	else
		finish_choice(c, c->i_held, true, out);
	buf_add_z(out, "data: [DONE]\n\n");
}

static void on_failed(struct api_call *c, const struct event *e, struct buf *out)
{
	/* No [DONE] follows an error: it would say that the answer is complete. */
	if (c->is_stream)
		buf_add_z(out, "data: ");
	api_error_format(&e->fail, out);
	if (c->is_stream)
		buf_add_z(out, "\n\n");
}

void format_on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	switch (e->kind) {
	case EVENT_STARTED:
	case EVENT_DELTA: break;
	case EVENT_PROGRESS:
		if (c->shows_progress)
			add_progress(c, e->choice, out);
		break;
	case EVENT_SCORES: gather_scores(c, e->choice, e->tokens, e->n_tokens); break;
	case EVENT_CHOICE_DONE: on_choice_done(c, e, out); break;
	case EVENT_DONE: on_done(c, out); break;
	case EVENT_FAILED: on_failed(c, e, out); break;
	}
}
