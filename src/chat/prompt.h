/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the prompts of a request into token ids in its arena. Thread: any.
 */
#pragma once
#include "chat/chat_model.h"
#include "chat/images.h"

/* Allocates n prompts, all empty. */
void prompt_alloc(struct request *r, int n);
/* Encodes `text` as prompt i. stands_alone: no chat template wrote it, so the tokenizer
 * adds what the model wants around a text (a llama's bos). */
enum status prompt_encode(const struct chat_model *m, struct request *r, int i,
			  const struct marked *text, bool stands_alone,
			  struct fail *fail) MUST_USE;
/* As llama.cpp, begins the chat of a GGUF with the tokenizer's own first tokens (BOS), unless the
 * template wrote them. In a folder the template alone decides, as in Transformers. */
void prompt_begin_chat(const struct model *m, struct ids *ids);
/* Prompts 1 and on become what prompt 0 is. */
void prompt_repeat(struct request *r);
/* Computes the images of prompt i, behind those of the prompts before: see images_expand. */
enum status prompt_see(struct request *r, int i, struct images *images,
		       const struct images_use *use, struct fail *fail) MUST_USE;
