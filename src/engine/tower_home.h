/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a tower lives (engine/tower.h): its backend, and the memory that it takes there beside a
 * text model. Where the backend's kernels do not support the tower, it moves to the CPU. Thread:
 * one at a time.
 */
#pragma once
#include "backend/backend.h"
#include "engine/memory_plan.h"

/* Bytes, and the words of memory_part for them. */
struct tower_needs {
	int64_t weights, scratch;          /* where the tower runs */
	int64_t host;                      /* in the machine's memory, wherever it runs */
	const char *what, *key;
	const char *advice, *away_advice;  /* in one memory with `host`; in a GPU's own */
	const char *host_what, *host_key, *host_advice;
};

struct tower_kind {
	void (*needs)(const void *tower, struct backend *b, struct tower_needs *out);
	/* Takes the tower's memory on b; only `unload` frees what is there, also after a failure.
	 * E_UNSUPPORTED: its kernels do not support the tower. */
	enum status (*load)(void *tower, struct backend *b, struct fail *fail);
	void (*unload)(void *tower);
};

struct tower_home {
	const struct tower_kind *kind;
	void *tower;
	struct backend_opts opts;     /* until it is loaded */
	struct memory_ledger *ledger; /* NULL: the system's memory, unshared; until it is loaded */
	/* Of this module. */
	struct backend *backend;
	int64_t n_device, n_system;   /* bytes that were added to the ledger */
	char note[300]; /* why it runs on the CPU though another was asked for; or "" */
};

/* Opens the backend and counts what the tower needs, but takes nothing. The first four fields are
 * set, the others zero. E_CONFIG: the memory is too small. */
enum status tower_home_open(struct tower_home *h, struct fail *fail) MUST_USE;
/* After a failure the ledger no longer counts the tower. */
enum status tower_home_load(struct tower_home *h, struct fail *fail) MUST_USE;
void tower_home_close(struct tower_home *h);
bool tower_home_is_away(const struct tower_home *h); /* is it on another device than the CPU? */
