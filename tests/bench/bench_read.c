/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast this machine reads memory: THREADS threads add up a buffer of MIB megabytes
 * a few times; prints the best GB/s. Every other time they ask for what is ahead: where the
 * processor's own prefetching does not, that is much faster.
 *
 *     bench_read [THREADS [MIB]]
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/pool.h"

typedef uint64_t words __attribute__((vector_size(64)));

struct job {
	const words *p;
	bool fetches;
	uint64_t sum[4096]; /* of each piece, so that the reading is not left out */
};

enum { PIECE = 1 << 14 /* of 64 bytes: a megabyte */, AHEAD = 256 };

static inline __attribute__((always_inline)) uint64_t read_piece(const words *p,
								 bool fetches)
{
	words a = {0}, b = {0}, c = {0}, d = {0};
	for (int k = 0; k < PIECE; k += 4) {
		if (fetches) {
#pragma GCC unroll 4
			for (int l = 0; l < 4; l++)
				__builtin_prefetch(p + k + AHEAD + l, 0, 2);
		}
		a += p[k];
		b += p[k + 1];
		c += p[k + 2];
		d += p[k + 3];
	}
	a += b + c + d;
	return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

static void read_pieces(void *arg, int begin, int end)
{
	struct job *j = arg;
	for (int i = begin; i < end; i++) {
		const words *p = j->p + (size_t)i * PIECE;
		j->sum[i] = j->fetches ? read_piece(p, true) : read_piece(p, false);
	}
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	int mib = argc > 2 ? atoi(argv[2]) : 1024;
	if (threads < 0 || mib < 1 || mib > 4096) {
		fprintf(stderr, "usage: bench_read [THREADS [MIB]]\n");
		return 2;
	}
	size_t n = (size_t)mib << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	madvise(p, n, MADV_HUGEPAGE);
	for (size_t i = 0; i < n; i += 4096)
		p[i] = (char)i;
	struct job *j = xcalloc(1, sizeof *j);
	j->p = (const words *)(void *)p;
	struct pool *pool = pool_create(threads);
	double best = 0;
	uint64_t sum = 0;
	for (int round = 0; round < 6; round++) {
		j->fetches = round % 2;
		int64_t begin = clock_now_us(&clock_monotonic);
		pool_for(pool, mib, 1, read_pieces, j);
		double s = (double)(clock_now_us(&clock_monotonic) - begin) * 1e-6;
		best = MAX(best, (double)n / s * 1e-9);
		sum += j->sum[round % mib];
	}
	printf("%.2f\n", best);
	fprintf(stderr, "%d threads, check %llu\n", pool_threads(pool),
		(unsigned long long)sum);
	pool_destroy(pool);
	free(j);
	munmap(p, n);
	return 0;
}
