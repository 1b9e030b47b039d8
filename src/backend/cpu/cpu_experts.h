/* SPDX-License-Identifier: Apache-2.0
 *
 * Routed experts that do not stay in memory: expert_memory of backend.h. In the store an
 * expert is what the fast path computes with: panels (cpu_panels.h), or rows of floats as
 * in the checkpoint; gate, up and down, each from a multiple of 64 bytes.
 *
 * backend_experts.h has the rest. Thread: engine.
 */
#pragma once
#include "backend/backend_experts.h"
#include "backend/cpu/cpu.h"

struct cpu_experts;

/* What experts.device points to, for experts in slots. */
struct cpu_expert_layer {
	struct cpu_experts *of;
	const struct experts *experts; /* those of the engine's graph */
	/* number of the layer, and of its first expert, in the store */
	int32_t i, first;
};
/* The layer of the experts e; NULL: all of them stay in memory. */
struct cpu_expert_layer *cpu_experts_of(const struct backend *b, const struct experts *e);
struct expert_memory *cpu_experts_memory(const struct cpu_expert_layer *l);
/* This step uses n experts of the layer. e: their numbers in the layer, ascending; afterwards
 * those in the store. */
void cpu_experts_use(const struct cpu_expert_layer *l, struct backend *b, int32_t *e,
		     int32_t n);
/* Prefetches the next layer's experts, if a prediction is wanted, once the reads of this layer's
 * experts have begun. Uses cpu_scratch. */
void cpu_experts_prefetch(const struct cpu_expert_layer *l, struct backend *b,
			  const struct moe_ahead *ahead);
/* Expert e (its number in the store) has been read: points its weights to the slot. */
void cpu_experts_attach(const struct cpu_expert_layer *l, int32_t e);

/* Called by cpu_weight.c. */
void cpu_experts_begin(struct cpu *c, const struct model *m);
enum status cpu_experts_weight(struct cpu *c, const struct weight *host, struct weight *out,
			       struct fail *fail) MUST_USE;
enum status cpu_experts_layer(struct cpu *c, struct experts *out, struct fail *fail) MUST_USE;
enum status cpu_experts_end(struct cpu *c, struct fail *fail) MUST_USE;
void cpu_experts_free(struct cpu *c);
