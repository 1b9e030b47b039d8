/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of POST /v1/completions to prompts. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* Read `prompt` in its four spellings, `echo` and `logprobs`. */
enum status completion_read(const struct json_node *body, struct api_call *c,
			    struct fail *fail) MUST_USE;
