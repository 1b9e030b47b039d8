/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and error messages. Thread: any.
 *
 * A function that can fail returns `enum status`: OK (0) or a negative E_… of status.def.
 * If a human can cause the fault (config, model file, request), the last parameter is a
 * `struct fail *`. The function that detects the fault fills it in. Callers that need no
 * message pass NULL.
 */
#pragma once
#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

enum status_order {
	ORDER_OK,
#define STATUS(name, http, type, code, text) ORDER_##name,
#include "base/status.def"
#undef STATUS
	ORDER_COUNT
};

enum status {
	OK = 0,
#define STATUS(name, http, type, code, text) name = -ORDER_##name,
#include "base/status.def"
#undef STATUS
};

/* Describes a failure for the human who caused it. */
struct fail {
	enum status code;
	char param[120]; /* JSON path of the fault, as in "messages[2].role"; "" if none */
	char text[480];  /* one sentence; always valid UTF-8, no newline */
	int64_t got;     /* E_CTX_LEN: tokens in the prompt; else 0 */
	int64_t limit;   /* E_CTX_LEN: tokens in the context; else 0 */
};

/* Fill *f (unless NULL) with code and text; clears param. Returns code, so
 * that a caller can write `return fail_set(f, E_FORMAT, "…")`. */
enum status fail_set(struct fail *f, enum status code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Like fail_set, and records param, the path of the fault. */
enum status fail_at(struct fail *f, enum status code, const char *param,
		    const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Put `what` and ": " before the text of *f, to say which setting led there, unless it begins so;
 * f may be NULL. Returns code. */
enum status fail_within(struct fail *f, enum status code, const char *what);

/* Fill *f with the code's default sentence, unless *f holds this code already. */
enum status fail_default(struct fail *f, enum status code);

const char *status_name(enum status s); /* as in "E_QUEUE_FULL" */
const char *status_text(enum status s); /* the default sentence of status.def */
const char *status_type(enum status s); /* as in "invalid_request_error" */
const char *status_code(enum status s); /* as in "queue_full"; "" if none */
int status_http(enum status s);         /* HTTP status, as in 429; OK is 200 */
