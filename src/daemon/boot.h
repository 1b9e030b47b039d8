/* SPDX-License-Identifier: Apache-2.0
 *
 * From settings to a server that can answer: builds model, backend, engine, scheduler and
 * API, in this order. Thread: engine.
 */
#pragma once
#include "api/api.h"
#include "daemon/boot_plan.h"
#include "sched/sched.h"

/* What the models of the process share. One of them is loaded or unloaded at a time: only that
 * thread may use it. */
struct boot_shared {
	struct embed *embedder, *reranker; /* NULL: none, or not in memory */
	/* The memory before anything was loaded, and what is taken of it now. */
	struct memory_ledger ledger;
	struct memory_ledger embedders; /* of that, taken by embedder and reranker */
	/* Of that, what the listener takes, or has for itself while it sleeps. */
	struct memory_ledger listener;
	bool is_listener_loaded;
	int n_loaded;      /* models in memory, without embedders and listener */
	bool is_checked;   /* the self-check was made */
};

struct boot_opts {
	const struct config *config;
	const struct boot_plan *plan;
	const struct clock *clock;
	struct health *health; /* its load_… fields are set while loading */
	struct batch_store *batches; /* NULL: none */
	struct health *beats;  /* gets the engine's heartbeat */
	struct boot_shared *shared;
	struct api_memory *memory; /* of this model */
	void (*on_ready)(void *ctx); /* sched_opts.on_ready */
	void *ctx;
	/* It is transcription_model, beside the others: it must hear, and never makes room. */
	bool is_listener;
	bool shares_memory; /* as in engine_opts */
	bool is_check; /* boot_check sets it */
	bool looks;    /* for room alone: weights are mapped whatever mmap says, and of adapters
			* shapes alone are read */
};

struct boot {
	/* shared ones; NULL: none. is_first: this load opened them */
	struct embed *embedder, *reranker;
	bool is_first;
	struct memory_ledger took; /* device_taken and system_taken: what this model takes */
	bool is_counted;           /* in boot_shared */
	bool is_listener;          /* it keeps its place in boot_shared.listener */
	struct vision *vision; /* NULL: images are refused */
	struct sound *sound;   /* NULL: sound is refused */
	struct align *align;   /* tells when words were said; NULL: there is none */
	bool lacks_audio;      /* as in struct fit */
	struct model *model;
	struct model *draft; /* the model that drafts for it; NULL: none */
	struct adapters_open adapters;
	struct backend *backend;
	struct profile *profile; /* NULL: steps are not measured */
	struct engine *engine;
	struct sched *sched;
	struct api *api;
	/* after a failed boot_load: the self-check was what failed; other models hold the memory */
	bool is_check_failed, needs_room;
	bool is_hopeless; /* it would not fit alone either */
	bool is_planned;  /* it had its memory; what failed came after */
};

/* Opens and reads what boot_load would before it loads anything, with the same faults. It counts no
 * memory, and takes none for models. Thread: any. */
enum status boot_check(const struct boot_opts *o, struct fail *fail) MUST_USE;
/* Loads everything and decodes one token. After a failure, too, boot_unload must be called. */
enum status boot_load(const struct boot_opts *o, struct boot *out,
		      struct fail *fail) MUST_USE;
/* Frees all that the model has, and gives its memory back to shared. */
void boot_unload(struct boot *b, struct boot_shared *shared);
/* Frees the embedders, when no other model is in memory. */
void boot_unload_embedders(struct boot_shared *shared);
/* Opens only what answers questions about the model: b->model and b->api. It takes no memory for
 * weights. sees, watches, hears: what the model takes. n_ctx: the context that it had in memory. */
struct boot_look {
	bool sees, watches, hears;
	int n_ctx;
};
enum status boot_open(const struct boot_opts *o, const struct boot_look *look, struct boot *out,
		      struct fail *fail) MUST_USE;
