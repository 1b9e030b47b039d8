/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes calls of the history in Python or as a JSON list. For a model that writes its
 * calls so, and whose template shows no calls. Thread: any.
 */
#pragma once
#include "base/marked.h"
#include "json/json_read.h"

/* Append `calls`, a list of tool calls that messages.c has checked, between `open` and
 * `close`: [f(a=1), g()], or with is_json [{"name": "f", "arguments": {"a": 1}}, …]. Only
 * `open` and `close` may be control tokens. */
void pycalls_add(const struct json_node *calls, struct str open, struct str close,
		 bool is_json, struct marked *out);
