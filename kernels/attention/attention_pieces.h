/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread's pieces of a block of keys or values on their way to the LDS of a split kernel:
 * halves as they are (attention_job.h), or bytes that become halves (attention_bytes.h).
 */
#pragma once
#include "kernels/attention/attention_bytes.h"
#include "kernels/attention/attention_job.h"

/* A thread's pieces of a block: halves, or bytes with their rows' scales. */
template <int LOADS, bool IS_BYTES> struct attention_pieces {
	u32x4 v[LOADS];
};
template <int LOADS> struct attention_pieces<LOADS, true> {
	u32x4 v[LOADS / 2];
	uint32_t scale[LOADS / 2];
};

/* Keys or values of all pages. */
struct attention_from {
	const uint16_t *pages, *scale;
	int32_t dim;
};

DEVICE attention_from attention_keys_of(const attention_launch &a)
{
	return {a.k, a.k_scale, a.head_dim};
}

DEVICE attention_from attention_values_of(const attention_launch &a)
{
	return {a.v, a.v_scale, a.v_dim};
}

/* Sixteen bytes a piece. FUSED: positions that are not in the cache load row 0 with its
 * scale; else their scale is 0. */
template <class S, int DIM, int LOADS>
DEVICE void attention_fetch_bytes(const attention_from &from, const uint32_t *place,
				  attention_pieces<LOADS, true> *out)
{
	UNROLL
	for (int i = 0; i < LOADS / 2; i++) {
		int32_t c = (int32_t)thread_index() + i * S::THREADS;
		int32_t at = c % (DIM / 16) * 16;
		uint32_t row = place[c / (DIM / 16)];
		bool is_there = row != ATTENTION_NOWHERE && at < from.dim;
		row = is_there ? row : 0;
		out->v[i] = *(const u32x4 *)((const uint8_t *)from.pages +
					     (size_t)row * (size_t)from.dim +
					     (size_t)(is_there ? at : 0));
		uint32_t scale = from.scale[row];
		out->scale[i] = is_there ? scale : 0;
	}
}

template <class S, int DIM, int LOADS, int PITCH>
DEVICE void attention_put_bytes(const attention_pieces<LOADS, true> &in, uint16_t *lds)
{
	UNROLL
	for (int i = 0; i < LOADS / 2; i++) {
		int32_t c = (int32_t)thread_index() + i * S::THREADS;
		bytes_widen16(in.v[i], in.scale[i],
			      lds + c / (DIM / 16) * PITCH + c % (DIM / 16) * 16);
	}
}

/* Ask for a thread's pieces of a block; later put them into LDS. */
template <class S, int DIM, int LOADS>
DEVICE void attention_ask(const attention_from &from, const uint32_t *place,
			  attention_pieces<LOADS, S::BYTES> *out)
{
	if constexpr (S::BYTES)
		attention_fetch_bytes<S, DIM, LOADS>(from, place, out);
	else
		attention_fetch<S, DIM, LOADS>(from.pages, from.dim, place, 0, out->v);
}

template <class S, int DIM, int LOADS, int PITCH>
DEVICE void attention_land(const attention_pieces<LOADS, S::BYTES> &in, uint16_t *lds)
{
	if constexpr (S::BYTES)
		attention_put_bytes<S, DIM, LOADS, PITCH>(in, lds);
	else
		attention_put<S, DIM, LOADS, PITCH>(in.v, 0, lds);
}

/* Copy a whole block from memory to LDS; a large one in three parts, to save registers. */
template <class S, int DIM, int LOADS, int PITCH>
DEVICE void attention_copy(const uint16_t *pages, int32_t dim, const uint32_t *place,
			   uint16_t *lds)
{
	constexpr int PARTS = LOADS % 3 == 0 ? 3 : 1;
	ONE_BY_ONE
	for (int32_t i = 0; i < PARTS; i++) {
		u32x4 rows[LOADS / PARTS];
		int32_t first = i * (LOADS / PARTS) * S::THREADS;
		attention_fetch<S, DIM, LOADS / PARTS>(pages, dim, place, first, rows);
		attention_put<S, DIM, LOADS / PARTS, PITCH>(rows, first, lds);
	}
}

/* attention_ask and the store to LDS, without other work in between. */
template <class S, int DIM, int LOADS, int PITCH>
DEVICE void attention_bring(const attention_from &from, const uint32_t *place, uint16_t *lds)
{
	if constexpr (S::BYTES) {
		attention_pieces<LOADS, true> pieces;
		attention_fetch_bytes<S, DIM, LOADS>(from, place, &pieces);
		attention_put_bytes<S, DIM, LOADS, PITCH>(pieces, lds);
	} else {
		attention_copy<S, DIM, LOADS, PITCH>(from.pages, from.dim, place, lds);
	}
}
