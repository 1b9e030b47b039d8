/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/kv_bytes.h, rounded to f16
 * LAYOUT    pages of bytes to pages of halves, with the same page numbers
 * GEOMETRY  workgroups of 256 threads, 16 bytes a thread and iteration: (2 * pages of a
 *           sequence, B), first keys and then values of a page. A page that no token of the step
 *           sees is left out. A page that several sequences share is written by each, with the
 *           same bits.
 * PRECISION one rounding (attention_bytes.h)
 * ROOFLINE  1 byte read and 2 written of each number, for kernels that read each number many
 *           times. G = 4, K = 128 after 32,768 positions: 101 MB a layer, 0.42 ms at 240 GB/s
 *           (gfx1151), beside 48 ms of attention of 2,048 tokens there.
 * TRIED     no other form. By hand: bytes that attention_rows.h turns into halves cost each of
 *           its 64 rows 14 instructions for 8 numbers.
 * SEE       kernels/ops/kv_bytes_ref.c
 */
#include "kernels/attention/attention_bytes.h"
#include "kernels/attention/attention_seen.h"
#include "kernels/attention/kv_widen_launch.h"

/* False if no token of the step sees page number i of sequence b. */
DEVICE bool kv_widen_page(const kv_widen_launch &a, int32_t b, int32_t i, int32_t *page)
{
	int32_t first = a.first_tok[b], n = a.first_tok[b + 1] - first, at = i * a.page_size;
	if (n < 1 || (n == 1 && a.skips_single))
		return false;
	int32_t from = a.position[first], last = from + n - 1;
	int32_t seen = attention_seen(a.window, from);
	if (at > last || at + a.page_size <= seen)
		return false;
	*page = a.page_table[(size_t)b * (size_t)a.max_pages_per_seq + (size_t)i];
	return true;
}

KERNEL(KV_WIDEN_THREADS)
void kv_widen_kernel(kv_widen_launch a)
{
	int32_t x = (int32_t)group_index_x(), page, pieces = a.head_dim / 16;
	if (!kv_widen_page(a, (int32_t)group_index_y(), x / 2, &page))
		return;
	const uint8_t *bytes = x % 2 ? a.v : a.k;
	const uint16_t *scales = x % 2 ? a.v_scale : a.k_scale;
	uint16_t *wide = x % 2 ? a.wide_v : a.wide_k;
	size_t first = (size_t)page * (size_t)a.rows;
	for (int32_t c = (int32_t)thread_index(); c < a.rows * pieces; c += KV_WIDEN_THREADS) {
		int32_t r = c / pieces;
		size_t at = first * (size_t)a.head_dim + (size_t)c * 16;
		bytes_widen16(*(const u32x4 *)(bytes + at), scales[first + (size_t)r],
			      wide + at);
	}
}
