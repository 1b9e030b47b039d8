/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "daemon/fleet.h"

#include <assert.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"

#define RETRY_US INT64_C(2000000) /* a load that failed is not tried again sooner */
#define FORGIVE_US INT64_C(30000000) /* a load that failed is told so long */
/* fleet_opts.has_work waits so long for other models, and for a model whose load failed. So long,
 * too, others stay where a load has failed for a reason that their room does not mend. Where it
 * fails again after that, they stay twice as long, up to an hour. */
#define BESIDE_US INT64_C(60000000)
#define MAX_DOUBLINGS 6

/* A thread's last report. It writes it and ends, or, after LOADED, goes on. */
enum news { NEWS_NONE, NEWS_LOADED, NEWS_FAILED, NEWS_OVER, NEWS_STOPPED, NEWS_UNLOADED };

/* What the model's thread is for. */
enum job { JOB_NONE, JOB_LOAD, JOB_RUN, JOB_UNLOAD };

struct member {
	struct fleet *of;
	struct model_row *row;
	const struct config *config;
	struct boot_plan plan;
	struct api_memory *memory;
	struct health health; /* of its engine */

	enum job job;
	pthread_t thread;
	int64_t began_us;     /* when it began to load, or to leave */
	bool is_wanted;       /* in the queue of loads */
	struct member *next;
	bool needs_room;      /* the last load found others in its place */
	bool has_room;        /* others have left memory for it */
	/* when its load last failed with `vain`, which room does not mend; 0: it did not */
	int64_t vain_us;
	struct fail vain;
	int n_vain;           /* times that others stay for, since it was in memory */
	int64_t failed_us;    /* when its last load failed; 0: it did not */
	enum row_state before; /* state before it was wanted */
	enum row_state after; /* state after its unload */

	_Atomic int news;
	_Atomic bool is_leaving; /* its engine is to end so that it is unloaded */
	/* The thread's, until its news: the model in memory; what answers while it is not; why
	 * loading failed. */
	struct boot boot, look;
	struct boot_look looks;
	bool is_check_failed, found_no_room, was_planned;
	struct fail fail;
};

struct fleet {
	struct fleet_opts o;
	struct model_row *rows;
	struct member *members;
	int n;
	struct boot_shared shared; /* of the thread that loads or unloads */
	struct member *busy;        /* it loads or unloads */
	struct member *wanted;      /* the queue of loads, in order of their first request */
	enum fleet_state start;
	const struct member *failed; /* NOT_STARTED: because of it */
	struct config listener;      /* the settings of transcription_model */
	double last_load_s;         /* the seconds of the last load of any */
	bool is_draining, is_stopping, has_given_up;
};

static int index_of(const struct member *e) { return (int)(e - e->of->members); }

static int64_t now_us(const struct fleet *m) { return clock_now_us(m->o.clock); }

/* --- a model's threads ---------------------------------------------------------- */

static struct boot_opts boot_opts(struct member *e)
{
	struct fleet *m = e->of;
	return (struct boot_opts){.config = e->config, .plan = &e->plan, .clock = m->o.clock,
				  .health = m->o.health, .beats = &e->health,
				  .shared = &m->shared, .memory = e->memory,
				  .is_listener = e->row->is_listener,
				  .batches = *m->o.batches, .shares_memory = m->o.models->n > 1,
				  .on_ready = m->o.on_news, .ctx = m->o.ctx};
}

static void tell(struct member *e, enum news news)
{
	void (*on_news)(void *ctx) = e->of->o.on_news;
	void *ctx = e->of->o.ctx;
	atomic_store(&e->news, news);
	on_news(ctx);
}

/* Opens what answers questions about the model while it is not in memory. */
static void open_look(struct member *e)
{
	struct boot_opts o = boot_opts(e);
	struct fail fail;
	if (boot_open(&o, &e->looks, &e->look, &fail) == OK)
		return;
	log_warn("model %s: its files cannot be opened any more: %s", e->row->name, fail.text);
	boot_unload(&e->look, &e->of->shared);
}

static void *load_main(void *arg)
{
	struct member *e = arg;
	struct boot_opts o = boot_opts(e);
	if (boot_load(&o, &e->boot, &e->fail) != OK) {
		e->is_check_failed = e->boot.is_check_failed;
		e->found_no_room = e->boot.needs_room;
		e->was_planned = e->boot.is_planned;
		boot_unload(&e->boot, &e->of->shared);
		tell(e, NEWS_FAILED);
		return NULL;
	}
	e->looks = (struct boot_look){.sees = e->boot.vision, .hears = e->boot.sound,
				      .watches = vision_frames(e->boot.vision) > 0,
				      .n_ctx = engine_n_ctx(e->boot.engine)};
	health_beat(&e->health, now_us(e->of));
	tell(e, NEWS_LOADED);
	sched_run(e->boot.sched);
	bool is_leaving = atomic_load(&e->is_leaving);
	health_beat(&e->health, is_leaving ? 0 : now_us(e->of)); /* 0: no engine is there to beat */
	if (is_leaving && !e->row->is_listener)
		e->of->o.on_model(e->of->o.ctx, index_of(e), NULL, NULL);
	if (is_leaving && e->config->sleep_keep)
		open_look(e);
	tell(e, is_leaving ? NEWS_STOPPED : NEWS_OVER);
	return NULL;
}

/* The system need hold these files in memory no longer. files: of tensors_list_files. */
static void forget_files(struct buf *files)
{
	char *rest = files->p, *line;
	while (rest && (line = strsep(&rest, "\n"))) {
		int path = 0;
		if (sscanf(line, "file %*d %*d %n", &path) < 0 || !path)
			continue;
		int fd = open(line + path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

static void list_files(const struct boot *b, struct buf *out)
{
	tensors_list_files(b->model->tensors, out);
	if (b->draft)
		tensors_list_files(b->draft->tensors, out);
}

static void *unload_main(void *arg)
{
	struct member *e = arg;
	struct boot_shared *s = &e->of->shared;
	struct buf files = {0};
	if (!e->config->sleep_keep)
		list_files(&e->boot, &files);
	boot_unload(&e->boot, s);
	if (e->after == ROW_SLEEPING && s->n_loaded == 0)
		boot_unload_embedders(s);
	if (files.n) {
		buf_add_z(&files, "");
		forget_files(&files);
	}
	buf_deinit(&files);
	malloc_trim(0);
	tell(e, NEWS_UNLOADED);
	return NULL;
}

/* --- loads and unloads ---------------------------------------------------------- */

/* Clients learn what is wrong with which file, but not where files are: of a path in the text they
 * get the last part. dir: the model's own, which may have spaces. */
static void add_for_clients(struct buf *out, const char *text, const char *dir)
{
	size_t n_dir = strlen(dir);
	bool is_start = true; /* of a word */
	while (*text) {
		size_t n = strncmp(text, dir, n_dir) == 0 ? n_dir : 0;
		if (is_start && (n || is_char_of(*text, "/."))) {
			n += strcspn(text + n, " ,;\"'`");
			const char *last = memrchr(text, '/', n);
			size_t skip = last && last + 1 < text + n ? (size_t)(last + 1 - text) : 0;
			buf_add(out, text + skip, n - skip);
			text += n;
			continue;
		}
		is_start = is_char_of(*text, " \"'`(");
		buf_add_c(out, *text++);
	}
	buf_add_z(out, "");
}

static void set_failed(struct member *e, const struct fail *why)
{
	struct model_row *r = e->row;
	struct buf text = {0};
	add_for_clients(&text, why->text, e->plan.model_dir);
	fail_set(&r->why, E_MODEL_DOWN, "the model `%s` cannot be loaded: %.400s", r->name, text.p);
	buf_deinit(&text);
	r->state = ROW_FAILED;
	e->failed_us = now_us(e->of);
	metric_add_by(METRIC_MODEL_LOADS, "failed", 1);
	log_error("model %s: cannot be loaded: %s", r->name, why->text);
	row_changed(r);
}

static enum status start(struct member *e, enum job job, struct fail *fail)
{
	atomic_store(&e->news, NEWS_NONE);
	if (job == JOB_LOAD)
		e->began_us = now_us(e->of);
	int rc = thread_start(&e->thread, job == JOB_LOAD ? "engine" : "unload",
			      job == JOB_LOAD ? load_main : unload_main, e);
	if (rc != 0)
		return fail_set(fail, E_LIMIT, "the engine's thread cannot be started: %s "
				"(limits: TasksMax, ulimit -u, memory)", strerror(rc));
	e->job = job;
	e->of->busy = e;
	return OK;
}

/* How long its load is likely to take: as its last one, or as the last one of another. */
static int64_t load_us(const struct member *e)
{
	double s = e->row->load_s > 0 ? e->row->load_s : e->of->last_load_s;
	return (int64_t)(s * 1e6);
}

/* Says when each of those that are wanted is likely to be in memory. */
static void tell_times(struct fleet *m)
{
	int64_t t = now_us(m);
	for (struct member *e = m->wanted; e; e = e->next) {
		t = e->job == JOB_LOAD ? MAX(t, e->began_us + load_us(e)) : t + load_us(e);
		e->row->ready_us = t;
	}
}

static enum status load(struct member *e, struct fail *fail)
{
	assert(e->job == JOB_NONE);
	atomic_store(&e->is_leaving, false);
	atomic_store(&e->health.state, HEALTH_READY);
	e->row->state = ROW_LOADING;
	enum status s = start(e, JOB_LOAD, fail);
	tell_times(e->of);
	return s;
}

/* Ends the engine of a model that no request uses; its thread's news does the rest. */
static void unload(struct member *e, enum row_state after)
{
	struct model_row *r = e->row;
	if (after == ROW_SLEEPING)
		log_info("model %s goes to sleep: no request for %.0f s", r->name,
			 (double)(now_us(e->of) - r->used_us) * 1e-6);
	else
		log_info("model %s is unloaded: another needs the room", r->name);
	metric_add_by(METRIC_MODEL_UNLOADS, after == ROW_SLEEPING ? "sleep" : "room", 1);
	e->after = after;
	e->began_us = now_us(e->of);
	e->of->busy = e;
	atomic_store(&e->is_leaving, true);
	r->is_leaving = true;
	sched_stop(r->sched);
}

static bool goes_before(const struct model_row *a, const struct model_row *b)
{
	if ((a->n_calls > 0) != (b->n_calls > 0))
		return b->n_calls > 0;
	if (a->is_leaving != b->is_leaving)
		return a->is_leaving;
	return a->used_us < b->used_us;
}

/* The one that goes first: without a request; or told to leave before, so that not all close in
 * turn; or used least lately. NULL: none is in memory, or only the listener, whose place is its
 * own. */
static struct member *find_victim(struct fleet *m)
{
	struct member *best = NULL;
	for (int i = 0; i < m->n; i++) {
		struct member *e = &m->members[i];
		if (e->row->state != ROW_LOADED || e->row->is_listener)
			continue;
		if (!best || goes_before(e->row, best->row))
			best = e;
	}
	return best;
}

/* Those that were to leave may stay. */
static void let_stay(struct fleet *m)
{
	for (int i = 0; i < m->n; i++) {
		struct model_row *r = &m->rows[i];
		if (r->state != ROW_LOADED || !r->is_leaving)
			continue;
		r->is_leaving = false;
		row_changed(r);
	}
}

static void unwant(struct fleet *m, struct member *e)
{
	struct member **p = &m->wanted;
	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
	e->is_wanted = e->needs_room = false;
}

/* Is there work for it beside requests? A listener has none. */
static bool has_other_work(const struct member *e)
{
	const struct fleet *m = e->of;
	return !e->row->is_listener && m->o.has_work(m->o.ctx, index_of(e));
}

/* Does somebody wait for it? */
static bool has_work(const struct member *e)
{
	return e->row->n_waiting > 0 || has_other_work(e);
}

static void want(struct fleet *m, struct member *e)
{
	struct member **last = &m->wanted;
	if (e->row->state != ROW_LOADED && e->row->state != ROW_LOADING)
		e->before = e->row->state;
	if (e->row->state != ROW_LOADED)
		e->row->state = ROW_LOADING;
	if (e->is_wanted)
		return;
	while (*last)
		last = &(*last)->next;
	*last = e;
	e->next = NULL;
	e->is_wanted = true;
	tell_times(m);
}

/* Does the next thing that is due, if nothing is under way. */
static void advance(struct fleet *m)
{
	struct fail fail;
	struct member *e;
	if (m->busy || m->is_stopping || m->start == FLEET_STARTING)
		return;
	while ((e = m->wanted) && (!has_work(e) || e->row->state == ROW_LOADED)) {
		unwant(m, e); /* its clients have gone, or it stays */
		if (e->row->state == ROW_LOADING)
			e->row->state = e->before;
		let_stay(m);
	}
	if (!e)
		return;
	struct member *victim = e->needs_room ? find_victim(m) : NULL;
	if (victim && victim->row->n_calls > 0) {
		victim->row->is_leaving = true;
	} else if (victim) {
		e->has_room = true;
		e->needs_room = false; /* the next load says whether it was enough */
		unload(victim, ROW_UNLOADED);
	} else if (load(e, &fail) != OK) {
		unwant(m, e);
		set_failed(e, &fail);
	}
}

/* --- news ----------------------------------------------------------------------- */

static void fail_start(struct fleet *m, const struct member *e)
{
	m->start = FLEET_NOT_STARTED;
	m->failed = e;
}

/* At the start a listener is loaded, then the first model. */
static void go_on(struct member *e)
{
	struct fleet *m = e->of;
	if (!e->row->is_listener)
		m->start = FLEET_STARTED;
	else if (load(m->members, &m->members->fail) != OK)
		fail_start(m, m->members);
}

static void count_loaded(const struct fleet *m)
{
	int n = 0;
	for (int i = 0; i < m->n; i++)
		n += m->rows[i].state == ROW_LOADED;
	metric_set(METRIC_MODELS_LOADED, n);
}

static void on_loaded(struct member *e)
{
	struct fleet *m = e->of;
	struct model_row *r = e->row;
	e->job = JOB_RUN;
	m->busy = NULL;
	r->sched = e->boot.sched;
	r->api = e->boot.api;
	boot_unload(&e->look, &m->shared);
	r->load_s = m->last_load_s = (double)(now_us(m) - e->began_us) * 1e-6;
	r->used_us = now_us(m);
	r->is_leaving = false;
	r->state = ROW_LOADED;
	r->why.code = OK;
	e->failed_us = e->vain_us = e->n_vain = 0;
	e->has_room = false;
	metric_set(METRIC_MODEL_LOAD, r->load_s);
	metric_add_by(METRIC_MODEL_LOADS, "ok", 1);
	atomic_store(&m->o.health->load_stage, LOAD_DONE);
	if (m->start == FLEET_STARTED)
		log_info("model %s is in memory, loaded in %.2f s", r->name, r->load_s);
	if (e->is_wanted)
		unwant(m, e);
	if (m->is_stopping)
		sched_stop(r->sched);
	if (m->start == FLEET_STARTING)
		go_on(e);
	m->o.on_change(m->o.ctx);
	if (!r->is_listener && !m->is_draining && !m->is_stopping)
		m->o.on_model(m->o.ctx, index_of(e), r->api, r->sched);
	let_stay(m);
	row_changed(r);
}

/* How long a load that failed stands for the next. */
static int64_t patience_us(const struct member *e)
{
	return BESIDE_US << MIN(MAX(e->n_vain - 1, 0), MAX_DOUBLINGS);
}

static void on_failed(struct member *e)
{
	struct fleet *m = e->of;
	pthread_join(e->thread, NULL);
	e->job = JOB_NONE;
	m->busy = NULL;
	bool is_start = m->start == FLEET_STARTING;
	if (is_start && (m->o.models->n == 1 || e->row->is_listener || e->is_check_failed ||
			 e->fail.code == E_DEVICE)) {
		fail_start(m, e);
		return;
	}
	m->start = FLEET_STARTED;
	bool is_vain = e->vain_us && now_us(m) - e->vain_us < patience_us(e);
	if (e->found_no_room && !is_vain) {
		e->needs_room = true;
		return;
	}
	if (!e->found_no_room && (e->has_room || e->was_planned)) {
		e->vain = e->fail;
		e->vain_us = now_us(m);
		e->n_vain += !is_vain; /* clients that ask every second do not make it an hour */
	}
	e->has_room = false;
	if (e->is_wanted)
		unwant(m, e);
	set_failed(e, e->found_no_room ? &e->vain : &e->fail);
	if (e->fail.code == E_DEVICE) { /* a restart may help */
		atomic_store(&m->o.health->is_device_lost, true);
		atomic_store(&m->o.health->state, HEALTH_FAILED);
	}
}

/* Its engine has ended: from here on what is left of it answers, and the rest goes. */
static void on_stopped(struct member *e)
{
	struct model_row *r = e->row;
	struct fail fail;
	pthread_join(e->thread, NULL);
	e->job = JOB_NONE;
	r->sched = NULL;
	r->api = e->look.api;
	r->is_leaving = false;
	e->before = e->after;
	r->state = r->n_waiting ? ROW_LOADING : e->after;
	if (start(e, JOB_UNLOAD, &fail) == OK)
		return;
	log_warn("model %s: %s", r->name, fail.text);
	unload_main(e); /* the clients wait meanwhile */
}

static void on_unloaded(struct member *e)
{
	struct fleet *m = e->of;
	if (e->job == JOB_UNLOAD)
		pthread_join(e->thread, NULL);
	e->job = JOB_NONE;
	m->busy = NULL;
	let_stay(m);
	log_info("model %s has left memory", e->row->name);
	m->o.on_change(m->o.ctx);
}

static void on_over(struct member *e)
{
	pthread_join(e->thread, NULL);
	e->job = JOB_NONE;
	e->of->has_given_up |= !e->of->is_stopping;
}

void fleet_collect(struct fleet *m)
{
	for (int i = 0; i < m->n; i++) {
		struct member *e = &m->members[i];
		enum news news = (enum news)atomic_exchange(&e->news, NEWS_NONE);
		/* A thread that is over may have said before that the model is loaded. */
		if (e->job == JOB_LOAD && (news == NEWS_OVER || news == NEWS_LOADED))
			on_loaded(e);
		if (news == NEWS_FAILED)
			on_failed(e);
		else if (news == NEWS_OVER)
			on_over(e);
		else if (news == NEWS_STOPPED)
			on_stopped(e);
		else if (news == NEWS_UNLOADED)
			on_unloaded(e);
	}
	count_loaded(m);
	advance(m);
}

/* --- requests ------------------------------------------------------------------- */

static struct member *member_of(struct fleet *m, const struct model_row *r)
{
	return &m->members[r - m->rows];
}

void fleet_need(void *ctx, struct model_row *r)
{
	struct fleet *m = ctx;
	struct member *e = member_of(m, r);
	if (r->state == ROW_FAILED && now_us(m) - e->failed_us < RETRY_US)
		return;
	want(m, e);
	m->o.on_news(m->o.ctx); /* the request is not in line yet */
}

void fleet_idle(void *ctx, struct model_row *r)
{
	struct fleet *m = ctx;
	if (r->is_leaving)
		m->o.on_news(m->o.ctx);
}

/* Wants the first model with work beside requests that is not in memory. That waits until no
 * request has come for others for a while, and a fault is past. The listener has its own place. */
static void want_workers(struct fleet *m, int64_t now)
{
	bool is_free = !m->busy && !m->wanted && !m->is_draining && !m->is_stopping &&
		       m->start == FLEET_STARTED;
	for (int i = 0; i < m->n && is_free; i++)
		is_free = m->rows[i].state != ROW_LOADED || m->rows[i].is_listener ||
			  (m->rows[i].n_calls == 0 && now - m->rows[i].used_us >= BESIDE_US);
	for (int i = 0; i < m->n && is_free; i++) {
		struct member *e = &m->members[i];
		if (e->row->state == ROW_LOADED || !has_work(e) ||
		    (e->failed_us && now - e->failed_us < patience_us(e)))
			continue;
		want(m, e);
		is_free = false;
	}
}

/* A balancer sends nothing to a server whose models have all failed; only a request tries again.
 * So after a while such a model counts as unloaded. */
static void forgive(struct fleet *m, int64_t now)
{
	for (int i = 0; i < m->n; i++)
		if (m->rows[i].state == ROW_FAILED && now - m->members[i].failed_us >= FORGIVE_US)
			m->rows[i].state = ROW_UNLOADED;
}

void fleet_tick(struct fleet *m)
{
	int64_t now = now_us(m);
	forgive(m, now);
	want_workers(m, now);
	advance(m);
	bool may_sleep = !m->is_draining && !m->is_stopping;
	for (int i = 0; i < m->n && !m->busy && !m->wanted && may_sleep; i++) {
		struct member *e = &m->members[i];
		struct model_row *r = e->row;
		if (!row_is_open(r) || r->n_calls > 0)
			continue;
		if (has_other_work(e))
			r->used_us = now;
		if (e->config->sleep_after > 0 && now - r->used_us >= e->config->sleep_after)
			unload(e, ROW_SLEEPING);
	}
}

bool fleet_is_idle(const struct fleet *m)
{
	for (int i = 0; i < m->n; i++)
		if (m->rows[i].state == ROW_LOADED)
			return false;
	return !m->busy && m->start != FLEET_STARTING;
}

int64_t fleet_leaving_us(const struct fleet *m)
{
	bool leaves = m->busy && atomic_load(&m->busy->is_leaving);
	return leaves ? MAX(now_us(m) - m->busy->began_us, 1) : 0;
}

bool fleet_are_at_rest(const struct fleet *m)
{
	for (int i = 0; i < m->n; i++)
		if (m->rows[i].state == ROW_FAILED) /* to be forgiven */
			return false;
	for (int i = 0; i < m->n; i++)
		if (has_other_work(&m->members[i]))
			return false;
	return fleet_is_idle(m) && !m->wanted;
}

bool fleet_gave_up(const struct fleet *m) { return m->has_given_up; }

/* --- start and end --------------------------------------------------------------- */

static struct member *init_member(struct fleet *m, const struct config *c)
{
	struct member *e = &m->members[m->n];
	struct model_row *r = &m->rows[m->n];
	row_init(r);
	*e = (struct member){.of = m, .row = r, .config = c};
	e->memory = api_memory_create(m->n ? m->members[0].memory : NULL);
	r->sleep_us = c->sleep_after;
	r->health = &e->health;
	m->n++;
	return e;
}

static enum status add_member(struct fleet *m, const struct config *c, struct fail *fail)
{
	struct member *e = init_member(m, c);
	enum status s = boot_plan(c, e == m->members ? NULL : &m->members[0].plan, &e->plan, fail);
	e->row->name = e->plan.model_name;
	e->row->aliases = e->plan.adapters.all; /* and those of adapters */
	e->row->n_aliases = e->plan.adapters.n_all;
	return s;
}

int fleet_find(const struct fleet *m, struct str name)
{
	for (int i = 0; i < m->o.models->n; i++)
		if (row_has_name(&m->rows[i], name))
			return i;
	return 0;
}

/* Fails where a name of row i is one of another row, too. */
static enum status check_names(const struct fleet *m, int i, struct fail *fail)
{
	const struct model_row *r = &m->rows[i];
	for (int k = -1; k < r->n_aliases; k++) {
		const char *name = k < 0 ? r->name : r->aliases[k];
		for (int j = 0; j < i; j++)
			if (row_has_name(&m->rows[j], str_of(name)))
				return fail_set(fail, E_CONFIG, "two models are called %.100s: "
						"%.150s and %.150s. model_name, aliases or "
						"[model NAME] give others", name,
						m->members[j].plan.model_dir,
						m->members[i].plan.model_dir);
	}
	return OK;
}

/* Settings of transcription_model: what describes `model` alone is as where nothing is said. */
static void set_listener(struct fleet *m)
{
	struct config *c = &m->listener;
	*c = *m->o.models->all[0];
	config_clear_own(c);
	c->model = c->transcription_model;
	c->ctx = c->transcription_ctx;
	c->embedding_model = c->rerank_model = c->transcription_model = c->chat_template =
		c->chat_template_kwargs = c->kv_dir = "";
	c->tool_format = c->reasoning = "auto";
	c->images = c->speculative = "off";
	c->audio = strcmp(c->audio, "cpu") == 0 ? "cpu" : "auto";
	c->temperature = c->top_p = c->min_p = NAN;
	c->top_k = 0;
	c->kv_cache = c->state_checkpoints = 0;
	c->profile = false;
}

static enum status add_listener(struct fleet *m, struct fail *fail)
{
	const struct config *c = m->o.models->all[0];
	int n = m->n;
	struct model_row *r = &m->rows[n];
	struct boot_plan *plan = &m->members[n].plan;
	set_listener(m);
	init_member(m, &m->listener);
	boot_plan_beside(&m->members[0].plan, c->transcription_model, plan);
	r->name = plan->model_name;
	r->is_listener = true;
	bool is_taken = false;
	for (int i = 0; i < n; i++)
		is_taken |= row_has_name(&m->rows[i], str_of(r->name));
	if (!is_taken)
		return OK;
	return fail_at(fail, E_CONFIG, "transcription_model", "transcription_model = %.200s: its "
		       "name, %.100s, is also one of model. Set model_name to another, or leave "
		       "transcription_model out where model itself hears", c->transcription_model,
		       r->name);
}

enum status fleet_create(const struct fleet_opts *o, struct fleet **out, struct fail *fail)
{
	struct fleet *m = xcalloc(1, sizeof *m);
	enum status s = OK;
	m->o = *o;
	size_t n = (size_t)o->models->n + 1; /* perhaps a listener */
	m->rows = xcalloc(n, sizeof *m->rows);
	m->members = xcalloc(n, sizeof *m->members);
	for (int i = 0; s == OK && i < o->models->n; i++) {
		s = add_member(m, o->models->all[i], fail);
		if (s == OK)
			s = check_names(m, i, fail);
	}
	if (s == OK && *o->models->all[0]->transcription_model)
		s = add_listener(m, fail);
	*out = m;
	return s;
}

void fleet_destroy(struct fleet *m)
{
	for (int i = 0; i < m->n; i++) {
		struct member *e = &m->members[i];
		boot_unload(&e->boot, &m->shared);
		boot_unload(&e->look, &m->shared);
	}
	for (int i = m->n - 1; i >= 0; i--) /* the first has what the others share */
		api_memory_destroy(m->members[i].memory);
	boot_unload_embedders(&m->shared);
	for (int i = m->n - 1; i >= 0; i--) /* the first plan owns what the others share */
		boot_plan_deinit(&m->members[i].plan);
	free(m->rows);
	free(m->members);
	free(m);
}

enum status fleet_check(struct fleet *m, struct fail *fail)
{
	enum status all = OK;
	for (int i = 0; i < m->n; i++) {
		struct boot_opts o = boot_opts(&m->members[i]);
		struct fail one;
		enum status s = boot_check(&o, &one);
		if (s == OK)
			continue;
		if (m->o.models->n > 1 && !m->rows[i].is_listener)
			s = fail_within(&one, s, m->rows[i].name);
		if (all != OK)
			log_error("%s", fail->text);
		all = s;
		*fail = one;
	}
	return all;
}

struct model_row *fleet_rows(struct fleet *m, int *n)
{
	*n = m->n;
	return m->rows;
}

const struct api_memory *fleet_memory(const struct fleet *m) { return m->members[0].memory; }

const struct boot_plan *fleet_plan(const struct fleet *m) { return &m->members[0].plan; }

enum status fleet_start(struct fleet *m, struct fail *fail)
{
	struct member *last = &m->members[m->n - 1];
	return load(last->row->is_listener ? last : m->members, fail);
}

enum fleet_state fleet_started(const struct fleet *m, const struct fail **out_fail,
				 bool *is_check)
{
	const struct member *e = m->failed ? m->failed : m->members;
	*out_fail = &e->fail;
	*is_check = e->is_check_failed;
	return m->start;
}

void fleet_drain(struct fleet *m)
{
	m->is_draining = true;
	for (int i = 0; i < m->n; i++)
		if (m->rows[i].sched)
			sched_drain(m->rows[i].sched);
}

void fleet_stop(struct fleet *m)
{
	struct fail fail;
	m->is_stopping = true;
	fail_set(&fail, E_DRAINING, "%s", status_text(E_DRAINING));
	for (int i = 0; i < m->n; i++) {
		row_refuse(&m->rows[i], &fail);
		if (m->rows[i].sched)
			sched_stop(m->rows[i].sched);
	}
}

bool fleet_have_ended(const struct fleet *m, bool *loads)
{
	int n_loads = 0, n_others = 0;
	for (int i = 0; i < m->n; i++) {
		enum job job = m->members[i].job;
		n_loads += job == JOB_LOAD;
		n_others += job == JOB_RUN || job == JOB_UNLOAD;
	}
	*loads = n_loads && !n_others;
	return !n_loads && !n_others;
}

void fleet_save(struct fleet *m)
{
	struct boot_shared none = {0}; /* the load has the models' own */
	for (int i = 0; i < m->n; i++)
		if (m->members[i].job == JOB_NONE)
			boot_unload(&m->members[i].boot, &none);
}
