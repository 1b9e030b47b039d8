/* SPDX-License-Identifier: Apache-2.0
 *
 * From settings to a server that can answer: builds model, backend, engine, scheduler and
 * API, in this order. Thread: engine (boot_plan: io, before it).
 */
#pragma once
#include "api/api.h"
#include "backend/backend.h"
#include "daemon/config.h"
#include "sched/sched.h"

/* What the settings decide before anything is loaded. */
struct boot_plan {
	char *model_dir;
	char *model_name;
	char *weight_cache;  /* folder of the weight cache; "": none */
	char *expert_dir;    /* folder of expert files; "": beside the model */
	int64_t expert_memory; /* as in struct backend_opts */
	char *kv_dir;        /* folder of KV pages on disk; "": none */
	char *state_dir;     /* folder of files and batches; "": none */
	char *graph_notes;   /* as in struct backend_opts */
	struct fetch *fetch; /* gets images by address; NULL: addresses are refused */
	const char *backend; /* "cpu" */
	char backend_reason[BACKEND_REASON]; /* why it was chosen */
};

struct boot_opts {
	const struct config *config;
	const struct boot_plan *plan;
	const struct clock *clock;
	struct health *health; /* its load_… fields are set while loading */
	struct batch_store *batches; /* NULL: none */
	void (*on_ready)(void *ctx); /* sched_opts.on_ready */
	void *ctx;
	bool is_check; /* boot_check sets it */
};

struct boot {
	struct embed *embedder, *reranker; /* NULL: none */
	struct vision *vision; /* NULL: images are refused */
	struct sound *sound;   /* NULL: sound is refused */
	struct model *model;
	struct backend *backend;
	struct profile *profile; /* NULL: steps are not measured */
	struct engine *engine;
	struct sched *sched;
	struct api *api;
	bool is_check_failed; /* after a failed boot_load: the self-check was what failed */
};

/* Chooses model and backend. E_MISSING: no model is named, and none came with the program.
 * E_CONFIG: the configured backend cannot be used here. */
enum status boot_plan(const struct config *c, struct boot_plan *out,
		      struct fail *fail) MUST_USE;
void boot_plan_deinit(struct boot_plan *p);

/* Opens and reads what boot_load would before it loads anything, with the same faults. It counts no
 * memory, and takes none for models. Thread: any. */
enum status boot_check(const struct boot_opts *o, struct fail *fail) MUST_USE;
/* Loads everything and decodes one token. After a failure, too, boot_unload must be called. */
enum status boot_load(const struct boot_opts *o, struct boot *out,
		      struct fail *fail) MUST_USE;
void boot_unload(struct boot *b);
