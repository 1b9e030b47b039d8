/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls are made on several worker threads at once. Run under ThreadSanitizer it
 * also says that they share nothing they write.
 */
#include <pthread.h>

#include "api/api_private.h"
#include "base/alloc.h"
#include "tests/unit/api/fixture.h"

#define N_THREADS 4
#define N_CALLS 25

/* Grammars of calls, of which there are three, are shared as they are made, and so are the
 * tokens of a long message. */
#define KIND "Be kind to all who ask you, and tell them what you know. "
static const char *const bodies[] = {
#define BODY(max) \
	"{\"messages\":[{\"role\":\"system\",\"content\":\"" \
	KIND KIND KIND KIND KIND KIND "\"}," \
	"{\"role\":\"user\",\"content\":\"Who are you? \xf0\x9f\xa6\x8a\"}]," \
	"\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":true}}],\"stop\":[\"x\"]," \
	"\"logit_bias\":{\"5\":1},\"guided_json\":{\"maxLength\":" #max "}}"
	BODY(1), BODY(2), BODY(3),
};
static const char response[] = "{\"input\":\"q\"}";

struct worker {
	pthread_t thread;
	const struct api *api;
	const struct request *want;
	int n_same;
	int n_kept;
	uint64_t seeds; /* of all calls, added up */
};

static bool is_same(const struct request *a, const struct request *b)
{
	const struct ids *p = a->prompts, *q = b->prompts;
	return p->n == q->n && memcmp(p->p, q->p, p->n * sizeof *p->p) == 0;
}

/* A response that is stored, asked for and deleted: true when each did what it says. */
static bool keep(const struct api *a)
{
	const struct event started = {.kind = EVENT_STARTED}, done = {.kind = EVENT_DONE};
	struct api_call *c = fixture_call(a, &dialect_responses, response);
	struct buf out = {0}, body = {0};
	api_call_on_event(c, &started, &out);
	api_call_on_event(c, &done, &out);
	const char *id = strstr(out.p, "\"resp_");
	struct str s = {id ? id + 1 : "", id ? strcspn(id + 1, "\"") : 0};
	struct api_kept kept = {.id = s};
	bool is_kept = api_response_format(a->own_memory, kept, &body, NULL) == OK &&
		       api_response_delete(a->own_memory, kept, &body, NULL) == OK &&
		       api_response_format(a->own_memory, kept, &body, NULL) == E_NOT_FOUND;
	buf_deinit(&out);
	buf_deinit(&body);
	fixture_drop(c);
	return is_kept;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (int i = 0; i < N_CALLS; i++) {
		const char *body = bodies[i % ARRAY_LEN(bodies)];
		struct api_call *c = fixture_call(w->api, &dialect_chat, body);
		w->n_same += is_same(api_call_request(c), w->want);
		w->seeds += api_call_request(c)->sampling.seed;
		fixture_drop(c);
		w->n_kept += keep(w->api);
	}
	return NULL;
}

int main(void)
{
	struct api *a = fixture_api();
	struct api_call *first = fixture_call(a, &dialect_chat, bodies[0]);
	struct worker w[N_THREADS];
	for (int i = 0; i < N_THREADS; i++) {
		w[i] = (struct worker){.api = a, .want = api_call_request(first)};
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(w[i].thread, NULL);
	for (int i = 0; i < N_THREADS; i++) {
		is_int(w[i].n_same, N_CALLS, "thread %d: the same prompt each time", i);
		is_int(w[i].n_kept, N_CALLS, "thread %d: its responses", i);
		ok(i == 0 || w[i].seeds != w[0].seeds, "thread %d: seeds of its own",
		   i);
	}
	fixture_drop(first);
	return tap_done();
}
