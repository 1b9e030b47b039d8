/* SPDX-License-Identifier: Apache-2.0
 *
 * Two parsers that disagree on where a request ends can be made to see different
 * requests: what a proxy takes for a body, the server behind it takes for the next
 * request. libmicrohttpd is lenient (0.9.75 takes Transfer-Encoding over
 * Content-Length, the first of two lengths, and names with spaces), so everything
 * ambiguous is refused here, before a byte of the body is looked at, and the
 * connection is closed.
 *
 * What libmicrohttpd refuses by itself (a length that is no number, a NUL in a
 * header's name, a request line without method) never comes here: such a client gets
 * its short HTML answer or none, and the connection is closed as well. A NUL in the
 * address cuts the address; no route depends on what stood behind it.
 */
#include "http/framing.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

struct seen {
	int n_length, n_encoding, n_host;
	struct str length, encoding;
	bool is_bad_name, is_bad_value, expects_continue;
};

/* RFC 9110's token. */
static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c <= ' ' || c >= 0x7F || strchr("\"(),/:;<=>?@[\\]{}", c))
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

static bool is_name(struct str s, const char *name)
{
	return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static struct str trimmed(struct str s)
{
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind,
				 const char *key, size_t key_n,
				 const char *value, size_t value_n)
{
	struct seen *s = cls;
	struct str k = {key, key_n}, v = {value ? value : "", value_n};
	s->is_bad_name |= !is_token(k);
	s->is_bad_value |= !is_value(v);
	if (is_name(k, "Content-Length")) {
		s->n_length++;
		s->length = trimmed(v);
	} else if (is_name(k, "Transfer-Encoding")) {
		s->n_encoding++;
		s->encoding = trimmed(v);
	} else if (is_name(k, "Host")) {
		s->n_host++;
	} else if (is_name(k, "Expect")) {
		s->expects_continue |= is_name(trimmed(v), "100-continue");
	}
	return MHD_YES;
}

/* Digits only; more than 18 of them are not a length anyone means. */
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

static const char *find_fault(const struct seen *s, const char *version)
{
	bool is_1_0 = strcmp(version, "HTTP/1.0") == 0;
	if (strncmp(version, "HTTP/1.", 7) != 0)
		return "only HTTP/1.0 and HTTP/1.1 are spoken here";
	if (s->is_bad_name)
		return "a header's name has a character it must not have";
	if (s->is_bad_value)
		return "a header's value has a control character";
	if (s->n_host > 1 || (s->n_host == 0 && !is_1_0))
		return "there must be one Host header";
	if (s->n_length > 1)
		return "there is more than one Content-Length header";
	if (s->n_encoding > 1)
		return "there is more than one Transfer-Encoding header";
	if (s->n_encoding && s->n_length)
		return "Content-Length and Transfer-Encoding exclude each other";
	if (s->n_encoding && is_1_0)
		return "HTTP/1.0 has no Transfer-Encoding";
	if (s->n_encoding && !is_name(s->encoding, "chunked"))
		return "the only Transfer-Encoding known here is chunked";
	return NULL;
}

enum status framing_check(struct MHD_Connection *mhd, const char *version,
			  struct framing *out, struct fail *fail)
{
	struct seen s = {0};
	MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_header, &s);
	const char *fault = find_fault(&s, version);
	int64_t length = s.n_encoding ? -1 : 0;
	if (!fault && s.n_length && !parse_length(s.length, &length))
		fault = "Content-Length is not a number";
	if (fault)
		return fail_set(fail, E_FRAMING, "%s", fault);
	out->length = length;
	out->expects_continue = s.expects_continue;
	return OK;
}
