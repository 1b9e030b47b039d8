/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes for tables, and checksums against damage, not against forgery: XXH3. The result is
 * the same in every build, so files may hold it. Thread: any.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* 64-bit hash of n bytes. Pass one call's result as the next seed to hash several pieces. */
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);
