/* SPDX-License-Identifier: Apache-2.0
 *
 * A LoRA adapter. It has two matrices of low rank R for some linear layers of a model: their
 * y = W x becomes y = W x + scale B (A x). Two forms are read:
 *
 *   PEFT  a folder with adapter_config.json and adapter_model.safetensors
 *   GGUF  a file whose general.type is "adapter"
 *
 * What would change an answer and is not computed here is refused by its name. Thread: one opens
 * it; afterwards any reads it.
 */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "model/model.h"

enum { LORA_MAX_RANK = 512 };

struct lora_module {
	const char *file_name; /* as in the file, for messages */
	const char *name;      /* "layers.3.self_attn.q_proj"; of no layer: as in the file */
	int32_t layer;         /* -1: of no layer of the text model */
	int32_t rank, n, k;    /* R, N, K */
	int32_t n_experts;     /* E of a stack of routed experts; 0: one matrix */
	float scale;
	enum dtype type;       /* of A and B: F32, F16 or BF16, as in the file where both have it */
	const void *a;         /* (R, K), or (E, R, K) */
	const void *b;         /* (N, R), or (E, N, R); rows in Hugging Face's order of the model's
				* weights, and of gate_up_proj gate's first */
};

/* Matrices that the module is for. */
static inline size_t lora_module_count(const struct lora_module *o)
{
	return o->n_experts ? (size_t)o->n_experts : 1;
}

struct lora {
	char *path;
	uint64_t hash;  /* of what the adapter says */
	int32_t rank;   /* the largest */
	struct lora_module *modules;
	size_t n_modules;
	struct strmap by_name; /* index of a module, by its name */
	struct arena arena;
};

/* Opens the adapter at path, made for m or a model like it. looks: its numbers are not read; a, b
 * and hash are 0. Names the file and what is at fault: E_IO, E_MISSING, E_FORMAT, E_UNSUPPORTED;
 * E_CONFIG: made for another architecture. */
enum status lora_open(const char *path, const struct model *m, bool looks, struct lora **out,
		      struct fail *fail) MUST_USE;
void lora_close(struct lora *l); /* NULL is fine */
/* Linear layers that it is for: each expert of a stack is one. */
size_t lora_layers(const struct lora *l);
/* Bytes of all A and B, which are in memory until it is closed; of a look, those that it saves. */
size_t lora_bytes(const struct lora *l);
/* The module `part` ("self_attn.q_proj") of a layer; NULL: the adapter leaves it as it is. */
const struct lora_module *lora_find(const struct lora *l, int32_t layer, const char *part);
