/* SPDX-License-Identifier: Apache-2.0
 *
 * An address, parsed by libcurl, which later sends the request too. So the checked address
 * and the requested one cannot differ. Thread: any.
 */
#pragma once
#include <curl/curl.h>

#include "base/buf.h"

struct fetch_url {
	CURLU *whole;
	char *scheme, *host, *port, *path; /* IPv6 hosts in brackets; no "." or ".." in path */
};

/* False, with nothing to deinit: text is no http: or https: address of at most 4096 ASCII
 * bytes, or it has a user's name. */
bool fetch_url_parse(struct str text, struct fetch_url *out);
void fetch_url_deinit(struct fetch_url *u);
/* The decoded path of a file: address without a host; the caller frees it. NULL: text is no
 * such address. */
char *fetch_url_file(struct str text);

/* Is u equal to or below `from`: the same scheme, host and port, and a path that begins
 * with from's? */
bool fetch_url_is_below(const struct fetch_url *u, const struct fetch_url *from);
