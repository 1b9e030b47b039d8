/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/choice.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

#define JUMP_MAX_BYTES 256 /* forced text taken at once: some 60 tokens of prefill */

#define TO(name) (1u << CHOICE_##name)
#define TO_END (TO(FAILED) | TO(CANCELLED))

/* For each state, the states that may follow. */
static const unsigned followers[] = {
#define X(name, next) next,
	CHOICE_STATES(X)
#undef X
};

void choice_set_state(struct sched_choice *c, enum choice_state next)
{
	assert(followers[c->state] & 1u << next);
	c->state = next;
}

struct sched_choice *choices_create(struct request *r, int32_t n_ctx)
{
	int n = request_n_choices(r);
	struct sched_choice *choices = xcalloc((size_t)n, sizeof *choices);
	for (int i = 0; i < n; i++) {
		struct sched_choice *c = &choices[i];
		c->r = r;
		c->index = i;
		c->max_output = n_ctx - (int32_t)choice_prompt(c)->n;
		if (r->max_tokens > 0)
			c->max_output = MIN(c->max_output, r->max_tokens);
	}
	return choices;
}

void choice_release(struct sched_choice *c)
{
	sampler_destroy(c->sampler);
	guard_deinit(&c->guard);
	outparse_destroy(c->parse);
	ids_deinit(&c->output);
	buf_deinit(&c->text);
	lookup_deinit(&c->lookup);
	c->sampler = NULL;
	c->parse = NULL;
}

void choices_destroy(struct request *r)
{
	for (int i = 0; r->choices && i < request_n_choices(r); i++) {
		assert(!r->choices[i].seq);
		choice_release(&r->choices[i]);
	}
	free(r->choices);
	r->choices = NULL;
}

void choice_begin(struct sched_choice *c, const struct tokenizer *t,
		  const struct grammar_vocab *vocab, int32_t n_vocab)
{
	struct sampler_params p = c->r->sampling;
	const struct ids *prompt = choice_prompt(c);
	/* The seed depends on the choice's index within its prompt. So a prompt among
	 * several is answered as it would be alone. */
	p.seed = sampler_seed_of_choice(p.seed, c->index % c->r->n);
	c->sampler = sampler_create(&p, n_vocab);
	sampler_add_prompt(c->sampler, prompt->p, prompt->n);
	guard_init(&c->guard, c->r, t, vocab, n_vocab);
	c->parse = outparse_create(&c->r->parse);
	(c->r->is_text ? detok_init_text : detok_init)(&c->detok, t, c->r->skip_special);
}

const struct ids *choice_prompt(const struct sched_choice *c)
{
	return &c->r->prompts[c->index / c->r->n];
}

struct engine_prompt choice_engine_prompt(const struct sched_choice *c)
{
	const struct request *r = c->r;
	const struct ids *p = choice_prompt(c);
	const struct engine_image *images = r->images;
	int of = c->index / r->n;
	for (int i = 0; r->n_images_of && i < of; i++)
		images += r->n_images_of[i];
	return (struct engine_prompt){p->p, (int)p->n, r->cache_space, r->turn_at, images,
				      r->n_images_of ? r->n_images_of[of] : 0,
				      request_is_background(r), r->lora, r->lora_scale};
}

int choice_length(const struct sched_choice *c)
{
	return (int)(choice_prompt(c)->n + c->output.n);
}

void choice_history(const struct sched_choice *c, struct ids *out)
{
	const struct ids *prompt = choice_prompt(c);
	for (size_t i = 0; i < prompt->n; i++)
		ids_add(out, prompt->p[i]);
	for (size_t i = 0; i < c->output.n; i++)
		ids_add(out, c->output.p[i]);
}

struct engine_slice choice_slice(struct sched_choice *c, int n_max)
{
	const struct ids *prompt = choice_prompt(c);
	size_t at = (size_t)engine_seq_length(c->seq);
	bool in_prompt = at < prompt->n;
	const int32_t *p = in_prompt ? prompt->p + at
				     : c->output.p + (at - prompt->n);
	size_t left = in_prompt ? prompt->n - at
				: prompt->n + c->output.n - at;
	int n = (int)MIN(left, (size_t)n_max);
	bool is_last = (int)at + n == choice_length(c);
	c->n_draft = 0;
	return (struct engine_slice){.seq = c->seq, .tokens = p, .n = n,
				     .n_logits = in_prompt && choice_scores(c) ? n : is_last,
				     .inv_t = sampler_inv_t(&c->r->sampling)};
}

/* The first choice of a prompt scores it for all of the prompt's choices. */
bool choice_scores(const struct sched_choice *c)
{
	return c->r->prompt_logprobs >= 0 && c->index % c->r->n == 0 &&
	       c->n_scored + 1 < (int32_t)choice_prompt(c)->n;
}

enum status choice_score(struct sched_choice *c, const float *logits, int n,
			 int32_t n_vocab, struct emit *em)
{
	const struct ids *prompt = choice_prompt(c);
	int32_t at = engine_seq_length(c->seq) - n;
	struct sampled *tokens = xcalloc((size_t)n, sizeof *tokens);
	enum status st = OK;
	int k = 0;
	/* Row i has the scores of token i + 1. If an earlier prefill was cut short, its
	 * tokens have been emitted already. */
	for (int32_t i = 0; i < n && st == OK; i++) {
		size_t next = (size_t)(at + i + 1);
		if (at + i < c->n_scored || next >= prompt->n)
			continue;
		tokens[k].id = prompt->p[next];
		st = sampler_score(logits + (size_t)i * (size_t)n_vocab, n_vocab,
				   c->r->prompt_logprobs, &tokens[k++]);
	}
	if (st == OK && k > 0)
		emit_scores(em, c->r, c->index, tokens, k);
	c->n_scored += k;
	free(tokens);
	return st;
}

static bool is_stop_id(const struct request *r, int32_t id)
{
	for (int i = 0; i < r->n_stop_ids; i++)
		if (r->stop_ids[i] == id)
			return true;
	return false;
}

/* Runs the token's text through the parser. Content that begins inside the token that
 * closed the reasoning was not under the grammar's mask: E_INVAL where it does not fit the
 * grammar. */
static enum status add_text(struct sched_choice *c, int32_t id, struct emit *em)
{
	const struct out_span *spans;
	enum status st = OK;
	bool was_reasoning = outparse_in_reasoning(c->parse);
	buf_clear(&c->text);
	detok_push(&c->detok, id, &c->text);
	int n = outparse_push(c->parse, buf_str(&c->text), &spans);
	for (int i = 0; was_reasoning && i < n && st == OK; i++)
		if (spans[i].channel == OUT_CONTENT && !c->r->grammar_waits)
			st = guard_add_text(&c->guard, spans[i].text);
	emit_add_spans(em, spans, n);
	return st;
}

/* Emits the text that detokenizer and parser still hold. Half a character is shown as
 * U+FFFD, but not where the limit fell among calls: it is half of a tag or of an argument. */
static void add_rest(struct sched_choice *c, struct emit *em)
{
	const struct out_span *spans;
	bool is_cut = c->finish == FINISH_LENGTH;
	buf_clear(&c->text);
	if (!is_cut || outparse_n_begun(c->parse) == 0)
		detok_finish(&c->detok, &c->text);
	int n = outparse_push(c->parse, buf_str(&c->text), &spans);
	emit_add_spans(em, spans, n);
	n = outparse_finish(c->parse, is_cut, &spans);
	emit_add_spans(em, spans, n);
}

/* May the model open a reasoning block here? Only as its first token. */
static bool may_reason(const struct sched_choice *c)
{
	return c->output.n == 0 && c->r->reasoning_id > 0;
}

/* The grammars' mask for the next token. *out is NULL where no grammar applies, as in the
 * reasoning before the answer. */
static enum status make_mask(struct sched_choice *c, const uint64_t **out)
{
	const struct request *r = c->r;
	bool may_end;
	enum status st = guard_mask(&c->guard, c->parse, out, &may_end);
	if (!*out)
		return st;
	for (int i = 0; may_end && !r->ignore_eos && i < r->n_stop_ids; i++)
		guard_allow(&c->guard, r->stop_ids[i]);
	if (may_reason(c))
		guard_allow(&c->guard, r->reasoning_id);
	return st;
}

/* Advances the grammar by a token that was drawn under its mask. */
static enum status choice_follow(struct sched_choice *c, int32_t id)
{
	if (may_reason(c) && id == c->r->reasoning_id)
		return OK;
	return guard_follow(&c->guard, id);
}

/* Has the reasoning reached its limit? Once its close has begun, all of the close's tokens
 * are forced. */
static bool must_close(const struct sched_choice *c)
{
	const struct request *r = c->r;
	if (r->n_close_ids == 0)
		return false;
	return c->n_forced % r->n_close_ids > 0 || (c->n_reasoning >= r->max_reasoning &&
						    outparse_in_reasoning(c->parse));
}

/* The best logits of a row, where the engine keeps them; n 0: it does not. */
static struct sampler_top top_of(const struct choice_row *row)
{
	const struct logits_top *t =
		engine_top_row(row->engine, row->i_slice, row->i_row);
	if (!t)
		return (struct sampler_top){0};
	return (struct sampler_top){t->n, t->id, t->logit, t->max, t->sum, t->sum_t};
}

/* The whole row of logits; NULL: the device failed. */
static const float *logits_of(const struct choice_row *row)
{
	return engine_logits_row(row->engine, row->i_slice, row->i_row);
}

static enum status force(struct sched_choice *c, const struct choice_row *row, int32_t id,
			 struct sampled *out)
{
	struct sampler_top top = top_of(row);
	const float *logits;
	enum status st;
	if (top.n > 0 && sampler_force_top(c->sampler, &top, id, out, &st))
		return st;
	logits = logits_of(row);
	return logits ? sampler_force(c->sampler, logits, id, out) : E_BACKEND;
}

static enum status sample_row(struct sched_choice *c, const struct choice_row *row,
			const struct sampler_bans *b, struct sampled *out)
{
	struct sampler_top top = top_of(row);
	const float *logits;
	enum status st;
	if (top.n > 0 && sampler_next_top(c->sampler, &top, b, out, &st))
		return st;
	logits = logits_of(row);
	return logits ? sampler_next_allowed(c->sampler, logits, b->allowed, b->banned,
					     b->n_banned, out)
		      : E_BACKEND;
}

/* Must no stop id come here? An answer of a format that ended in its reasoning would be none. */
static bool is_too_early(const struct sched_choice *c)
{
	return c->output.n < (size_t)MAX(c->r->min_tokens, 0) ||
	       (c->r->grammar && outparse_in_reasoning(c->parse));
}

static enum status next_token(struct sched_choice *c, const struct choice_row *row,
			      struct sampled *out)
{
	const struct request *r = c->r;
	const uint64_t *allowed;
	if (must_close(c))
		return force(c, row, r->close_ids[c->n_forced++ % r->n_close_ids], out);
	enum status st = make_mask(c, &allowed);
	if (st == OK)
		st = sample_row(c, row, &(struct sampler_bans){allowed, r->stop_ids,
							 is_too_early(c) ? r->n_stop_ids : 0},
			  out);
	if (st == OK && allowed && (r->ignore_eos || !is_stop_id(r, out->id)))
		st = choice_follow(c, out->id);
	return st;
}

/* Adds the next token to the history and emits it. */
static enum status accept_token(struct sched_choice *c, const struct sampled *token,
			struct emit *em)
{
	struct request *r = c->r;
	enum status st = OK;
	ids_add(&c->output, token->id);
	r->stats.n_output++;
	bool is_reasoning = outparse_in_reasoning(c->parse);
	c->n_reasoning += is_reasoning;
	r->stats.n_reasoning += is_reasoning;
	bool is_stop = !r->ignore_eos && is_stop_id(r, token->id);
	if (is_stop)
		c->finish = FINISH_STOP;
	/* The token that ends the answer is not part of its text. */
	if (!is_stop || r->parse.include_stop)
		st = add_text(c, token->id, em);
	if (!is_stop && outparse_stopped(c->parse))
		c->finish = FINISH_STOP;
	else if (!outparse_in_reasoning(c->parse) && guard_must_end(&c->guard))
		c->finish = FINISH_STOP;
	else if (!is_stop && c->output.n >= (size_t)c->max_output)
		c->finish = FINISH_LENGTH;
	if (c->finish != FINISH_NONE)
		add_rest(c, em);
	emit_delta(em, r, c->index, token);
	return st;
}

/* May tokens be taken that the grammar forces, without a draw? They have no log-probability. */
static bool may_jump(const struct sched_choice *c)
{
	return guard_is_set(&c->guard) && c->finish == FINISH_NONE &&
	       c->r->sampling.n_top_logprobs < 0 && !must_close(c) &&
	       !outparse_in_reasoning(c->parse);
}

/* Takes the tokens of the text that the grammar forces, except the last: the model may want
 * a longer token there. All become pending at once, so that one step computes them. */
static enum status jump(struct sched_choice *c, struct emit *em)
{
	struct buf text = {0};
	struct ids ids = {0};
	enum status st = OK;
	guard_forced(&c->guard, c->parse, JUMP_MAX_BYTES, &text);
	if (text.n > 1 && tokenizer_encode(c->detok.t, buf_str(&text), TRUST_MODEL, &ids,
					   NULL) != OK)
		ids.n = 0;
	for (size_t i = 0, at = 0; i + 1 < ids.n && c->finish == FINISH_NONE; i++) {
		struct sampled token = {.id = ids.p[i]};
		struct str bytes = tokenizer_bytes(c->detok.t, token.id);
		/* A tokenizer that normalizes has changed the text: take no more. */
		if (bytes.n == 0 || is_stop_id(c->r, token.id) ||
		    !str_starts((struct str){text.p + at, text.n - at}, bytes))
			break;
		at += bytes.n;
		st = guard_follow(&c->guard, token.id);
		if (st != OK)
			break;
		sampler_add_output(c->sampler, token.id);
		st = accept_token(c, &token, em);
	}
	ids_deinit(&ids);
	buf_deinit(&text);
	return st;
}

enum status choice_draw(struct sched_choice *c, const struct choice_row *row,
			struct emit *em)
{
	struct sampled token;
	enum status st = next_token(c, row, &token);
	if (st == OK)
		st = accept_token(c, &token, em);
	if (st == OK && may_jump(c))
		st = jump(c, em);
	return st;
}

/* c->lookup holds the history up to its last draft, so only newer tokens are added. */
int choice_draft(struct sched_choice *c, int max, bool is_all)
{
	const struct ids *prompt = choice_prompt(c);
	size_t known = c->lookup.text.n;
	if (known < prompt->n) {
		lookup_add(&c->lookup, prompt->p + known, prompt->n - known);
		known = prompt->n;
	}
	lookup_add(&c->lookup, c->output.p + (known - prompt->n),
		   c->output.n - (known - prompt->n));
	c->draft[0] = c->lookup.text.p[c->lookup.text.n - 1];
	struct lookup_match m = {0, -1};
	int n = lookup_draft(&c->lookup, MIN(max, DRAFT_MAX), c->draft + 1, &m);
	if (n > 0)
		c->draft_mark = draft_mark(m.n, m.n_same);
	return m.n_same > 0 && !is_all ? m.n_same : n;
}

int32_t choice_begin_draft(struct sched_choice *c)
{
	const struct ids *prompt = choice_prompt(c);
	c->draft[0] = c->output.n ? c->output.p[c->output.n - 1] : prompt->p[prompt->n - 1];
	return c->draft[0];
}

struct engine_slice choice_draft_slice(struct sched_choice *c, int n)
{
	c->n_draft = n;
	return (struct engine_slice){.seq = c->seq, .tokens = c->draft, .n = 1 + n,
				     .n_logits = 1 + n, .n_draft = n,
				     .inv_t = sampler_inv_t(&c->r->sampling)};
}

/* Row i is that behind draft[i], so it is valid only while the output equals the draft up
 * to there. A draw may add several tokens, where a grammar forces some. */
enum status choice_draw_drafted(struct sched_choice *c, struct choice_row row, struct emit *em,
				int *out_n_right)
{
	size_t before = c->output.n;
	int n = c->n_draft, n_right = 0;
	enum status st;
	do {
		st = choice_draw(c, &row, em);
		int n_new = (int)(c->output.n - before);
		while (n_right < MIN(n_new, n) &&
		       c->output.p[before + (size_t)n_right] == c->draft[1 + n_right])
			n_right++;
		row.i_row = n_new;
	} while (st == OK && c->finish == FINISH_NONE && n_right == row.i_row);
	c->n_draft = 0;
	*out_n_right = n_right;
	return st;
}

void choice_cut(struct sched_choice *c, struct emit *em)
{
	c->finish = FINISH_LENGTH;
	add_rest(c, em);
	if (em->n_pieces > 0)
		emit_delta(em, c->r, c->index, NULL);
}
