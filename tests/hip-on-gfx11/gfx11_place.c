/* SPDX-License-Identifier: Apache-2.0
 *
 * Where small blocks lie: each across a multiple of 4 GiB, after 1/16 to 15/16 of it in
 * turns. Its parts differ in the high words of their addresses, so a lost carry leads
 * elsewhere. Distances between blocks are uneven. Where so much address space is not to be
 * had, nothing is placed.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "tests/hip-on-cpu/device.h"

enum {
	SEAMS = 256,       /* a power of two */
	MOST = 256 << 10,  /* bytes of a block, in all */
	ALIGN = 256,
};
#define SEAM_BYTES (1ull << 32)

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	char *first;              /* seam; NULL: none */
	uint16_t free[SEAMS];     /* stack of seams */
	int n_free;
	uint32_t n_placed;
	char *begin[SEAMS];       /* of the block at each seam; NULL: none */
	bool is_open[SEAMS];
} P = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void start(void)
{
	char *p = mmap(NULL, (SEAMS + 1) * SEAM_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return;
	uint64_t to_seam = SEAM_BYTES - (uint64_t)(uintptr_t)p % SEAM_BYTES;
	/* Below it there must be room for half of a block. */
	P.first = p + to_seam + (to_seam < MOST ? SEAM_BYTES : 0);
	uint64_t left = (uint64_t)(p + (SEAMS + 1) * SEAM_BYTES - P.first);
	for (uint32_t i = 0, at = 0; i < SEAMS; i++, at = (at + i) % SEAMS)
		if (at * SEAM_BYTES + MOST < left)
			P.free[P.n_free++] = (uint16_t)at;
}

void *device_place(size_t n_bytes)
{
	if (n_bytes > MOST)
		return NULL;
	pthread_once(&P.once, start);
	pthread_mutex_lock(&P.lock);
	char *block = NULL;
	if (P.n_free) {
		int i = P.free[P.n_free - 1];
		char *seam = P.first + (uint64_t)i * SEAM_BYTES;
		P.is_open[i] = P.is_open[i] || mprotect(seam - MOST, 2 * (size_t)MOST,
							PROT_READ | PROT_WRITE) == 0;
		if (P.is_open[i]) {
			size_t before = n_bytes * (1 + P.n_placed++ * 7 % 15) / 16;
			block = P.begin[i] = seam - before / ALIGN * ALIGN;
			P.n_free--;
		}
	}
	pthread_mutex_unlock(&P.lock);
	return block;
}

bool device_displace(void *block)
{
	bool is_ours = false;
	pthread_mutex_lock(&P.lock);
	for (int i = 0; i < SEAMS && !is_ours; i++)
		if (P.begin[i] && P.begin[i] == block) {
			P.begin[i] = NULL;
			P.free[P.n_free++] = (uint16_t)i;
			is_ours = true;
		}
	pthread_mutex_unlock(&P.lock);
	return is_ours;
}
