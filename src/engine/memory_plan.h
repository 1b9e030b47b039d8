/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells whether a model fits into the device's memory, and how large its KV cache can be. A pure
 * function of sizes, asked before anything is loaded: memory that Linux or a driver promises and
 * cannot give ends the process later, in the middle of an answer.
 */
#pragma once
#include <stdbool.h>

#include "base/status.h"

/* All sizes are bytes. */
struct memory_need {
	int64_t weights; /* as in the checkpoint: backends keep its bits */
	int64_t scratch; /* work memory of a step */
	int64_t states;  /* recurrent states, with their checkpoints; 0: none */
	int64_t page;    /* a KV page in all layers; 0: the model has no KV cache */
	int64_t beside;  /* what the process takes of this memory for anything else: a vision
			  * tower, embedders, buffers of kv_dir */
};

struct memory_have {
	int64_t total, free; /* of the device; of the system where they share one memory */
	bool is_system;      /* it is the system's memory: other programs need some, too */
	const char *device;  /* "AMD EPYC, 2 threads", for messages */
};

/* Who takes which memory, if several models are loaded one after the other. Pages that nobody has
 * touched look free to the system, so free memory is read only once, before the first model. */
struct memory_ledger {
	/* device: for the model that writes; system: for towers and encoders */
	struct memory_have device, system;
	int64_t device_taken, system_taken;
};
void memory_ledger_take(struct memory_ledger *l, bool is_on_device, int64_t bytes);

struct memory_wish {
	int32_t page_size;  /* tokens of a KV page */
	int32_t max_seqs;   /* sequences that the KV cache holds without kv_bytes */
	int32_t n_ctx;      /* tokens of the longest sequence */
	bool ctx_is_asked;  /* somebody chose n_ctx; else it may become smaller */
	int64_t kv_bytes;   /* the size that somebody chose for the KV cache; 0: none */
	bool is_shared;     /* other models shall have room beside it: see memory_plan */
	/* "embedding_model", and "embedding_ctx", which n_ctx comes from; NULL, NULL: it is the
	 * model that writes */
	const char *model_key, *ctx_key;
};

struct memory_plan {
	int64_t n_pages;
	int32_t n_ctx;
	int64_t reserve; /* bytes left to other programs and to the driver */
	int64_t weights; /* bytes: memory_need's */
	int64_t experts; /* of these, routed experts; the caller sets it */
	int64_t taken;   /* bytes: all that the model needs, its KV cache included */
};

/* What is loaded whole, or not at all: a vision tower, an encoder. */
struct memory_part {
	const char *what;         /* "the vision tower" */
	const char *key, *advice; /* of halod.conf; "Set images to off" */
	int64_t weights, scratch; /* bytes, as in memory_need */
	int64_t beside;
};
/* E_CONFIG with the sum and the key to change, if the part does not fit. */
enum status memory_plan_part(const struct memory_part *p, const struct memory_have *have,
			     struct fail *fail) MUST_USE;

/* Bytes of memory for routed experts that may be read from a file. experts: their bytes in the
 * checkpoint; need->weights is without them. 0: all of them fit in memory, with what backends
 * add, beside a KV cache. Else what is left when that cache has wish->kv_bytes, or one sequence
 * but no more than a quarter; where the memory is shared, a quarter of it at most. */
int64_t memory_plan_experts(const struct memory_need *need, const struct memory_have *have,
			    const struct memory_wish *wish, int64_t experts);

/* Without kv_bytes the cache gets pages for max_seqs sequences of n_ctx tokens, or as many
 * as fit. Where the memory is shared it gets a quarter of it at most, or one sequence of the n_ctx
 * that was asked for. The longest sequence always fits into the cache: where that is too much,
 * n_ctx becomes smaller if nobody asked for it. E_CONFIG with the sum and the key to change: what
 * was asked for does not fit, or not even MEMORY_LEAST_CTX tokens do. */
enum { MEMORY_LEAST_CTX = 512 };
enum status memory_plan(const struct memory_need *need, const struct memory_have *have,
			const struct memory_wish *wish, struct memory_plan *out,
			struct fail *fail) MUST_USE;
