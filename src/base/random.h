/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the kernel: for ids that nobody may guess, for seeds and for marks.
 * Thread: any. The first call after boot may wait until the kernel has entropy. A kernel
 * without getrandom ends the program, as a lack of memory does.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

void random_bytes(void *out, size_t n);
uint64_t random_u64(void);
/* n random bytes as 2 * n hex digits, and a NUL behind them. */
void random_hex(size_t n, char *out);
