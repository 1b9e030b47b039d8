/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of haloctl doctor. Each prints one line for each fact: its level, its name, and
 * what was found. Where the level is not DOCTOR_OK, the line ends with "Fix: " and what to
 * type.
 *
 * All files are read below `root`, so a copy of another machine's /sys, /proc and /dev can be
 * checked. Thread: main.
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
	int64_t read_mb;  /* MiB that the GPU reads to measure its rate; 0: not measured */
	const char *model;   /* NULL: none was named */
	const char *draft_model; /* drafts for it; NULL: none */
	const char *lora;        /* an adapter of it; NULL: none */
	/* models loaded beside `model`; NULL: none */
	const char *embedding_model, *rerank_model, *transcription_model, *aligner_model, *mmproj;
	const char *beside;  /* another model that shall be in memory with it; NULL: none */
	const char *url;     /* a server whose answers are checked; NULL: none */
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
/* The number after `key`, which must begin a line of the text; -1: there is none. */
int64_t doctor_field(struct str text, const char *key);
/* True if the words of text, separated by blanks, include `word`. */
bool doctor_has_word(const char *text, const char *word);

/* Checks the GPU, its driver, its device files and its memory. Sets gpu and has_gpu. */
void doctor_check_gpu(struct doctor *d);
/* Memory that the chosen GPU, or else the CPU, can use. out->device is set to a literal. */
void doctor_memory(const struct doctor *d, struct memory_have *out);
/* Checks memory, clocks and limits of the machine. */
void doctor_check_machine(struct doctor *d);
/* Checks whether the HIP runtime finds the GPU. For a copy of another machine, only a runtime
 * named in hip_library is tried. */
void doctor_check_runtime(struct doctor *d);
/* Checks whether the model fits into the memory. */
void doctor_check_model(struct doctor *d);
/* Checks halo-tiny against its reference, and the read rate of the GPU's memory. Not for a copy
 * of another machine. */
void doctor_check_self(struct doctor *d);
