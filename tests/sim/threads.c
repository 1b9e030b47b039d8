/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler with its real threads: one engine thread in sched_run, several that
 * submit and cancel, one that drains the events. Counts are fixed, waiting is by
 * semaphore, nothing is timed; built with -fsanitize=thread it is the race test.
 *
 * Each accepted request must get exactly one last event, in both rounds: one that
 * ends by sched_drain, and one that sched_stop cuts off while all are submitting.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sched/sched.h"
#include "tests/sim/fake.h"
#include "tests/tap.h"

enum { N_SUBMITTERS = 4, N_EACH = 60, N_PAGES = 60, PAGE = 4, QUEUE = 8 };

struct round {
	struct fake fake;
	struct clock clock;
	struct engine *engine;
	struct tokenizer *tokenizer;
	struct sched *sched;
	struct health health;
	sem_t ready; /* on_ready was called */
	sem_t room;  /* a request is over: the queue may take another */
	atomic_int n_accepted, n_draining, n_submitters_left;
	/* io thread */
	int n_over, n_done, n_cancelled, n_stopped, n_wrong;
};

struct submitter {
	struct round *round;
	int index;
	pthread_t thread;
};

static void on_ready(void *ctx)
{
	sem_post(&((struct round *)ctx)->ready);
}

static struct request *make_request(int i_submitter, int i)
{
	char id[32];
	snprintf(id, sizeof id, "%d-%d", i_submitter, i);
	struct request *r = request_create(id);
	int n = 3 + (i * 7 + i_submitter) % 40;
	r->n = 1 + (i % 5 == 0) * 2;
	r->n_prompts = 1;
	r->prompts = arena_alloc(&r->arena, sizeof *r->prompts);
	r->prompts->p = arena_alloc(&r->arena, (size_t)n * sizeof(int32_t));
	r->prompts->n = (size_t)n;
	for (int k = 0; k < n; k++)
		r->prompts->p[k] = fake_letter((uint64_t)(i % 3), 1, (uint64_t)k);
	r->sampling = (struct sampler_params){
		.temperature = 1, .top_p = 1, .repetition_penalty = 1,
		.seed = (uint64_t)i, .n_top_logprobs = i % 4 - 1};
	r->max_tokens = 1 + i % 30;
	return r;
}

/* Submit until accepted; false once the scheduler is closing. */
static bool submit(struct round *w, struct request *r)
{
	for (;;) {
		struct fail f;
		enum status st = sched_submit(w->sched, r, &f);
		if (st == OK) {
			atomic_fetch_add(&w->n_accepted, 1);
			return true;
		}
		if (st == E_DRAINING) {
			atomic_fetch_add(&w->n_draining, 1);
			return false;
		}
		sem_wait(&w->room);
	}
}

static void *submitter_main(void *arg)
{
	struct submitter *s = arg;
	struct round *w = s->round;
	for (int i = 0; i < N_EACH; i++) {
		struct request *r = make_request(s->index, i);
		request_ref(r); /* for the cancel below: r may be over by then */
		if (submit(w, r)) {
			if (i % 3 == s->index % 3)
				sched_cancel(w->sched, r);
		} else {
			request_unref(r);
			request_unref(r);
		}
		request_unref(r);
	}
	atomic_fetch_sub(&w->n_submitters_left, 1);
	sem_post(&w->ready);
	return NULL;
}

static void *engine_main(void *arg)
{
	sched_run(((struct round *)arg)->sched);
	return NULL;
}

static void note_over(struct round *w, struct request *r, const struct event *e)
{
	w->n_over++;
	if (e->kind == EVENT_DONE)
		w->n_done++;
	else if (e->fail.code == E_CANCELLED)
		w->n_cancelled++;
	else if (e->fail.code == E_DRAINING)
		w->n_stopped++;
	else
		w->n_wrong++;
	if (e->kind == EVENT_DONE && e->stats.n_output != r->max_tokens * r->n)
		w->n_wrong++;
	if (r->user)
		w->n_wrong++; /* a second last event */
	r->user = w;
}

/* The io thread's part: all that is ready now. Cancels some that stream. */
static void drain(struct round *w)
{
	struct request *r;
	while ((r = sched_next_ready(w->sched))) {
		struct event *e;
		while ((e = request_next_event(r))) {
			bool is_over = e->kind == EVENT_DONE ||
				       e->kind == EVENT_FAILED;
			if (is_over)
				note_over(w, r, e);
			else if (e->kind == EVENT_DELTA && r->max_tokens % 11 == 7)
				sched_cancel(w->sched, r);
			event_destroy(e);
			if (is_over) {
				request_unref(r); /* io's own; the list has another */
				sem_post(&w->room);
			}
		}
	}
}

static void open_round(struct round *w)
{
	memset(w, 0, sizeof *w);
	fake_init(&w->fake, N_PAGES, PAGE);
	w->fake.cost_step_us = 10;
	w->clock = fake_clock(&w->fake);
	w->tokenizer = fake_tokenizer();
	struct engine_graph g = fake_graph(&w->fake, 256);
	struct engine_opts eo = {.page_size = PAGE, .max_seqs = 5,
				 .max_batch_tok = 24, .prefix_cache = true};
	if (engine_create_with(&g, &eo, N_PAGES, &w->engine) != OK)
		abort();
	sem_init(&w->ready, 0, 0);
	sem_init(&w->room, 0, 0);
	struct sched_opts so = {.engine = w->engine, .tokenizer = w->tokenizer,
				.clock = &w->clock, .health = &w->health,
				.max_queue = QUEUE, .prefill_chunk = 8,
				.on_ready = on_ready, .ctx = w};
	w->sched = sched_create(&so);
	atomic_store(&w->n_submitters_left, N_SUBMITTERS);
}

static void close_round(struct round *w)
{
	is_int(engine_pages_free(w->engine), N_PAGES, "no page is held");
	sched_destroy(w->sched);
	engine_destroy(w->engine);
	tokenizer_destroy(w->tokenizer);
	fake_deinit(&w->fake);
	sem_destroy(&w->ready);
	sem_destroy(&w->room);
}

/* n_stop 0: all are served, then drained. Else sched_stop after so many. */
static void run_round(struct round *w, int n_stop)
{
	struct submitter subs[N_SUBMITTERS];
	pthread_t engine;
	open_round(w);
	pthread_create(&engine, NULL, engine_main, w);
	for (int i = 0; i < N_SUBMITTERS; i++) {
		subs[i] = (struct submitter){.round = w, .index = i};
		pthread_create(&subs[i].thread, NULL, submitter_main, &subs[i]);
	}
	bool is_stopped = false;
	while (atomic_load(&w->n_submitters_left) > 0 ||
	       w->n_over < atomic_load(&w->n_accepted)) {
		sem_wait(&w->ready);
		drain(w);
		if (n_stop && w->n_over >= n_stop && !is_stopped) {
			is_stopped = true;
			sched_stop(w->sched);
			for (int i = 0; i < N_SUBMITTERS; i++)
				sem_post(&w->room); /* none may wait for room now */
		}
	}
	for (int i = 0; i < N_SUBMITTERS; i++)
		pthread_join(subs[i].thread, NULL);
	if (!n_stop) {
		sched_drain(w->sched);
		struct request *r = make_request(0, 0);
		ok(!submit(w, r), "drained: nothing more is taken");
		request_unref(r);
		request_unref(r);
		sched_stop(w->sched);
	}
	pthread_join(engine, NULL);
	drain(w);
	ok(sched_is_idle(w->sched), "idle at the end");
	is_int(w->n_over, atomic_load(&w->n_accepted),
	       "one last event for each accepted request");
	is_int(w->n_wrong, 0, "each of them right");
	is_int(w->n_done + w->n_cancelled + w->n_stopped, w->n_over,
	       "done, cancelled or stopped");
}

int main(void)
{
	static struct round w;
	run_round(&w, 0);
	is_int(w.n_over, N_SUBMITTERS * N_EACH, "all requests were served");
	is_int(w.n_stopped, 0, "none was cut off");
	ok(w.n_done >= N_SUBMITTERS * N_EACH / 3, "most of them to the end");
	close_round(&w);

	run_round(&w, 30);
	ok(w.n_over >= 30 && atomic_load(&w.n_draining) > 0,
	   "stopped in the middle: later ones were refused");
	close_round(&w);
	return tap_done();
}
