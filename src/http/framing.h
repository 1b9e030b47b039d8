/* SPDX-License-Identifier: Apache-2.0
 *
 * Is it certain where this request ends? Thread: io.
 */
#pragma once
#include <stdbool.h>

#include "base/status.h"

struct MHD_Connection;

struct framing {
	int64_t length;      /* of the body by Content-Length; 0: none; -1: chunked */
	bool expects_continue; /* the client waits for our word before the body */
};

/* E_FRAMING, for which the connection must be closed after the answer. */
enum status framing_check(struct MHD_Connection *mhd, const char *version,
			  struct framing *out, struct fail *fail) MUST_USE;
