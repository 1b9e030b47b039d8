/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of POST /v1/chat/completions to a prompt. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "api/json_read.h"

/* Read messages, tools and template variables, render, tokenize: sets the call's
 * one prompt and how its output is split. Then the log-probabilities' switches. */
enum status chat_read(const struct json_node *body, struct api_call *c,
		      struct fail *fail) MUST_USE;
