/* SPDX-License-Identifier: Apache-2.0
 *
 * The split kernel of attention.hip, fused with qk_norm_rope_kv.hip, for steps of one
 * token a sequence. Queries, key and value come raw, and the token's own key and value
 * are not in the cache yet.
 *
 * Each workgroup normalises and rotates the queries of its heads, one wave a head. The
 * workgroup of the last segment also makes the key, and writes key and value to the cache
 * and to LDS. Its own block reads them from LDS. So this launch reads back nothing that
 * it writes to memory, and no other workgroup reads that row of the page. The bits equal
 * those of two separate launches: head_rope.h, with q and k rounded to f16 in between.
 *
 * Loads return in order, so they are issued in the order of use. First come the position,
 * the page that it will most likely name, and the raw heads, which are in the caches since the
 * launch before wrote them. Then come the norms and the first block's keys and values; while
 * these are in flight, the heads are rotated. So the first block arrives as early as without the
 * fusion. Keys and values are both loaded one block ahead, which leaves one wait for
 * memory a block.
 */
#pragma once
#include "kernels/attention/attention_block.h"
#include "kernels/attention/attention_merge.h"
#include "kernels/attention/head_words.h"

/* Zero a row of LDS from element `from` (a multiple of 8) to its end. By one wave. */
template <class S> DEVICE void fused_zero(int32_t from, uint16_t *row)
{
	int32_t at = from + 8 * (int32_t)lane_index();
	if (from < S::KEY && at < S::KEY)
		*(u32x4 *)(row + at) = u32x4{};
}

/* A wave's raw inputs: query heads w, w + 4, ... of its workgroup. In the workgroup of
 * the last segment, one wave also has the key and another the value. */
template <class S> struct fused_raw {
	enum : int {
		SLOTS = S::KEY / (2 * WAVE), HEADS = ATTENTION_GROUP / ATTENTION_WAVES,
		KEY_WAVE = ATTENTION_WAVES - 1, VALUE_WAVE = ATTENTION_WAVES - 2
	};
	head_words<SLOTS> q[HEADS], k;
	head_norm<SLOTS> q_norm, k_norm;
	head_rope<SLOTS> rope;
	u32x4 v;
	int32_t slot;
	bool is_last; /* the workgroup has the last segment */
};

/* Ask for what does not depend on the position. Each workgroup asks for key and value: that its
 * segment is the last one, is_last, is set later. */
template <class S>
DEVICE void fused_ask(const attention_launch &a, const attention_fused &f,
		      const attention_job &j, fused_raw<S> *raw)
{
	int32_t w = (int32_t)wave_index(), n = f.n_freq, dim = a.head_dim;
	size_t b = (size_t)j.b, kv = (b * (size_t)a.n_kv_heads + (size_t)j.g) * (size_t)dim;
	raw->slot = f.slot[j.b];
	UNROLL
	for (int h = 0; h < raw->HEADS; h++) {
		int32_t r = w + h * ATTENTION_WAVES;
		size_t head = b * (size_t)a.n_heads + (size_t)(j.head + r);
		if (r < j.n_heads)
			head_ask(f.q + head * (size_t)f.q_pitch, n, dim, &raw->q[h]);
	}
	if (w == raw->KEY_WAVE)
		head_ask(f.k + kv, n, dim, &raw->k);
	if (w == raw->VALUE_WAVE) {
		int32_t at = 8 * (int32_t)lane_index();
		raw->v = *(const u32x4 *)(f.v + kv + (at < dim ? at : 0));
	}
	head_ask_rope(f.rope + b * (size_t)n * 2, n, &raw->rope);
}

template <class S>
DEVICE void fused_ask_norms(const attention_launch &a, const attention_fused &f,
			    const attention_job &j, fused_raw<S> *raw)
{
	if ((int32_t)wave_index() < j.n_heads)
		head_ask_norm(f.q_norm, f.n_freq, a.head_dim, &raw->q_norm);
	if (raw->is_last && (int32_t)wave_index() == raw->KEY_WAVE)
		head_ask_norm(f.k_norm, f.n_freq, a.head_dim, &raw->k_norm);
}

/* Index in the page memory of the token's row. */
DEVICE size_t fused_row(const attention_launch &a, const attention_job &j, int32_t slot)
{
	int32_t page, offset;
	attention_page(a, slot, &page, &offset);
	return (size_t)(page * a.n_kv_heads + j.g) * (size_t)a.page_size + (size_t)offset;
}

/* A rotated head from LDS, after the Hadamard transform (bytes_hadamard_row) for a cache in 8
 * bits. By one wave. All lanes have read it behind this. */
DEVICE u32x4 fused_hadamard(const uint16_t *rotated, int32_t dim)
{
	wave_barrier();
	u32x4 row = bytes_row_of(rotated, dim);
	bytes_hadamard_row(&row, dim);
	wave_barrier();
	return row;
}

/* Write the queries to LDS, and the key and the value to LDS and the cache. */
template <class S>
DEVICE void fused_make(const attention_launch &a, const attention_fused &f,
		       const attention_job &j, const attention_lds<S> &l, fused_raw<S> *raw)
{
	int32_t w = (int32_t)wave_index(), n = f.n_freq, dim = a.head_dim;
	UNROLL
	for (int h = 0; h < raw->HEADS; h++) {
		int32_t r = w + h * ATTENTION_WAVES;
		if (r >= j.n_heads) { /* unused row: any finite numbers would do */
			fused_zero<S>(0, l.q + r * S::KEY_PITCH);
			continue;
		}
		head_rope_words(n, dim, f.eps, f.q_norm, raw->q_norm, raw->rope, &raw->q[h]);
		head_store_words(raw->q[h], n, dim, l.q + r * S::KEY_PITCH);
		if constexpr (S::BYTES)
			bytes_row_to(fused_hadamard(l.q + r * S::KEY_PITCH, dim), dim,
				     l.q + r * S::KEY_PITCH);
		fused_zero<S>(dim, l.q + r * S::KEY_PITCH);
	}
	if (!raw->is_last)
		return;
	size_t row = fused_row(a, j, raw->slot);
	bool has_value = w == raw->VALUE_WAVE;
	if (w == raw->KEY_WAVE) {
		head_rope_words(n, dim, f.eps, f.k_norm, raw->k_norm, raw->rope, &raw->k);
		head_store_words(raw->k, n, dim, l.fused);
		if constexpr (S::BYTES) {
			u32x4 key = fused_hadamard(l.fused, dim);
			bytes_put_row(&key, dim, (uint8_t *)f.k_pages + row * (size_t)dim,
				      f.k_scale + row);
			bytes_row_to(key, dim, l.fused);
		} else {
			head_store_words(raw->k, n, dim, f.k_pages + row * (size_t)dim);
		}
		fused_zero<S>(dim, l.fused);
	}
	int32_t at = 8 * (int32_t)lane_index();
	if constexpr (S::BYTES)
		if (has_value)
			bytes_put_row(&raw->v, dim, (uint8_t *)f.v_pages + row * (size_t)dim,
				      f.v_scale + row);
	if (has_value && at < S::VALUE)
		*(u32x4 *)(l.fused + S::KEY + at) = at < dim ? raw->v : u32x4{};
	if (!S::BYTES && has_value && at < dim)
		*(u32x4 *)(f.v_pages + row * (size_t)dim + (size_t)at) = raw->v;
}

/* Load a thread's 16-byte pieces of a block. Positions outside the sequence load row 0 of the
 * pages, which fused_put replaces by 0. Where row 0 is a token's own, another wave or workgroup may
 * be storing it meanwhile: no number of it is used. */
template <class S, int DIM, int LOADS>
DEVICE void fused_fetch(const uint16_t *pages, int32_t dim, const uint32_t *place, u32x4 *out)
{
	/* AT_ONCE: rows that the workgroup loads at once */
	constexpr int32_t PIECES = DIM / 8, AT_ONCE = S::THREADS / PIECES;
	int32_t row = (int32_t)thread_index() / PIECES, at = (int32_t)thread_index() % PIECES * 8;
	pages += at < dim ? at : 0;
	UNROLL
	for (int i = 0; i < LOADS; i++)
		out[i] = *(const u32x4 *)(pages + (size_t)place[row + i * AT_ONCE] * (size_t)dim);
}

/* In the token's block, put its own row where the same thread has put zeros. */
template <class S, int DIM, int PITCH>
DEVICE void fused_own(const attention_job &j, int32_t block, const uint16_t *fused,
		      uint16_t *lds)
{
	constexpr int32_t PIECES = DIM / 8, AT_ONCE = S::THREADS / PIECES;
	int32_t row = (int32_t)thread_index() / PIECES, at = (int32_t)thread_index() % PIECES * 8;
	int32_t own = j.position % S::BLOCK;
	if (block == j.position / S::BLOCK && row == own % AT_ONCE)
		*(u32x4 *)(lds + own * PITCH + at) = *(const u32x4 *)(fused + at);
}

/* Store a thread's pieces in LDS, with 0 for positions not in the cache, and add the
 * token's own row. Zeroing happens here because it waits for the loads. */
template <class S, int DIM, int LOADS, int PITCH>
DEVICE void fused_put(const attention_job &j, int32_t block, int32_t dim, u32x4 *in,
		      const uint16_t *fused, uint16_t *lds)
{
	constexpr int32_t PIECES = DIM / 8, AT_ONCE = S::THREADS / PIECES;
	int32_t row = (int32_t)thread_index() / PIECES, at = (int32_t)thread_index() % PIECES * 8;
	UNROLL
	for (int i = 0; i < LOADS; i++) {
		int32_t position = block * S::BLOCK + row + i * AT_ONCE;
		bool is_there = position >= j.seen && position < j.position && at < dim;
		UNROLL
		for (int w = 0; w < 4; w++)
			in[i][w] = is_there ? in[i][w] : 0;
	}
	attention_put<S, DIM, LOADS, PITCH>(in, 0, lds);
	fused_own<S, DIM, PITCH>(j, block, fused, lds);
}

/* fused_put for a cache in 8 bits: a piece is sixteen bytes, and a scale of 0 makes missing
 * positions 0. */
template <class S, int DIM, int LOADS, int PITCH>
DEVICE void fused_put_bytes(const attention_job &j, int32_t block,
			    attention_pieces<LOADS, true> *in, const uint16_t *fused,
			    uint16_t *lds)
{
	constexpr int32_t PIECES = DIM / 16, AT_ONCE = S::THREADS / PIECES;
	int32_t row = (int32_t)thread_index() / PIECES;
	int32_t at = (int32_t)thread_index() % PIECES * 16;
	UNROLL
	for (int i = 0; i < LOADS / 2; i++) {
		int32_t position = block * S::BLOCK + row + i * AT_ONCE;
		bool is_there = position >= j.seen && position < j.position;
		in->scale[i] = is_there ? in->scale[i] : 0;
	}
	attention_put_bytes<S, DIM, LOADS, PITCH>(*in, lds);
	int32_t own = j.position % S::BLOCK;
	if (block == j.position / S::BLOCK && row == own % AT_ONCE)
		UNROLL
		for (int i = 0; i < 16; i += 8)
			*(u32x4 *)(lds + own * PITCH + at + i) =
				*(const u32x4 *)(fused + at + i);
}

template <class S, int DIM, int LOADS>
DEVICE void fused_bring(const attention_from &from, const uint32_t *place,
			attention_pieces<LOADS, S::BYTES> *out)
{
	if constexpr (S::BYTES)
		attention_fetch_bytes<S, DIM, LOADS>(from, place, out);
	else
		fused_fetch<S, DIM, LOADS>(from.pages, from.dim, place, out->v);
}

template <class S, int DIM, int LOADS, int PITCH>
DEVICE void fused_land(const attention_from &from, const attention_job &j, int32_t block,
		       attention_pieces<LOADS, S::BYTES> *in, const uint16_t *fused,
		       uint16_t *lds)
{
	if constexpr (S::BYTES)
		fused_put_bytes<S, DIM, LOADS, PITCH>(j, block, in, fused, lds);
	else
		fused_put<S, DIM, LOADS, PITCH>(j, block, from.dim, in->v, fused, lds);
}

/* Store the places of the first block of segment i. guess: those if the segment is of the
 * smallest length (fused_guess). */
template <class S>
DEVICE void fused_place(const attention_launch &a, const attention_job &j, int32_t i,
			attention_spot guess, uint32_t *place)
{
	int32_t at = j.from * S::BLOCK + (int32_t)thread_index() % S::BLOCK;
	guess.is_there = at >= j.seen && at < j.position;
	if (j.from != i * S::SEGMENT)
		guess = attention_look<S>(a, j, j.from);
	attention_place<S>(a, j, guess, place);
}

/* Begin a segment, of whose first block the places are stored, and ask for the norms. */
template <class S>
DEVICE void fused_enter(const attention_launch &a, const attention_fused &f,
			const attention_job &j, const attention_lds<S> &l, fused_raw<S> *raw)
{
	attention_begin<S>(a, j, l);
	group_barrier();
	fused_ask_norms<S>(a, f, j, raw);
}

/* attention_blocks with keys and values loaded one block ahead, behind fused_enter. */
template <class S>
DEVICE void fused_blocks(const attention_launch &a, const attention_fused &f,
			 const attention_job &j, const attention_lds<S> &l, fused_raw<S> *raw,
			 attention_sums<S> *sums)
{
	attention_pieces<S::KEY_LOADS, S::BYTES> keys;
	attention_pieces<S::VALUE_LOADS, S::BYTES> values;
	attention_from k = attention_keys_of(a), v = attention_values_of(a);
	fused_bring<S, S::KEY, S::KEY_LOADS>(k, l.place, &keys);
	fused_bring<S, S::VALUE, S::VALUE_LOADS>(v, l.place, &values);
	fused_make<S>(a, f, j, l, raw);
	group_barrier(); /* queries, key and value are in LDS */
	fused_land<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(k, j, j.from, &keys, l.fused, l.k);
	for (int32_t block = j.from; block <= j.to; block++) {
		uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
		group_barrier(); /* keys are in LDS; the last values are no longer needed */
		if (block < j.to)
			attention_place<S>(a, j, attention_look<S>(a, j, block + 1), next);
		attention_scores<S>(l);
		group_barrier(); /* scores are in LDS; keys are no longer needed */
		fused_land<S, S::VALUE, S::VALUE_LOADS, S::VALUE_PITCH>(
			v, j, block, &values, l.fused + S::KEY, l.v);
		if (block < j.to) {
			fused_bring<S, S::KEY, S::KEY_LOADS>(k, next, &keys);
			fused_bring<S, S::VALUE, S::VALUE_LOADS>(v, next, &values);
		}
		attention_weigh<S>(a, l, block, false);
		group_barrier(); /* weights and values are in LDS */
		attention_values<S>(l, sums);
		if (block < j.to)
			fused_land<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(
				k, j, block + 1, &keys, l.fused, l.k);
	}
}
