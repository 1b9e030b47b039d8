/* SPDX-License-Identifier: Apache-2.0
 *
 * From settings to something that can answer: model, backend, engine, scheduler,
 * API, built bottom-up. Thread: engine (boot_plan: io, before it).
 */
#pragma once
#include "api/api.h"
#include "backend/backend.h"
#include "daemon/config.h"
#include "sched/sched.h"

/* What is known before anything is loaded. */
struct boot_plan {
	char *model_dir;
	char *model_name;
	char *weight_cache;  /* folder; "": none */
	char *expert_dir;    /* folder; "": beside the model */
	int64_t expert_memory; /* as in struct backend_opts */
	char *kv_dir;        /* folder; "": none */
	struct fetch *fetch; /* NULL: nothing is fetched for a client */
	const char *backend; /* "cpu" */
	char backend_reason[BACKEND_REASON]; /* why this one */
};

struct boot_opts {
	const struct config *config;
	const struct boot_plan *plan;
	const struct clock *clock;
	struct health *health; /* load_permille while loading */
	void (*on_ready)(void *ctx); /* the scheduler's */
	void *ctx;
};

struct boot {
	struct embed *embedder, *reranker; /* NULL: none */
	struct vision *vision; /* NULL: images are refused */
	struct model *model;
	struct backend *backend;
	struct profile *profile; /* NULL: steps are not measured */
	struct engine *engine;
	struct sched *sched;
	struct api *api;
	bool is_check_failed; /* boot_load: what failed was the self-check */
};

/* Choose model and backend. E_MISSING when no model is named and none came with the
 * program; E_CONFIG where the backend that is configured cannot be used here. */
enum status boot_plan(const struct config *c, struct boot_plan *out,
		      struct fail *fail) MUST_USE;
void boot_plan_deinit(struct boot_plan *p);

/* Load everything and decode one token. On failure boot_unload is to be called,
 * too. */
enum status boot_load(const struct boot_opts *o, struct boot *out,
		      struct fail *fail) MUST_USE;
void boot_unload(struct boot *b);
