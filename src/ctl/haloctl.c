/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config.h"
#include "ctl/command.h"
#include "ctl/options.h"

static const struct {
	const char *name, *sub; /* sub NULL: none */
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{"generate", NULL, cmd_generate, "answer one prompt"},
	{"verify", NULL, cmd_verify, "compare a model with recorded log-probabilities"},
	{"tokenize", NULL, cmd_tokenize, "text to token ids"},
	{"detokenize", NULL, cmd_detokenize, "token ids to text"},
	{"inspect", NULL, cmd_inspect, "what a checkpoint holds and needs"},
	{"devices", NULL, cmd_devices, "which GPUs halod could use, or why none"},
	{"synth", NULL, cmd_synth, "write a checkpoint of random weights"},
	{"kernels", "bench", cmd_kernels_bench, "speed of the GPU's operations"},
	{"kernels", "record", cmd_kernels_record, "a step's kernel launches to a folder"},
	{"kernels", "replay", cmd_kernels_replay, "run recorded launches again"},
	{"kernels", "tune", cmd_kernels_tune, "which kernel is fastest for what"},
	{"kernels", "report", cmd_kernels_report, "what the GPU's code objects need"},
	{"bench", "model", cmd_bench_model, "speed of a model, without a server"},
	{"bench", "serve", cmd_bench_serve, "speed of a server, over HTTP"},
};

static void print_help(FILE *f)
{
	fputs("Usage: haloctl COMMAND [OPTION]...\n\n", f);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		char name[40];
		snprintf(name, sizeof name, "%s%s%s", commands[i].name,
			 commands[i].sub ? " " : "",
			 commands[i].sub ? commands[i].sub : "");
		fprintf(f, "  %-14s %s\n", name, commands[i].about);
	}
	fputs("\nhaloctl COMMAND --help tells its options.\n", f);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		print_help(stdout);
		return EXIT_OK;
	}
	if (strcmp(name, "--version") == 0) {
		puts("haloctl " PACKAGE_VERSION);
		return EXIT_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		int n_words = commands[i].sub ? 2 : 1;
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (n_words == 2 &&
		    (argc < 3 || strcmp(commands[i].sub, argv[2]) != 0))
			continue;
		return commands[i].run(argc - n_words, argv + n_words);
	}
	if (*name)
		fprintf(stderr, "haloctl: there is no command \"%s%s%s\"\n\n", name,
			argc > 2 ? " " : "", argc > 2 ? argv[2] : "");
	print_help(stderr);
	return EXIT_USAGE;
}
