/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "fetch/fetch_private.h"

/* --- settings --------------------------------------------------------------------- */

static void add_listed(struct fetch *f, const struct fetch_address *a)
{
	f->listed[f->n_listed++] = *a;
}

/* A host given as an IP address may have that address, even a private one; localhost may
 * have this machine's. */
static void add_own_address(struct fetch *f, const char *host)
{
	struct fetch_address a;
	if (fetch_address_parse(host, &a))
		add_listed(f, &a);
	if (strcasecmp(host, "localhost") != 0)
		return;
	if (fetch_address_parse("127.0.0.1", &a))
		add_listed(f, &a);
	if (fetch_address_parse("::1", &a))
		add_listed(f, &a);
}

static bool add_entry(struct fetch *f, const char *text)
{
	struct fetch_address a;
	struct fetch_url u;
	if (strcmp(text, "http://") == 0 || strcmp(text, "https://") == 0) {
		*(text[4] == 's' ? &f->is_any_https : &f->is_any_http) = true;
		return true;
	}
	if (fetch_address_parse(text, &a)) {
		add_listed(f, &a);
		return true;
	}
	if (!fetch_url_parse(str_of(text), &u))
		return false;
	if (strpbrk(text, "?#*")) {
		fetch_url_deinit(&u);
		return false;
	}
	f->from[f->n_from++] = u;
	add_own_address(f, u.host);
	return true;
}

static enum status set_dir(struct fetch *f, const char *dir, struct fail *fail)
{
	struct stat st;
	if (!dir || !*dir)
		return OK;
	if (dir[0] != '/' || stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
		return fail_at(fail, E_CONFIG, "image_dir", "image_dir = %.200s is no folder with "
			       "its whole path", dir);
	if (access(dir, X_OK) != 0)
		return fail_at(fail, E_CONFIG, "image_dir", "image_dir = %.200s: files there "
			       "cannot be opened: %s", dir, strerror(errno));
	f->dir = file_without_slashes(dir);
	return OK;
}

enum status fetch_create(const struct fetch_opts *o, struct fetch **out, struct fail *fail)
{
	struct fetch *f = xcalloc(1, sizeof *f);
	size_t n = (size_t)o->n_from;
	f->from = xcalloc(n + 1, sizeof *f->from);
	/* room for two each: localhost has two */
	f->listed = xcalloc(2 * n + 1, sizeof *f->listed);
	f->timeout_us = o->timeout_us;
	memcpy(f->max_bytes, o->max_bytes, sizeof f->max_bytes);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	enum status st = set_dir(f, o->dir, fail);
	for (size_t i = 0; i < n && st == OK; i++)
		if (!add_entry(f, o->from[i]))
			st = fail_at(fail, E_CONFIG, "image_urls", "image_urls has %.200s, which "
				     "is neither an address as https://host/folder/ nor an IP "
				     "address", o->from[i]);
	if (st != OK) {
		fetch_destroy(f);
		return st;
	}
	*out = f;
	return OK;
}

void fetch_destroy(struct fetch *f)
{
	if (!f)
		return;
	for (int i = 0; i < f->n_from; i++)
		fetch_url_deinit(&f->from[i]);
	free(f->from);
	free(f->listed);
	free(f->dir);
	free(f);
}

/* --- what the settings allow --------------------------------------------------------- */

bool fetch_allows_url(const struct fetch *f, const struct fetch_url *u)
{
	if (strcmp(u->scheme, "https") == 0 ? f->is_any_https : f->is_any_http)
		return true;
	for (int i = 0; i < f->n_from; i++)
		if (fetch_url_is_below(u, &f->from[i]))
			return true;
	return false;
}

bool fetch_allows_address(const struct fetch *f, const struct fetch_address *a)
{
	if (fetch_address_is_public(a))
		return true;
	for (int i = 0; i < f->n_listed; i++)
		if (fetch_address_eq(a, &f->listed[i]))
			return true;
	return false;
}

bool fetch_allows(const struct fetch *f, struct str url)
{
	struct fetch_url u;
	if (f->dir && str_starts(url, STR("file:")))
		return true; /* fetch_file reports a faulty address */
	if (!fetch_url_parse(url, &u))
		return false;
	bool is_allowed = fetch_allows_url(f, &u);
	fetch_url_deinit(&u);
	return is_allowed;
}

/* --- getting ------------------------------------------------------------------------ */

const char *fetch_kind_name(enum fetch_kind kind)
{
	static const char *const names[FETCH_KINDS] = {"image", "audio", "video"};
	return names[kind];
}

enum status fetch_fail_long(const struct fetch *f, enum fetch_kind kind, struct fail *fail)
{
	return fail_set(fail, E_INVAL, "is longer than %lld bytes (max_%s_bytes)",
			(long long)f->max_bytes[kind], fetch_kind_name(kind));
}

int64_t fetch_until(const struct fetch *f)
{
	return clock_now_us(&clock_monotonic) + f->timeout_us;
}

enum status fetch_get(const struct fetch *f, const struct fetch_ask *ask, struct buf *out,
		      struct fail *fail)
{
	return str_starts(ask->url, STR("file:")) ? fetch_file(f, ask, out, fail)
						  : fetch_http(f, ask, out, fail);
}
