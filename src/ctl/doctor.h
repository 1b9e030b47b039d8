/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of haloctl doctor. Each prints one line for each fact: its level, its name, and
 * what was found. Where the level is not DOCTOR_OK, the line ends with "Fix: " and what to
 * type.
 *
 * All files are read below `root`. So a copy of another machine's /sys, /proc and /dev can
 * be looked at. Thread: main.
 */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "engine/memory_plan.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_BAD, DOCTOR_LEVELS };

struct doctor_gpu {
	char arch[16];   /* as in "gfx1151" */
	int n_cu;        /* compute units */
	int render;      /* N of /dev/dri/renderDN */
	bool is_shared;  /* its memory is the system's */
};

struct doctor {
	const char *root; /* a folder without "/" at its end; "": this machine */
	bool is_here;     /* root is "" */
	bool is_quick;    /* no self-check */
	int64_t read_mb;  /* MiB that the GPU reads to measure its rate; 0: it does not */
	const char *model;   /* NULL: none was named */
	const char *embedding_model, *rerank_model, *mmproj; /* beside it; NULL: none */
	const char *url;     /* of a server whose answers are checked; NULL: of none */
	const char *backend; /* "auto", "cpu" or "hip" */
	const char *hip_library, *hip_kernels; /* as in struct backend_opts */
	/* The GPU that halod would use. */
	struct doctor_gpu gpu;
	bool has_gpu;
	int n_lines[DOCTOR_LEVELS];
};

/* Print one line. The text holds no line break. */
void doctor_say(struct doctor *d, enum doctor_level level, const char *check,
		const char *fmt, ...) PRINTF_LIKE(4, 5);

/* The path below root, malloc'ed. */
char *doctor_path(const struct doctor *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Read a file's first line without its end. False, and out is "": it cannot be read. */
bool doctor_line(const struct doctor *d, char *out, size_t size, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* The number in a file, decimal or hexadecimal with 0x; -1: there is none. */
int64_t doctor_number(const struct doctor *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The number behind `key` at the beginning of a line of text; -1: there is none. */
int64_t doctor_field(struct str text, const char *key);
/* True if the words of text, separated by blanks, include `word`. */
bool doctor_has_word(const char *text, const char *word);

/* The GPU, its driver, its device files and its memory. Sets gpu and has_gpu. */
void doctor_check_gpu(struct doctor *d);
/* Memory that the chosen GPU, or else the CPU, can use. `device` is set to a literal. */
void doctor_memory(const struct doctor *d, struct memory_have *out);
/* Memory, clocks and limits of the machine. */
void doctor_check_machine(struct doctor *d);
/* Whether the HIP runtime finds the GPU. Of a copy, only a named runtime is tried. */
void doctor_check_runtime(struct doctor *d);
/* Whether the model fits into the memory. */
void doctor_check_model(struct doctor *d);
/* halo-tiny against its reference, and the rate of reading of the GPU's memory. Not for a
 * copy. */
void doctor_check_self(struct doctor *d);
