/* SPDX-License-Identifier: Apache-2.0
 *
 * Routed experts that do not stay on the device: expert_memory of backend.h. In the store
 * an expert is what the kernels read: gate, up and down, each with its scales and zero
 * points, from multiples of 256 bytes. The slots are device memory. Reads go to stages of
 * pinned memory, and from there to a slot. Then the expert's rows of the table
 * (struct hip_experts) get the slot's address, so the kernels are the same as for
 * experts that stay.
 *
 *   hip_slots.c      the store, and what fills slots
 *   hip_slots_run.c  moe_experts: the choice comes to the host, which waits for experts
 *
 * Where there is a slot for every expert, all are read when the model is loaded. The host
 * then sees no choice, and steps are recorded as graphs, as with experts that stay.
 * Thread: engine.
 */
#pragma once
#include "backend/backend_experts.h"
#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_weight.h"

/* Places of an expert's arrays in its slot. */
struct hip_slots_array {
	size_t at, n_bytes; /* n_bytes 0: the weight has no such array */
};

/* The experts of one layer. All have one layout. */
struct hip_slots_layer {
	struct hip_slots *of;
	const struct experts *experts; /* those of the engine's graph */
	struct hip_experts *x;
	/* number of the layer, and of its first expert, in the store */
	int32_t i, first;
	struct weight *host;           /* (E, MOE_PARTS) in the model's files, while loading */
	struct hip_slots_array arrays[MOE_PARTS][HIP_WEIGHT_ARRAYS];
};

struct hip_slots {
	struct hip_slots *next;    /* slots of the model that was loaded before */
	struct hip *h;
	struct backend_experts all;
	struct hip_slots_layer **layers; /* (all.n_layers) */
	struct weight *host;       /* (n_host) of the layer that is being loaded */
	size_t n_host;
	char *slots;               /* device memory */
	size_t slot_bytes;
	char *pinned;              /* the stages' memory, after padding up to EXPERT_ALIGN */
	struct hip_mark *copied;   /* (n_stages) behind the copy that reads a stage */
	int32_t n_stages;
	struct hip_slots_scratch *scratch; /* hip_slots_run.c */
	bool has_all;              /* every expert has a slot, and has been read */
};

/* Called while a model is loaded with b->expert_bytes. */
void hip_slots_begin(struct backend *b, const struct model *m);
enum status hip_slots_weight(struct hip *h, const struct weight *host, struct weight *out,
			     struct fail *fail) MUST_USE;
/* Sets x->slots, and the experts' weights except their addresses. */
enum status hip_slots_layer(struct hip *h, struct experts *out, struct hip_experts *x,
			    struct fail *fail) MUST_USE;
enum status hip_slots_end(struct backend *b, struct fail *fail) MUST_USE;
void hip_slots_destroy(struct hip *h);

/* NULL: all experts are there, and the kernels can run before the host sees the choice. */
static inline struct hip_slots_layer *hip_slots_of(const struct hip_experts *x)
{
	return x->slots && !x->slots->of->has_all ? x->slots : NULL;
}

/* moe_experts of routed experts in slots, after the router. l: as for the kernels. Returns E_IO,
 * with base.refusal, if an expert cannot be read. */
enum status hip_slots_run(struct hip *h, const struct moe_experts_args *a,
			  const struct hip_experts_way *way, struct moe_launch l) MUST_USE;
void hip_slots_scratch_free(struct hip_slots *s);
