/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch/fetch_url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

enum { MAX_URL = 4096 };

/* Parses an address with libcurl; NULL: text is no address. */
static CURLU *parse(struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] <= ' ' || text.p[i] >= 0x7f || text.p[i] == '\\')
			return NULL;
	if (text.n > MAX_URL)
		return NULL;
	char *z = xstrndup(text.p, text.n);
	CURLU *u = curl_url();
	if (u && curl_url_set(u, CURLUPART_URL, z, CURLU_DISALLOW_USER) != CURLUE_OK) {
		curl_url_cleanup(u);
		u = NULL;
	}
	free(z);
	return u;
}

static char *url_part(CURLU *u, CURLUPart what, unsigned flags)
{
	char *s = NULL;
	return curl_url_get(u, what, &s, flags) == CURLUE_OK ? s : NULL;
}

bool fetch_url_parse(struct str text, struct fetch_url *out)
{
	CURLU *u = parse(text);
	*out = (struct fetch_url){.whole = u};
	if (!u)
		return false;
	out->scheme = url_part(u, CURLUPART_SCHEME, 0);
	out->host = url_part(u, CURLUPART_HOST, 0);
	out->port = url_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);
	out->path = url_part(u, CURLUPART_PATH, 0);
	bool is_whole = out->scheme && out->host && out->port && out->path;
	if (is_whole && (strcmp(out->scheme, "http") == 0 || strcmp(out->scheme, "https") == 0))
		return true;
	fetch_url_deinit(out);
	return false;
}

void fetch_url_deinit(struct fetch_url *u)
{
	curl_free(u->scheme);
	curl_free(u->host);
	curl_free(u->port);
	curl_free(u->path);
	curl_url_cleanup(u->whole);
	*u = (struct fetch_url){0};
}

char *fetch_url_file(struct str text)
{
	CURLU *u = str_starts(text, STR("file:///")) ? parse(text) : NULL;
	char *path = u ? url_part(u, CURLUPART_PATH, CURLU_URLDECODE) : NULL;
	char *out = path ? xstrdup(path) : NULL;
	curl_free(path);
	curl_url_cleanup(u);
	return out;
}

/* Some servers decode these to "." and slashes. Then a path could leave the folder that it
 * begins with. */
static bool has_hidden_steps(const char *path)
{
	return strcasestr(path, "%2e") || strcasestr(path, "%2f") || strcasestr(path, "%5c");
}

bool fetch_url_is_below(const struct fetch_url *u, const struct fetch_url *from)
{
	size_t n = strlen(from->path);
	if (strcmp(u->scheme, from->scheme) != 0 || strcasecmp(u->host, from->host) != 0 ||
	    strcmp(u->port, from->port) != 0)
		return false;
	if (strcmp(from->path, "/") == 0)
		return true;
	if (strncmp(u->path, from->path, n) != 0 || has_hidden_steps(u->path))
		return false;
	return from->path[n - 1] == '/' || u->path[n] == '/' || u->path[n] == '\0';
}
