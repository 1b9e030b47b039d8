/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters that every kind of call shares. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* Reads the parameters out of the body into the call and its request; all memory is of the
 * request's arena. Defaults: the model's generation_config.json, then OpenAI's. Where the
 * body does not say max_tokens, it stays 0 for params_fit to set. */
enum status params_read(const struct json_node *body, struct api_call *c,
			struct fail *fail) MUST_USE;

/* Called when the prompts are known. Checks that every answer fits the context, and sets a
 * max_tokens that is 0. E_CTX_LEN with both counts. */
enum status params_fit(const struct json_node *body, struct api_call *c,
		       struct fail *fail) MUST_USE;

/* max_tokens under the name that the body uses: max_completion_tokens or max_tokens. */
struct json_node params_max_tokens(const struct json_node *body);

/* Reads a list of token ids of the model's vocabulary into arena a. */
enum status params_read_ids(const struct json_node *at, size_t max,
			    int32_t n_vocab, struct arena *a, int32_t **out,
			    size_t *out_n, struct fail *fail) MUST_USE;

/* In params_lora.c: reads `lora`. The adapter that `model` names is in the request. */
enum status params_read_lora(const struct json_node *body, struct api_call *c,
			     struct fail *fail) MUST_USE;
/* In params_dry.c: reads dry_allowed_length, dry_penalty_last_n and dry_sequence_breakers.
 * Call it when the multiplier is read: the breakers' tokens are found only where DRY is
 * on. */
enum status params_read_dry(const struct json_node *body, struct api_call *c,
			    struct fail *fail) MUST_USE;
