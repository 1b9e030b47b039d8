/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of mapped files. If a mapped file becomes shorter, the next read after its new end
 * raises SIGBUS. The list then tells which file it was, and whether one was written to. Thread:
 * any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { MAPPED_MAX = 1024, MAPPED_PATH_BYTES = 400 };

/* Record that [p, p + n) maps the file at path, and the sum of 64 of its pages, which are read.
 * Copies path; a long path keeps its end. Only the first MAPPED_MAX files are recorded. */
void mapped_add(const void *p, size_t n, const char *path);
void mapped_remove(const void *p);
/* The path of record i, of MAPPED_MAX. False: there is none. */
bool mapped_path(int i, char out[MAPPED_PATH_BYTES]);
/* E_IO, in words: a recorded file was cut short or written to. A new time of its last write
 * raises suspicion, and 64 pages of it are compared with what they were when it was mapped. If they
 * are the same, a warning is logged. A file that was replaced by a rename is left alone: the old
 * one stays mapped. Reads from the files. */
enum status mapped_check(struct fail *fail) MUST_USE;
/* From now on a SIGBUS inside a recorded file is logged and ends the process with
 * exit_code. Any other SIGBUS ends the process as usual. Threads must not block SIGBUS:
 * the kernel would then kill the process without a message. */
void mapped_watch(int exit_code);
