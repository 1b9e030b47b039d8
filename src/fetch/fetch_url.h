/* SPDX-License-Identifier: Apache-2.0
 *
 * An address, taken apart by the library that will ask for it: what was checked is what is
 * asked for. Thread: any.
 */
#pragma once
#include <curl/curl.h>

#include "base/buf.h"

struct fetch_url {
	CURLU *whole;
	char *scheme, *host, *port, *path; /* host of IPv6 in brackets; path without "." and ".." */
};

/* False, and nothing to deinit: no http: or https: address of at most 4096 bytes in ASCII, or
 * one with the name of a user. */
bool fetch_url_parse(struct str text, struct fetch_url *out);
void fetch_url_deinit(struct fetch_url *u);
/* The path of a file: address without a host, decoded, for the caller to free; NULL: it is
 * none. */
char *fetch_url_file(struct str text);

/* Is u at or below `from`: the same scheme, host and port, and a path that begins so? */
bool fetch_url_is_below(const struct fetch_url *u, const struct fetch_url *from);
