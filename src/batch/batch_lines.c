/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/batch_lines.h"

#include <errno.h>
#include <unistd.h>

#define READ_BYTES (256u << 10)

void batch_lines_rewind(struct batch_lines *l)
{
	buf_clear(&l->buf);
	l->from = 0;
	l->line = 0;
	l->is_end = l->is_long = false;
	l->why = lseek(l->fd, 0, SEEK_SET) == 0 ? 0 : errno;
}

static void read_more(struct batch_lines *l)
{
	buf_drop(&l->buf, l->from);
	l->from = 0;
	if (!buf_try(&l->buf, READ_BYTES)) {
		l->why = ENOMEM;
		return;
	}
	ssize_t n = read(l->fd, l->buf.p + l->buf.n, READ_BYTES);
	if (n < 0 && errno != EINTR)
		l->why = errno;
	if (n > 0)
		l->buf.n += (size_t)n;
	l->is_end = n == 0;
}

static bool is_blank(struct str s)
{
	size_t i = 0;
	while (i < s.n && is_char_of(s.p[i], " \t\r"))
		i++;
	return i == s.n;
}

bool batch_lines_next(struct batch_lines *l)
{
	size_t seen = l->from; /* no line's end before */
	l->is_long = false;
	while (l->why == 0) {
		char *end = l->buf.n > seen
			? memchr(l->buf.p + seen, '\n', l->buf.n - seen) : NULL;
		if (l->buf.n - l->from > l->max_bytes && !end) {
			l->is_long = true;
			l->buf.n = l->from;
		}
		if (!end && !l->is_end) {
			seen = l->buf.n - l->from;
			read_more(l);
			continue;
		}
		if (l->from == l->buf.n && !l->is_long)
			return false;
		size_t to = end ? (size_t)(end - l->buf.p) : l->buf.n;
		l->text = (struct str){l->buf.p + l->from, to - l->from};
		l->from = end ? to + 1 : to;
		seen = l->from;
		l->line++;
		l->is_long |= l->text.n > l->max_bytes;
		if (l->is_long)
			l->text = STR("");
		if (l->is_long || !is_blank(l->text))
			return true;
	}
	return false;
}

void batch_lines_deinit(struct batch_lines *l)
{
	buf_deinit(&l->buf);
}
