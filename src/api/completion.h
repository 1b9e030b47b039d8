/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the body of POST /v1/completions into prompts. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* Reads `prompt` in its four spellings, `echo` and `logprobs`. */
enum status completion_read(const struct json_node *body, struct api_call *c,
			    struct fail *fail) MUST_USE;
