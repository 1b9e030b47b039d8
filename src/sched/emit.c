/* SPDX-License-Identifier: Apache-2.0
 *
 * An event is one block of memory: the struct, then its tokens, top log-probabilities,
 * spans and text. Each token of each stream makes an event, so an event costs one malloc,
 * not an arena block of kilobytes.
 */
#include "sched/emit.h"

#include <stdlib.h>

#include "base/alloc.h"

void emit_init(struct emit *em, void (*on_ready)(void *ctx), void *ctx)
{
	*em = (struct emit){.on_ready = on_ready, .ctx = ctx};
	pthread_mutex_init(&em->lock, NULL);
}

void emit_deinit(struct emit *em)
{
	request_unref(em->named);
	while (em->head) {
		struct request *r = em->head;
		em->head = r->next_ready;
		request_unref(r);
	}
	buf_deinit(&em->text);
	free(em->pieces);
	pthread_mutex_destroy(&em->lock);
}

void emit_flush(struct emit *em)
{
	if (em->is_news && em->on_ready)
		em->on_ready(em->ctx);
	em->is_news = false;
}

struct request *emit_next_ready(struct emit *em)
{
	pthread_mutex_lock(&em->lock);
	struct request *r = em->head, *before = em->named;
	if (r) {
		em->head = r->next_ready;
		if (!em->head)
			em->tail = NULL;
		r->next_ready = NULL;
	}
	em->named = r; /* takes over the list's reference */
	pthread_mutex_unlock(&em->lock);
	request_unref(before);
	return r;
}

static void emit_push(struct emit *em, struct request *r, struct event *e)
{
	if (!request_push_event(r, e))
		return;
	if (r->tell) {
		r->tell(r->user);
		return;
	}
	/* From here on the io side may drain and drop the request at any time. The list's
	 * own reference keeps it until emit_next_ready has returned it. */
	request_ref(r);
	pthread_mutex_lock(&em->lock);
	r->next_ready = NULL;
	if (em->tail)
		em->tail->next_ready = r;
	else
		em->head = r;
	em->tail = r;
	pthread_mutex_unlock(&em->lock);
	em->is_news = true;
}

static struct event *emit_make(enum event_kind kind, int i_choice, size_t n_extra)
{
	struct event *e = xcalloc(1, sizeof *e + n_extra);
	e->kind = kind;
	e->choice = i_choice;
	return e;
}

void emit_started(struct emit *em, struct request *r)
{
	struct event *e = emit_make(EVENT_STARTED, 0, 0);
	e->stats = r->stats; /* n_cached is known by now */
	emit_push(em, r, e);
}

void emit_progress(struct emit *em, struct request *r, int i_choice,
		   int32_t n_prefilled)
{
	struct event *e = emit_make(EVENT_PROGRESS, i_choice, 0);
	e->n_prefilled = n_prefilled;
	emit_push(em, r, e);
}

void emit_scores(struct emit *em, struct request *r, int i_choice,
		 const struct sampled *tokens, int n)
{
	size_t n_top = 0;
	for (int i = 0; i < n; i++)
		n_top += (size_t)tokens[i].n_top;
	size_t top_at = (size_t)n * sizeof(struct event_token);
	struct event *e = emit_make(EVENT_SCORES, i_choice,
				    top_at + n_top * sizeof(struct token_logprob));
	struct token_logprob *top =
		(struct token_logprob *)(void *)((char *)(e + 1) + top_at);
	e->tokens = (struct event_token *)(e + 1);
	e->n_tokens = n;
	for (int i = 0; i < n; i++) {
		const struct sampled *t = &tokens[i];
		e->tokens[i] = (struct event_token){t->id, t->logprob, t->rank, t->n_top,
						    top};
		memcpy(top, t->top, (size_t)t->n_top * sizeof *top);
		top += t->n_top;
	}
	emit_push(em, r, e);
}

void emit_add_spans(struct emit *em, const struct out_span *spans, int n)
{
	for (int i = 0; i < n; i++) {
		struct emit_piece *last =
			em->n_pieces ? &em->pieces[em->n_pieces - 1] : NULL;
		buf_add_str(&em->text, spans[i].text);
		if (last && last->channel == spans[i].channel) {
			last->n += spans[i].text.n;
			continue;
		}
		if (em->n_pieces == em->cap_pieces) {
			em->cap_pieces = em->cap_pieces ? 2 * em->cap_pieces : 8;
			em->pieces = xrealloc(em->pieces, (size_t)em->cap_pieces *
								  sizeof *em->pieces);
		}
		em->pieces[em->n_pieces++] =
			(struct emit_piece){spans[i].channel, spans[i].text.n};
	}
}

void emit_delta(struct emit *em, struct request *r, int i_choice,
		const struct sampled *token)
{
	size_t n_spans = (size_t)em->n_pieces;
	size_t n_top = token ? (size_t)token->n_top : 0;
	/* Order by alignment: first pointers and sizes, then 4-byte fields, then text. */
	size_t spans_at = sizeof(struct event_token);
	size_t top_at = spans_at + n_spans * sizeof(struct event_span);
	size_t text_at = top_at + n_top * sizeof(struct token_logprob);
	struct event *e = emit_make(EVENT_DELTA, i_choice, text_at + em->text.n);
	char *extra = (char *)(e + 1);
	struct token_logprob *top = (struct token_logprob *)(extra + top_at);
	char *text = extra + text_at;

	e->tokens = (struct event_token *)extra;
	if (token) {
		e->n_tokens = 1;
		e->tokens[0] = (struct event_token){
			token->id, token->logprob, 0, token->n_top, top};
		memcpy(top, token->top, n_top * sizeof *top);
	}
	e->spans = (struct event_span *)(extra + spans_at);
	e->n_spans = em->n_pieces;
	if (em->text.n)
		memcpy(text, em->text.p, em->text.n);
	for (size_t i = 0; i < n_spans; i++) {
		e->spans[i].channel = em->pieces[i].channel;
		e->spans[i].text = (struct str){text, em->pieces[i].n};
		text += em->pieces[i].n;
	}
	buf_clear(&em->text);
	em->n_pieces = 0;
	emit_push(em, r, e);
}

void emit_choice_done(struct emit *em, struct request *r, int i_choice,
		      enum finish finish, struct str stop)
{
	struct event *e =
		emit_make(EVENT_CHOICE_DONE, i_choice, stop.p ? stop.n + 1 : 0);
	e->finish = finish;
	if (stop.p) {
		char *copy = (char *)(e + 1);
		memcpy(copy, stop.p, stop.n); /* xcalloc has set the final NUL */
		e->stop_string = copy;
	}
	emit_push(em, r, e);
}

void emit_done(struct emit *em, struct request *r)
{
	struct event *e = emit_make(EVENT_DONE, 0, 0);
	e->stats = r->stats;
	emit_push(em, r, e);
}

void emit_failed(struct emit *em, struct request *r, const struct fail *f)
{
	struct event *e = emit_make(EVENT_FAILED, 0, 0);
	e->stats = r->stats;
	e->fail = *f;
	emit_push(em, r, e);
}
