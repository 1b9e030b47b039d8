/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of Ollama's API share. Thread: a call's, one at a time.
 */
#pragma once
#include "api/api_dialect.h"

/* c->state of a call. */
struct ollama_call {
	bool is_chat; /* /api/chat; false: /api/generate */
	int n_told;   /* tool calls that the stream has told */
};

/* A prompt without a template: what both bodies may become. */
extern const struct dialect ollama_raw;

enum status ollama_chat_to_chat(const struct json_node *body, struct api_call *c,
				struct dialect_body *to, struct fail *fail);
enum status ollama_generate_to_chat(const struct json_node *body, struct api_call *c,
				    struct dialect_body *to, struct fail *fail);
