/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes are in files that outlive the program, so they stay what they are.
 */
#include "base/hash.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "tests/tap.h"

/* Bytes i * 7 + 1, by xxHash's own binding for Python. */
static const struct {
	size_t n;
	uint64_t hash, seeded; /* seeded: with 7 */
} known[] = {
	{0, 0x2D06800538D394C2, 0x913AE0873E9B7EB8},  {1, 0xE12EF9D2EB86CEEB, 0xCD212F8DD32FD172},
	{63, 0x627EE118A072EC8A, 0x049DFA343E88FB79}, {64, 0x13886553E7DC3FA3, 0x784E6A6026CF03E1},
	{65, 0x1C6516CC715D0A0E, 0xA265CB34BD395D20}, {200, 0x70D27115FAAB301E, 0x68A4E27266050598},
};

int main(void)
{
	uint8_t bytes[201];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		ok(hash_bytes(0, bytes, known[i].n) == known[i].hash &&
			   hash_bytes(7, bytes, known[i].n) == known[i].seeded,
		   "%zu bytes: %016" PRIX64, known[i].n, hash_bytes(0, bytes, known[i].n));
	memmove(bytes + 1, bytes, 200);
	ok(hash_bytes(0, bytes + 1, 200) == known[5].hash, "wherever they lie");
	int n_same = 0;
	for (int i = 1; i < 201; i++) {
		bytes[i] ^= 4;
		n_same += hash_bytes(0, bytes + 1, 200) == known[5].hash;
		bytes[i] ^= 4;
	}
	is_int(n_same, 0, "any byte that differs gives another");
	return tap_done();
}
