/* SPDX-License-Identifier: Apache-2.0
 *
 * Routed experts that do not stay in memory (expert_memory of backend.h), as all backends
 * need them: the plan of their store, the file itself, and the slots.
 *
 * While a model is loaded its experts are planned only (backend_experts_add). At the end the
 * backend asks for the number of slots (backend_experts_count), and then for the store and the
 * slots (backend_experts_open). Experts of all layers are numbered together: the number of the
 * layer's first expert, plus the number in the layer. Thread: engine.
 */
#pragma once
#include "backend/backend.h"
#include "experts/expert_memory.h"

struct backend_experts {
	/* Set by the backend. */
	struct backend *b;
	const struct model *model; /* valid while loading */
	const char *dir;           /* folder of the store; NULL or "": beside the model */
	const char *kind;          /* kind of the contents, in the store's name: "avx2", "hip" */
	/* Write expert e of layer l, in the order of backend_experts_add, to `out`,
	 * which is zeroed. */
	enum status (*pack)(void *ctx, int32_t l, int32_t e, uint8_t *out, struct fail *fail);
	void *ctx;
	/* Set by backend_experts. */
	int32_t n_layers, n;       /* layers with experts; experts of all layers */
	int32_t *first;            /* (n_layers) number of each layer's first expert */
	uint64_t *n_bytes;         /* (n) bytes of each expert in the store */
	struct expert_memory *memory;
	double told_slots;         /* as metrics have it */
	uint64_t step_before;
};

/* Adds a layer of n experts of n_bytes each (multiples of EXPERT_ALIGN). */
void backend_experts_add(struct backend_experts *s, const uint64_t *n_bytes, int32_t n);
/* The slots that b->expert_bytes has room for beside `spare` bytes: sets n_slots and
 * slot_bytes of *o. E_CONFIG: too few for a token. */
enum status backend_experts_count(const struct backend_experts *s, size_t spare,
				  struct expert_memory_opts *o, struct fail *fail) MUST_USE;
/* Opens the store, or makes it, and then s->memory. Sets b->experts_note. */
enum status backend_experts_open(struct backend_experts *s, struct expert_memory_opts *o,
				 struct fail *fail) MUST_USE;
/* This step uses experts e[0 .. n) of layer l, ascending. Afterwards e has their numbers among
 * the experts of all layers. */
void backend_experts_use(struct backend_experts *s, int32_t l, uint64_t step, int32_t *e,
			 int32_t n);
/* Frees all that s owns, and first writes to a file how often experts were used. */
void backend_experts_deinit(struct backend_experts *s);
