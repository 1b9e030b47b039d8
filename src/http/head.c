/* SPDX-License-Identifier: Apache-2.0 */
#include "http/head.h"

#include <stdio.h>
#include <strings.h>

#include "base/alloc.h"

struct head_seen {
	int n_fields, n_length, n_encoding, n_host;
	bool keeps_alive;
};

/* --- lines ------------------------------------------------------------------------ */

/* Empty lines before a request are allowed: some old clients end a body with one. */
static size_t skip_empty_lines(struct str text)
{
	size_t n = 0;
	while (n + 1 < text.n && text.p[n] == '\r' && text.p[n + 1] == '\n')
		n += 2;
	return n;
}

static enum status check_line(struct str line, struct fail *fail)
{
	if (memchr(line.p, '\0', line.n))
		return fail_set(fail, E_FRAMING, "there is a NUL in the head");
	if (line.n == 0 || line.p[line.n - 1] != '\r')
		return fail_set(fail, E_FRAMING, "a line ends without CR LF");
	if (memchr(line.p, '\r', line.n - 1))
		return fail_set(fail, E_FRAMING, "there is a CR inside a line");
	return OK;
}

ptrdiff_t head_scan(struct str text, size_t *scanned, struct fail *fail)
{
	size_t start = skip_empty_lines(text);
	for (size_t at = MAX(*scanned, start); at < text.n;) {
		const char *end = memchr(text.p + at, '\n', text.n - at);
		if (!end)
			break;
		struct str line = {text.p + at, (size_t)(end - text.p) - at};
		if (check_line(line, fail) != OK)
			return -1;
		at += line.n + 1;
		if (line.n == 1)
			return (ptrdiff_t)at;
		*scanned = at;
	}
	if (*scanned <= start && text.n - start > HEAD_LINE_MAX) {
		fail_set(fail, E_URI_LONG, "the request line has more than %u bytes",
			 HEAD_LINE_MAX);
		return -1;
	}
	if (text.n > HEAD_MAX) {
		fail_set(fail, E_HEAD_LONG, "the headers have more than %u bytes",
			 HEAD_MAX);
		return -1;
	}
	return 0;
}

/* Takes the next line, without its end, off *text. */
static struct str next_line(struct str *text)
{
	const char *end = memchr(text->p, '\n', text->n);
	struct str line = {text->p, (size_t)(end - text->p) - 1};
	text->p += line.n + 2;
	text->n -= line.n + 2;
	return line;
}

/* --- parts of a line -------------------------------------------------------------- */

/* Is s a token as RFC 9110 defines it? */
static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c <= ' ' || c >= 0x7F || is_char_of(c, "\"(),/:;<=>?@[\\]{}"))
			return false;
	}
	return s.n > 0;
}

static bool is_value(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if ((c < ' ' && c != '\t') || c == 0x7F)
			return false;
	}
	return true;
}

static bool is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7F)
			return false;
	return s.n > 0;
}

static bool is_name(struct str s, const char *name)
{
	return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static struct str head_trim(struct str s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s.p++, s.n--;
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Does a list such as "close, te" contain the word? */
static bool has_word(struct str list, const char *word)
{
	while (list.n) {
		const char *comma = memchr(list.p, ',', list.n);
		size_t n = comma ? (size_t)(comma - list.p) : list.n;
		if (is_name(head_trim((struct str){list.p, n}), word))
			return true;
		list.p += MIN(n + 1, list.n);
		list.n -= MIN(n + 1, list.n);
	}
	return false;
}

/* Digits only; a length of more than 18 digits is never meant. */
static bool parse_length(struct str s, int64_t *out)
{
	if (s.n == 0 || s.n > 18)
		return false;
	int64_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		n = n * 10 + (s.p[i] - '0');
	}
	*out = n;
	return true;
}

/* Has s only characters of RFC 3986's host and port? May be empty. */
static bool is_host(struct str s)
{
	static const char marks[] = "-._~%!$&'()*+,;=";
	size_t i = 0;
	if (s.n && s.p[0] == '[') {
		while (i < s.n && s.p[i] != ']')
			i++;
		for (size_t k = 1; k < i; k++)
			if (!is_char_of(s.p[k], "0123456789abcdefABCDEF:."))
				return false;
		if (i == s.n || i == 1)
			return false;
		i++;
	}
	for (; i < s.n && s.p[i] != ':'; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
				(c >= 'A' && c <= 'Z');
		if (s.p[0] == '[' || (!is_alnum && !is_char_of(c, marks)))
			return false;
	}
	for (size_t k = i + 1; k < s.n; k++)
		if (s.p[k] < '0' || s.p[k] > '9')
			return false;
	return true;
}

/* --- request line ----------------------------------------------------------------- */

static enum status read_version(struct str s, struct head *h, struct fail *fail)
{
	bool is_http = s.n == 8 && memcmp(s.p, "HTTP/", 5) == 0 && s.p[6] == '.' &&
		       s.p[5] >= '0' && s.p[5] <= '9' && s.p[7] >= '0' && s.p[7] <= '9';
	if (!is_http)
		return fail_set(fail, E_FRAMING, "the request line ends without a version");
	if (s.p[5] != '1')
		return fail_set(fail, E_HTTP_VERSION,
				"only HTTP/1.0 and HTTP/1.1 are spoken here");
	h->minor = s.p[7] == '0' ? 0 : 1;
	return OK;
}

static bool is_known_method(struct str s)
{
	static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH",
					    "OPTIONS", "TRACE", "CONNECT"};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_is(s, known[i]))
			return true;
	return false;
}

static bool is_target(struct str s, struct str method)
{
	return is_visible(s) &&
	       (s.p[0] == '/' || str_starts(s, STR("http://")) ||
		str_starts(s, STR("https://")) ||
		(str_is(s, "*") && str_is(method, "OPTIONS")) || str_is(method, "CONNECT"));
}

static enum status read_request_line(struct str line, struct head *h, struct fail *fail)
{
	const char *first = memchr(line.p, ' ', line.n);
	const char *last = memrchr(line.p, ' ', line.n);
	if (!first || first == last)
		return fail_set(fail, E_FRAMING, "the request line has not three parts");
	struct str method = {line.p, (size_t)(first - line.p)};
	struct str version = {last + 1, line.n - (size_t)(last + 1 - line.p)};
	h->target = (struct str){first + 1, (size_t)(last - first) - 1};
	if (!is_token(method))
		return fail_set(fail, E_FRAMING, "the method is not one");
	snprintf(h->method, sizeof h->method, "%.*s", (int)MIN(method.n, 15), method.p);
	enum status st = read_version(version, h, fail);
	if (st != OK)
		return st;
	if (!is_known_method(method))
		return fail_set(fail, E_UNSUPPORTED, "the method %s is not known here",
				h->method);
	if (!is_target(h->target, method))
		return fail_set(fail, E_FRAMING, "the address is not one");
	return OK;
}

/* --- fields ----------------------------------------------------------------------- */

enum status head_field(struct str line, struct str *out_name, struct str *out_value,
		       struct fail *fail)
{
	if (line.n && (line.p[0] == ' ' || line.p[0] == '\t'))
		return fail_set(fail, E_FRAMING, "a header goes on in the next line");
	const char *colon = memchr(line.p, ':', line.n);
	if (!colon)
		return fail_set(fail, E_FRAMING, "a header has no colon");
	struct str name = {line.p, (size_t)(colon - line.p)};
	struct str value = {colon + 1, line.n - name.n - 1};
	if (!is_token(name))
		return fail_set(fail, E_FRAMING,
				"a header's name has a character it must not have");
	if (!is_value(value))
		return fail_set(fail, E_FRAMING,
				"a header's value has a control character");
	*out_name = name;
	*out_value = head_trim(value);
	return OK;
}

/* Headers about this connection only, or about the framing of the body: not passed on as
 * they came. Nor are cookies: halod has none, and libmicrohttpd would take memory for each. */
static bool is_ours(struct str name)
{
	static const char *const ours[] = {
		"Connection", "Proxy-Connection", "Keep-Alive", "TE", "Trailer", "Upgrade",
		"HTTP2-Settings", "Expect", "Content-Length", "Transfer-Encoding", "Cookie"};
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (is_name(name, ours[i]))
			return true;
	return false;
}

static enum status read_length(struct str value, struct head *h, struct head_seen *s,
			       struct fail *fail)
{
	if (s->n_length++)
		return fail_set(fail, E_FRAMING,
				"there is more than one Content-Length header");
	if (!parse_length(value, &h->length))
		return fail_set(fail, E_FRAMING, "Content-Length is not a number");
	return OK;
}

static enum status read_encoding(struct str value, const struct head *h, struct head_seen *s,
				 struct fail *fail)
{
	if (s->n_encoding++)
		return fail_set(fail, E_FRAMING,
				"there is more than one Transfer-Encoding header");
	if (h->minor == 0)
		return fail_set(fail, E_FRAMING, "HTTP/1.0 has no Transfer-Encoding");
	if (!is_name(value, "chunked"))
		return fail_set(fail, E_FRAMING,
				"the only Transfer-Encoding known here is chunked");
	return OK;
}

static enum status read_field(struct str line, struct head *h, struct head_seen *s,
			      struct buf *clean, struct fail *fail)
{
	struct str name, value;
	enum status st = head_field(line, &name, &value, fail);
	if (st != OK)
		return st;
	if (++s->n_fields > HEAD_FIELDS_MAX)
		return fail_set(fail, E_HEAD_LONG, "there are more than %d headers",
				HEAD_FIELDS_MAX);
	if (is_name(name, "Content-Length"))
		return read_length(value, h, s, fail);
	if (is_name(name, "Transfer-Encoding"))
		return read_encoding(value, h, s, fail);
	if (is_name(name, "Connection")) {
		h->is_close |= has_word(value, "close");
		s->keeps_alive |= has_word(value, "keep-alive");
	} else if (is_name(name, "Expect")) {
		h->expects_continue |= is_name(value, "100-continue");
	} else if (is_name(name, "Host")) {
		s->n_host++;
		if (!is_host(value))
			return fail_set(fail, E_FRAMING, "Host is not a host");
	}
	if (!is_ours(name)) {
		buf_add_str(clean, name);
		buf_add_z(clean, ": ");
		buf_add_str(clean, value);
		buf_add_z(clean, "\r\n");
	}
	return OK;
}

static enum status check_whole(struct head *h, const struct head_seen *s, struct fail *fail)
{
	if (s->n_host > 1 || (s->n_host == 0 && h->minor > 0))
		return fail_set(fail, E_FRAMING, "there must be one Host header");
	if (s->n_encoding && s->n_length)
		return fail_set(fail, E_FRAMING, "Content-Length and Transfer-Encoding "
				"exclude each other");
	if (s->n_encoding)
		h->length = -1;
	h->expects_continue &= h->minor > 0 && h->length != 0;
	h->is_close |= h->minor == 0 && !s->keeps_alive;
	return OK;
}

/* Adds the headers that frame the body for libmicrohttpd. Chunks are used since they can
 * end early; HTTP/1.0 has no chunks. */
static void add_ours(const struct head *h, struct buf *clean)
{
	if (h->length && h->minor == 0)
		buf_addf(clean, "Content-Length: %lld\r\n", (long long)h->length);
	else if (h->length)
		buf_add_z(clean, "Transfer-Encoding: chunked\r\n");
	if (h->expects_continue)
		buf_add_z(clean, "Expect: 100-continue\r\n");
	if (h->is_close)
		buf_add_z(clean, "Connection: close\r\n");
	else if (h->minor == 0)
		buf_add_z(clean, "Connection: Keep-Alive\r\n");
	buf_add_z(clean, "\r\n");
}

enum status head_parse(struct str text, struct head *out, struct buf *clean,
		       struct fail *fail)
{
	struct head_seen seen = {0};
	struct str line;
	*out = (struct head){0};
	size_t empty = skip_empty_lines(text);
	text = (struct str){text.p + empty, text.n - empty};
	line = next_line(&text);
	if (line.n > HEAD_LINE_MAX)
		return fail_set(fail, E_URI_LONG, "the request line has more than %u bytes",
				HEAD_LINE_MAX);
	enum status st = read_request_line(line, out, fail);
	if (st != OK)
		return st;
	if (text.n > HEAD_MAX)
		return fail_set(fail, E_HEAD_LONG, "the headers have more than %u bytes",
				HEAD_MAX);
	const char *query = memchr(out->target.p, '?', out->target.n);
	size_t n_path = query ? (size_t)(query - out->target.p) : out->target.n;
	buf_addf(clean, "%s %.*s HTTP/1.%d\r\n", out->method, (int)n_path, out->target.p,
		 out->minor);
	while (st == OK && (line = next_line(&text)).n > 0)
		st = read_field(line, out, &seen, clean, fail);
	if (st == OK)
		st = check_whole(out, &seen, fail);
	if (st == OK)
		add_ours(out, clean);
	return st;
}
