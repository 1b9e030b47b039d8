/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <string.h>

#include "tests/tap.h"

int main(void)
{
	unsigned char big[4096] = {0}, seen[256] = {0};
	char a[33], b[33], c[3] = "xx";
	random_bytes(big, sizeof big);
	size_t n_kinds = 0;
	for (size_t i = 0; i < sizeof big; i++)
		n_kinds += !seen[big[i]]++;
	ok(n_kinds > 200, "4096 bytes have most of the values");
	random_hex(16, a);
	random_hex(16, b);
	is_int((int)strspn(a, "0123456789abcdef"), 32, "32 digits");
	is_int((int)strlen(a), 32, "and an end");
	ok(strcmp(a, b) != 0, "no two are alike");
	random_hex(0, c);
	is_str(c, "", "none of no bytes");
	ok(random_u64() != random_u64(), "nor two numbers");
	return tap_done();
}
