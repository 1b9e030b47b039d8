/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread sleeps until a batch is made or cancelled, a request has events, or something is due.
 * A slot holds a request from its line of the input to its line of the journal:
 *
 *   FREE ──► RUNS ──► ANSWERED ──► FREE      ANSWERED: waits for the disk
 */
#include "daemon/batch_run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/queue.h"
#include "base/thread.h"
#include "base/work.h"
#include "batch/batch_files.h"
#include "batch/batch_journal.h"
#include "batch/batch_records.h"
#include "daemon/batch_check.h"

#define RETRY_US 5000000     /* after a disk that took nothing */
#define PASSES 3             /* a request that the server has failed is computed so many times */
#define BUSY_US 50000        /* between looks whether the scheduler is idle */
#define LONGEST_US 3600000000 /* between two looks whether a batch is too late */

enum slot_state { FREE, RUNS, ANSWERED };

struct slot {
	enum slot_state state;
	int line;
	char id[BATCH_REQUEST_ID];
	struct buf custom_id; /* as JSON */
	struct api_call *call;
	bool is_over, has_failed;
	struct fail fail;     /* of a request that has failed */
	struct buf body;      /* the answer of the API */
	int status;           /* of HTTP */
	struct buf answer;    /* the line of the journal */
};

/* The batch that runs. */
struct batch_job {
	bool has_batch, is_read, is_ending; /* is_ending: cancelled or too late */
	bool has_left; /* lines were passed over, for the next pass */
	int pass;      /* through the lines, from 1 on */
	struct batch batch;
	const struct api_batch_endpoint *endpoint;
	struct batch_journal *journal; /* NULL: all is answered, and the files are being named */
	struct batch_lines lines;
};

struct batch_run {
	struct batch_run_opts o;
	pthread_t thread;
	struct queue *wake; /* holds nothing */
	atomic_bool is_stopping;
	bool is_refused;    /* the server takes no requests any more: nothing new begins */
	struct slot *slots; /* [n_at_once + 1], the last for lines that are not computed */
	struct batch_job job;
	bool has_looked; /* todo is of a look that nobody waited behind */
	struct batch_todo todo;
};

static void wake_up(void *ctx)
{
	const struct batch_run *r = ctx;
	queue_wake(r->wake);
}

static int64_t now_s(void) { return clock_wall_s(); }

/* --- the answer of one request -------------------------------------------------------- */

static void slot_free(struct slot *s)
{
	api_call_destroy(s->call);
	s->call = NULL;
	buf_deinit(&s->custom_id);
	buf_deinit(&s->body);
	buf_deinit(&s->answer);
	s->state = FREE;
}

static void begin_answer(const struct slot *s, struct buf *out)
{
	buf_addf(out, "{\"id\":\"%s\",\"custom_id\":", s->id);
	buf_add_str(out, buf_str(&s->custom_id));
}

/* No raw line's end stands in JSON but between its tokens. */
static void add_on_one_line(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++)
		buf_add_c(out, s.p[i] == '\n' || s.p[i] == '\r' ? ' ' : s.p[i]);
}

static void slot_answer(struct slot *s)
{
	if (s->has_failed) {
		buf_clear(&s->body);
		api_error_format(&s->fail, &s->body);
		s->status = status_http(s->fail.code);
	}
	begin_answer(s, &s->answer);
	buf_addf(&s->answer, ",\"response\":{\"status_code\":%d,\"request_id\":\"%s\",\"body\":",
		 s->status, s->id);
	add_on_one_line(buf_str(&s->body), &s->answer);
	buf_add_z(&s->answer, "},\"error\":null}");
	s->state = ANSWERED;
}

/* A fault of the server, not of the request, may be over in the next pass. */
static void slot_fail(struct batch_run *r, struct slot *s, const struct fail *f)
{
	s->has_failed = true;
	s->fail = *f;
	if (status_http(f->code) < 500 || r->job.pass >= PASSES) {
		slot_answer(s);
		return;
	}
	r->job.has_left = true;
	slot_free(s);
}

/* Did it end because the server does, or its batch? Then it is not answered. */
static bool is_cut(enum status st)
{
	return st == E_DRAINING || st == E_CANCELLED || st == E_DEVICE;
}

static void on_event(struct batch_run *r, struct slot *s, const struct event *e)
{
	s->is_over |= e->kind == EVENT_DONE || e->kind == EVENT_FAILED;
	if (s->has_failed)
		return;
	api_call_on_event(s->call, e, &s->body);
	if (e->kind == EVENT_FAILED) {
		s->has_failed = true;
		s->fail = e->fail;
		r->is_refused |= is_cut(e->fail.code) && e->fail.code != E_CANCELLED;
	}
}

static void drain(struct batch_run *r, struct slot *s)
{
	struct request *request = api_call_request(s->call);
	struct work_budget work;
	struct event *e;
	work_begin(&work, SIZE_MAX);
	while ((e = request_next_event(request))) {
		on_event(r, s, e);
		event_destroy(e);
	}
	work_end();
	if (work.has_no_memory && !s->has_failed) {
		s->has_failed = work_fail(&work, &s->fail);
		sched_cancel(r->o.sched, request);
	}
	if (!s->is_over)
		return;
	s->status = status_http(api_call_status(s->call));
	if (s->has_failed && is_cut(s->fail.code))
		slot_free(s);
	else if (s->has_failed)
		slot_fail(r, s, &s->fail);
	else
		slot_answer(s);
}

/* --- lines ---------------------------------------------------------------------------- */

/* False: the line has been answered. It may have become bad since it was validated, or not have
 * been validated: then line->tree is NULL. */
static bool take_line(struct batch_run *r, struct slot *s, struct batch_line *line)
{
	if (batch_journal_has(r->job.journal, r->job.lines.line))
		return false;
	*s = (struct slot){.line = r->job.lines.line};
	batch_journal_id(r->job.journal, s->line, s->id);
	if (batch_check_line(&r->job.lines, r->job.batch.endpoint, line, &s->fail) == OK)
		buf_add_json(&s->custom_id, line->custom_id);
	else
		buf_add_z(&s->custom_id, "null");
	return true;
}

/* Gives the request to the scheduler. Where that ends (is_cut) the line stays as if it had not
 * begun, and no other begins. Any other refusal is the line's answer, or is tried again. */
static void submit(struct batch_run *r, struct slot *s)
{
	struct request *request = api_call_request(s->call);
	struct fail fail;
	request->priority = REQUEST_BACKGROUND;
	request->user = r;
	request->tell = wake_up;
	enum status st = OK;
	if (api_call_is_stream(s->call))
		st = fail_at(&fail, E_INVAL, "stream", "`stream` must be false in a batch");
	if (st == OK)
		st = sched_submit(r->o.sched, request, &fail);
	if (st == OK) {
		s->state = RUNS;
		return;
	}
	request_unref(request);
	r->is_refused |= is_cut(st);
	if (is_cut(st))
		slot_free(s);
	else
		slot_fail(r, s, &fail);
}

static void start_line(struct batch_run *r, struct slot *s, const struct batch_line *line)
{
	struct fail fail = {0};
	if (!line->tree) {
		fail = s->fail;
		slot_fail(r, s, &fail);
		return;
	}
	const struct api_input in = {
		.dialect = r->job.endpoint->dialect, .body = line->body, .request_id = s->id,
		.type = STR(""), .tail = STR(""), .owner = r->job.batch.owner,
		.is_gone = &r->is_stopping};
	enum status st = api_make(r->o.api, &in, r->job.endpoint->text, &s->call, &s->body, &fail);
	if (st == OK && !r->job.endpoint->text) {
		submit(r, s);
	} else if (st == OK) {
		s->status = 200;
		slot_answer(s);
	} else if (is_cut(st)) {
		r->is_refused = true; /* this thread shall end */
		slot_free(s);
	} else {
		slot_fail(r, s, &fail);
	}
}

static struct slot *free_slot(struct batch_run *r)
{
	int n = r->job.endpoint->text ? 1 : r->o.n_at_once;
	for (int i = 0; i < n; i++)
		if (r->slots[i].state == FREE)
			return &r->slots[i];
	return NULL;
}

static bool is_busy(const struct batch_run *r)
{
	return r->job.endpoint->text && !sched_is_idle(r->o.sched);
}

static void start_lines(struct batch_run *r)
{
	struct slot *s;
	struct batch_line line;
	while (!r->is_refused && !r->job.is_read && !is_busy(r) && (s = free_slot(r))) {
		r->job.is_read = !batch_lines_next(&r->job.lines);
		if (r->job.is_read || !take_line(r, s, &line))
			continue;
		start_line(r, s, &line);
		json_decref(line.tree);
	}
}

static enum status write_answer(struct batch_run *r, struct slot *s, bool is_failure,
				struct fail *fail)
{
	enum status st = batch_journal_add(r->job.journal, s->line, is_failure, buf_str(&s->answer),
					   fail);
	if (st != OK)
		return st;
	r->job.batch.n_completed = batch_journal_completed(r->job.journal);
	r->job.batch.n_failed = batch_journal_failed(r->job.journal);
	batch_records_progress(r->o.store, &r->job.batch);
	metric_add_by(METRIC_BATCH_REQUESTS, is_failure ? "failed" : "completed", 1);
	slot_free(s);
	return OK;
}

static enum status write_answers(struct batch_run *r, struct fail *fail)
{
	enum status st = OK;
	for (int i = 0; st == OK && i < r->o.n_at_once; i++)
		if (r->slots[i].state == ANSWERED)
			st = write_answer(r, &r->slots[i], r->slots[i].status != 200, fail);
	return st;
}

/* E_IO: the file cannot be read now. */
static enum status check_lines(const struct batch_run *r, struct fail *fail)
{
	return r->job.lines.why ? fail_set(fail, E_IO, "the file of batch %s cannot be read: %s",
					   r->job.batch.id, strerror(r->job.lines.why))
				: OK;
}

/* Says of all lines that are left why they have no answer. Begins anew after a failure. */
static enum status answer_rest(struct batch_run *r, bool is_cancelled, struct fail *fail)
{
	struct slot *s = &r->slots[r->o.n_at_once];
	struct batch_line line;
	enum status st = OK;
	batch_lines_rewind(&r->job.lines);
	for (int n = 0; st == OK && n < r->o.max_lines && batch_lines_next(&r->job.lines); n++) {
		if (r->is_stopping)
			return fail_default(fail, E_DRAINING);
		if (!take_line(r, s, &line))
			continue;
		begin_answer(s, &s->answer);
		buf_addf(&s->answer, ",\"response\":null,\"error\":{\"code\":\"%s\",\"message\":"
			 "\"%s\"}}", is_cancelled ? "batch_cancelled" : "batch_expired",
			 is_cancelled ? "The batch was cancelled before this request was computed."
				      : "The batch's completion_window was over before this "
					"request was computed.");
		st = write_answer(r, s, true, fail);
		slot_free(s);
		json_decref(line.tree);
	}
	return st == OK ? check_lines(r, fail) : st;
}

/* --- the batch that runs -------------------------------------------------------------- */

static void let_go(struct batch_run *r)
{
	batch_journal_close(r->job.journal);
	r->job.journal = NULL;
	if (r->job.lines.fd >= 0)
		close(r->job.lines.fd);
	batch_lines_deinit(&r->job.lines);
	r->job = (struct batch_job){.lines = {.fd = -1}};
}

/* The answers have ids already: only the end is left to do. */
static bool is_named(const struct batch *b)
{
	return b->state == BATCH_FINALIZING || b->output[0] || b->errors[0];
}

static enum status open_batch(struct batch_run *r, struct fail *fail)
{
	struct batch *b = &r->job.batch;
	struct batch_file input;
	enum status st = OK;
	r->job.has_batch = true;
	r->job.pass = 1;
	r->job.lines = (struct batch_lines){.fd = -1, .max_bytes = r->o.max_line_bytes};
	r->job.endpoint = api_batch_endpoint(str_of(b->endpoint));
	if (!is_named(b))
		st = batch_files_open(r->o.store, b->owner, str_of(b->input),
				      &r->job.lines.fd, &input, fail);
	if (st == OK && !r->job.endpoint)
		st = fail_set(fail, E_FORMAT, "its endpoint is not known");
	if (st != OK || is_named(b))
		return st;
	batch_lines_rewind(&r->job.lines);
	st = batch_journal_open(r->o.store, b, &r->job.journal, fail);
	if (st != OK)
		return st;
	b->n_completed = batch_journal_completed(r->job.journal);
	b->n_failed = batch_journal_failed(r->job.journal);
	batch_records_progress(r->o.store, b);
	log_info("batch %s: %d requests to %s, %d of them answered", b->id, b->n_total, b->endpoint,
		 b->n_completed + b->n_failed);
	return OK;
}

static enum status adopt(struct batch_run *r, const char *id, bool is_failure,
			 struct fail *fail)
{
	char from[BATCH_ID + 16];
	const struct batch *b = &r->job.batch;
	struct batch_file f = {.owner = b->owner, .age_s = b->output_age_s};
	if (!id[0])
		return OK;
	snprintf(f.id, sizeof f.id, "%s", id);
	snprintf(f.name, sizeof f.name, "%s_%s.jsonl", b->id, is_failure ? "error" : "output");
	batch_journal_name(b->id, is_failure, from);
	return batch_files_adopt(r->o.store, &f, from, fail);
}

static enum status adopt_all(struct batch_run *r, struct fail *fail)
{
	enum status st = adopt(r, r->job.batch.output, false, fail);
	return st == OK ? adopt(r, r->job.batch.errors, true, fail) : st;
}

/* Gives the answers their ids, and closes the journal. */
static enum status name_answers(struct batch_run *r, struct fail *fail)
{
	struct batch *b = &r->job.batch;
	enum status st = batch_journal_sync(r->job.journal, fail);
	if (b->n_completed)
		batch_files_make_id(b->output);
	if (b->n_failed)
		batch_files_make_id(b->errors);
	if (b->state != BATCH_CANCELLING)
		b->state = BATCH_FINALIZING;
	if (b->state == BATCH_FINALIZING && r->job.is_ending)
		b->at_s[BATCH_EXPIRED] = now_s();
	if (st == OK)
		st = batch_records_move(r->o.store, b, fail);
	if (st != OK)
		return st;
	batch_journal_close(r->job.journal);
	r->job.journal = NULL;
	return OK;
}

/* Makes files of the answers, and ends the batch. Each step may be the last one of this process:
 * another one goes on behind it. */
static enum status finish_batch(struct batch_run *r, struct fail *fail)
{
	struct batch *b = &r->job.batch;
	enum status st = r->job.journal ? name_answers(r, fail) : OK;
	if (st == OK)
		st = adopt_all(r, fail);
	if (st != OK)
		return st;
	struct batch end = *b;
	end.state = b->state == BATCH_CANCELLING ? BATCH_CANCELLED
		    : b->at_s[BATCH_EXPIRED]     ? BATCH_EXPIRED
						 : BATCH_COMPLETED;
	st = batch_records_move(r->o.store, &end, fail);
	if (st != OK)
		return st;
	log_info("batch %s: ended, %d requests answered, %d failed", b->id, b->n_completed,
		 b->n_failed);
	let_go(r);
	return OK;
}

/* Not a fault that may be over the next time? */
static bool is_bad(enum status st)
{
	return st == E_NOT_FOUND || st == E_FORMAT;
}

/* Ends the job's batch, whose file or record has gone bad. Its answers so far become files. */
static enum status fail_batch(struct batch_run *r, const struct fail *why, struct fail *fail)
{
	struct batch *b = &r->job.batch;
	struct buf faults = {0};
	enum status st = OK;
	log_error("batch %s: %s", b->id, why->text);
	buf_add_z(&faults, "[{\"code\":\"unreadable_file\",\"message\":");
	buf_add_json(&faults, str_of(why->text));
	buf_add_z(&faults, ",\"param\":null,\"line\":null}]");
	if (b->state != BATCH_VALIDATING && !r->job.journal && !is_named(b))
		st = batch_journal_open(r->o.store, b, &r->job.journal, fail);
	if (st == OK && r->job.journal) {
		b->n_completed = batch_journal_completed(r->job.journal);
		b->n_failed = batch_journal_failed(r->job.journal);
		st = name_answers(r, fail);
	}
	if (st == OK)
		st = adopt_all(r, fail);
	b->state = BATCH_FAILED;
	b->faults = buf_take(&faults);
	if (st == OK)
		st = batch_records_move(r->o.store, b, fail);
	if (st != OK)
		free(b->faults);
	let_go(r);
	return st;
}

static int n_running(const struct batch_run *r)
{
	int n = 0;
	for (int i = 0; i < r->o.n_at_once; i++)
		n += r->slots[i].state != FREE;
	return n;
}

/* Cancelled, or too late? Then its requests are, too. */
static void look_at_end(struct batch_run *r)
{
	bool is_cancelled = batch_records_is_cancelled(r->o.store, r->job.batch.id);
	if (r->job.is_ending || !(is_cancelled || now_s() >= r->job.batch.expires_s))
		return;
	r->job.is_ending = true;
	if (is_cancelled) {
		r->job.batch.state = BATCH_CANCELLING;
		if (!r->job.batch.at_s[BATCH_CANCELLING])
			r->job.batch.at_s[BATCH_CANCELLING] = now_s();
	}
	for (int i = 0; i < r->o.n_at_once; i++)
		if (r->slots[i].state == RUNS)
			sched_cancel(r->o.sched, api_call_request(r->slots[i].call));
}

/* Lines were passed over because of the server: they are computed again. */
static void begin_pass(struct batch_run *r)
{
	r->job.pass++;
	r->job.has_left = r->job.is_read = false;
	batch_lines_rewind(&r->job.lines);
}

static enum status advance(struct batch_run *r, struct fail *fail)
{
	if (!r->job.journal)
		return finish_batch(r, fail);
	enum status st = write_answers(r, fail);
	if (st != OK)
		return st;
	look_at_end(r);
	if (!r->job.is_ending)
		start_lines(r);
	st = write_answers(r, fail); /* those that needed no engine */
	if (st != OK || n_running(r) || r->is_refused ||
	    !(r->job.is_read || r->job.is_ending))
		return st;
	st = check_lines(r, fail);
	if (st != OK) {
		let_go(r); /* it is opened anew */
		return st;
	}
	if (!r->job.is_ending && r->job.has_left) {
		begin_pass(r);
		return OK;
	}
	if (r->job.is_ending)
		st = answer_rest(r, r->job.batch.state == BATCH_CANCELLING, fail);
	return st == OK ? finish_batch(r, fail) : st;
}

/* Ends a batch that waits for its turn, beside the one that runs. */
static enum status end_waiting(struct batch_run *r, const struct batch *b, struct fail *fail)
{
	struct batch_job running = r->job;
	r->job = (struct batch_job){.batch = *b, .lines = {.fd = -1}};
	enum status st = open_batch(r, fail);
	r->job.is_ending = true;
	if (st == OK && r->job.journal)
		st = answer_rest(r, b->state == BATCH_CANCELLING, fail);
	if (st == OK)
		st = finish_batch(r, fail);
	if (is_bad(st))
		st = fail_batch(r, fail, fail);
	if (r->job.has_batch)
		let_go(r);
	r->job = running;
	return st;
}

/* --- the thread ----------------------------------------------------------------------- */

static enum status refuse_batch(struct batch_run *r, const struct batch *b, const struct fail *why,
				struct fail *fail)
{
	struct batch_job running = r->job;
	r->job = (struct batch_job){.batch = *b, .lines = {.fd = -1}};
	enum status st = fail_batch(r, why, fail);
	r->job = running;
	return st;
}

static enum status validate(struct batch_run *r, struct batch *b, struct fail *fail)
{
	const struct batch_rules rules = {
		b->endpoint, r->o.max_lines, r->o.max_line_bytes, &r->is_stopping,
		str_of(b->model), r->o.is_one, r->o.ctx};
	struct batch_file input;
	struct fail why;
	int fd;
	b->faults = NULL;
	enum status st = batch_files_open(r->o.store, b->owner, str_of(b->input), &fd, &input,
					  &why);
	if (is_bad(st))
		return refuse_batch(r, b, &why, fail);
	if (st != OK) {
		*fail = why;
		return st;
	}
	st = batch_check_file(fd, &rules, &b->n_total, &b->faults, fail);
	close(fd);
	b->state = b->faults ? BATCH_FAILED : BATCH_IN_PROGRESS;
	if (st == OK && !r->is_stopping)
		st = batch_records_move(r->o.store, b, fail);
	if (st != OK || r->is_stopping)
		free(b->faults);
	return st;
}

static enum status open_next(struct batch_run *r, struct fail *fail)
{
	struct fail why;
	r->job.batch = r->todo.run;
	enum status st = open_batch(r, &why);
	if (is_bad(st))
		return fail_batch(r, &why, fail);
	if (st != OK) {
		*fail = why;
		let_go(r);
	}
	return st;
}

static void look(struct batch_run *r)
{
	if (!r->has_looked)
		batch_records_look(r->o.store, &r->o.whose, now_s(), r->job.batch.id, &r->todo);
	r->has_looked = true;
}

static enum status step_batch(struct batch_run *r, struct fail *fail)
{
	enum status st = OK;
	for (int i = 0; i < r->o.n_at_once; i++)
		if (r->slots[i].state == RUNS)
			drain(r, &r->slots[i]);
	look(r);
	r->has_looked = false;
	if (r->todo.has_check)
		st = validate(r, &r->todo.check, fail);
	if (st == OK && (r->job.has_batch || !r->o.sched) && r->todo.has_end)
		st = end_waiting(r, &r->todo.end, fail);
	if (st == OK && r->o.sched && !r->job.has_batch && !r->is_refused && r->todo.has_run)
		st = open_next(r, fail);
	if (st == OK && r->job.has_batch)
		st = advance(r, fail);
	return st;
}

/* Is there something to do at once? */
static bool has_work(struct batch_run *r)
{
	if (r->is_refused || r->is_stopping)
		return false;
	look(r);
	if (r->todo.has_check || r->todo.has_end)
		return true;
	if (!r->o.sched)
		return false;
	if (!r->job.has_batch)
		return r->todo.has_run;
	return !r->job.is_ending && !r->job.is_read && !is_busy(r) && free_slot(r);
}

/* Microseconds until there may be something to do that nobody tells of. */
static int64_t wait_us(struct batch_run *r)
{
	int64_t due_s = now_s() + LONGEST_US / 1000000;
	if (r->job.has_batch && !r->is_refused && is_busy(r))
		return BUSY_US;
	due_s = MIN(due_s, r->todo.due_s);
	return MAX((due_s - now_s()) * 1000000, 1000000);
}

static void *run_batches(void *arg)
{
	struct batch_run *r = arg;
	struct fail fail;
	enum status told = OK;
	while (!r->is_stopping) {
		enum status st = step_batch(r, &fail);
		if (st != OK && told == OK && !r->is_stopping)
			log_error("batches wait: %s", fail.text);
		if (st == OK && told != OK)
			log_info("batches go on");
		told = st;
		if (st != OK)
			queue_wait(r->wake, RETRY_US);
		else if (has_work(r))
			continue;
		else
			queue_wait(r->wake, wait_us(r));
		r->has_looked = false;
	}
	return NULL;
}

enum status batch_run_start(const struct batch_run_opts *o, struct batch_run **out,
			    struct fail *fail)
{
	struct batch_run *r = xcalloc(1, sizeof *r);
	r->o = *o;
	r->job.lines.fd = -1;
	r->slots = xcalloc((size_t)o->n_at_once + 1, sizeof *r->slots);
	r->wake = queue_create(1);
	int rc = thread_start(&r->thread, "batches", run_batches, r);
	if (rc != 0) {
		queue_destroy(r->wake);
		free(r->slots);
		free(r);
		return fail_set(fail, E_LIMIT, "the thread of batches cannot be started: %s",
				strerror(rc));
	}
	*out = r;
	return OK;
}

void batch_run_wake(struct batch_run *r) { wake_up(r); }

void batch_run_stop(struct batch_run *r)
{
	struct fail fail;
	if (!r)
		return;
	r->is_stopping = true;
	queue_wake(r->wake);
	pthread_join(r->thread, NULL);
	for (int i = 0; i < r->o.n_at_once; i++)
		if (r->slots[i].state == RUNS)
			drain(r, &r->slots[i]);
	if (r->job.journal && write_answers(r, &fail) != OK)
		log_error("batch %s: %s", r->job.batch.id, fail.text);
	for (int i = 0; i < r->o.n_at_once; i++)
		if (r->slots[i].state != FREE)
			slot_free(&r->slots[i]);
	if (r->job.has_batch)
		let_go(r);
	queue_destroy(r->wake);
	free(r->slots);
	free(r);
}
