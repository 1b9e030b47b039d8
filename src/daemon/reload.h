/* SPDX-License-Identifier: Apache-2.0
 *
 * What SIGHUP does: API keys and the certificate are read again, all other settings are compared
 * with those that hold. The log tells it. Thread: io.
 */
#pragma once
#include "daemon/config.h"
#include "daemon/model_list.h"
#include "http/http.h"

struct reload {
	const struct config *config;     /* as the server runs */
	const struct model_list *models; /* as it runs, too */
	struct http *http;
	int argc;      /* of the start, with argv and default_file */
	char *const *argv;
	const char *default_file;
	bool has_keys; /* the server has API keys */
};

/* Appends to `note` what a user should read behind the state, each part as "; TEXT". */
void reload_run(const struct reload *r, struct buf *note);
