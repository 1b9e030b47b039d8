/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots of memory for a model's routed experts, and the store that fills them. Experts
 * have one numbering over all layers, i_layer * E + e.
 *
 * A layer's operation asks for its experts, computes with those that are there, waits for
 * the others, and releases them all:
 *
 *   expert_memory_use      tells which experts this step uses (for the policy and the counts)
 *   expert_memory_ask      holds as many as fit; begins to read those that are not in memory
 *   expert_memory_is_there, expert_memory_wait, expert_memory_at
 *   expert_memory_release
 *
 * The slots are host memory, or memory of a device (struct expert_device): then experts are
 * read into stages of host memory, and waiting for an expert also begins its copy to its slot.
 *
 * Thread: engine.
 */
#pragma once
#include "experts/expert_store.h"

struct expert_memory;

/* Slots in memory of a device. */
struct expert_device {
	uint8_t *stages; /* (n_stages, slot_bytes) host memory, aligned to EXPERT_ALIGN */
	int32_t n_stages;
	/* Begin to copy n bytes of expert e, which lies in the stage, to its slot. */
	enum status (*put)(void *ctx, int32_t e, int32_t slot, int32_t stage, size_t n,
			   struct fail *fail);
	/* Wait until the last copy from the stage has ended. */
	void (*wait)(void *ctx, int32_t stage);
	void *ctx;
};

struct expert_memory_opts {
	int32_t n_slots;   /* at least 2. If it is the number of experts, all are read, expert i
			    * into slot i */
	size_t slot_bytes; /* size of the largest expert, rounded up to a multiple of
			    * EXPERT_ALIGN */
	/* File that keeps the use of experts for the next start; NULL: it is not kept. */
	const char *use_path;
	/* File that keeps the measured depth, if reader.depth is 0; NULL: it is not kept. */
	const char *depth_path;
	const struct expert_device *device; /* NULL: slots are host memory, taken here */
	struct expert_reader_opts reader; /* fd, is_direct and slots are set here */
};

/* Takes *store over, and reads the experts that were used most before, or all. Fails with
 * E_NOMEM, or like expert_memory_wait. */
enum status expert_memory_create(struct expert_store *store,
				 const struct expert_memory_opts *o,
				 struct expert_memory **out, struct fail *fail) MUST_USE;
/* Writes the use of experts to use_path. NULL is fine. */
void expert_memory_destroy(struct expert_memory *m);
/* "3 of 12 experts in memory, ..." */
const char *expert_memory_note(const struct expert_memory *m);
int32_t expert_memory_n_slots(const struct expert_memory *m);

/* This step uses experts e[0 .. n), each once. begins_step: a new step begins. */
void expert_memory_use(struct expert_memory *m, const int32_t *e, int32_t n,
		       bool begins_step);
/* Hold the first of the n experts: as many as have room beside those held already, and at most
 * `most`. Returns how many. None of the n may be held yet. Reads begin for those not in memory.
 * With a device, only as many are read as there are free stages. So put experts in memory first
 * in e, wait, and ask again for the rest. */
int32_t expert_memory_ask(struct expert_memory *m, const int32_t *e, int32_t n,
			  int32_t most);
/* True if e has a slot and all its bytes are there. e need not be held. */
bool expert_memory_has(const struct expert_memory *m, int32_t e);
/* For an expert that is held: true if its bytes are there. With a device: if it has been read. */
bool expert_memory_is_there(const struct expert_memory *m, int32_t e);
/* Waits until expert e, which is held, has been read. E_IO, with the reason: it cannot be read,
 * or its checksum is wrong. Then it stays held, but nothing may be computed with it. With a
 * device, begins the copy to the slot and returns the status of `put`; later work of the device
 * runs after the copy. */
enum status expert_memory_wait(struct expert_memory *m, int32_t e,
			       struct fail *fail) MUST_USE;
/* The bytes of expert e, as they were stored. Only without a device. */
const uint8_t *expert_memory_at(const struct expert_memory *m, int32_t e);
/* Ends the hold of each expert, after waiting for its read. An expert that could not be read
 * loses its slot. */
void expert_memory_release(struct expert_memory *m, const int32_t *e, int32_t n);

/* Predictions. After asking for a layer's experts, the caller may predict which ones the next
 * call of expert_memory_use will have. While predictions are right often enough (expert_ahead.h),
 * those not in memory are read. A wrong prediction does no other harm. expert_memory_wants: true
 * if a prediction is wanted in this step. Call it wherever a prediction is possible. */
bool expert_memory_wants(struct expert_memory *m);
void expert_memory_prefetch(struct expert_memory *m, const int32_t *e, int32_t n);

struct expert_memory_stats {
	uint64_t n_hits, n_misses, n_bytes; /* uses whose expert was in memory, and the others;
					     * bytes read */
	uint64_t n_ahead, n_ahead_used;     /* experts that were read ahead, and those of them
					     * that were then used */
	double wait_s;
};
void expert_memory_stats(const struct expert_memory *m, struct expert_memory_stats *out);
