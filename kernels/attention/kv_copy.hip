/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/kv_copy.h
 * LAYOUT    one page of keys and one of values, n bytes each
 * GEOMETRY  workgroups of 256 threads: (n / 16 over 256, 2), 16 bytes a thread, or two
 *           bytes at a time if a page is not a multiple of 16 bytes
 * PRECISION copies bytes
 * ROOFLINE  bound by launch overhead: 2 x 16 KB at P = 16, G = 4, K = 128
 * TRIED     no other form
 * SEE       kernels/ops/kv_copy_ref.c
 */
#include "kernels/device/dialect.h"

enum { KV_COPY_THREADS = 256 };

/* Copy n bytes (a multiple of 2) from byte offset src to dst, in k and in v. */
KERNEL(KV_COPY_THREADS)
void kv_copy_kernel(char *k, char *v, uint64_t dst, uint64_t src, uint64_t n)
{
	char *pages = group_index_y() == 0 ? k : v;
	uint64_t i = ((uint64_t)group_index_x() * KV_COPY_THREADS + thread_index()) * 16;
	if (i >= n)
		return;
	if ((n & 15) == 0) { /* dst and src are whole pages, so they are multiples of 16 too */
		*(u32x4 *)(pages + dst + i) = *(const u32x4 *)(pages + src + i);
		return;
	}
	for (uint64_t j = i; j < i + 16 && j < n; j += 2)
		*(uint16_t *)(pages + dst + j) = *(const uint16_t *)(pages + src + j);
}
