/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/request.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sched/draft.h"

/* Events of one request on their way to the io thread. A list, not a ring: a slow reader
 * must never make the engine wait. The request's max_tokens bounds the list's length. */
struct request_queue {
	pthread_mutex_t lock;
	struct event *head, *tail;
	bool is_told; /* the io side was told; reset when it finds the queue empty */
};

const char *finish_name(enum finish f)
{
	switch (f) {
	case FINISH_NONE: return "";
	case FINISH_STOP: return "stop";
	case FINISH_LENGTH: return "length";
	case FINISH_ABORT: return "abort";
	case FINISH_ERROR: return "error";
	case FINISH_TOOL_CALLS: return "tool_calls";
	}
	return "";
}

double request_ttft_ms(const struct request_stats *s)
{
	if (s->first_token_us == 0)
		return NAN;
	return (double)(s->first_token_us - s->arrival_us) / 1000;
}

double request_tpot_ms(const struct request_stats *s, int n_choices)
{
	int n_gaps = s->n_output - n_choices;
	if (n_gaps <= 0)
		return NAN;
	double span_us = (double)(s->last_token_us - s->first_token_us);
	return span_us * n_choices / n_gaps / 1000;
}

void event_destroy(struct event *e)
{
	if (!e)
		return;
	arena_deinit(&e->arena);
	free(e);
}

struct request *request_create(const char *id)
{
	struct request *r = xcalloc(1, sizeof *r);
	arena_init(&r->arena);
	r->id = arena_strdup(&r->arena, id);
	r->prompt_logprobs = -1;
	r->draft.n_max = DRAFT_MAX;
	atomic_init(&r->refs, 2);
	r->events = xcalloc(1, sizeof *r->events);
	pthread_mutex_init(&r->events->lock, NULL);
	return r;
}

void request_ref(struct request *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
}

void request_unref(struct request *r)
{
	if (!r)
		return;
	/* Acquire and release: the side that frees sees all that the other side wrote. */
	if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1)
		return;
	struct event *e = r->events->head;
	while (e) {
		struct event *next = e->next;
		event_destroy(e);
		e = next;
	}
	pthread_mutex_destroy(&r->events->lock);
	free(r->events);
	for (int i = 0; i < r->n_images; i++)
		r->let_go(r->held[i]);
	grammar_unref(r->grammar);
	grammar_unref(r->call_grammar);
	arena_deinit(&r->arena);
	free(r);
}

bool request_push_event(struct request *r, struct event *e)
{
	struct request_queue *q = r->events;
	e->next = NULL;
	pthread_mutex_lock(&q->lock);
	if (q->tail)
		q->tail->next = e;
	else
		q->head = e;
	q->tail = e;
	bool must_tell = !q->is_told;
	q->is_told = true;
	pthread_mutex_unlock(&q->lock);
	return must_tell;
}

struct event *request_next_event(struct request *r)
{
	struct request_queue *q = r->events;
	pthread_mutex_lock(&q->lock);
	struct event *e = q->head;
	if (e) {
		q->head = e->next;
		if (!q->head)
			q->tail = NULL;
		e->next = NULL;
	} else {
		q->is_told = false;
	}
	pthread_mutex_unlock(&q->lock);
	return e;
}
