/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body of a call or of a text request: the first says for which address. It
 * has a tenth of the work that the server grants, so that none takes long. What is accepted
 * must be within the bounds that the scheduler relies on, what is refused has words. Run in the
 * source folder: it reads models/halo-tiny.
 */
#include <assert.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/work.h"

#define WORK 1500000

/* In the order of endpoint.def, as tests/fuzz/attacks.py reads it. */
static const struct {
	const struct dialect *dialect;
	api_text_fn text;
} endpoints[] = {
#define ENDPOINT_CALL(path, name, flags, docs) {&dialect_##name, NULL},
#define ENDPOINT_TEXT(path, name, flags, docs) {NULL, api_##name},
#define ENDPOINT_PAGE(method, path, name, flags, docs)
#include "api/endpoint.def"
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct api *open_api(void)
{
	static struct model *model;
	struct api *a = NULL;
	if (model_open("models/halo-tiny", NULL, &model, NULL) != OK)
		abort();
	const struct api_opts o = {.model = model,
				   .model_name = "halo-tiny",
				   .n_ctx = 4096,
				   .clock = &clock_monotonic};
	if (api_create(&o, &a, NULL) != OK)
		abort();
	return a;
}

static void check(const struct request *r)
{
	if (r->n_prompts < 1 || r->n < 1 || r->n_prompts * r->n > 128)
		abort();
	for (int i = 0; i < r->n_prompts; i++) {
		if (r->prompts[i].n == 0 || r->prompts[i].n >= 4096)
			abort();
		for (size_t k = 0; k < r->prompts[i].n; k++)
			if (r->prompts[i].p[k] < 0 || r->prompts[i].p[k] >= 3200)
				abort();
	}
}

static enum status ask(const struct api *api, size_t i, struct str body, struct fail *fail)
{
	const struct api_input in = {.dialect = endpoints[i].dialect, .body = body,
				     .type = STR("multipart/form-data; boundary=edge")};
	struct work_budget work;
	struct api_call *c;
	struct buf out = {0};
	enum status st;
	work_begin(&work, WORK);
	if (endpoints[i].text) {
		st = endpoints[i].text(api, &in, &out, fail);
	} else {
		st = api_call_create(api, &in, &c, fail);
		if (st == OK) {
			check(api_call_request(c));
			request_unref(api_call_request(c));
			api_call_destroy(c);
		}
	}
	work_end();
	buf_deinit(&out);
	if (st == E_LIMIT)
		work_fail(&work, fail);
	return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct api *api;
	struct fail fail = {0};
	if (!api)
		api = open_api();
	if (n == 0)
		return 0;
	struct str body = {(const char *)data + 1, n - 1};
	if (ask(api, data[0] % ARRAY_LEN(endpoints), body, &fail) != OK) {
		struct buf out = {0};
		assert(fail.code != OK && fail.text[0]);
		api_error_format(&fail, &out);
		buf_deinit(&out);
	}
	return 0;
}
