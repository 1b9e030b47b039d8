/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of the fused split kernels: which segment a workgroup has, and its blocks
 * (attention_fused.h).
 */
#pragma once
#include "kernels/attention/attention_fused.h"

/* Ask for the page of the first block of segment i, as if it were of the smallest length: the
 * position that says so is still on its way. Segment 0 begins where it does with any length, unless
 * there is a window. */
template <class S>
DEVICE attention_spot fused_guess(const attention_launch &a, const attention_job &j, int32_t i)
{
	int32_t at = i * ATTENTION_SEGMENT + (int32_t)thread_index() % S::BLOCK;
	int32_t most = a.max_pages_per_seq - 1;
	attention_spot s;
	attention_page(a, at, &s.page, &s.offset);
	s.page = a.page_table[(size_t)j.b * (size_t)a.max_pages_per_seq +
			      (size_t)(s.page < most ? s.page : most)];
	s.is_there = false;
	return s;
}

template <class S>
DEVICE void attention_fused_split(const attention_launch &a, const attention_fused &f)
{
	LDS_DYNAMIC(u32x4, lds);
	int32_t x = (int32_t)group_index_x(), y = (int32_t)group_index_y();
	int32_t i = y % ATTENTION_SEGMENTS, seq = y / ATTENTION_SEGMENTS, n;
	attention_job j;
	j.b = j.token = a.first_seq + seq; /* each sequence has one token */
	j.n = 1;
	j.position = a.position[j.token];
	attention_spot guess = fused_guess<S>(a, j, i);
	/* Segment 0 is always there, and need not wait for the position. Many others are not, and
	 * should load nothing. */
	if (i > 0 && !attention_segment<S>(a, i, &j, &n))
		return;
	j.g = f.subs == 1 ? x : x / f.subs;
	int32_t sub = (x - j.g * f.subs) * ATTENTION_GROUP;
	j.heads = ATTENTION_HEADS(f.group);
	j.head = j.g * f.group + sub;
	j.n_heads = f.group - sub < j.heads ? f.group - sub : j.heads;
	fused_raw<S> raw;
	fused_ask<S>(a, f, j, &raw);
	if (i == 0)
		attention_segment<S>(a, 0, &j, &n);
	raw.is_last = i == n - 1;
	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	fused_place<S>(a, j, i, guess, l.place);
	fused_enter<S>(a, f, j, l, &raw);
	fused_blocks<S>(a, f, j, l, &raw, &sums);
	attention_end<S>(a, j, l, sums, i, n, seq * a.n_kv_heads * f.subs + x);
}
