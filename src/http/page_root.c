/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /: the web page of src/page, one file with its styles and script. It goes out
 * compressed to a client that takes gzip.
 *
 * The page's Content-Security-Policy names the SHA-256 of its one <style> and its one
 * <script>. So a browser runs nothing else, whatever a model writes, and the page can reach
 * this server only. Trusted types forbid the script to turn text into markup.
 */
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "http/conn.h"

static const unsigned char html[] = {
#include "page/page.inc"
};
static const unsigned char html_gz[] = {
#include "page/page_gz.inc"
};

/* Appends " 'sha256-…'" of the text between the tags. False: GnuTLS has no SHA-256. */
static bool add_hash(struct buf *out, const char *open, const char *close)
{
	struct str page = {(const char *)html, sizeof html};
	ptrdiff_t begin = str_find(page, str_of(open), 0) + (ptrdiff_t)strlen(open);
	ptrdiff_t end = str_find(page, str_of(close), (size_t)begin);
	unsigned char digest[32];
	gnutls_datum_t raw = {digest, sizeof digest}, text;
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, html + begin, (size_t)(end - begin),
			     digest) != 0 || gnutls_base64_encode2(&raw, &text) != 0)
		return false;
	buf_addf(out, " 'sha256-%.*s'", (int)text.size, text.data);
	gnutls_free(text.data);
	return true;
}

enum status page_root_init(struct page_root *p, struct fail *fail)
{
	struct buf b = {0};
	buf_add_z(&b, "default-src 'none'; script-src");
	bool is_fine = add_hash(&b, "<script>", "</script>");
	buf_add_z(&b, "; style-src");
	is_fine &= add_hash(&b, "<style>", "</style>");
	buf_add_z(&b, "; connect-src 'self'; img-src data:; media-src data:; font-src data:; "
		      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
		      "require-trusted-types-for 'script'; trusted-types 'none'");
	snprintf(p->etag, sizeof p->etag, "\"%016llx\"",
		 (unsigned long long)hash_bytes(0, html, sizeof html));
	snprintf(p->etag_gz, sizeof p->etag_gz, "\"%016llx-gz\"",
		 (unsigned long long)hash_bytes(0, html, sizeof html));
	p->policy = buf_take(&b);
	return is_fine ? OK : fail_set(fail, E_IO, "GnuTLS cannot compute SHA-256");
}

void page_root_deinit(struct page_root *p)
{
	free(p->policy);
	*p = (struct page_root){0};
}

static const char *header_of(const struct conn *c, const char *name)
{
	return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

/* Does the client take gzip? A coding that is named with q=0 is refused. */
static bool takes_gzip(const struct conn *c)
{
	const char *sent = header_of(c, MHD_HTTP_HEADER_ACCEPT_ENCODING);
	const char *at = sent ? strcasestr(sent, "gzip") : NULL;
	if (!at)
		return false;
	at += strlen("gzip");
	at += strspn(at, " \t;");
	return strncasecmp(at, "q=", 2) != 0 || strtod(at + 2, NULL) > 0;
}

static const char *etag_of(const struct conn *c)
{
	const struct page_root *p = &c->http->root;
	return takes_gzip(c) ? p->etag_gz : p->etag;
}

void page_root_add_headers(struct conn *c, struct MHD_Response *r)
{
	const struct page_root *p = &c->http->root;
	answer_header(c, r, "Content-Security-Policy", p->policy);
	answer_header(c, r, "X-Content-Type-Options", "nosniff");
	answer_header(c, r, "X-Frame-Options", "DENY");
	answer_header(c, r, "Referrer-Policy", "no-referrer");
	answer_header(c, r, "Cross-Origin-Resource-Policy", "same-origin");
	answer_header(c, r, "ETag", etag_of(c));
	answer_header(c, r, "Vary", "Accept-Encoding");
	answer_header(c, r, "Cache-Control", "no-cache");
	if (c->answer.status == 200 && takes_gzip(c))
		answer_header(c, r, "Content-Encoding", "gzip");
}

/* Has the browser this version? Then one of the ETags that it sends is this page's. */
static bool is_known(const struct conn *c)
{
	const char *sent = header_of(c, MHD_HTTP_HEADER_IF_NONE_MATCH);
	return sent && (strstr(sent, etag_of(c)) || strcmp(sent, "*") == 0);
}

void page_root(struct conn *c)
{
	struct buf b = {0};
	if (!c->http->opts.page) {
		fail_set(&c->fail, E_NOT_FOUND, "there is nothing at /: the setting page is no");
		answer_fail(c, &c->fail);
		return;
	}
	c->answer.is_page = true;
	if (is_known(c)) {
		answer_set(c, 304, NULL, &b);
		return;
	}
	if (takes_gzip(c))
		buf_add(&b, html_gz, sizeof html_gz);
	else
		buf_add(&b, html, sizeof html);
	answer_set(c, 200, "text/html; charset=utf-8", &b);
}
