/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of the endpoints that answer without the engine: each turns a body into one
 * JSON value. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "base/arena.h"
#include "json/json_read.h"

struct text_input {
	const struct json_node *body;  /* parsed */
	struct arena *scratch;         /* lasts as long as the call */
	const _Atomic bool *is_gone;   /* as in struct api_input, and so is owner */
	uint64_t owner;
};

/* Reads the body, and appends the answer to out. */
typedef enum status text_call_fn(const struct api *a, const struct text_input *in,
				 struct buf *out, struct fail *fail);

/* Parses the body as JSON and runs fn on it. E_INVAL where the body is no JSON; other
 * errors are fn's. */
enum status text_call(const struct api *a, const struct api_input *in, text_call_fn *fn,
		      struct buf *out, struct fail *fail) MUST_USE;
