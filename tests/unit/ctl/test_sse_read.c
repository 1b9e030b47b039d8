/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/sse_read.h"

#include "base/alloc.h"
#include "tests/tap.h"

static void on_data(void *ctx, struct str data)
{
	struct buf *seen = ctx;
	buf_add_str(seen, data);
	buf_add_c(seen, '|');
}

static const char stream[] =
	": keepalive\n\n"
	"data: one\n\n"
	"data:two\r\n\r\n"
	"event: x\nid: 7\ndata: three\ndata: lines\n\n"
	"\n\n"
	"data:\n\n"
	"data: unfinished\n";

int main(void)
{
	static const char want[] = "one|two|three\nlines||";
	/* Cut into pieces of every size: the answer must not depend on it. */
	int right = 0;
	for (size_t piece = 1; piece <= sizeof stream; piece++) {
		struct sse s = {0};
		struct buf seen = {0};
		for (size_t at = 0; at < sizeof stream - 1; at += piece) {
			size_t n = MIN(piece, sizeof stream - 1 - at);
			if (sse_push(&s, stream + at, n, on_data, &seen) != OK)
				abort();
		}
		right += str_is(buf_str(&seen), want);
		sse_deinit(&s);
		buf_deinit(&seen);
	}
	is_int(right, sizeof stream, "events, however the bytes are cut");

	struct sse s = {0};
	struct buf seen = {0};
	char block[4096];
	memset(block, 'x', sizeof block);
	enum status st = OK;
	for (int i = 0; i < 5000 && st == OK; i++)
		st = sse_push(&s, block, sizeof block, on_data, &seen);
	is_int(st, E_LIMIT, "a line without end is given up");
	sse_deinit(&s);
	buf_deinit(&seen);
	return tap_done();
}
