/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries events from the engine thread to the io thread. Thread: engine, except
 * emit_next_ready (io).
 *
 * Each request has a queue of events. The first event in an empty queue puts its
 * request on the ready list. emit_flush wakes the io side once for all requests on that
 * list.
 */
#pragma once
#include <pthread.h>

#include "sched/request.h"

struct emit {
	pthread_mutex_t lock;
	struct request *head, *tail; /* the ready list; each entry holds a reference */
	struct request *named;       /* io's: returned last; holds a reference */
	bool is_news;                /* engine's: the ready list grew since the last flush */
	void (*on_ready)(void *ctx);
	void *ctx;

	/* the text of the delta being put together */
	struct buf text;
	struct emit_piece {
		enum out_channel channel;
		size_t n;
	} *pieces;
	int n_pieces, cap_pieces;
};

void emit_init(struct emit *em, void (*on_ready)(void *ctx), void *ctx);
void emit_deinit(struct emit *em);
void emit_flush(struct emit *em);
/* io: the next request with events; NULL: none. The request lives at least until the next
 * call, even if both sides drop their references meanwhile. */
struct request *emit_next_ready(struct emit *em);

void emit_started(struct emit *em, struct request *r);
void emit_progress(struct emit *em, struct request *r, int i_choice,
		   int32_t n_prefilled);
/* Emits scores of n tokens of the prompt. */
void emit_scores(struct emit *em, struct request *r, int i_choice,
		 const struct sampled *tokens, int n);
/* Adds text to the next delta; copied. */
void emit_add_spans(struct emit *em, const struct out_span *spans, int n);
/* Emits a delta: the text added so far and its token; token NULL: text alone. */
void emit_delta(struct emit *em, struct request *r, int i_choice,
		const struct sampled *token);
/* stop: the stop string that ended the choice, or p NULL. */
void emit_choice_done(struct emit *em, struct request *r, int i_choice,
		      enum finish finish, struct str stop);
void emit_done(struct emit *em, struct request *r);
void emit_failed(struct emit *em, struct request *r, const struct fail *f);
