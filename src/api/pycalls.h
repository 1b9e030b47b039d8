/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the history in Python or as a list of JSON, for a model that writes them so and
 * whose template shows none. Thread: any.
 */
#pragma once
#include "base/marked.h"
#include "json/json_read.h"

/* Append `calls`, a list of tool calls that messages.c has checked, between `open` and
 * `close`: [f(a=1), g()], or with is_json [{"name": "f", "arguments": {"a": 1}}, …]. Only
 * `open` and `close` may be control tokens. */
void pycalls_add(const struct json_node *calls, struct str open, struct str close,
		 bool is_json, struct marked *out);
