/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/read_rate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/vec4.h"
#include "bench/hip_time.h"

enum { PIECE = 1 << 20, N_PIECES = 512, ROUNDS = 4 };

struct reading {
	const char *p;
	int64_t sums[N_PIECES]; /* results, so that the compiler cannot omit reads */
};

static void read_pieces(void *arg, int begin, int end)
{
	struct reading *r = arg;
	for (int i = begin; i < end; i++) {
		const char *p = r->p + (size_t)i * PIECE;
		vec4i sum[4] = {{0}, {0}, {0}, {0}};
		for (size_t at = 0; at < PIECE; at += sizeof sum) {
			vec4i v[4];
			__builtin_prefetch(p + at + 4096);
			memcpy(v, p + at, sizeof v);
			for (int j = 0; j < 4; j++)
				sum[j] ^= v[j];
		}
		vec4i all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
		r->sums[i] = all[0] ^ all[1] ^ all[2] ^ all[3];
	}
}

static enum status cpu_rate(int n_threads, double *out_gbs, struct fail *fail)
{
	size_t n = (size_t)N_PIECES * PIECE;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return fail_set(fail, E_NOMEM, "no memory to measure the read rate");
	madvise(p, n, MADV_HUGEPAGE); /* best effort */
	memset(p, 0xA5, n);
	struct reading *r = xcalloc(1, sizeof *r);
	r->p = p;
	struct pool *pool = pool_create(n_threads);
	*out_gbs = 0;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t begin = clock_now_us(&clock_monotonic);
		pool_for(pool, N_PIECES, 1, read_pieces, r);
		int64_t us = MAX(clock_now_us(&clock_monotonic) - begin, 1);
		*out_gbs = MAX(*out_gbs, (double)n / (double)us * 1e-3);
	}
	pool_destroy(pool);
	free(r);
	munmap(p, n);
	return OK;
}

enum status read_rate(struct backend *b, int n_threads, double *out_gbs, struct fail *fail)
{
	enum { GPU_BYTES = 256 << 20 };
	if (!b->ops->profile_device)
		return cpu_rate(n_threads, out_gbs, fail);
	return hip_time_read(hip_of(b), GPU_BYTES, HIP_TIME_SAMPLES, out_gbs, fail);
}
