/* SPDX-License-Identifier: Apache-2.0
 *
 * What main.c can run. Each command parses its own arguments (argv[0] is its
 * name) and returns the exit status: 0, 1 where what was asked for failed, 2 where
 * the question was wrong (options, files).
 */
#pragma once

int cmd_generate(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_bench_model(int argc, char **argv);
int cmd_bench_serve(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_kernels_report(int argc, char **argv);
int cmd_kernels_bench(int argc, char **argv);
int cmd_kernels_record(int argc, char **argv);
int cmd_kernels_replay(int argc, char **argv);
int cmd_kernels_tune(int argc, char **argv);
