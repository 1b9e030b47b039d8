/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of a program, in a table. Each command parses its own arguments (argv[0]
 * is its name). It returns the exit status: 0 for success, 1 if the work failed, 2 if options
 * or files are wrong. Thread: main.
 */
#pragma once

struct command {
	const char *name, *sub; /* "bench", "model"; sub NULL: the name is one word */
	int (*run)(int argc, char **argv);
	const char *about;      /* one line of the help */
};

/* A word of another program, and what does that here. */
struct command_hint {
	const char *word, *instead;
};

struct command_table {
	const char *program; /* "haloctl": what the user types before a command */
	const struct command *rows;
	int n_rows, n_hints;
	const struct command_hint *hints;
};

/* Run the command that argv[1] (and argv[2]) name. --help, --version, help COMMAND and
 * unknown commands are answered here. Returns the exit status of the program. */
int command_run(const struct command_table *t, int argc, char **argv);

/* haloctl */
int cmd_generate(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_verify_answers(int argc, char **argv); /* verify with --answers */
int cmd_tokenize(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_models(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_first_run(int argc, char **argv);
int cmd_bench_model(int argc, char **argv);
int cmd_bench_serve(int argc, char **argv);
int cmd_bench_agents(int argc, char **argv);
int cmd_synth(int argc, char **argv);
/* haloctl-kernels */
int cmd_kernels_report(int argc, char **argv);
int cmd_kernels_bench(int argc, char **argv);
int cmd_kernels_predict(int argc, char **argv);
int cmd_kernels_record(int argc, char **argv);
int cmd_kernels_replay(int argc, char **argv);
int cmd_kernels_tune(int argc, char **argv);
