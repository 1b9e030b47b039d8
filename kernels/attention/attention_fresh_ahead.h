/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_fresh.h where the hardware copies to LDS (COPY_LANDS 0): keys and values of the next
 * block are copied to a second place while this block is computed. Registers stay free for sums,
 * and a block waits for memory only if memory is slower than the block. A cache in 8 bits becomes
 * halves on its way, so it goes through registers everywhere.
 */
#pragma once
#include "kernels/attention/attention_fresh.h"

/* Start the copies of a block's keys and values, which are as wide. Positions that are not in the
 * cache become 0. All places are read first: a copy is not moved before a load from LDS. */
template <class S>
DEVICE void fresh_copy(const attention_launch &a, const attention_job &j, int32_t block,
		       const uint32_t *place, const attention_lds<S> &l)
{
	constexpr int32_t PIECES = S::KEY / 8, AT_ONCE = S::THREADS / PIECES, N = S::KEY_LOADS;
	int32_t row = (int32_t)thread_index() / PIECES, at = (int32_t)thread_index() % PIECES * 8;
	int32_t first = j.seen - block * S::BLOCK;
	uint32_t n = at < a.head_dim ? (uint32_t)(j.position - j.seen) : 0;
	uint32_t rows[N], pitch = (uint32_t)a.head_dim * 2;
	UNROLL
	for (int i = 0; i < N; i++)
		rows[i] = place[row + i * AT_ONCE];
	auto ask = [&](const uint16_t *pages, uint16_t *lds) {
		const char *piece = (const char *)(pages + (at < a.head_dim ? at : 0));
		copy_ahead<N> ahead;
		UNROLL
		for (int i = 0; i < N; i++) {
			int32_t r = row + i * AT_ONCE;
			copy_ask_once(&ahead, i, lds + r * S::KEY_PITCH + at,
				      (const uint16_t *)(piece + (size_t)rows[i] * pitch),
				      (uint32_t)(r - first) < n);
		}
	};
	ask(a.k, l.k);
	ask(a.v, l.v);
}

/* fresh_blocks with two places in LDS for keys and values. Both are free at first, so two blocks
 * are asked for at once. Then those of the next block are copied while a block is computed. The
 * places of the first two blocks are stored already. */
template <class S>
DEVICE void fresh_blocks_ahead(const attention_launch &a, const attention_fresh &f,
			       const attention_job &j, const attention_lds<S> &first,
			       fresh_raw<S> *raw, attention_sums<S> *sums)
{
	attention_lds<S> l = first, other = first;
	other.k = l.fresh + S::KEY + S::VALUE;
	other.v = other.k + S::BLOCK * S::KEY_PITCH;
	fresh_copy<S>(a, j, j.from, l.place, l);
	copy_close();
	if (j.from < j.to)
		fresh_copy<S>(a, j, j.from + 1, l.place + S::BLOCK, other);
	copy_close();
	fresh_make<S>(a, f, j, l, raw);
	group_barrier(); /* queries, key and value are in LDS */
	for (int32_t block = j.from; block <= j.to; block++) {
		uint32_t *place = l.place + ((block - j.from) & 1) * S::BLOCK;
		uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
		bool is_first = block == j.from, goes_on = block + 2 <= j.to;
		attention_spot spot;
		if (is_first)
			copy_wait_but<1>();
		else
			copy_wait();
		fresh_own<S, S::KEY, S::KEY_PITCH>(j, block, l.fresh, l.k);
		fresh_own<S, S::VALUE, S::VALUE_PITCH>(j, block, l.fresh + S::KEY, l.v);
		group_barrier(); /* this block is in LDS; the one before is no longer needed */
		if (!is_first && block < j.to)
			fresh_copy<S>(a, j, block + 1, next, other);
		if (goes_on)
			spot = attention_look<S>(a, j, block + 2);
		attention_scores<S>(l);
		group_barrier(); /* scores are in LDS */
		attention_weigh<S>(a, l, block, false);
		if (goes_on)
			attention_place<S>(a, j, spot, place);
		group_barrier(); /* weights are in LDS */
		attention_values<S>(l, sums);
		attention_lds<S> swap = l;
		l = other;
		other = swap;
	}
}

/* Ask for the page of block `next` of segment i, as if the segment were of the smallest length: the
 * position that says so is still on its way. Segment 0 begins where it does with any length, unless
 * there is a window. */
template <class S>
DEVICE attention_spot fresh_guess(const attention_launch &a, const attention_job &j, int32_t i,
				  int32_t next)
{
	int32_t at = i * ATTENTION_SEGMENT + next * S::BLOCK + (int32_t)thread_index() % S::BLOCK;
	int32_t most = a.max_pages_per_seq - 1;
	attention_spot s;
	attention_page(a, at, &s.page, &s.offset);
	s.page = a.page_table[(size_t)j.b * (size_t)a.max_pages_per_seq +
			      (size_t)(s.page < most ? s.page : most)];
	s.is_there = false;
	return s;
}

template <class S>
DEVICE void attention_fresh_split(const attention_launch &a, const attention_fresh &f)
{
	/* Blocks whose places are found before the first one is loaded. */
	constexpr int BLOCKS = S::BYTES || COPY_LANDS ? 1 : 2;
	LDS_DYNAMIC(u32x4, lds);
	int32_t x = (int32_t)group_index_x(), y = (int32_t)group_index_y();
	int32_t i = y % ATTENTION_SEGMENTS, seq = y / ATTENTION_SEGMENTS, n;
	attention_job j;
	j.b = j.token = a.first_seq + seq; /* each sequence has one token */
	j.n = 1;
	j.position = a.position[j.token];
	attention_spot guess[BLOCKS];
	UNROLL
	for (int b = 0; b < BLOCKS; b++)
		guess[b] = fresh_guess<S>(a, j, i, b);
	/* Segment 0 is always there, and need not wait for the position. Many others are not, and
	 * should load nothing. */
	if (i > 0 && !attention_segment<S>(a, i, &j, &n))
		return;
	j.g = f.subs == 1 ? x : x / f.subs;
	int32_t sub = (x - j.g * f.subs) * ATTENTION_GROUP;
	j.heads = ATTENTION_HEADS(f.group);
	j.head = j.g * f.group + sub;
	j.n_heads = f.group - sub < j.heads ? f.group - sub : j.heads;
	fresh_raw<S> raw;
	fresh_ask<S>(a, f, j, &raw);
	if (i == 0)
		attention_segment<S>(a, 0, &j, &n);
	raw.is_last = i == n - 1;
	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	UNROLL
	for (int b = 0; b < BLOCKS; b++)
		fresh_place<S>(a, j, i, b, guess[b], l.place + b * S::BLOCK);
	fresh_enter<S>(a, f, j, l, &raw);
	if constexpr (BLOCKS == 1)
		fresh_blocks<S>(a, f, j, l, &raw, &sums);
	else
		fresh_blocks_ahead<S>(a, f, j, l, &raw, &sums);
	attention_end<S>(a, j, l, sums, i, n, seq * a.n_kv_heads * f.subs + x);
}
