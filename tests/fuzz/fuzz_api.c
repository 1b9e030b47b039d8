/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body of a call: the first says of which kind. What is accepted
 * must be within the bounds that the scheduler relies on. Run in the source folder:
 * it reads models/halo-tiny.
 */
#include <stdlib.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/clock.h"

static const struct dialect *const dialects[] = {
	&dialect_chat, &dialect_completion, &dialect_anthropic, &dialect_responses,
	&dialect_infill};

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct api *api;
	if (!api)
		api = open_api();
	if (n == 0)
		return 0;
	const struct api_input in = {
		.dialect = dialects[data[0] % ARRAY_LEN(dialects)],
		.body = {(const char *)data + 1, n - 1},
	};
	struct api_call *c;
	struct fail fail;
	if (api_call_create(api, &in, &c, &fail) != OK) {
		struct buf out = {0};
		api_error_format(&fail, &out);
		buf_deinit(&out);
		return 0;
	}
	check(api_call_request(c));
	request_unref(api_call_request(c));
	api_call_destroy(c);
	return 0;
}
