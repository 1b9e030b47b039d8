/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/kv_copy.h
 * LAYOUT    one page of keys and one of values, as n bytes each
 * GEOMETRY  workgroups of 256 threads: (n / 16 over 256, 2), 16 bytes a thread; two at
 *           a time where a page is no multiple of 16
 * PRECISION bytes
 * ROOFLINE  bound by its launch: 2 x 16 KB at P = 16, G = 4, K = 128
 * TRIED     nothing else
 * SEE       kernels/ops/kv_copy_ref.c
 */
#include "kernels/device/dialect.h"

enum { KV_COPY_THREADS = 256 };

/* From byte src to byte dst of k and of v; n bytes, a multiple of 2. */
KERNEL(KV_COPY_THREADS)
void kv_copy_kernel(char *k, char *v, uint64_t dst, uint64_t src, uint64_t n)
{
	char *pages = group_index_y() == 0 ? k : v;
	uint64_t i = ((uint64_t)group_index_x() * KV_COPY_THREADS + thread_index()) * 16;
	if (i >= n)
		return;
	if ((n & 15) == 0) { /* then dst and src, whole pages, are multiples of it too */
		*(u32x4 *)(pages + dst + i) = *(const u32x4 *)(pages + src + i);
		return;
	}
	for (uint64_t j = i; j < i + 16 && j < n; j += 2)
		*(uint16_t *)(pages + dst + j) = *(const uint16_t *)(pages + src + j);
}
