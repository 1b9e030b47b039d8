/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *out, size_t n)
{
	unsigned char *p = out;
	while (n > 0) {
		ssize_t got = getrandom(p, n, 0);
		if (got < 0 && errno != EINTR)
			abort();
		if (got > 0) {
			p += got;
			n -= (size_t)got;
		}
	}
}

uint64_t random_u64(void)
{
	uint64_t v;
	random_bytes(&v, sizeof v);
	return v;
}

void random_hex(size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	/* the upper half of out; the digits overwrite it from the front */
	unsigned char *bytes = (unsigned char *)out + n;
	random_bytes(bytes, n);
	for (size_t i = 0; i < n; i++) {
		unsigned char b = bytes[i];
		*out++ = digits[b >> 4];
		*out++ = digits[b & 15];
	}
	*out = '\0';
}
