/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/command.h"
#include "ctl/options.h"

/* Runs haloctl-kernels, a program for authors of kernels, installed beside this one. */
static int run_kernels(int argc, char **argv)
{
	static const char *const places[] = {"haloctl-kernels"};
	char *path = file_beside_program(places, ARRAY_LEN(places));
	if (!path)
		return options_failure("there is no haloctl-kernels beside haloctl");
	execv(path, argv);
	int error = errno;
	options_failure("%s: %s", path, strerror(error));
	free(path);
	return EXIT_USAGE;
}

static const struct command commands[] = {
	{"generate", NULL, cmd_generate, "answer one prompt"},
	{"chat", NULL, cmd_chat, "a conversation in the terminal"},
	{"verify", NULL, cmd_verify, "compare a model with recorded log-probabilities"},
	{"tokenize", NULL, cmd_tokenize, "text to token ids"},
	{"detokenize", NULL, cmd_detokenize, "token ids to text"},
	{"pull", NULL, cmd_pull, "fetch a model from a Hugging Face hub"},
	{"models", NULL, cmd_models, "list and remove what pull fetched"},
	{"inspect", NULL, cmd_inspect, "what a checkpoint holds and needs"},
	{"doctor", NULL, cmd_doctor, "is this machine ready for halod, and what to fix"},
	{"first-run", NULL, cmd_first_run, "all that a new GPU is asked, in one report"},
	{"devices", NULL, cmd_devices, "which GPUs halod could use, or why none"},
	{"synth", NULL, cmd_synth, "write a checkpoint of random weights"},
	{"kernels", NULL, run_kernels, "report, predict, bench, tune, record, replay GPU kernels"},
	{"bench", "model", cmd_bench_model, "speed of a model, without a server"},
	{"bench", "serve", cmd_bench_serve, "speed of a server, over HTTP"},
	{"bench", "agents", cmd_bench_agents, "turns of recorded coding agents, over HTTP"},
};

/* What users of other programs type. */
static const struct command_hint hints[] = {
	{"serve", "halod serves"},
	{"start", "halod serves"},
	{"run", "haloctl chat --model NAME talks to a model, and halod serves one"},
	{"list", "haloctl models lists what pull has fetched"},
	{"ls", "haloctl models lists what pull has fetched"},
	{"ps", "haloctl models --url URL lists the models of a server"},
	{"rm", "haloctl models --remove ORG/NAME removes a model"},
	{"remove", "haloctl models --remove ORG/NAME removes a model"},
	{"show", "haloctl inspect --model NAME says what a model holds"},
	{"download", "haloctl pull ORG/NAME fetches a model"},
	{"version", "haloctl --version"},
};

int main(int argc, char **argv)
{
	const struct command_table table = {
		.program = "haloctl", .rows = commands, .n_rows = ARRAY_LEN(commands),
		.hints = hints, .n_hints = ARRAY_LEN(hints)};
	return command_run(&table, argc, argv);
}
