/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses command lines by a table. Each row describes how an option is parsed, checked and
 * documented. Thread: main.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_NUMBER,
	OPTION_OPERAND, /* a text without a name before it; at most one in a set */
};

struct option_row {
	const char *name; /* long form, without dashes */
	char letter;      /* short form, 0: none */
	enum option_kind kind;
	void *at;         /* variable to set; its type by kind: bool, const char *, int64_t,
			   * double, const char * */
	double min, max;  /* limits, for INT and NUMBER */
	const char *arg;  /* "DIR" in the help; NULL for FLAG */
	const char *help;
};

struct option_set {
	const char *command; /* "bench model" */
	const char *about;   /* one sentence */
	const struct option_row *rows;
	int n_rows;
};

/* The row for the model, which nearly every command has; `dir` is a const char *. */
#define MODEL_OPTION(dir) \
	{"model", 'm', OPTION_TEXT, &(dir), 0, 0, "DIR", \
	 "the model's folder or GGUF file (needed)"}

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Sets the variables of the rows. True: go on. False: help or a message was printed, and
 * *out_exit is the exit status. Arguments that are no options are faults, except one if a row
 * is an OPERAND. */
bool options_parse(const struct option_set *set, int argc, char **argv,
		   int *out_exit);
/* Prints "haloctl: …" and where to find help, on stderr. Returns EXIT_USAGE. */
int options_fault(const struct option_set *set, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints only "haloctl: …", for faults that help does not explain. Returns EXIT_USAGE. */
int options_failure(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "128,512": up to max numbers of at least 1. Returns how many, 0 if malformed. */
int options_list(const char *text, int64_t *out, int max);
