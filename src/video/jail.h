/* SPDX-License-Identifier: Apache-2.0
 *
 * Closes halod-video in, before it reads a byte of the file. Thread: the only one.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Behind it this process can compute, take up to max_bytes of memory, write to standard output and
 * end. It can open nothing, start nothing, and make no memory executable. It ends with halod, and
 * after cpu_s seconds of processor time. False: the kernel refuses. */
bool jail_enter(int64_t max_bytes, int64_t cpu_s);
