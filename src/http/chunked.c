/* SPDX-License-Identifier: Apache-2.0 */
#include "http/chunked.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "http/head.h"

#define LINE_MAX_BYTES 1024
#define TRAILERS_MAX_BYTES 8192
#define SIZE_DIGITS 15 /* of a chunk's size: so no sum of two sizes overflows */

static void chunked_bad(struct chunked *c, struct fail *fail, const char *why)
{
	c->at = CHUNKED_BAD;
	fail_set(fail, E_FRAMING, "%s", why);
}

/* Takes the next line, without its end, off *in. False: the line is not complete yet, or is
 * bad. */
static bool take_line(struct chunked *c, struct str *in, struct str *line,
		      struct fail *fail)
{
	const char *end = memchr(in->p, '\n', in->n);
	size_t n = end ? (size_t)(end - in->p) : in->n;
	if (n > LINE_MAX_BYTES) {
		chunked_bad(c, fail, "a line between chunks is too long");
		return false;
	}
	if (!end)
		return false;
	if (n == 0 || in->p[n - 1] != '\r' || memchr(in->p, '\r', n - 1)) {
		chunked_bad(c, fail, "a line between chunks ends without CR LF");
		return false;
	}
	*line = (struct str){in->p, n - 1};
	in->p += n + 1;
	in->n -= n + 1;
	return true;
}

static void take_size(struct chunked *c, struct str *in, struct fail *fail)
{
	struct str line;
	uint64_t size = 0;
	size_t i = 0;
	if (!take_line(c, in, &line, fail))
		return;
	for (; i < line.n && hex_digit(line.p[i]) >= 0; i++) {
		if (i == SIZE_DIGITS) {
			chunked_bad(c, fail, "the size of a chunk is too large");
			return;
		}
		size = size << 4 | (uint64_t)hex_digit(line.p[i]);
	}
	bool has_extension = i < line.n && line.p[i] == ';';
	for (size_t k = i; has_extension && k < line.n; k++)
		if (((unsigned char)line.p[k] < ' ' && line.p[k] != '\t') ||
		    line.p[k] == 0x7F)
			has_extension = false;
	if (i == 0 || (i < line.n && !has_extension)) {
		chunked_bad(c, fail, "the size of a chunk is not a number");
		return;
	}
	c->n_left = size;
	c->at = size ? CHUNKED_DATA : CHUNKED_TRAILER;
}

static void take_data(struct chunked *c, struct str *in, struct str *out)
{
	*out = (struct str){in->p, (size_t)MIN((uint64_t)in->n, c->n_left)};
	in->p += out->n;
	in->n -= out->n;
	c->n_left -= out->n;
	if (c->n_left == 0)
		c->at = CHUNKED_DATA_END;
}

static void take_data_end(struct chunked *c, struct str *in, struct fail *fail)
{
	size_t n = MIN(in->n, 2);
	if (memcmp(in->p, "\r\n", n) != 0)
		chunked_bad(c, fail, "a chunk is longer than its size");
	if (n < 2 || c->at == CHUNKED_BAD)
		return;
	in->p += 2;
	in->n -= 2;
	c->at = CHUNKED_SIZE;
}

static void take_trailer(struct chunked *c, struct str *in, struct fail *fail)
{
	struct str line, name, value;
	if (!take_line(c, in, &line, fail))
		return;
	c->n_trailers += line.n + 2;
	if (line.n == 0)
		c->at = CHUNKED_END;
	else if (c->n_trailers > TRAILERS_MAX_BYTES)
		chunked_bad(c, fail, "the trailers are too long");
	else if (head_field(line, &name, &value, fail) != OK)
		c->at = CHUNKED_BAD;
}

void chunked_take(struct chunked *c, struct str *in, struct str *out_data,
		  struct fail *fail)
{
	size_t n_before;
	*out_data = (struct str){in->p, 0};
	do {
		n_before = in->n;
		if (in->n == 0)
			break;
		switch (c->at) {
		case CHUNKED_SIZE: take_size(c, in, fail); break;
		case CHUNKED_DATA: take_data(c, in, out_data); break;
		case CHUNKED_DATA_END: take_data_end(c, in, fail); break;
		case CHUNKED_TRAILER: take_trailer(c, in, fail); break;
		case CHUNKED_END:
		case CHUNKED_BAD: return;
		}
	} while (out_data->n == 0 && in->n < n_before);
}
