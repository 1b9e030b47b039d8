/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of `haloctl first-run`. Each is a process of its own, since a fault of a GPU ends the
 * process. Thread: main.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { RUN_MAX_ARGS = 24 };

/* A program with its arguments. */
struct run_command {
	const char *program;           /* path, or a name that PATH has */
	const char *args[RUN_MAX_ARGS]; /* behind the program's name */
	int n;
	const char *env;               /* "NAME=VALUE", or NULL */
};

/* What became of it. */
struct run_result {
	struct buf out;   /* stdout and stderr together */
	int rc;           /* exit status; 128 + N: ended by signal N; -1: did not start */
	bool is_late;     /* was ended at the limit */
	double seconds;
};

/* Append an argument. Texts must live as long as the command. */
void run_add(struct run_command *c, const char *arg);
/* The command as a user types it, behind a "$ ". */
void run_say(const struct run_command *c, struct buf *out);
/* Run it for at most limit_s seconds. The caller frees out->out. */
void run_command_for(const struct run_command *c, int limit_s, struct run_result *out);

/* Compare `kernels bench --csv` with `kernels report -g -j` of the same shapes: a table with the
 * rows that both have. Returns how many. */
int first_run_launches(const char *bench, const char *report, const char *arch, struct buf *out);
/* Compare `bench model --json` with `kernels predict -j`, behind `depth` tokens and for a prompt of
 * so many. Returns how many times are compared; *n_out of them lie outside their bar. */
int first_run_steps(const char *bench, const char *predict, int prompt, int depth,
		    struct buf *out, int *n_out);
