/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in GGUF: where its file is, and what its keys say, in the words of Hugging
 * Face that the rest of this folder reads. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "model/gguf.h"
#include "model/model.h"
#include "model/tokenizer_hf.h"

/* The GGUF file that `path` means: itself, or the one model in a folder that has no
 * safetensors (the first part of a split one). *out is malloc'ed, NULL where there is
 * none. E_FORMAT names two of several. */
enum status gguf_model_find(const char *path, char **out, struct fail *fail) MUST_USE;
/* blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight; NULL: not needed. */
const char *gguf_model_rename(const struct gguf *g, const char *name, struct arena *a);
/* What config.json and generation_config.json would say; the caller owns both. Every
 * architecture, rope type and switch that is not known is E_UNSUPPORTED by key. */
enum status gguf_model_config(const struct tensors *ts, json_t **out_config,
			      json_t **out_generation, struct fail *fail) MUST_USE;
/* Llama's q and k have the two halves of a head that are rotated together in turn; 0
 * where they are as in Hugging Face, else the size of a head. */
bool gguf_model_is_paired(const struct gguf *g);
/* What differs in the tensors from those of Hugging Face, where c can say it. */
void gguf_model_fix_config(const struct gguf *g, struct model_config *c);
/* Vocabulary, merges, pre-tokenizer, added tokens, chat template. */
enum status gguf_tokenizer_load(const struct gguf *g, const char *path,
				struct tokenizer_files *out, struct fail *fail) MUST_USE;
