/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/sse_call.h"

#include "base/alloc.h"
#include "tests/tap.h"

static int n_ended, n_without_reason;

static void on_end(struct sse_call *s)
{
	n_ended++;
	n_without_reason += !*s->error;
	sse_call_deinit(s);
	free(s);
}

/* A run that fails leaves requests that have not ended. */
int main(void)
{
	struct sse_calls all;
	struct fail fail;
	enum status st = sse_calls_open(&all, "http://127.0.0.1:1/", NULL, 60, &fail);
	for (int i = 0; i < 3 && st == OK; i++) {
		struct sse_call *s = xcalloc(1, sizeof *s);
		s->on_end = on_end;
		buf_add_z(&s->body, "{}");
		st = sse_calls_start(&all, s, &fail);
	}
	is_int(st, OK, "three requests are started");
	sse_calls_close(&all);
	is_int(n_ended, 3, "each ends with all");
	is_int(n_without_reason, 0, "and is told why");
	is_int(all.n_active, 0, "none is left");
	return tap_done();
}
