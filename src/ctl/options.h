/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines from a table: one row an option, which parses, checks and
 * documents it. Thread: main.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_NUMBER,
	OPTION_OPERAND, /* a text that needs no name before it; one of a set */
};

struct option_row {
	const char *name; /* long form, without dashes */
	char letter;      /* short form, 0: none */
	enum option_kind kind;
	void *at;         /* bool *, const char **, int64_t *, double *, const char ** */
	double min, max;  /* INT and NUMBER */
	const char *arg;  /* "DIR" in the help; NULL for FLAG */
	const char *help;
};

struct option_set {
	const char *command; /* "bench model" */
	const char *about;   /* one sentence */
	const struct option_row *rows;
	int n_rows;
};

/* The row that nearly every command has; `dir` is a const char *. */
#define MODEL_OPTION(dir) \
	{"model", 'm', OPTION_TEXT, &(dir), 0, 0, "DIR", \
	 "the model's folder or GGUF file (needed)"}

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Fill what the rows point at. True: go on. False: *out_exit is the exit status,
 * help or a message having been printed. Arguments that are no options are
 * faults, but for one, where a row is an operand. */
bool options_parse(const struct option_set *set, int argc, char **argv,
		   int *out_exit);
/* "haloctl: …" and where to find help, on stderr. Returns EXIT_USAGE. */
int options_fault(const struct option_set *set, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* "haloctl: …" alone: help would be of no help. Returns EXIT_USAGE. */
int options_failure(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "128,512": up to max numbers of at least 1. Returns how many, 0 if malformed. */
int options_list(const char *text, int64_t *out, int max);
