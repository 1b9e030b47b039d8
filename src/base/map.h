/* SPDX-License-Identifier: Apache-2.0
 *
 * Two hash maps with O(1) lookup: bytes to a number, and 64-bit key to a number. There is
 * no removal. Thread: one writer first, then any number of readers.
 */
#pragma once
#include "base/buf.h"
#include "base/hash.h"

/* Keys are views: the bytes they point at must outlive the map. */
struct strmap {
	struct strmap_slot *slots;
	size_t n, cap;
};
void strmap_init(struct strmap *m, size_t expect);
void strmap_deinit(struct strmap *m);
/* Set key to value. Returns true if the key existed; its value is then replaced. */
bool strmap_put(struct strmap *m, struct str key, uint32_t value);
bool strmap_get(const struct strmap *m, struct str key, uint32_t *out_value);

struct u64map {
	struct u64map_slot *slots;
	size_t n, cap;
};
void u64map_init(struct u64map *m, size_t expect);
void u64map_deinit(struct u64map *m);
bool u64map_put(struct u64map *m, uint64_t key, uint64_t value);
bool u64map_get(const struct u64map *m, uint64_t key, uint64_t *out_value);
