/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to one address whose answers are streams of chunks, many of them at a time. Thread:
 * main.
 */
#pragma once
#include <jansson.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "ctl/sse_read.h"

/* One request. The caller sets body, on_chunk and on_end, and has it stay until on_end. */
struct sse_call {
	struct buf body; /* JSON */
	/* Called for each chunk, which is an object. now_us: when its bytes came. */
	void (*on_chunk)(struct sse_call *s, const json_t *chunk);
	/* The request is over: sse_call_deinit may be called. */
	void (*on_end)(struct sse_call *s);
	int64_t start_us, now_us; /* of clock_monotonic */
	long status;     /* of HTTP, at the end; 0: no answer came */
	char error[200]; /* why it is no whole answer; "": it is */
	/* private */
	LIST_ENTRY(sse_call) link;
	void *easy;
	struct buf other; /* an answer that is no stream */
	struct sse sse;
	bool is_done; /* [DONE] was seen */
};
void sse_call_deinit(struct sse_call *s);

struct sse_calls {
	int n_active; /* requests that are not over */
	/* private */
	LIST_HEAD(, sse_call) active;
	void *multi;
	struct curl_slist *headers;
	const char *url;
	long timeout_s;
};

/* url: borrowed. api_key NULL: none. timeout_s: limit for one request. Call sse_calls_close also
 * after a failure. E_IO: curl has no memory. */
enum status sse_calls_open(struct sse_calls *all, const char *url, const char *api_key,
			   long timeout_s, struct fail *fail) MUST_USE;
/* E_IO: curl takes no request. */
enum status sse_calls_start(struct sse_calls *all, struct sse_call *s, struct fail *fail) MUST_USE;
/* Does what there is to do, or waits for it, a second at most. E_IO: curl has failed. */
enum status sse_calls_go_on(struct sse_calls *all, struct fail *fail) MUST_USE;
/* Ends the requests that run, too: their on_end is called and starts no other. */
void sse_calls_close(struct sse_calls *all);
