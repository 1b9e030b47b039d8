/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets one file by HTTP. A name's IP address is checked when the socket is made. So a name
 * that changes its address after a check does not help an attacker. A redirection stays on
 * its host and within the settings. The environment's proxies are not used: they would hide
 * where the connection goes.
 */
#include <build-config.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fetch/fetch_private.h"

enum { MAX_REDIRECTS = 3, MAX_UNREAD = 1 << 16 };

struct run {
	const struct fetch *f;
	const struct fetch_ask *ask;
	CURL *curl;
	struct buf *out;
	size_t begin; /* where the file begins in *out */
	size_t n_unread; /* bytes read of a redirection's page */
	bool is_private, is_long, is_over;
	char error[CURL_ERROR_SIZE];
};

/* --- libcurl calls ------------------------------------------------------------------ */

static bool is_gone(const struct run *r)
{
	return r->ask->is_gone && atomic_load(r->ask->is_gone);
}

static long status_of(const struct run *r)
{
	long status = 0;
	curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct run *r = ctx;
	struct fetch_address address;
	(void)purpose;
	if (!fetch_address_of(&a->addr, &address) || !fetch_allows_address(r->f, &address)) {
		r->is_private = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct run *r = ctx;
	/* libcurl tells the target of a redirection only after the redirection's page. */
	if (is_redirect(status_of(r)) && (r->n_unread += size * n) <= MAX_UNREAD)
		return size * n;
	if (status_of(r) != 200)
		return 0;
	r->is_long = r->out->n - r->begin + size * n > (size_t)r->f->max_bytes[r->ask->kind];
	if (r->is_long)
		return 0;
	buf_add(r->out, p, size * n);
	return size * n;
}

static int on_progress(void *ctx, curl_off_t down, curl_off_t n_down, curl_off_t up,
		       curl_off_t n_up)
{
	const struct run *r = ctx;
	(void)down, (void)n_down, (void)up, (void)n_up;
	return is_gone(r);
}

static void set_options(struct run *r, const struct fetch_url *u, int64_t left_us)
{
	CURL *c = r->curl;
	curl_easy_reset(c);
	curl_easy_setopt(c, CURLOPT_CURLU, u->whole);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_USERAGENT, PACKAGE "/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(left_us / 1000 + 1));
	curl_easy_setopt(c, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)r->f->max_bytes[r->ask->kind]);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, r);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, r);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, r->error);
}

/* --- one answer --------------------------------------------------------------------- */

static enum status fail_time(const struct run *r, struct fail *fail)
{
	return fail_set(fail, E_INVAL, "cannot be fetched: it takes longer than %g s "
			"(image_fetch_timeout)", (double)r->f->timeout_us / 1e6);
}

static enum status tell_fault(const struct run *r, const struct fetch_url *u, CURLcode code,
			      struct fail *fail)
{
	long status = status_of(r);
	if (is_gone(r))
		return fail_default(fail, E_CANCELLED);
	if (r->is_long || code == CURLE_FILESIZE_EXCEEDED)
		return fetch_fail_long(r->f, r->ask->kind, fail);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return fail_time(r, fail);
	if (status != 0 && status != 200)
		return fail_set(fail, E_INVAL, "cannot be fetched: the server answered with "
				"status %ld", status);
	if (r->is_private)
		return fail_set(fail, E_INVAL, "cannot be fetched: %.100s has a private address, "
				"and image_urls does not list that", u->host);
	return fail_set(fail, E_INVAL, "cannot be fetched: %.150s",
			*r->error ? r->error : curl_easy_strerror(code));
}

static enum status check_type(const struct run *r, struct fail *fail)
{
	const char *kind = fetch_kind_name(r->ask->kind);
	const char *const fine[] = {"application/octet-stream", "binary/octet-stream",
				    r->ask->kind == FETCH_AUDIO ? "application/ogg" : NULL};
	char *type = NULL;
	curl_easy_getinfo(r->curl, CURLINFO_CONTENT_TYPE, &type);
	for (size_t i = 0; type && i < ARRAY_LEN(fine) && fine[i]; i++)
		if (strncasecmp(type, fine[i], strlen(fine[i])) == 0)
			return OK;
	bool is_kind = type && strncasecmp(type, kind, strlen(kind)) == 0 &&
		       type[strlen(kind)] == '/';
	return type && !is_kind ? fail_set(fail, E_INVAL, "is no %s: the server sent %.60s", kind,
					   type) : OK;
}

/* Replaces *u by the address to which the answer redirects, if that is allowed. */
static enum status fetch_http_follow(const struct run *r, struct fetch_url *u, struct fail *fail)
{
	char *to = NULL;
	struct fetch_url next;
	curl_easy_getinfo(r->curl, CURLINFO_REDIRECT_URL, &to);
	if (!to || !fetch_url_parse(str_of(to), &next))
		return fail_set(fail, E_INVAL, "cannot be fetched: the server redirects to no "
				"address");
	bool is_here = strcasecmp(next.host, u->host) == 0;
	bool is_safe = strcmp(u->scheme, "http") == 0 || strcmp(next.scheme, "https") == 0;
	enum status st = OK;
	if (!is_here)
		st = fail_set(fail, E_INVAL, "cannot be fetched: the server redirects to another "
			      "host, %.100s", next.host);
	else if (!is_safe || !fetch_allows_url(r->f, &next))
		st = fail_set(fail, E_INVAL, "cannot be fetched: the server redirects to an "
			      "address that image_urls does not allow");
	if (st != OK) {
		fetch_url_deinit(&next);
		return st;
	}
	fetch_url_deinit(u);
	*u = next;
	return OK;
}

/* Makes one request. Unless r->is_over, *u is then the address to ask next. */
static enum status ask_once(struct run *r, struct fetch_url *u, struct fail *fail)
{
	int64_t left_us = r->ask->until_us - clock_now_us(&clock_monotonic);
	if (left_us <= 0)
		return fail_time(r, fail);
	set_options(r, u, left_us);
	CURLcode code = curl_easy_perform(r->curl);
	if (code == CURLE_OK && is_redirect(status_of(r)))
		return fetch_http_follow(r, u, fail);
	r->is_over = true;
	if (code != CURLE_OK || status_of(r) != 200)
		return tell_fault(r, u, code, fail);
	return check_type(r, fail);
}

enum status fetch_http(const struct fetch *f, const struct fetch_ask *ask, struct buf *out,
		       struct fail *fail)
{
	struct run r = {.f = f, .ask = ask, .out = out, .begin = out->n};
	struct fetch_url u;
	enum status st = OK;
	if (!fetch_url_parse(ask->url, &u))
		return fail_set(fail, E_INVAL, "has no address of HTTP");
	r.curl = curl_easy_init();
	if (!fetch_allows_url(f, &u))
		st = fail_set(fail, E_INVAL, "has an address that image_urls does not allow");
	else if (!r.curl)
		st = fail_default(fail, E_NOMEM);
	for (int i = 0; i <= MAX_REDIRECTS && st == OK && !r.is_over; i++)
		st = ask_once(&r, &u, fail);
	if (st == OK && !r.is_over)
		st = fail_set(fail, E_INVAL, "cannot be fetched: the server redirects more than "
			      "%d times", MAX_REDIRECTS);
	curl_easy_cleanup(r.curl);
	fetch_url_deinit(&u);
	return st;
}
