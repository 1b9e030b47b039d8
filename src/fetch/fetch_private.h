/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: the parsed settings.
 */
#pragma once
#include "fetch/fetch.h"
#include "fetch/fetch_address.h"
#include "fetch/fetch_url.h"

struct fetch {
	struct fetch_url *from; /* (n_from) */
	int n_from;
	bool is_any_http, is_any_https;
	struct fetch_address *listed; /* (n_listed) private addresses that hosts may have */
	int n_listed;
	char *dir; /* without a slash at its end; NULL: none */
	int64_t timeout_us, max_bytes[FETCH_KINDS];
};

bool fetch_allows_url(const struct fetch *f, const struct fetch_url *u);
bool fetch_allows_address(const struct fetch *f, const struct fetch_address *a);

/* fetch_get for a file: address. */
enum status fetch_file(const struct fetch *f, const struct fetch_ask *ask, struct buf *out,
		       struct fail *fail) MUST_USE;
/* fetch_get for an http: or https: address. */
enum status fetch_http(const struct fetch *f, const struct fetch_ask *ask, struct buf *out,
		       struct fail *fail) MUST_USE;
/* Fails with "is longer than ..." */
enum status fetch_fail_long(const struct fetch *f, enum fetch_kind kind, struct fail *fail);
