/* SPDX-License-Identifier: Apache-2.0
 *
 * The split kernel of attention.hip for a step of one token a sequence, together with
 * what comes before (qk_norm_rope_kv.hip): queries, key and value come raw, and the key
 * and the value of the token are not in the cache yet.
 *
 * Each workgroup normalises and rotates the queries of its heads, a wave a head; that of
 * the last segment makes the key too, writes it and the value to the cache, and has
 * them in LDS, from where they take their place in its own block. To what is fetched
 * their position is nowhere: nothing that this launch writes is read back from memory,
 * and who else reads the page does not look at that row. The bits are those of one
 * launch after the other: head_turn.h, and q and k are rounded to f16 between.
 *
 * Loads are asked for in the order in which they are needed, and all of a kind at once:
 * the position, the page, what is raw; then the first block's keys and values, while
 * which are on their way the raw heads are turned. So the first block is there when it
 * would be without them. The values come a block ahead, with the keys: the wait for
 * memory is one a block.
 */
#pragma once
#include "kernels/attention_block.h"
#include "kernels/attention_result.h"
#include "kernels/head_turn.h"

/* Words (two elements) of a head that a lane has: slots of head_turn.h. */
template <int SLOTS> struct fresh_head {
	uint32_t lo[SLOTS], hi[SLOTS];
};

/* What it is multiplied by there. */
template <int SLOTS> struct fresh_norm {
	u32x2 lo[SLOTS], hi[SLOTS];
};
template <int SLOTS> struct fresh_rope {
	u32x4 turn[SLOTS]; /* cos, sin, cos, sin */
};

/* The element that a lane's slot begins with. */
DEVICE int32_t fresh_at(int slot)
{
	return 2 * (int32_t)lane_index() + slot * 2 * WAVE;
}

/* Lanes that have nothing there ask for the first element: a load without a branch. */
template <int SLOTS>
DEVICE void fresh_ask_head(const uint16_t *p, int32_t n, int32_t dim, fresh_head<SLOTS> *out)
{
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = fresh_at(s);
		out->lo[s] = *(const uint32_t *)(p + (i < n ? i : 0));
		out->hi[s] = *(const uint32_t *)(p + (i + n < dim ? i + n : 0));
	}
}

template <int SLOTS>
DEVICE void fresh_ask_norm(const float *p, int32_t n, int32_t dim, fresh_norm<SLOTS> *out)
{
	if (!p)
		return;
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = fresh_at(s);
		out->lo[s] = *(const u32x2 *)(p + (i < n ? i : 0));
		out->hi[s] = *(const u32x2 *)(p + (i + n < dim ? i + n : 0));
	}
}

template <int SLOTS>
DEVICE void fresh_ask_rope(const float *p, int32_t n, fresh_rope<SLOTS> *out)
{
	if (n == 0)
		return;
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = fresh_at(s);
		out->turn[s] = *(const u32x4 *)(p + 2 * (i < n ? i : 0));
	}
}

template <int N, class V> DEVICE void fresh_floats(const V &v, float *out)
{
	UNROLL
	for (int i = 0; i < N; i++)
		out[i] = bits_cast<float>((uint32_t)v[i]);
}

/* The head normalised, where has_norm, and rotated, in place. By all lanes of a wave. */
template <int SLOTS>
DEVICE void fresh_turn(const attention_fresh &f, int32_t dim, bool has_norm,
		       const fresh_norm<SLOTS> &norm, const fresh_rope<SLOTS> &rope,
		       fresh_head<SLOTS> *h)
{
	float lo[2], hi[2], factors[4], squares = 0, scale = 1;
	UNROLL
	for (int s = 0; s < SLOTS; s++) { /* what is not there is 0, and adds nothing */
		int32_t i = fresh_at(s);
		head_unpack(i < f.n_freq ? h->lo[s] : 0, lo);
		head_unpack(i + f.n_freq < dim ? h->hi[s] : 0, hi);
		squares = head_squares<2>(hi, head_squares<2>(lo, squares));
	}
	if (has_norm)
		scale = head_scale(squares, dim, f.eps);
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		head_unpack(h->lo[s], lo);
		head_unpack(h->hi[s], hi);
		if (has_norm) {
			fresh_floats<2>(norm.lo[s], factors);
			head_normalise<2>(factors, scale, lo);
			fresh_floats<2>(norm.hi[s], factors);
			head_normalise<2>(factors, scale, hi);
		}
		if (fresh_at(s) < f.n_freq) {
			fresh_floats<4>(rope.turn[s], factors);
			head_rotate<2>(factors, lo, hi);
		}
		h->lo[s] = head_pack(lo);
		h->hi[s] = head_pack(hi);
	}
}

template <int SLOTS>
DEVICE void fresh_store(const fresh_head<SLOTS> &h, int32_t n, int32_t dim, uint16_t *to)
{
	UNROLL
	for (int s = 0; s < SLOTS; s++) {
		int32_t i = fresh_at(s);
		if (i < n)
			*(uint32_t *)(to + i) = h.lo[s];
		if (i + n < dim)
			*(uint32_t *)(to + i + n) = h.hi[s];
	}
}

/* A head to a row of LDS, 0 beyond its end. */
template <class S, int SLOTS>
DEVICE void fresh_put(const fresh_head<SLOTS> &h, int32_t n, int32_t dim, uint16_t *row)
{
	fresh_store(h, n, dim, row);
	for (int32_t i = dim + 2 * (int32_t)lane_index(); i < S::KEY; i += 2 * WAVE)
		*(uint32_t *)(row + i) = 0;
}

/* What a wave has of what is raw: heads w, w + 4, ... of its workgroup's. Of the last
 * segment's workgroup one wave has the key too, another the value. */
template <class S> struct fresh_raw {
	enum : int {
		SLOTS = S::KEY / (2 * WAVE), HEADS = ATTENTION_GROUP / ATTENTION_WAVES,
		KEY_WAVE = ATTENTION_WAVES - 1, VALUE_WAVE = ATTENTION_WAVES - 2
	};
	fresh_head<SLOTS> q[HEADS], k;
	fresh_norm<SLOTS> q_norm, k_norm;
	fresh_rope<SLOTS> rope;
	u32x4 v;
	bool has_key, has_value;
};

template <class S>
DEVICE void fresh_ask(const attention_launch &a, const attention_fresh &f,
		      const attention_job &j, bool is_last, fresh_raw<S> *raw)
{
	int32_t w = (int32_t)wave_index(), n = f.n_freq, dim = a.head_dim;
	size_t b = (size_t)j.b, kv = (b * (size_t)a.n_kv_heads + (size_t)j.g) * (size_t)dim;
	raw->has_key = is_last && w == raw->KEY_WAVE;
	raw->has_value = is_last && w == raw->VALUE_WAVE;
	UNROLL
	for (int h = 0; h < raw->HEADS; h++) {
		int32_t r = w + h * ATTENTION_WAVES;
		size_t head = b * (size_t)a.n_heads + (size_t)(j.head + r);
		if (r < j.n_heads)
			fresh_ask_head(f.q + head * (size_t)f.q_pitch, n, dim, &raw->q[h]);
	}
	if (raw->has_key)
		fresh_ask_head(f.k + kv, n, dim, &raw->k);
	if (raw->has_value) {
		int32_t at = 8 * (int32_t)lane_index();
		raw->v = *(const u32x4 *)(f.v + kv + (at < dim ? at : 0));
	}
	fresh_ask_rope(f.rope + b * (size_t)n * 2, n, &raw->rope);
	if (w < j.n_heads)
		fresh_ask_norm(f.q_norm, n, dim, &raw->q_norm);
	if (raw->has_key)
		fresh_ask_norm(f.k_norm, n, dim, &raw->k_norm);
}

/* Elements of the cache before the token's row. */
DEVICE size_t fresh_row(const attention_launch &a, const attention_fresh &f,
			const attention_job &j)
{
	int32_t page, offset;
	attention_page(a, f.slot[j.b], &page, &offset);
	return ((size_t)(page * a.n_kv_heads + j.g) * (size_t)a.page_size + (size_t)offset) *
	       (size_t)a.head_dim;
}

/* Queries to LDS, the key and the value to LDS and to the cache. */
template <class S>
DEVICE void fresh_make(const attention_launch &a, const attention_fresh &f,
		       const attention_job &j, const attention_lds<S> &l, fresh_raw<S> *raw)
{
	int32_t w = (int32_t)wave_index(), n = f.n_freq, dim = a.head_dim;
	UNROLL
	for (int h = 0; h < raw->HEADS; h++) {
		int32_t r = w + h * ATTENTION_WAVES;
		if (r < j.n_heads)
			fresh_turn(f, dim, f.q_norm, raw->q_norm, raw->rope, &raw->q[h]);
		fresh_put<S>(raw->q[h], n, r < j.n_heads ? dim : 0, l.q + r * S::KEY_PITCH);
	}
	if (raw->has_key) {
		fresh_turn(f, dim, f.k_norm, raw->k_norm, raw->rope, &raw->k);
		fresh_put<S>(raw->k, n, dim, l.fresh);
		fresh_store(raw->k, n, dim, f.k_pages + fresh_row(a, f, j));
	}
	int32_t at = 8 * (int32_t)lane_index();
	if (raw->has_value && at < S::VALUE)
		*(u32x4 *)(l.fresh + S::KEY + at) = at < dim ? raw->v : u32x4{};
	if (raw->has_value && at < dim)
		*(u32x4 *)(f.v_pages + fresh_row(a, f, j) + at) = raw->v;
}

/* Pieces of a block, of which row `at` (-1: none) is fresh. */
template <class S, int DIM, int LOADS, int PITCH>
DEVICE void fresh_put_block(u32x4 *in, const uint16_t *fresh, int32_t at, uint16_t *lds)
{
	UNROLL
	for (int i = 0; i < LOADS; i++) {
		int32_t c = (int32_t)thread_index() + i * S::THREADS;
		if (c / (DIM / 8) == at)
			in[i] = *(const u32x4 *)(fresh + c % (DIM / 8) * 8);
	}
	attention_put<S, DIM, LOADS, PITCH>(in, 0, lds);
}

/* attention_blocks, with keys and values one block ahead. */
template <class S>
DEVICE void fresh_blocks(const attention_launch &a, const attention_fresh &f,
			 const attention_job &j, const attention_lds<S> &l, bool is_last,
			 attention_sums<S> *sums)
{
	u32x4 keys[S::KEY_LOADS], values[S::VALUE_LOADS];
	fresh_raw<S> raw;
	attention_spot spot = attention_look<S>(a, j, j.from);
	fresh_ask<S>(a, f, j, is_last, &raw);
	attention_begin<S>(a, j, l);
	attention_place<S>(a, j, spot, l.place);
	group_barrier();
	attention_fetch<S, S::KEY, S::KEY_LOADS>(a.k, a.head_dim, l.place, 0, keys);
	attention_fetch<S, S::VALUE, S::VALUE_LOADS>(a.v, a.v_dim, l.place, 0, values);
	fresh_make<S>(a, f, j, l, &raw);
	group_barrier(); /* queries, the key and the value are there */
	int32_t own = j.position / S::BLOCK, in_own = j.position % S::BLOCK;
	fresh_put_block<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(
		keys, l.fresh, j.from == own ? in_own : -1, l.k);
	for (int32_t block = j.from; block <= j.to; block++) {
		uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
		group_barrier(); /* keys are there; the last values have been used */
		if (block < j.to)
			attention_place<S>(a, j, attention_look<S>(a, j, block + 1), next);
		attention_scores<S>(l);
		group_barrier(); /* scores are there, keys have been used */
		fresh_put_block<S, S::VALUE, S::VALUE_LOADS, S::VALUE_PITCH>(
			values, l.fresh + S::KEY, block == own ? in_own : -1, l.v);
		if (block < j.to) {
			attention_fetch<S, S::KEY, S::KEY_LOADS>(a.k, a.head_dim, next, 0,
								 keys);
			attention_fetch<S, S::VALUE, S::VALUE_LOADS>(a.v, a.v_dim, next, 0,
								     values);
		}
		attention_weigh<S>(a, l, block, false);
		group_barrier(); /* weights and values are there */
		attention_values<S>(l, sums);
		if (block < j.to)
			fresh_put_block<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(
				keys, l.fresh, block + 1 == own ? in_own : -1, l.k);
	}
}

template <class S>
DEVICE void attention_fresh_split(const attention_launch &a, const attention_fresh &f)
{
	LDS_DYNAMIC(u32x4, lds);
	int32_t x = (int32_t)group_index_x(), y = (int32_t)group_index_y();
	int32_t i = y % ATTENTION_SEGMENTS, seq = y / ATTENTION_SEGMENTS, n;
	attention_job j;
	j.b = j.token = a.first_seq + seq; /* a token each */
	j.n = 1;
	j.position = a.position[j.token];
	if (!attention_segment<S>(a, i, &j, &n))
		return;
	j.g = f.subs == 1 ? x : x / f.subs;
	int32_t sub = (x - j.g * f.subs) * ATTENTION_GROUP;
	j.heads = ATTENTION_HEADS(f.group);
	j.head = j.g * f.group + sub;
	j.n_heads = f.group - sub < j.heads ? f.group - sub : j.heads;
	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	fresh_blocks<S>(a, f, j, l, i == n - 1, &sums);
	attention_end<S>(a, j, l, sums, i, n, seq * a.n_kv_heads * f.subs + x);
}
