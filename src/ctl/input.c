/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "ctl/input.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define MAX_BYTES ((size_t)256 << 20)

bool input_stdin(struct buf *out)
{
	for (;;) {
		char chunk[65536];
		ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
		if (n == 0)
			return true;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			perror("haloctl: stdin");
			return false;
		}
		if (out->n + (size_t)n > MAX_BYTES) {
			fprintf(stderr, "haloctl: more than %zu MiB on stdin\n",
				MAX_BYTES >> 20);
			return false;
		}
		buf_add(out, chunk, (size_t)n);
	}
}

bool input_ids(struct str text, struct ids *out)
{
	for (size_t i = 0; i < text.n;) {
		if (memchr(" \t\r\n,[]", text.p[i], 8)) {
			i++;
			continue;
		}
		int64_t id = 0;
		size_t begin = i;
		while (i < text.n && text.p[i] >= '0' && text.p[i] <= '9' &&
		       id <= INT32_MAX)
			id = id * 10 + (text.p[i++] - '0');
		if (i == begin || id > INT32_MAX)
			return false;
		ids_add(out, (int32_t)id);
	}
	return true;
}

void input_add_ids(struct buf *b, const struct ids *ids)
{
	buf_add_c(b, '[');
	for (size_t i = 0; i < ids->n; i++)
		buf_addf(b, "%s%d", i ? "," : "", ids->p[i]);
	buf_add_c(b, ']');
}

/* xorshift64 (Marsaglia 2003). Multiplying by the golden ratio moves near seeds far apart. */
void input_random_ids(uint64_t seed, int32_t n_vocab, int32_t *out, int n)
{
	uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15u;
	for (int i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		out[i] = (int32_t)((x >> 11) % (uint64_t)n_vocab);
	}
}

char *input_halo_tiny(void)
{
	static const char *const places[] = {
		"models/halo-tiny", "../share/" PACKAGE "/models/halo-tiny"};
	return file_beside_program(places, ARRAY_LEN(places));
}
