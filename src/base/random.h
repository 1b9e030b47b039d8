/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the kernel, for ids that nobody may guess, for seeds and for markers.
 * Thread: any. The first call after boot may wait until the kernel has entropy. If the
 * kernel lacks getrandom, the program aborts.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

void random_bytes(void *out, size_t n);
uint64_t random_u64(void);
/* Write n random bytes as 2 * n hex digits, ended by NUL. */
void random_hex(size_t n, char *out);
