/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums against damage, not against forgery. Thread: any.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Checksum of n bytes. Bytes that differ in one 64-bit word give different sums. The sum is the
 * same on all machines of one byte order. */
uint64_t sum_bytes(const void *p, size_t n);
/* One step of mixing: invertible, so different words stay different. */
static inline uint64_t sum_mix(uint64_t h)
{
	h *= 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd (Knuth, TAOCP 3, 6.4) */
	return h ^ h >> 32;
}
