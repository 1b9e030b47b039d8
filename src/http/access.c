/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may ask, and from which web pages.
 *
 * A browser sends the page's Origin. A page's script sees the answer only if a header
 * of the answer names that Origin. Before most requests the browser sends OPTIONS (a
 * preflight). OPTIONS needs no key, because browsers send none with it.
 *
 * A POST of text/plain or of a form comes without a preflight, so any page could make
 * its visitor's engine work. Such a POST is refused unless its Origin is this server or
 * one of cors_origins. A POST of JSON from a browser had a preflight. A request without
 * an Origin does not come from a page.
 *
 * Without API keys a page's own name proves nothing: whoever owns a name can let it point
 * to this machine after the page was loaded (DNS rebinding). Its browser then takes both for
 * one origin, and sends no Origin with a GET. So every request but a probe of liveness must
 * come under an address, localhost, this machine's name, or a host of cors_origins.
 */
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http/conn.h"

#define MAX_ECHO_BYTES 2048
#define PREFLIGHT_AGE_S "600"

static const char *header(const struct conn *c, const char *name)
{
	return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

/* --- keys ----------------------------------------------------------------------- */

/* "Authorization: Bearer …" as OpenAI's clients send it, or Anthropic's x-api-key. Some
 * send both, one of them a placeholder, so either may be the right one. */
static struct key *find_key(const struct conn *c, bool *out_was_sent)
{
	struct keys *keys = c->http->keys;
	const char *sent[] = {header(c, "Authorization"), header(c, "X-Api-Key")};
	struct key *key = NULL;
	if (sent[0] && strncasecmp(sent[0], "Bearer ", 7) == 0)
		sent[0] += 7 + strspn(sent[0] + 7, " ");
	else
		sent[0] = NULL;
	*out_was_sent = sent[0] || sent[1];
	for (int i = 0; i < 2; i++)
		if (sent[i] && !key)
			key = keys_find(keys, str_of(sent[i]));
	return key;
}

enum status access_check(struct conn *c, struct fail *fail)
{
	const struct http_opts *o = &c->http->opts;
	unsigned flags = c->route->flags;
	bool was_sent;
	if (!c->http->keys || (flags & ROUTE_OPEN) ||
	    ((flags & ROUTE_SCRAPED) && !o->metrics_need_key))
		return OK;
	struct key *key = find_key(c, &was_sent);
	if (!key)
		return fail_set(fail, E_AUTH, "%s",
				was_sent ? "this API key is not known here"
					 : "no API key was sent: it goes in the "
					   "header Authorization: Bearer, or x-api-key");
	c->owner = keys_id(key);
	if (!(flags & ROUTE_WORK))
		return OK;
	if (!keys_take(key, o->max_requests_per_key))
		return fail_set(fail, E_KEY_LIMIT,
				"as many requests as may run with this API key at a "
				"time: %d", o->max_requests_per_key);
	c->key = key;
	return OK;
}

/* --- origins -------------------------------------------------------------------- */

/* The value of Access-Control-Allow-Origin; NULL: no such header. */
static const char *allowed_origin(const struct conn *c)
{
	const struct http_opts *o = &c->http->opts;
	const char *origin = header(c, "Origin");
	for (int i = 0; origin && i < o->n_cors_origins; i++) {
		if (strcmp(o->cors_origins[i], "*") == 0)
			return "*";
		if (strcmp(o->cors_origins[i], origin) == 0)
			return origin;
	}
	return NULL;
}

/* Whether the page comes from this server itself. */
static bool is_own_origin(const struct conn *c, const char *origin)
{
	const char *host = header(c, "Host");
	const char *at = strstr(origin, "://");
	return host && *host && at && strcasecmp(at + 3, host) == 0;
}

static bool is_name(struct str host, struct str name)
{
	return name.n > 0 && host.n == name.n && strncasecmp(host.p, name.p, name.n) == 0;
}

/* Whether a Host, without its port, is an address, localhost, or the whole of a name of this
 * machine: its host name, that name with .local (mDNS), its full name. Nobody else can make
 * these names point to this machine. A name that only begins so is anybody's. */
static bool is_own_name(const struct http *h, const char *host)
{
	struct str own = str_of(h->own_name), full = str_of(h->full_name);
	struct str name = {host, strcspn(host, ":")};
	struct str first = {own.p, strcspn(own.p, ".")};
	if (*host == '[' || host[strspn(host, "0123456789.:")] == '\0')
		return true;
	if (name.n > 1 && name.p[name.n - 1] == '.') /* the root of all names */
		name.n--;
	if (is_name(name, STR("localhost")) || is_name(name, own) || is_name(name, full) ||
	    is_name(name, first))
		return true;
	struct str local = STR(".local");
	struct str front = {name.p, name.n > local.n ? name.n - local.n : 0};
	struct str end = {name.p + front.n, name.n - front.n};
	return is_name(end, local) && is_name(front, first);
}

/* Whether cors_origins names a page of this Host. */
static bool is_listed_host(const struct http_opts *o, const char *host)
{
	for (int i = 0; i < o->n_cors_origins; i++) {
		const char *at = strstr(o->cors_origins[i], "://");
		if (strcmp(o->cors_origins[i], "*") == 0)
			return true; /* every page may ask, under any name */
		if (at && strcasecmp(at + 3, host) == 0)
			return true;
	}
	return false;
}

/* The machine's full name asks a name server at most, so it is read once, at the start. */
void access_read_names(struct http *h)
{
	struct addrinfo hints = {.ai_flags = AI_CANONNAME}, *found = NULL;
	if (gethostname(h->own_name, sizeof h->own_name - 1) != 0)
		return;
	if (getaddrinfo(h->own_name, NULL, &hints, &found) != 0)
		return;
	/* A full name adds its domain to the host name: an alias of another machine does not. */
	size_t n = strlen(h->own_name);
	const char *full = found->ai_canonname;
	if (full && strncasecmp(full, h->own_name, n) == 0 && full[n] == '.')
		snprintf(h->full_name, sizeof h->full_name, "%s", full);
	freeaddrinfo(found);
}

/* Without API keys, who may reach the server is decided by its address alone. A page whose
 * name was made to point here is refused by the name that its browser sends as Host. */
enum status access_check_host(const struct conn *c, struct str path, struct fail *fail)
{
	const struct http *h = c->http;
	const char *host = header(c, "Host");
	const struct route *probe;
	struct str tail;
	if (h->keys || h->opts.unix_path || !host || is_own_name(h, host) ||
	    is_listed_host(&h->opts, host))
		return OK;
	if (route_find(STR("GET"), path, &probe, &tail) == OK && (probe->flags & ROUTE_PROBE))
		return OK;
	return fail_set(fail, E_ORIGIN, "%.100s is not known to be a name of this server: "
			"use its address or host name, add http://%.100s to cors_origins, or set "
			"api_key_file", host, host);
}

static bool is_json_type(const char *type)
{
	static const char json[] = "application/json";
	size_t n = sizeof json - 1;
	return type && strncasecmp(type, json, n) == 0 &&
	       (type[n] == '\0' || is_char_of(type[n], "; \t"));
}

enum status access_check_body(const struct conn *c, struct fail *fail)
{
	const char *coding = header(c, "Content-Encoding");
	const char *origin = header(c, "Origin");
	if (!(c->route->flags & ROUTE_WORK))
		return OK;
	if (coding && *coding && strcasecmp(coding, "identity") != 0)
		return fail_set(fail, E_MEDIA_TYPE, "Content-Encoding: %.40s is not taken: "
				"send the body as it is", coding);
	if (!origin || allowed_origin(c))
		return OK;
	if (is_own_origin(c, origin)) /* access_check_host knows this name */
		return OK;
	if (is_json_type(header(c, "Content-Type")))
		return OK;
	return fail_set(fail, E_ORIGIN, "a page of %.100s may not ask this (cors_origins); a "
			"program that sends an Origin says Content-Type: application/json",
			origin);
}

/* A page asks which headers it may send, by a list of tokens. The list is sent back as it
 * came, since clients invent new headers with every version. */
static bool is_token_list(const char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] >= 0x7F || is_char_of(s[i], "\"()/:;<=>?@[\\]{}"))
			return false;
	return n > 0 && n <= MAX_ECHO_BYTES;
}

static void add_preflight(struct conn *c, struct MHD_Response *r)
{
	const char *wanted = header(c, "Access-Control-Request-Headers");
	answer_header(c, r, "Access-Control-Allow-Methods", c->answer.allow.p);
	if (wanted && is_token_list(wanted))
		answer_header(c, r, "Access-Control-Allow-Headers", wanted);
	answer_header(c, r, "Access-Control-Max-Age", PREFLIGHT_AGE_S);
}

void access_add_headers(struct conn *c, struct MHD_Response *r)
{
	if (c->fail.code == E_AUTH)
		answer_header(c, r, "WWW-Authenticate", "Bearer");
	if (c->http->opts.n_cors_origins == 0)
		return;
	const char *origin = allowed_origin(c);
	answer_header(c, r, "Vary", "Origin");
	if (!origin)
		return;
	answer_header(c, r, "Access-Control-Allow-Origin", origin);
	if (strcmp(c->method, "OPTIONS") == 0 && c->answer.allow.n)
		add_preflight(c, r);
	else
		answer_header(c, r, "Access-Control-Expose-Headers",
			      "X-Request-Id, Retry-After, X-Halod-Ignored");
}
