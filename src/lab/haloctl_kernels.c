/* SPDX-License-Identifier: Apache-2.0
 *
 * The program behind `haloctl kernels COMMAND`, for authors of kernels.
 */
#include "base/alloc.h"
#include "ctl/command.h"

static const struct command commands[] = {
	{"bench", NULL, cmd_kernels_bench, "speed of the GPU's operations"},
	{"record", NULL, cmd_kernels_record, "a step's kernel launches to a folder"},
	{"replay", NULL, cmd_kernels_replay, "run recorded launches again"},
	{"tune", NULL, cmd_kernels_tune, "which kernel is fastest for what"},
	{"predict", NULL, cmd_kernels_predict, "how long steps may take, predicted"},
	{"report", NULL, cmd_kernels_report, "what the GPU's code objects need"},
};

int main(int argc, char **argv)
{
	const struct command_table table = {
		.program = "haloctl kernels", .rows = commands, .n_rows = ARRAY_LEN(commands)};
	return command_run(&table, argc, argv);
}
