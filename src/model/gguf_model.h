/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in a GGUF file: finds the file and translates its keys to Hugging Face's names,
 * which the rest of this folder reads. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "model/gguf.h"
#include "model/model.h"
#include "model/tokenizer_hf.h"

/* Find the GGUF file that `path` means: the file itself, or the only model in a folder
 * without safetensors (of a split file, its first part). *out is malloc'ed, or NULL if
 * there is none. E_FORMAT if a folder has several models; the message names two. */
enum status gguf_model_find(const char *path, char **out, struct fail *fail) MUST_USE;
/* May a file of this name be a model, or the first part of one? Not a tower ("mmproj"), nor an
 * MTP layer alone ("mtp-"). */
bool gguf_model_is_first(const char *file);
/* Translate a tensor's name: blk.3.attn_q.weight becomes
 * model.layers.3.self_attn.q_proj.weight. NULL: the tensor is not needed. */
const char *gguf_names_hf(const struct gguf *g, const char *name, struct arena *a);
/* Build the model's config.json and generation_config.json from its keys; the caller owns
 * both. An unknown architecture, rope type or switch is E_UNSUPPORTED and names the key. */
enum status gguf_model_config(const struct tensors *ts, json_t **out_config,
			      json_t **out_generation, struct fail *fail) MUST_USE;
/* True if the rows of q and k are stored in pairs: llama's converter interleaves the two
 * halves of each head, which rope rotates together. Hugging Face stores one half after
 * the other. */
bool gguf_model_is_paired(const struct gguf *g);
bool gguf_model_is_tiled(const struct gguf *g); /* heads of delta nets are: heads_tiled */
/* Adjust c where values of GGUF's tensors differ from Hugging Face's. */
void gguf_model_fix_config(const struct tensors *ts, struct model_config *c);
/* Load vocabulary, merges, pre-tokenizer, added tokens and chat template. */
enum status gguf_tokenizer_load(const struct gguf *g, const char *path,
				struct tokenizer_files *out, struct fail *fail) MUST_USE;
