/* SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/weight_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

void weight_pages_drop(const void *p, size_t n_bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = ROUND_UP((uintptr_t)p, page);
	uintptr_t last = ((uintptr_t)p + n_bytes) / page * page;
	if (first < last)
		madvise((char *)p + (first - (uintptr_t)p), last - first, MADV_DONTNEED);
}

/* Advice about the pages that hold any of these bytes. */
static void advise(const void *p, size_t n_bytes, int advice)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)p % page;
	madvise((char *)(uintptr_t)p - before, n_bytes + before, advice); /* best effort */
}

void weight_pages_random(const struct weight *w)
{
	if (w->is_mapped)
		advise(w->q, (size_t)w->n * weight_row_bytes(w), MADV_RANDOM);
}

void weight_pages_want(const struct weight *w, int64_t row)
{
	size_t n = weight_row_bytes(w);
	if (w->is_mapped)
		advise((const char *)w->q + (size_t)row * n, n, MADV_WILLNEED);
}

void weight_pages_give_back(const struct weight *w)
{
	if (!w->is_mapped)
		return;
	weight_pages_drop(w->q, (size_t)MAX(w->row_step, 1) * (size_t)w->n *
					weight_row_bytes(w));
	if (quant_block(w->quant) || w->row_step > 1 || w->group == 0)
		return;
	size_t n_groups = (size_t)w->n * (size_t)(w->k / w->group);
	if (w->scales && w->quant != QUANT_FP8)
		weight_pages_drop(w->scales, n_groups * dtype_bytes(w->scale_type));
	if (w->zero_points)
		weight_pages_drop(w->zero_points, n_groups * (size_t)quant_bits(w->quant) / 8);
}
