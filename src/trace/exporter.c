/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/exporter.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"

#define MAX_QUEUE 2048
#define BATCH 256         /* most traces in a request */
#define TIMEOUT_S 5
#define SAY_EVERY_US 60000000

struct waiting {
	char *text;
	int n; /* spans in text */
};

struct exporter {
	char *endpoint, *version;
	long timeout_s;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t has_news;
	struct waiting *queue; /* (max_queue) a ring; its oldest entry is at `first` */
	int max_queue, first, n_queued;
	bool is_stopping;
	int64_t said_us; /* only the thread's: when it last logged a failure */
};

/* --- the thread --------------------------------------------------------------- */

/* Moves up to BATCH traces to out. Waits for the first one. 0: the exporter ends. */
static int exporter_take(struct exporter *e, struct waiting *out)
{
	int n = 0;
	pthread_mutex_lock(&e->lock);
	while (e->n_queued == 0 && !e->is_stopping)
		pthread_cond_wait(&e->has_news, &e->lock);
	for (; n < BATCH && e->n_queued > 0; n++) {
		out[n] = e->queue[e->first];
		e->first = (e->first + 1) % e->max_queue;
		e->n_queued--;
	}
	pthread_mutex_unlock(&e->lock);
	return n;
}

static void make_body(const struct exporter *e, const struct waiting *w, int n, struct buf *out)
{
	buf_add_z(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
		  "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"halod\"}},"
		  "{\"key\":\"service.version\",\"value\":{\"stringValue\":");
	buf_add_json(out, str_of(e->version));
	buf_add_z(out, "}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"halod\"},\"spans\":[");
	for (int i = 0; i < n; i++)
		buf_addf(out, "%s%s", i ? "," : "", w[i].text);
	buf_add_z(out, "]}]}]}");
}

static size_t ignore(char *p, size_t size, size_t n, void *ctx)
{
	(void)p, (void)ctx;
	return size * n;
}

/* Sends one request. False, with the reason in why: the collector did not accept it. */
static bool post(const struct exporter *e, struct str body, char why[CURL_ERROR_SIZE + 40])
{
	CURL *curl = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	char error[CURL_ERROR_SIZE] = "";
	long status = 0;
	headers = curl_slist_append(headers, "Expect:");
	curl_easy_setopt(curl, CURLOPT_URL, e->endpoint);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, e->timeout_s);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.p);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
	CURLcode code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK)
		snprintf(why, CURL_ERROR_SIZE + 40, "%s",
			 *error ? error : curl_easy_strerror(code));
	else
		snprintf(why, CURL_ERROR_SIZE + 40, "it answered with status %ld", status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	return code == CURLE_OK && status >= 200 && status < 300;
}

/* Logs a failure, once a minute at most: a collector that is down would fill the log. */
static void exporter_tell(struct exporter *e, int n_spans, const char *why)
{
	int64_t now = clock_now_us(&clock_monotonic);
	if (e->said_us && now - e->said_us < SAY_EVERY_US)
		return;
	e->said_us = now;
	log_warn("the collector at %s has not taken %d spans: %s. They are dropped, and "
		 "counted in halod_trace_spans_dropped_total", e->endpoint, n_spans, why);
}

static void *main_of_thread(void *arg)
{
	struct exporter *e = arg;
	struct waiting *w = xcalloc(BATCH, sizeof *w);
	char why[CURL_ERROR_SIZE + 40];
	for (int n; (n = exporter_take(e, w)) > 0;) {
		struct buf body = {0};
		int n_spans = 0;
		make_body(e, w, n, &body);
		for (int i = 0; i < n; i++)
			n_spans += w[i].n;
		if (post(e, buf_str(&body), why)) {
			metric_add(METRIC_SPANS_SENT, n_spans);
		} else {
			metric_add_by(METRIC_SPANS_DROPPED, "not_taken", n_spans);
			exporter_tell(e, n_spans, why);
		}
		for (int i = 0; i < n; i++)
			free(w[i].text);
		buf_deinit(&body);
	}
	free(w);
	return NULL;
}

/* --- io ----------------------------------------------------------------------- */

enum status exporter_create(const struct exporter_opts *o, struct exporter **out,
			    struct fail *fail)
{
	if (strncasecmp(o->endpoint, "http://", 7) != 0 &&
	    strncasecmp(o->endpoint, "https://", 8) != 0)
		return fail_at(fail, E_CONFIG, "otlp_endpoint", "otlp_endpoint is %.200s, which "
			       "is no address of HTTP; as in http://127.0.0.1:4318/v1/traces",
			       o->endpoint);
	struct exporter *e = xcalloc(1, sizeof *e);
	e->endpoint = xstrdup(o->endpoint);
	e->version = xstrdup(o->version);
	e->max_queue = o->max_queue ? o->max_queue : MAX_QUEUE;
	e->timeout_s = o->timeout_s ? o->timeout_s : TIMEOUT_S;
	e->queue = xcalloc((size_t)e->max_queue, sizeof *e->queue);
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->has_news, NULL);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (thread_start(&e->thread, "otlp", main_of_thread, e) != 0)
		abort();
	*out = e;
	return OK;
}

void exporter_add(struct exporter *e, struct buf *spans, int n)
{
	buf_add_c(spans, '\0');
	struct waiting w = {.text = buf_take(spans), .n = n};
	pthread_mutex_lock(&e->lock);
	bool is_full = e->n_queued == e->max_queue;
	if (!is_full)
		e->queue[(e->first + e->n_queued++) % e->max_queue] = w;
	pthread_cond_signal(&e->has_news);
	pthread_mutex_unlock(&e->lock);
	if (is_full) {
		metric_add_by(METRIC_SPANS_DROPPED, "queue_full", n);
		free(w.text);
	}
}

/* Drops all but one batch: the server's end must not wait for a slow collector. */
static void drop_rest(struct exporter *e)
{
	pthread_mutex_lock(&e->lock);
	for (; e->n_queued > BATCH; e->n_queued--) {
		struct waiting w = e->queue[(e->first + e->n_queued - 1) % e->max_queue];
		metric_add_by(METRIC_SPANS_DROPPED, "queue_full", w.n);
		free(w.text);
	}
	e->is_stopping = true;
	pthread_cond_signal(&e->has_news);
	pthread_mutex_unlock(&e->lock);
}

void exporter_destroy(struct exporter *e)
{
	if (!e)
		return;
	drop_rest(e);
	pthread_join(e->thread, NULL);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->has_news);
	free(e->queue);
	free(e->endpoint);
	free(e->version);
	free(e);
}
