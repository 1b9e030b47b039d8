/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums are in files that outlive the program, so they stay what they are.
 */
#include "base/sum.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "tests/tap.h"

/* Bytes i * 7 + 1. By eight lines of Python's integers, from the description in base/sum.c. */
static const struct {
	size_t n;
	uint64_t sum;
} known[] = {
	{0, 0x7473F8EA11B0F837},   {1, 0x449FA7ED59B175E4},  {63, 0x0213E5B2120892FC},
	{64, 0x7F225D8EC5D0C427},  {65, 0x3541C2ACB4AC42BA}, {200, 0x34E7DCB78414689D},
};

int main(void)
{
	uint8_t bytes[201];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		ok(sum_bytes(bytes, known[i].n) == known[i].sum, "%zu bytes: %016" PRIX64,
		   known[i].n, sum_bytes(bytes, known[i].n));
	memmove(bytes + 1, bytes, 200);
	ok(sum_bytes(bytes + 1, 200) == known[5].sum, "wherever they lie");
	int n_same = 0;
	for (int i = 1; i < 201; i++) {
		bytes[i] ^= 4;
		n_same += sum_bytes(bytes + 1, 200) == known[5].sum;
		bytes[i] ^= 4;
	}
	is_int(n_same, 0, "any byte that differs gives another");
	return tap_done();
}
