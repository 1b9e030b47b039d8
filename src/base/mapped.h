/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are mapped into memory, for the moment when one of them becomes shorter:
 * the next read behind its end is a SIGBUS, and nothing else would say which file it
 * was. Thread: any.
 */
#pragma once
#include <stddef.h>

/* [p, p + n) is of the file at path; copied, the end of a long one. Beyond 1024 files
 * the rest is not known. */
void mapped_add(const void *p, size_t n, const char *path);
void mapped_remove(const void *p);
/* From now on a SIGBUS in one of them is told in the log, and the process ends with
 * exit_code; any other SIGBUS ends it as ever. Threads must not block SIGBUS: the kernel
 * would end the process without a word. */
void mapped_watch(int exit_code);
