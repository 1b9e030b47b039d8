/* SPDX-License-Identifier: Apache-2.0
 *
 * The header traceparent, https://www.w3.org/TR/trace-context/. Thread: any.
 */
#pragma once
#include <stdbool.h>

struct traceparent {
	char trace_id[33]; /* hex digits; "": no trace */
	char parent_id[17]; /* id of the caller's span; "": none */
	bool is_sampled;   /* the caller wants spans */
};

/* False, with an empty *out: text is NULL or not a traceparent as the standard demands.
 * That is lower case, no zero id, and version 00 or a later one that begins the same
 * way. */
bool traceparent_parse(const char *text, struct traceparent *out);
