/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
	return XXH3_64bits_withSeed(p, n, seed);
}
