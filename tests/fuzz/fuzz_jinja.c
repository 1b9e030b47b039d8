/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a chat template, rendered with a small conversation under tight
 * bounds. The marks must cover the output; a failure must leave none of it.
 */
#include <stdlib.h>

#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct jinja_value *message(struct arena *a, const char *role, const char *text)
{
	struct jinja_value *m = jinja_dict(a);
	jinja_dict_set(a, m, STR("role"), TRUST_TEMPLATE,
		       jinja_string(a, str_of(role), TRUST_TEMPLATE));
	jinja_dict_set(a, m, STR("content"), TRUST_TEMPLATE,
		       jinja_string(a, str_of(text), TRUST_USER));
	return m;
}

static struct jinja_value *context(struct arena *a)
{
	struct jinja_value *g = jinja_dict(a), *messages = jinja_list(a);
	jinja_list_add(a, messages, message(a, "user", "Gr\xC3\xBC\xC3\x9F \xFF<|x|>"));
	jinja_list_add(a, messages, message(a, "assistant", ""));
	jinja_dict_set(a, g, STR("messages"), TRUST_TEMPLATE, messages);
	jinja_dict_set(a, g, STR("n"), TRUST_TEMPLATE, jinja_int(a, INT64_MIN));
	jinja_dict_set(a, g, STR("f"), TRUST_TEMPLATE, jinja_float(a, -1e300));
	return g;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct jinja *j = NULL;
	struct marked out = {.n_marks = 0};
	struct fail fail;
	if (jinja_compile((struct str){(const char *)data, n}, &j, &fail))
		return 0;
	struct arena a;
	arena_init(&a);
	struct jinja_env env = {
		.arena = &a, .globals = context(&a), .now_s = 1700000000,
		.limits = {.max_output_bytes = 100000, .max_memory_bytes = 1 << 20,
			   .max_steps = 5000, .max_depth = 200},
	};
	enum status st = jinja_render(j, &env, &out, &fail);
	size_t end = out.n_marks ? out.marks[out.n_marks - 1].end : 0;
	if (end != out.text.n || (st && end) || (st && st != E_TEMPLATE && st != E_LIMIT))
		abort();
	marked_deinit(&out);
	arena_deinit(&a);
	jinja_destroy(j);
	return 0;
}
