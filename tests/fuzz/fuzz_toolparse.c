/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a model's answer: the first says in which format, the second how
 * they are cut. Complete calls must have a name and whole JSON objects as arguments,
 * and what comes out must not depend on the cuts.
 */
#include <stdlib.h>

#include "output/jsonscan.h"
#include "output/outparse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void take(struct buf *all, struct buf *args, const struct out_span *s, int n)
{
	for (int i = 0; i < n; i++) {
		bool is_args = s[i].channel == OUT_CALL_ARGS;
		if (s[i].channel == OUT_CALL_NAME)
			buf_clear(args);
		if (is_args)
			buf_add_str(args, s[i].text);
		if (s[i].channel == OUT_CALL_END &&
		    (!jsonscan_is_value(buf_str(args)) || args->p[0] != '{'))
			abort();
		buf_add_str(all, s[i].text);
	}
}

static void parse(struct str text, int format, size_t step, struct buf *all)
{
	const struct outparse_opts o = {
		.split_reasoning = true, .think_open = STR("<think>"),
		.think_close = STR("</think>"),
		.tools = {.format = &tool_formats[format % n_tool_formats]}};
	struct outparse *p = outparse_create(&o);
	const struct out_span *s;
	struct buf args = {0};
	for (size_t at = 0; at < text.n; at += step) {
		struct str piece = {text.p + at, text.n - at < step ? text.n - at : step};
		int n = outparse_push(p, piece, &s);
		take(all, &args, s, n);
	}
	int n = outparse_finish(p, false, &s);
	take(all, &args, s, n);
	buf_deinit(&args);
	outparse_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 3)
		return 0;
	struct str text = {(const char *)data + 2, n - 2};
	struct buf whole = {0}, cut = {0};
	parse(text, data[0], text.n, &whole);
	parse(text, data[0], (size_t)data[1] % 7 + 1, &cut);
	if (!str_eq(buf_str(&whole), buf_str(&cut)))
		abort();
	buf_deinit(&whole);
	buf_deinit(&cut);
	return 0;
}
