/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of mapped files, for error reports. If a mapped file becomes shorter, the next read
 * after its new end raises SIGBUS. The list then tells which file it was. Thread: any.
 */
#pragma once
#include <stddef.h>

/* Record that [p, p + n) maps the file at path. Copies path; a long path keeps its end.
 * Only the first 1024 files are recorded. */
void mapped_add(const void *p, size_t n, const char *path);
void mapped_remove(const void *p);
/* From now on a SIGBUS inside a recorded file is logged and ends the process with
 * exit_code. Any other SIGBUS ends the process as usual. Threads must not block SIGBUS:
 * the kernel would then kill the process without a message. */
void mapped_watch(int exit_code);
