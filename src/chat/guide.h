/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what an answer must look like, in every spelling that clients have for it:
 *
 *   response_format        {type: text | json_object | json_schema}    OpenAI
 *   guided_json, guided_regex, guided_choice, guided_grammar           older vLLM
 *   structured_outputs     {json | regex | choice | grammar | json_object}    vLLM
 *   grammar, json_schema                                               llama.cpp
 *
 * Thread: any.
 */
#pragma once
#include "json/json_read.h"
#include "chat/grammarcache.h"

/* *out: a reference, or NULL where the body asks for no grammar. E_INVAL or E_LIMIT with
 * the parameter's path; E_INVAL for two parameters at once. */
enum status guide_read(const struct json_node *body, struct grammarcache *cache,
		       struct grammar **out, struct fail *fail) MUST_USE;
