/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/sse_read.h"

#define MAX_BYTES ((size_t)16 << 20)

static void on_line(struct sse *s, struct str line,
		    void (*on_data)(void *ctx, struct str data), void *ctx)
{
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	if (line.n == 0) { /* an empty line ends the event */
		if (s->has_data)
			on_data(ctx, buf_str(&s->data));
		buf_clear(&s->data);
		s->has_data = false;
		return;
	}
	if (!str_starts(line, STR("data:")))
		return; /* a comment, or a field without use here */
	line = (struct str){line.p + 5, line.n - 5};
	if (line.n && *line.p == ' ')
		line = (struct str){line.p + 1, line.n - 1};
	if (s->has_data)
		buf_add_c(&s->data, '\n');
	buf_add_str(&s->data, line);
	s->has_data = true;
}

enum status sse_push(struct sse *s, const char *p, size_t n,
		     void (*on_data)(void *ctx, struct str data), void *ctx)
{
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;
		if (s->line.n + part > MAX_BYTES || s->data.n > MAX_BYTES)
			return E_LIMIT;
		buf_add(&s->line, p, part);
		if (!end)
			break;
		on_line(s, buf_str(&s->line), on_data, ctx);
		buf_clear(&s->line);
		p += part + 1;
		n -= part + 1;
	}
	return OK;
}

void sse_deinit(struct sse *s)
{
	buf_deinit(&s->line);
	buf_deinit(&s->data);
}
