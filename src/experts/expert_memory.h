/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots of memory for a model's routed experts, and the store that fills them. Experts
 * have one numbering over all layers, i_layer * E + e.
 *
 * A layer's operation asks for its experts, computes with those that are there, waits for
 * the others, and releases them all:
 *
 *   expert_memory_use      these are used in this step (for the policy and the counts)
 *   expert_memory_ask      holds as many as fit; reads begin for those that are not there
 *   expert_memory_is_there, expert_memory_wait, expert_memory_at
 *   expert_memory_release
 *
 * The slots are host memory, or memory of a device (struct expert_device): then experts are
 * read into stages of host memory, and waiting for one also begins its copy to its slot.
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
	/* Expert e lies in the stage: begin to copy n bytes of it to its slot. */
	enum status (*put)(void *ctx, int32_t e, int32_t slot, int32_t stage, size_t n,
			   struct fail *fail);
	/* Wait until the last copy from the stage has ended. */
	void (*wait)(void *ctx, int32_t stage);
	void *ctx;
};

struct expert_memory_opts {
	int32_t n_slots;   /* at least 2. As many as experts: all are read, i into slot i */
	size_t slot_bytes; /* multiple of EXPERT_ALIGN: of the largest expert */
	/* File where the use of experts is kept for the next start; NULL: nowhere. */
	const char *use_path;
	/* The same for the depth that was measured, where reader.depth is 0. */
	const char *depth_path;
	const struct expert_device *device; /* NULL: slots are host memory, taken here */
	struct expert_reader_opts reader; /* fd, is_direct and slots are set here */
};

/* Takes *store over, and reads the experts that were used most before, or all. Fails with E_NOMEM,
 * and as expert_memory_wait does. */
enum status expert_memory_create(struct expert_store *store,
				 const struct expert_memory_opts *o,
				 struct expert_memory **out, struct fail *fail) MUST_USE;
/* Writes the use of experts to use_path. NULL is fine. */
void expert_memory_destroy(struct expert_memory *m);
/* "3 of 12 experts in memory, ..." */
const char *expert_memory_note(const struct expert_memory *m);
int32_t expert_memory_n_slots(const struct expert_memory *m);

/* Experts e[0 .. n) are used in this step, each once. begins_step: of a new one. */
void expert_memory_use(struct expert_memory *m, const int32_t *e, int32_t n,
		       bool begins_step);
/* Hold the first of the n experts, as many as have room beside those that are held, at most
 * `most`; returns how many. None of them is held yet. Reads begin. With a device, no more
 * than have a stage: so let experts that are there come first in e, and ask again behind
 * a wait. */
int32_t expert_memory_ask(struct expert_memory *m, const int32_t *e, int32_t n,
			  int32_t most);
/* Has e a slot and its bytes? It need not be held. */
bool expert_memory_has(const struct expert_memory *m, int32_t e);
/* Of an expert that is held: is it there? With a device: has it been read? */
bool expert_memory_is_there(const struct expert_memory *m, int32_t e);
/* Waits until it is. E_IO, with the reason: it cannot be read, or is not what was stored.
 * Then it stays held, but nothing may be computed with it. With a device: what `put`
 * returns; what the device does next comes behind the copy. */
enum status expert_memory_wait(struct expert_memory *m, int32_t e,
			       struct fail *fail) MUST_USE;
/* Its bytes, as they were stored. Without a device only. */
const uint8_t *expert_memory_at(const struct expert_memory *m, int32_t e);
/* Ends the hold of each, after waiting for its read. What could not be read leaves. */
void expert_memory_release(struct expert_memory *m, const int32_t *e, int32_t n);

/* Guesses: after asking for a layer's experts, one may say which ones the next call of
 * expert_memory_use will have. While guesses are right often enough (expert_ahead.h), reads
 * of those that are not there begin. Nothing else comes of a wrong guess.
 * expert_memory_wants: is one wanted in this step? To be asked wherever one is possible. */
bool expert_memory_wants(struct expert_memory *m);
void expert_memory_guess(struct expert_memory *m, const int32_t *e, int32_t n);

struct expert_memory_stats {
	uint64_t n_hits, n_misses, n_bytes; /* uses that found their expert; bytes read */
	uint64_t n_ahead, n_ahead_used;     /* experts that were read ahead; and then used */
	double wait_s;
};
void expert_memory_stats(const struct expert_memory *m, struct expert_memory_stats *out);
