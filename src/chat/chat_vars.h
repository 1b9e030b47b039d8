/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of the chat template: those that the server sets, and those of a request.
 * Thread: any.
 */
#pragma once
#include "chat/chat_model.h"
#include "jinja/jinja.h"
#include "json/json_read.h"

/* The text of a JSON object of variables; *out NULL where text is NULL or "", else
 * freed with json_decref. E_INVAL. */
enum status chat_vars_parse(const char *text, json_t **out, struct fail *fail) MUST_USE;

/* A dict in arena a of all variables for one request. is_forced: the answer must be a tool
 * call, which the model writes at once, so reasoning is off. */
enum status chat_vars_read(const struct json_node *body, const struct chat_model *m,
			   struct arena *a, bool is_forced, struct jinja_value **out,
			   struct fail *fail) MUST_USE;
