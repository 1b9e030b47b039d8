/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters that every kind of call shares. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* Read them out of the body into the call and its request (all in the request's
 * arena). Defaults: the model's generation_config.json, then OpenAI's. max_tokens is
 * left for params_fit: 0 where the body does not say. */
enum status params_read(const struct json_node *body, struct api_call *c,
			struct fail *fail) MUST_USE;

/* With the prompts known: does every answer fit the context? E_CTX_LEN with both
 * counts. */
enum status params_fit(struct api_call *c, struct fail *fail) MUST_USE;

/* A list of token ids of the model's vocabulary, copied into arena a. */
enum status params_read_ids(const struct json_node *at, size_t max,
			    int32_t n_vocab, struct arena *a, int32_t **out,
			    size_t *out_n, struct fail *fail) MUST_USE;

/* params_dry.c: dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers, once the
 * multiplier is read. What breaks is found where DRY is on. */
enum status params_read_dry(const struct json_node *body, struct api_call *c,
			    struct fail *fail) MUST_USE;
