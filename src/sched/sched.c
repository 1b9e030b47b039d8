/* SPDX-License-Identifier: Apache-2.0
 *
 * How requests enter the scheduler, its loop, and how they leave.
 *
 * In: any thread submits. sched_submit makes every refusal that is possible, before a
 * byte of the answer is sent. The caps are atomic counters. A submitter claims a place
 * first, and gives it back if another check refuses. So two submitters never share the
 * last place. The inbox has room for all requests within the caps.
 *
 * Loop: an iteration takes the inbox, ends cancelled and late requests, runs one batch
 * (batch.c), and frees ended requests. Between iterations nothing else refers to a request,
 * so every phase ends in the same way.
 *
 * Out: each submitted request gets exactly one last event, from sched_end_done or
 * sched_end_failed. n_open counts the requests without it. After sched_stop the loop
 * runs until n_open is zero, which also covers a submission that is still under way.
 */
#include "sched/sched.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "sched/sched_private.h"

#define MAX_QUEUE 64
#define PREFILL_CHUNK 256
#define CHOICES_MAX 4096          /* choices of one request; api's own bound is lower */
#define IDLE_WAIT_US 500000       /* a heartbeat at least twice a second */
#define STOP_WAIT_US 1000         /* while waiting for a submission that is under way */

static void list_init(struct req_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

/* Adds r behind all of its priority. Mostly that is the end. */
static void list_add(struct req_list *l, struct request *r)
{
	struct request **p = l->tail;
	const struct request *last = l->head ?
		(struct request *)((char *)p - offsetof(struct request, next)) : NULL;
	if (last && last->priority > r->priority)
		for (p = &l->head; (*p)->priority <= r->priority;)
			p = &(*p)->next;
	r->next = *p;
	*p = r;
	if (!r->next)
		l->tail = &r->next;
}

static void list_remove(struct req_list *l, struct request *r)
{
	struct request **p = &l->head;
	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	if (l->tail == &r->next)
		l->tail = p;
}

static void wake(void *inbox)
{
	queue_wake(inbox);
}

struct sched *sched_create(const struct sched_opts *o)
{
	struct sched *s = xcalloc(1, sizeof *s);
	s->o = *o;
	if (s->o.max_queue <= 0)
		s->o.max_queue = MAX_QUEUE;
	if (s->o.prefill_chunk <= 0)
		s->o.prefill_chunk = PREFILL_CHUNK;
	if (o->costs)
		s->decode_cost = *o->costs;
	s->inbox = queue_create((size_t)s->o.max_queue + SCHED_BACKGROUND_MAX);
	emit_init(&s->emit, o->on_ready, o->ctx);
	list_init(&s->waiting);
	list_init(&s->active);
	batch_init(s);
	engine_set_on_disk(o->engine, wake, s->inbox);
	/* Made at start, not with the first grammar: it takes a tenth of a second, for
	 * which streams would wait. */
	if (o->tokenizer)
		s->vocab = grammar_vocab_of(o->tokenizer);
	return s;
}

/* Gauges are sums over the models that are in memory. */
static void tell_gauges(struct sched *s, const struct sched_gauges *g)
{
	struct sched_gauges *told = &s->told;
	metric_share(METRIC_REQUESTS_RUNNING, &told->running, g->running);
	metric_share(METRIC_BATCH_REQUESTS_RUNNING, &told->background, g->background);
	metric_share(METRIC_REQUESTS_WAITING, &told->waiting, g->waiting);
	metric_share(METRIC_WAITING_TOKENS, &told->waiting_tok, g->waiting_tok);
	metric_share(METRIC_KV_PAGES, &told->pages, g->pages);
	metric_share(METRIC_KV_PAGES_USED, &told->pages_used, g->pages_used);
	metric_share(METRIC_STATE_SLOTS, &told->slots, g->slots);
	metric_share(METRIC_STATE_CHECKPOINTS, &told->checkpoints, g->checkpoints);
	double total = metric_get(METRIC_KV_PAGES);
	metric_set(METRIC_KV_CACHE_USAGE,
		   total > 0 ? metric_get(METRIC_KV_PAGES_USED) / total : 0);
}

void sched_destroy(struct sched *s)
{
	if (!s)
		return;
	s->emit.on_ready = NULL;
	sched_stop(s);
	while (s->n_open > 0)
		sched_iterate(s);
	engine_set_on_disk(s->o.engine, NULL, NULL);
	tell_gauges(s, &(struct sched_gauges){0});
	emit_deinit(&s->emit);
	batch_deinit(s);
	grammar_vocab_destroy(s->vocab);
	queue_destroy(s->inbox);
	free(s);
}

/* --- requests enter ------------------------------------------------------ */

static int64_t prompt_tok(const struct request *r)
{
	int64_t n = 0;
	for (int i = 0; i < r->n_prompts; i++)
		n += (int64_t)r->prompts[i].n;
	return n;
}

static enum status check_prompt(const struct sched *s, const struct ids *p,
				struct fail *f)
{
	const struct engine *e = s->o.engine;
	int n_ctx = engine_n_ctx(e), n_vocab = engine_n_vocab(e);
	if (p->n == 0)
		return fail_set(f, E_INVAL, "the prompt is empty");
	if (p->n >= (size_t)n_ctx) {
		fail_set(f, E_CTX_LEN,
			 "the prompt has %zu tokens, the context %d, of which at least "
			 "one is for the answer", p->n, n_ctx);
		if (f) {
			f->got = (int64_t)p->n;
			f->limit = n_ctx;
		}
		return E_CTX_LEN;
	}
	int pages = policy_pages((int)p->n, engine_page_size(e));
	if (pages > engine_pages_total(e))
		return fail_set(f, E_LIMIT, "the prompt needs %d pages of KV cache, "
				"there are %d", pages, engine_pages_total(e));
	for (size_t i = 0; i < p->n; i++)
		if (p->p[i] < 0 || p->p[i] >= n_vocab)
			return fail_set(f, E_INVAL, "token id %" PRId32
					" is not in the vocabulary (%d)", p->p[i],
					n_vocab);
	return OK;
}

static enum status check_request(const struct sched *s, const struct request *r,
				 struct fail *f)
{
	if (r->n_prompts < 1 || r->n < 1 || r->n_prompts > CHOICES_MAX / r->n)
		return fail_set(f, E_LIMIT, "a request has 1 to %d choices", CHOICES_MAX);
	for (int i = 0; i < r->n_prompts; i++) {
		enum status st = check_prompt(s, &r->prompts[i], f);
		if (st != OK)
			return st;
	}
	return OK;
}

/* Claims a place in the queue. E_QUEUE_FULL: nothing is claimed. */
static enum status claim_place(struct sched *s, const struct request *r, struct fail *f)
{
	if (request_is_background(r)) {
		if (atomic_fetch_add(&s->n_background, 1) < SCHED_BACKGROUND_MAX)
			return OK;
		atomic_fetch_sub(&s->n_background, 1);
		return fail_default(f, E_QUEUE_FULL);
	}
	int64_t n_tok = prompt_tok(r);
	/* Those that gave way to lower numbers wait, too: no client may pile them up. */
	int n = atomic_fetch_add(&s->n_queued, 1) + atomic_load(&s->n_paused);
	int64_t tok = atomic_fetch_add(&s->n_queued_tok, n_tok);
	enum status st = OK;
	if (n >= s->o.max_queue)
		st = fail_set(f, E_QUEUE_FULL, "the queue is full: %d waiting", n);
	else if (s->o.max_queue_tok > 0 && n > 0 &&
		 tok + n_tok > s->o.max_queue_tok)
		st = fail_set(f, E_QUEUE_FULL,
			      "%" PRId64 " prompt tokens are waiting", tok);
	if (st != OK) {
		atomic_fetch_sub(&s->n_queued, 1);
		atomic_fetch_sub(&s->n_queued_tok, n_tok);
	}
	return st;
}

enum status sched_submit(struct sched *s, struct request *r, struct fail *fail)
{
	enum status st = check_request(s, r, fail);
	if (st != OK)
		return st;
	/* Counted before the flags are read. So a thread that sets a flag is either seen
	 * here, or sees this request in n_open and waits for it. */
	atomic_fetch_add(&s->n_open, 1);
	if (atomic_load(&s->is_draining) || atomic_load(&s->is_stopping))
		st = fail_set(fail, E_DRAINING, "%s", status_text(E_DRAINING));
	else
		st = claim_place(s, r, fail);
	if (st != OK) {
		atomic_fetch_sub(&s->n_open, 1);
		return st;
	}
	bool has_room = queue_push(s->inbox, r);
	assert(has_room);
	return OK;
}

void sched_cancel(struct sched *s, struct request *r)
{
	atomic_store(&r->is_cancelled, true);
	queue_wake(s->inbox);
}

void sched_drain(struct sched *s)
{
	atomic_store(&s->is_draining, true);
}

void sched_stop(struct sched *s)
{
	atomic_store(&s->is_stopping, true);
	queue_wake(s->inbox);
}

struct request *sched_next_ready(struct sched *s)
{
	return emit_next_ready(&s->emit);
}

/* --- requests leave ------------------------------------------------------ */

static void leave_queue(struct sched *s, struct request *r)
{
	if (request_is_background(r)) {
		atomic_fetch_sub(&s->n_background, 1);
		return;
	}
	atomic_fetch_sub(&s->n_queued, 1);
	atomic_fetch_sub(&s->n_queued_tok, prompt_tok(r));
}

void sched_schedule(struct sched *s, struct request *r, int64_t now_us)
{
	list_remove(&s->waiting, r);
	list_add(&s->active, r);
	leave_queue(s, r);
	r->is_scheduled = true;
	r->stats.scheduled_us = now_us;
	if (!request_is_background(r))
		metric_observe(METRIC_QUEUE_TIME,
			       (double)(now_us - r->stats.arrival_us) * 1e-6);
	emit_started(&s->emit, r);
}

/* Output tokens of the longest choice. */
static size_t longest_output(const struct request *r)
{
	size_t most = 0;
	for (int i = 0; r->choices && i < request_n_choices(r); i++)
		most = MAX(most, r->choices[i].output.n);
	return most;
}

/* Counts the end of a request. Called once for each, right before its last event. */
static void note_end(struct sched *s, struct request *r, const char *reason)
{
	const struct request_stats *st = &r->stats;
	double tpot_ms = request_tpot_ms(st, request_n_choices(r));
	r->is_over = true;
	if (!r->is_scheduled)
		leave_queue(s, r);
	metric_add_by(METRIC_REQUEST_SUCCESS, reason, 1);
	if (st->first_token_us && !request_is_background(r)) { /* nobody waits for those */
		metric_observe(METRIC_E2E,
			       (double)(st->last_token_us - st->arrival_us) * 1e-6);
		metric_observe(METRIC_DECODE_TIME, (double)(st->last_token_us -
						    st->first_token_us) * 1e-6);
	}
	if (st->first_token_us) {
		metric_observe(METRIC_REQUEST_PROMPT_TOKENS, st->n_prompt);
		metric_observe(METRIC_REQUEST_GENERATION_TOKENS, st->n_output);
		metric_observe(METRIC_REQUEST_MAX_GENERATION_TOKENS,
			       (double)longest_output(r));
	}
	if (!isnan(tpot_ms) && !request_is_background(r))
		metric_observe(METRIC_TPOT, tpot_ms * 1e-3);
	log_debug("request %s: %s, %d prompt tokens (%d cached), %d output, "
		  "%d preempted, ttft %.1f ms, tpot %.2f ms", r->id, reason,
		  st->n_prompt, st->n_cached, st->n_output, st->n_preempted,
		  request_ttft_ms(st), tpot_ms);
}

void sched_end_done(struct sched *s, struct request *r)
{
	note_end(s, r, finish_name(r->choices[request_n_choices(r) - 1].finish));
	emit_done(&s->emit, r);
}

void sched_end_failed(struct sched *s, struct request *r, const struct fail *f)
{
	bool is_abort = f->code == E_CANCELLED || f->code == E_TIMEOUT ||
			f->code == E_DRAINING;
	for (int i = 0; r->choices && i < request_n_choices(r); i++) {
		struct sched_choice *c = &r->choices[i];
		batch_drop(s, c);
		if (!choice_is_over(c))
			choice_set_state(c, is_abort ? CHOICE_CANCELLED
						     : CHOICE_FAILED);
	}
	note_end(s, r, finish_name(is_abort ? FINISH_ABORT : FINISH_ERROR));
	emit_failed(&s->emit, r, f);
}

/* --- the loop ------------------------------------------------------------ */

static void take_inbox(struct sched *s, int64_t now_us)
{
	struct request *r;
	while ((r = queue_pop(s->inbox))) {
		r->stats.arrival_us = r->arrival_us ? r->arrival_us : now_us;
		r->stats.received_us = r->received_us;
		r->stats.parsed_us = r->parsed_us;
		r->stats.n_prompt = (int32_t)prompt_tok(r);
		list_add(&s->waiting, r);
	}
}

/* Why r must end before the next step; OK when it need not. */
static enum status why_end(struct sched *s, struct request *r, int64_t now_us,
			   struct fail *f)
{
	int64_t waited_us = now_us - r->stats.arrival_us;
	if (atomic_load(&s->is_stopping))
		return fail_set(f, E_DRAINING, "%s", status_text(E_DRAINING));
	if (atomic_load(&r->is_cancelled))
		return fail_set(f, E_CANCELLED, "%s", status_text(E_CANCELLED));
	if (r->deadline_us && now_us >= r->deadline_us)
		return fail_set(f, E_TIMEOUT, "the request ran out of its time after "
				"%.1f s", (double)waited_us * 1e-6);
	if (!r->is_scheduled && s->o.max_wait_us > 0 && !request_is_background(r) &&
	    waited_us >= s->o.max_wait_us)
		return fail_set(f, E_TIMEOUT, "the request waited %.1f s in the queue",
				(double)waited_us * 1e-6);
	return OK;
}

static void sweep_list(struct sched *s, struct req_list *l, int64_t now_us)
{
	struct fail f;
	for (struct request *r = l->head; r; r = r->next)
		if (!r->is_over && why_end(s, r, now_us, &f) != OK)
			sched_end_failed(s, r, &f);
}

/* Frees requests that have ended. */
static bool reap(struct sched *s, struct req_list *l)
{
	bool any = false;
	struct request **p = &l->head;
	while (*p) {
		struct request *r = *p;
		if (!r->is_over) {
			p = &r->next;
			continue;
		}
		*p = r->next;
		s->blocked = NULL; /* its memory may become another choice's */
		choices_destroy(r);
		request_unref(r);
		any = true;
		atomic_fetch_sub(&s->n_open, 1);
	}
	l->tail = p;
	return any;
}

void sched_publish(struct sched *s)
{
	struct engine *e = s->o.engine;
	int n_running = 0, n_paused = 0, n_background = 0;
	for (struct request *r = s->active.head; r; r = r->next) {
		bool runs = false;
		for (int i = 0; i < request_n_choices(r) && !runs; i++)
			runs = choice_is_running(&r->choices[i]);
		n_running += runs && !request_is_background(r);
		n_background += runs && request_is_background(r);
		n_paused += !runs && !request_is_background(r);
	}
	atomic_store(&s->n_running, n_running);
	atomic_store(&s->n_paused, n_paused);

	int total = engine_pages_total(e), used = total - engine_pages_free(e);
	struct engine_stats stats;
	engine_stats(e, &stats);
	metric_set(METRIC_KV_PAGE_TOKENS, engine_page_size(e));
	tell_gauges(s, &(struct sched_gauges){
		.running = n_running, .background = n_background,
		.waiting = atomic_load(&s->n_queued) + n_paused,
		.waiting_tok = (double)atomic_load(&s->n_queued_tok), .pages = total,
		.pages_used = used, .slots = stats.checkpoints_max,
		.checkpoints = stats.checkpoints});
}

bool sched_iterate(struct sched *s)
{
	int64_t now_us = clock_now_us(s->o.clock);
	if (s->o.health)
		health_beat(s->o.health, now_us);
	take_inbox(s, now_us);
	sweep_list(s, &s->waiting, now_us);
	sweep_list(s, &s->active, now_us);
	bool did = batch_iterate(s, now_us);
	did |= reap(s, &s->waiting);
	did |= reap(s, &s->active);
	sched_publish(s);
	emit_flush(&s->emit);
	batch_copy(s);
	return did;
}

void sched_run(struct sched *s)
{
	for (;;) {
		bool did = sched_iterate(s);
		if (!atomic_load(&s->is_stopping)) {
			if (!did)
				queue_wait(s->inbox, IDLE_WAIT_US);
			continue;
		}
		if (atomic_load(&s->n_open) == 0)
			return;
		if (!did)
			queue_wait(s->inbox, STOP_WAIT_US);
	}
}

void sched_counts(const struct sched *s, struct sched_counts *out)
{
	out->n_running = atomic_load(&s->n_running);
	out->n_waiting = atomic_load(&s->n_queued) + atomic_load(&s->n_paused);
	out->n_waiting_tok = atomic_load(&s->n_queued_tok);
}

bool sched_is_idle(const struct sched *s)
{
	return atomic_load(&s->n_open) == 0;
}
