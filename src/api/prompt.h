/* SPDX-License-Identifier: Apache-2.0
 *
 * Token ids of a request's prompts, put into its arena. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "api/images.h"

/* Room for n prompts, all empty yet. */
void prompt_alloc(struct request *r, int n);
/* Prompt i from text. stands_alone: no chat template wrote it, so the tokenizer puts
 * what the model wants around it (a llama's bos). */
enum status prompt_encode(struct api_call *c, int i, const struct marked *text,
			  bool stands_alone, struct fail *fail) MUST_USE;
/* Looks at the images of the only prompt: see images_expand. */
enum status prompt_see(struct api_call *c, const struct images *images,
		       struct fail *fail) MUST_USE;
