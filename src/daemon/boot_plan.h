/* SPDX-License-Identifier: Apache-2.0
 *
 * From settings to names: which model, which backend, which folders. Nothing is loaded.
 * Thread: io, before the engine's begins.
 */
#pragma once
#include "backend/backend.h"
#include "daemon/adapters.h"
#include "daemon/config.h"

/* What the settings decide before anything is loaded. */
struct boot_plan {
	char *model_dir;
	char *model_name;
	char *embedders[2];    /* of the models for embeddings and for ranks; NULL: none */
	struct adapters adapters;
	char *weight_cache;  /* folder of the weight cache; "": none */
	char *expert_dir;    /* folder of expert files; "": beside the model */
	int64_t expert_memory; /* as in struct backend_opts */
	char *kv_dir;        /* folder of KV pages on disk; "": none */
	char *state_dir;     /* folder of files and batches; "": none */
	char *graph_notes;   /* as in struct backend_opts */
	struct fetch *fetch; /* gets images by address; NULL: addresses are refused */
	bool is_first;       /* fetch is its own */
	const char *backend; /* "cpu" */
	char backend_reason[BACKEND_REASON]; /* why it was chosen */
};

/* Chooses model and backend. first: the plan of another model, which outlives this one and has
 * what they share; NULL: this is the first. E_MISSING: no model is named, and none came with the
 * program. E_CONFIG: the configured backend cannot be used here. */
enum status boot_plan(const struct config *c, const struct boot_plan *first,
		      struct boot_plan *out, struct fail *fail) MUST_USE;
/* Of a further model, which has the first one's backend, fetch and weight_cache, and no other
 * folders. */
void boot_plan_beside(const struct boot_plan *first, const char *model, struct boot_plan *out);
void boot_plan_deinit(struct boot_plan *p);
/* The backend `name` as the settings and the plan want it. */
struct backend_opts boot_plan_backend(const struct config *c, const struct boot_plan *plan,
				      const char *name);
/* The folder of halo-tiny, for the caller to free. A built program has it beside itself. A program
 * that was moved or installed below a DESTDIR has it in the share/ of its tree. Else it is where
 * configure put it. NULL: in none of these. */
char *boot_plan_default_model(void);
