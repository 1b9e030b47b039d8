/* SPDX-License-Identifier: Apache-2.0
 *
 * The header traceparent, https://www.w3.org/TR/trace-context/. Thread: any.
 */
#pragma once
#include <stdbool.h>

struct traceparent {
	char trace_id[33]; /* hex digits; "": there is no trace */
	char parent_id[17]; /* of the caller's span; "": none */
	bool is_sampled;   /* spans are wanted */
};

/* False, and an empty *out, unless text is a traceparent as the standard has it: lower case,
 * no zero id, version 00, or a later one that begins the same way. NULL is none. */
bool traceparent_parse(const char *text, struct traceparent *out);
