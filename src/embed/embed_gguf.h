/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GGUF file says of an embedder: its pooling, and a reranker's head. Source of the
 * names: llama.cpp's converter. Thread: any.
 */
#pragma once
#include "embed/embed_pool.h"

/* Reads pooling_type into out->kind (without that key, leaves it as it is) and the layers after
 * the pooling, dense_2 and dense_3, if they are there. out->width is d_model. E_UNSUPPORTED: the
 * file has no pooling, one that is not known, or is a reranker's; E_MISSING: it is an encoder and
 * lacks the key; E_FORMAT. */
enum status embed_gguf_pooling(const struct model *m, struct embed_pool *out,
			       struct fail *fail) MUST_USE;
/* Reads the head of a reranker of Qwen3-Reranker's kind, if the file has one (cls.output): one
 * layer of two numbers, those of "yes" and of "no". Else out->n_dense is 0, and these numbers
 * are the logits of two tokens. E_UNSUPPORTED: the head is of another kind, or the file is an
 * embedding model; E_FORMAT. */
enum status embed_gguf_head(const struct model *m, struct embed_pool *out,
			    struct fail *fail) MUST_USE;
