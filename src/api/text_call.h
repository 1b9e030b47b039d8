/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of the endpoints that answer without the engine: a body in, one JSON value out.
 * Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "base/arena.h"
#include "json/json_read.h"

/* Reads the parsed body, and appends the answer to out. scratch lasts as long as the call. */
typedef enum status text_call_fn(const struct api *a, const struct json_node *body,
				 struct arena *scratch, struct buf *out, struct fail *fail);

/* Parses `bytes` as JSON and runs fn on it. E_INVAL where it is no JSON; else as fn. */
enum status text_call(const struct api *a, struct str bytes, text_call_fn *fn,
		      struct buf *out, struct fail *fail) MUST_USE;
