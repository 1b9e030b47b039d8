/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls are made on several worker threads at once. Run under ThreadSanitizer it
 * also says that they share nothing they write.
 */
#include <pthread.h>

#include "tests/unit/api/fixture.h"

#define N_THREADS 4
#define N_CALLS 25

static const char body[] =
	"{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind\"},"
	"{\"role\":\"user\",\"content\":\"Who are you? \xf0\x9f\xa6\x8a\"}],"
	"\"tools\":[{\"function\":{\"name\":\"f\"}}],\"stop\":[\"x\"],"
	"\"logit_bias\":{\"5\":1}}";

struct worker {
	pthread_t thread;
	const struct api *api;
	const struct request *want;
	int n_same;
	uint64_t seeds; /* of all calls, added up */
};

static bool is_same(const struct request *a, const struct request *b)
{
	const struct ids *p = a->prompts, *q = b->prompts;
	return p->n == q->n && memcmp(p->p, q->p, p->n * sizeof *p->p) == 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (int i = 0; i < N_CALLS; i++) {
		struct api_call *c = fixture_call(w->api, API_CHAT, body);
		w->n_same += is_same(api_call_request(c), w->want);
		w->seeds += api_call_request(c)->sampling.seed;
		fixture_drop(c);
	}
	return NULL;
}

int main(void)
{
	struct api *a = fixture_api();
	struct api_call *first = fixture_call(a, API_CHAT, body);
	struct worker w[N_THREADS];
	for (int i = 0; i < N_THREADS; i++) {
		w[i] = (struct worker){.api = a, .want = api_call_request(first)};
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(w[i].thread, NULL);
	for (int i = 0; i < N_THREADS; i++) {
		is_int(w[i].n_same, N_CALLS, "thread %d: the same prompt each time", i);
		ok(i == 0 || w[i].seeds != w[0].seeds, "thread %d: seeds of its own",
		   i);
	}
	fixture_drop(first);
	return tap_done();
}
