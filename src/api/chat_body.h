/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the body of POST /v1/chat/completions into a prompt. Thread: any.
 */
#pragma once
#include "api/api_dialect.h"
#include "chat/images.h"
#include "api/text_call.h"
#include "json/json_read.h"
#include "base/marked.h"

/* Reads messages, tools, template variables and the switches of log-probabilities. Renders
 * and tokenizes: sets the call's one prompt, and how its output is split. */
enum status chat_body_read(const struct json_node *body, struct api_call *c,
			   struct fail *fail) MUST_USE;

/* Appends only the prompt to *out, without computing its images, of which the caller calls
 * images_close. E_INVAL where the model
 * has no template. Other errors are those of chat_body_read. */
enum status chat_body_render(const struct api *a, const struct json_node *body,
			     struct arena *scratch, struct marked *out, struct images *images,
			     const _Atomic bool *is_gone, struct fail *fail) MUST_USE;

/* Counts the tokens of a rewritten body's prompt, which a call would compute. */
enum status chat_body_count(const struct api *a, const struct dialect_body *chat,
			    const struct text_input *in, size_t *out, struct fail *fail) MUST_USE;
