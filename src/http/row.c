/* SPDX-License-Identifier: Apache-2.0 */
#include "http/row.h"

#include <math.h>
#include <time.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/metrics.h"
#include "http/conn.h"

void row_init(struct model_row *r)
{
	*r = (struct model_row){.state = ROW_UNLOADED};
	TAILQ_INIT(&r->waiting);
}

const char *row_state_name(enum row_state s)
{
	static const char *const names[] = {"unloaded", "loading", "loaded", "sleeping",
					    "failed"};
	return names[s];
}

bool row_has_name(const struct model_row *r, struct str name)
{
	return api_is_one_of(name, r->name, r->aliases, r->n_aliases);
}

struct model_row *row_named(struct http *h, struct str name)
{
	for (int i = 0; i < h->opts.n_rows; i++)
		if (row_has_name(&h->opts.rows[i], name))
			return &h->opts.rows[i];
	return NULL;
}

struct model_row *row_front(struct http *h)
{
	struct model_row *front = NULL;
	for (int i = 0; i < h->opts.n_rows; i++) {
		struct model_row *r = &h->opts.rows[i];
		if (r->is_listener)
			continue;
		if (r->state == ROW_LOADED)
			return r;
		if (!front || (!front->api && r->api))
			front = r;
	}
	return front;
}

/* The state of embedding and rerank models, of which no row is in memory that shows them: a load of
 * any model brings them. */
static enum row_state state_of_embedders(const struct http_opts *o)
{
	static const enum row_state best[] = {ROW_LOADING, ROW_SLEEPING, ROW_UNLOADED};
	for (size_t k = 0; k < ARRAY_LEN(best); k++)
		for (int i = 0; i < o->n_rows; i++)
			if (o->rows[i].state == best[k] && !o->rows[i].is_listener)
				return best[k];
	return ROW_FAILED;
}

/* When it goes to sleep if no further request comes, in seconds since 1970; 0: it stays. */
static int64_t end_of(struct http *h, const struct model_row *r)
{
	int64_t idle_us = r->n_calls > 0 ? 0 : server_now(h) - r->used_us;
	return r->sleep_us > 0 ? (int64_t)time(NULL) + (r->sleep_us - idle_us) / 1000000 : 0;
}

struct api_row *row_list(struct http *h, int *out_n)
{
	const struct http_opts *o = &h->opts;
	struct api_row *all = xcalloc((size_t)o->n_rows + ARRAY_LEN(o->embedders) + 1, sizeof *all);
	bool shows_embedders = false;
	int n = 0;
	for (; n < o->n_rows; n++) {
		const struct model_row *r = &o->rows[n];
		all[n] = (struct api_row){.name = r->name, .aliases = r->aliases,
					  .n_aliases = r->n_aliases, .api = r->api,
					  .state = row_state_name(r->state),
					  .is_loaded = r->state == ROW_LOADED,
					  .load_s = r->load_s, .ends_s = end_of(h, r),
					  .why = r->state == ROW_FAILED ? r->why.text : NULL};
		shows_embedders |= r->state == ROW_LOADED && !r->is_listener;
	}
	for (size_t i = 0; i < ARRAY_LEN(o->embedders) && !shows_embedders; i++)
		if (o->embedders[i])
			all[n++] = (struct api_row){.name = o->embedders[i],
						    .state = row_state_name(state_of_embedders(o))};
	*out_n = n;
	return all;
}

/* --- which one -------------------------------------------------------------------- */

static struct model_row *fail_row(struct str name, struct fail *fail)
{
	fail_at(fail, E_MODEL, "model", "the model `%.*s` is not served here: /v1/models lists "
		"those that are", (int)MIN(name.n, 100), name.p);
	return NULL;
}

/* The row with which a request waits least that needs any model's: one that is open, else one that
 * will be, else the first that has not failed. */
static struct model_row *find_any(struct http *h)
{
	for (int i = 0; i < h->opts.n_rows; i++)
		if (row_is_open(&h->opts.rows[i]) && !h->opts.rows[i].is_listener)
			return &h->opts.rows[i];
	for (int i = 0; i < h->opts.n_rows; i++)
		if (h->opts.rows[i].state == ROW_LOADING && !h->opts.rows[i].is_listener)
			return &h->opts.rows[i];
	for (int i = 0; i < h->opts.n_rows; i++)
		if (h->opts.rows[i].why.code == OK && !h->opts.rows[i].is_listener)
			return &h->opts.rows[i];
	return row_front(h);
}

/* The row of requests that name no model. */
static struct model_row *unnamed(struct http *h, unsigned flags)
{
	for (int i = 0; (flags & ROUTE_HEARS) && i < h->opts.n_rows; i++)
		if (h->opts.rows[i].is_listener)
			return &h->opts.rows[i];
	return h->opts.rows;
}

const struct peek *row_peek(struct conn *c)
{
	const unsigned flags = c->route->flags;
	if (c->has_peek)
		return &c->peek;
	c->has_peek = true;
	if (flags & ROUTE_FORM)
		peek_form(str_of(c->type ? c->type : ""), buf_str(&c->body.buf), &c->peek);
	else
		peek_body(buf_str(&c->body.buf), flags & ROUTE_OLLAMA, &c->peek);
	return &c->peek;
}

static bool is_embedder(const struct http *h, struct str name)
{
	bool is_so = false;
	for (size_t i = 0; i < ARRAY_LEN(h->opts.embedders); i++)
		is_so |= h->opts.embedders[i] && api_is_named(name, h->opts.embedders[i]);
	return is_so;
}

struct model_row *row_choose(struct conn *c, struct fail *fail)
{
	struct http *h = c->http;
	const unsigned flags = c->route->flags;
	struct model_row *r = unnamed(h, flags);
	if (h->opts.n_rows == 1)
		return r;
	if (flags & ROUTE_ANY)
		return find_any(h);
	struct str name = buf_str(&row_peek(c)->model);
	/* Each model's api describes the embedders. Any says what is wrong with a body. */
	if ((flags & ROUTE_LOOK) && (!name.n || is_embedder(h, name)))
		return find_any(h);
	struct model_row *named = name.n ? row_named(h, name) : r;
	if (!named && (flags & ROUTE_HEARS) && str_is(name, PEEK_ANY_HEARER))
		named = r;
	if (!named)
		fail_row(name, fail);
	return named;
}

/* Decodes %2F to a slash, as clients spell it in a query. */
static void decode(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		int byte = s.p[i] == '%' && i + 2 < s.n ? hex_pair(s.p + i + 1) : -1;
		buf_add_c(out, byte > 0 ? (char)byte : s.p[i]);
		i += byte > 0 ? 2 : 0;
	}
}

struct model_row *row_asked(struct conn *c, struct fail *fail)
{
	struct model_row *r = row_front(c->http);
	struct buf name = {0};
	struct str text;
	if (route_argument(c->sock->head.target, "model", &text)) {
		decode(text, &name);
		r = row_named(c->http, buf_str(&name));
		if (!r)
			fail_row(buf_str(&name), fail);
	}
	buf_deinit(&name);
	if (!r || r->api)
		return r;
	fail_set(fail, E_LOADING, "the model `%s` is not in memory: a request for it loads it",
		 r->name);
	return NULL;
}

/* --- waiting ---------------------------------------------------------------------- */

/* Until it is likely to be in memory. */
static int seconds_of(const struct http *h, const struct model_row *r)
{
	double s = (double)(r->ready_us - server_now(h)) * 1e-6;
	return (int)MIN(MAX(ceil(s > 0 ? s : r->load_s), 1), 600);
}

static void count_waiting(struct http *h)
{
	int n = 0;
	for (int i = 0; i < h->opts.n_rows; i++)
		n += h->opts.rows[i].n_waiting;
	metric_share(METRIC_REQUESTS_WAITING, &h->told_waiting, n);
}

/* The request waits no more: it is over, or goes on. Does nothing where it did not wait. */
static void leave_waiting(struct conn *c)
{
	if (!c->waits)
		return;
	c->waits = false;
	TAILQ_REMOVE(&c->row->waiting, c, row_link);
	c->row->n_waiting--;
	count_waiting(c->http);
}

/* Ends a request that waits, or that was about to. */
static void refuse_waiting(struct conn *c, const struct fail *f)
{
	c->fail = *f;
	leave_waiting(c);
	call_refuse(c, &c->fail);
	c->answer.retry_after_s = seconds_of(c->http, c->row);
	conn_resume(c);
}

void row_wait(struct conn *c)
{
	struct http *h = c->http;
	struct model_row *r = c->row;
	struct fail f;
	h->opts.on_need(h->opts.rows_ctx, r);
	if (r->state == ROW_FAILED) {
		refuse_waiting(c, &r->why);
		return;
	}
	if (r->n_waiting >= h->opts.max_waiting) {
		fail_set(&f, E_LOADING, "%d requests wait for the model `%s`, which takes about "
			 "%d s to load", r->n_waiting, r->name, seconds_of(h, r));
		refuse_waiting(c, &f);
		return;
	}
	c->asks_stream = row_peek(c)->is_stream && api_breaks_silence(c->route->dialect);
	c->waits = true;
	TAILQ_INSERT_TAIL(&r->waiting, c, row_link);
	r->n_waiting++;
	count_waiting(h);
	c->stream.last_us = server_now(h);
	conn_set_state(c, CONN_WAITING);
	conn_watch(c, true);
}

void row_tick(struct conn *c, int64_t now_us)
{
	const struct http_opts *o = &c->http->opts;
	int64_t age_us = now_us - c->arrival_us;
	struct fail f;
	if (!c->waits || c->end != END_NONE)
		return;
	bool is_late = o->max_wait_us > 0 && age_us >= o->max_wait_us;
	bool is_over = o->request_timeout_us > 0 && age_us >= o->request_timeout_us;
	if (!is_late && !is_over)
		return;
	fail_set(&f, E_TIMEOUT, "the request waited %.1f s for the model `%s`",
		 (double)age_us * 1e-6, c->row->name);
	refuse_waiting(c, &f);
}

void row_changed(struct model_row *r)
{
	struct conn *c, *next;
	for (c = TAILQ_FIRST(&r->waiting); c; c = next) {
		next = TAILQ_NEXT(c, row_link);
		if (c->end != END_NONE) {
			leave_waiting(c); /* its connection is about to be released */
		} else if (row_is_open(r)) {
			leave_waiting(c);
			call_begin(c);
		}
	}
	if (r->state == ROW_FAILED)
		row_refuse(r, &r->why);
}

void row_refuse(struct model_row *r, const struct fail *f)
{
	struct conn *c, *next;
	for (c = TAILQ_FIRST(&r->waiting); c; c = next) {
		next = TAILQ_NEXT(c, row_link);
		if (c->end == END_NONE)
			refuse_waiting(c, f);
	}
}

/* --- in use ----------------------------------------------------------------------- */

void row_hold(struct conn *c)
{
	c->has_row = true;
	c->row->n_calls++;
}

void row_release(struct conn *c)
{
	struct model_row *r = c->row;
	leave_waiting(c);
	if (!c->has_row)
		return;
	c->has_row = false;
	r->used_us = server_now(c->http);
	if (--r->n_calls == 0 && c->http->opts.on_idle)
		c->http->opts.on_idle(c->http->opts.rows_ctx, r);
}
