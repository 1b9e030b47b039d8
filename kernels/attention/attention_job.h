/* SPDX-License-Identifier: Apache-2.0
 *
 * What each workgroup of attention.hip works on, its LDS, and the loads of rows into LDS.
 */
#pragma once
#include "kernels/attention/attention_seen.h"
#include "kernels/attention/attention_segment.h"

#define ATTENTION_NOTHING (-1e30f) /* maximum before any score; finite, so differences are too */
#define ATTENTION_HIDDEN bits_cast<float>(0xFF800000u) /* -inf: score of a hidden position */
#define ATTENTION_SHIFT 12.0f
#define ATTENTION_NOWHERE 0xFFFFFFFFu
#define ATTENTION_LOG2E 1.44269504f

/* The constants of one shape. FUSED: for attention_fused.h, with one token a job and a
 * head size that is a multiple of eight. BYTES: keys and values are in 8 bits, and the head
 * size is a multiple of sixteen. */
template <int KEY_, int VALUE_, int BLOCK_, int STEP_, int PARTS_, bool SHARED_, int TILES_,
	  bool FUSED_ = false, bool BYTES_ = false>
struct attention_of {
	enum : int {
		KEY = KEY_, VALUE = VALUE_, BLOCK = BLOCK_, PARTS = PARTS_, TILES = TILES_,
		STEP = STEP_, STEPS = BLOCK / STEP, FACTORS = STEPS + 2,
		WAVES = ATTENTION_WAVES, THREADS = WAVES * WAVE, ROWS = TILES * 16,
		PASS = THREADS / 8,     /* rows whose scores become weights at once */
		EACH = STEP / 8,        /* positions of a step that one lane turns into weights */
		KEY_PITCH = KEY + 8,
		VALUE_PITCH = SHARED_ ? KEY_PITCH : VALUE + 8,
		SCORE_PITCH = BLOCK + 4,       /* floats */
		WEIGHT_PITCH = SCORE_PITCH * 2, /* halves; weights overwrite the scores */
		KEY_LOADS = BLOCK * KEY / 8 / THREADS,
		VALUE_LOADS = SHARED_ ? 1 : BLOCK * VALUE / 8 / THREADS,
		KEY_TILES = BLOCK / 16,
		SCORE_TILES = PARTS > 1 || TILES * KEY_TILES < WAVES
				      ? 1 : TILES * KEY_TILES / WAVES,
		VALUE_TILES = VALUE / 16 / WAVES,
		SEGMENT = ATTENTION_SEGMENT / BLOCK /* blocks in the smallest segment */
	};
	static constexpr bool SHARED = SHARED_, FUSED = FUSED_, BYTES = BYTES_, BY_ROWS = false,
			      BIDIRECTIONAL = false;
	/* True: loaded early, well before use. Larger shapes lack the registers, and load
	 * when the place in LDS is free. */
	static constexpr bool EARLY_KEYS = KEY <= 128, EARLY_VALUES = VALUE <= 256 && !SHARED;
	static_assert(SEGMENT * BLOCK == ATTENTION_SEGMENT, "");
	static_assert(KEY_LOADS * THREADS * 8 == BLOCK * KEY && ROWS % PASS == 0 &&
		      VALUE_TILES * WAVES * 16 == VALUE && FACTORS <= 4 &&
		      (PARTS == 1 || (TILES == 1 && KEY_TILES == 1 && PARTS == WAVES)) &&
		      (!FUSED || (TILES == 1 && PARTS == 1 && !SHARED && KEY == VALUE)), "");
};

/* What a workgroup works on: n tokens of sequence b, from index `token` in the step and
 * position `position` in the sequence. It has key head g and n_heads query heads from
 * `head`. A token takes `heads` rows. */
struct attention_job {
	int32_t b, token, n, position, g, head, n_heads, heads;
	int32_t seen, last;   /* first position that any token sees, and the last (BIDIRECTIONAL) */
	int32_t from, to;     /* first and last block */
	int32_t each;         /* blocks in a segment */
};

/* State of a row: maximum and sum of weights, of this segment and of all earlier ones,
 * and the range of positions it sees. Eight lanes share a row and treat several rows in
 * turn, so the state is in LDS. */
struct attention_state {
	float max, sum, total_max, total_sum;
	int32_t first, last;
};

/* The LDS of a workgroup. */
template <class S> struct attention_lds {
	uint16_t *q, *k, *v;  /* (ROWS, KEY_PITCH) (BLOCK, KEY_PITCH) (BLOCK, VALUE_PITCH) */
	float *score;         /* (PARTS, ROWS, SCORE_PITCH), overwritten by weights */
	float *factor;        /* (FACTORS, ROWS): factor of the earlier sums for each
			       * step; at a segment's end the factors of total and of part */
	attention_state *row; /* (ROWS) */
	uint32_t *place;      /* (2, BLOCK): index of each position's row in the pages */
	uint16_t *fused;      /* FUSED: (2, KEY), key and value of the step's token */
};

template <class S> struct attention_sums {
	tile_c part[S::TILES][S::VALUE_TILES], total[S::TILES][S::VALUE_TILES];
};

template <class S> DEVICE attention_lds<S> attention_lds_of(u32x4 *lds)
{
	attention_lds<S> l;
	l.q = (uint16_t *)lds;
	l.k = l.q + S::ROWS * S::KEY_PITCH;
	l.v = S::SHARED ? l.k : l.k + S::BLOCK * S::KEY_PITCH;
	l.score = (float *)(l.v + S::BLOCK * S::VALUE_PITCH);
	l.factor = l.score + S::PARTS * S::ROWS * S::SCORE_PITCH;
	l.row = (attention_state *)(l.factor + 4 * S::ROWS);
	l.place = (uint32_t *)(l.row + S::ROWS);
	l.fused = (uint16_t *)(l.place + 2 * S::BLOCK);
	return l;
}

/* S of the launch (attention_launch.h): groups of query heads that share a workgroup. */
DEVICE int32_t attention_groups(const attention_launch &a)
{
	return a.n_kv_heads * ATTENTION_SUBS(a.n_heads / a.n_kv_heads);
}

/* Set a workgroup's heads, which are group number `of` of S. */
DEVICE void attention_group_heads(const attention_launch &a, int32_t of, attention_job *j)
{
	int32_t group = a.n_heads / a.n_kv_heads, subs = ATTENTION_SUBS(group);
	j->g = of / subs;
	j->heads = ATTENTION_HEADS(group);
	int32_t sub = of % subs * j->heads;
	j->head = j->g * group + sub;
	j->n_heads = group - sub < j->heads ? group - sub : j->heads;
}

/* Set a workgroup's heads and sequence; returns its segment index. */
DEVICE int32_t attention_heads(const attention_launch &a, attention_job *j)
{
	int32_t x = (int32_t)group_index_x(), all = attention_groups(a);
	j->b = a.first_seq + (int32_t)group_index_y();
	attention_group_heads(a, x % all, j);
	return x / all;
}

/* Set the blocks that the job's tokens see, and the number of blocks in a segment. */
template <class S> DEVICE void attention_range(const attention_launch &a, attention_job *j)
{
	int32_t p = j->position;
	j->each = attention_each(p / ATTENTION_SEGMENT + 1) * S::SEGMENT;
	j->seen = attention_seen(a.window, p);
	j->from = j->seen / S::BLOCK;
	j->to = (p + j->n - 1) / S::BLOCK;
}

/* Restrict a job of one token to its segment i; false if it has fewer segments. */
template <class S>
DEVICE bool attention_segment(const attention_launch &a, int32_t i, attention_job *j,
			      int32_t *n_segments)
{
	attention_range<S>(a, j);
	/* Not negative. Signed divisions take more instructions, and these are waited for. */
	int32_t first = (int32_t)((uint32_t)j->from / (uint32_t)j->each);
	*n_segments = (int32_t)((uint32_t)j->to / (uint32_t)j->each) - first + 1;
	if (i >= *n_segments)
		return false;
	int32_t from = (first + i) * j->each, to = from + j->each - 1;
	j->from = from > j->from ? from : j->from;
	j->to = to < j->to ? to : j->to;
	return true;
}

/* The last block of the segment that contains `block`. */
DEVICE int32_t attention_segment_end(const attention_job &j, int32_t block)
{
	return block / j.each * j.each + j.each - 1;
}

/* Set the tile of tokens of a workgroup of a prefill kernel; false: no tile is left. Tiles
 * begin at multiples of their size. The last tile, which sees most positions, is first. */
DEVICE bool attention_tile(const attention_launch &a, attention_job *j)
{
	int32_t y = (int32_t)group_index_y(), all = attention_groups(a);
	j->b = a.first_seq + y / all;
	attention_group_heads(a, y % all, j);
	int32_t tile = a.first_tile + (int32_t)group_index_x(), first = a.first_tok[j->b];
	int32_t n = a.first_tok[j->b + 1] - first, each = a.tile_tok;
	if (n < 1 || (n == 1 && a.skips_single))
		return false;
	int32_t p = a.position[first], n_tiles = (p + n - 1) / each - p / each + 1;
	if (tile >= n_tiles)
		return false;
	int32_t from = (p / each + n_tiles - 1 - tile) * each, to = from + each;
	from = from > p ? from : p;
	to = to < p + n ? to : p + n;
	j->token = first + from - p;
	j->n = to - from;
	j->position = from;
	return true;
}

/* --- memory ----------------------------------------------------------------------- */

/* Elements [at, at + 8) of row `row`, which has dim elements. 0 beyond its end, or if
 * is_there is false. */
DEVICE u32x4 attention_load8(const uint16_t *rows, size_t row, bool is_there, int32_t at,
			     int32_t dim)
{
	is_there = is_there && at < dim;
	const uint16_t *p = rows + (is_there ? row * (size_t)dim + (size_t)at : 0);
	u32x4 out = {};
	if (dim % 8 == 0) { /* uniform branch: dim is the same for all lanes */
		out = *(const u32x4 *)p;
		UNROLL
		for (int i = 0; i < 4; i++)
			out[i] = is_there ? out[i] : 0;
		return out;
	}
	ONE_BY_ONE
	for (int i = 0; i < 8; i++) {
		uint32_t h = is_there && at + i < dim ? p[i] : 0;
		UNROLL
		for (int w = 0; w < 4; w++)
			out[w] = out[w] >> 16 | (w < 3 ? out[w < 3 ? w + 1 : 3] : h) << 16;
	}
	return out;
}

DEVICE void attention_page(const attention_launch &a, int32_t at, int32_t *page,
			   int32_t *offset)
{
	if (a.page_shift >= 0) {
		*page = at >> a.page_shift;
		*offset = at & (a.page_size - 1);
	} else {
		*page = at / a.page_size;
		*offset = at % a.page_size;
	}
}

/* Where a position of a block lies in the pages. */
struct attention_spot {
	int32_t page, offset;
	bool is_there; /* it is in the cache, and some row sees it */
};

/* Find the page of one position of a block; thread i takes position i % BLOCK. Loads one
 * entry of the page table. FUSED: the job's token is not cached yet. BY_ROWS: for a position
 * that is not there, it finds the nearest one that is. */
template <class S>
DEVICE attention_spot attention_look(const attention_launch &a, const attention_job &j,
				     int32_t block)
{
	int32_t at = block * S::BLOCK + (int32_t)thread_index() % S::BLOCK;
	attention_spot s;
	int32_t end = S::BIDIRECTIONAL ? j.last + 1 : j.position + (S::FUSED ? 0 : j.n);
	if (S::BY_ROWS)
		at = at < j.seen ? j.seen : at < end ? at : end - 1;
	s.is_there = S::BY_ROWS || (block <= j.to && at >= j.seen && at < end);
	attention_page(a, s.is_there ? at : 0, &s.page, &s.offset);
	s.page = a.page_table[(size_t)j.b * (size_t)a.max_pages_per_seq + (size_t)s.page];
	return s;
}

/* Store, for each position of a block, the index of head g's row in the pages. For positions
 * without a row FUSED stores row 0, which is there (fused_fetch). */
template <class S>
DEVICE void attention_place(const attention_launch &a, const attention_job &j,
			    const attention_spot &s, uint32_t *place)
{
	if (thread_index() < S::BLOCK)
		place[thread_index()] =
			s.is_there ? (uint32_t)((s.page * a.n_kv_heads + j.g) * a.page_size +
						s.offset)
				   : S::FUSED ? 0 : ATTENTION_NOWHERE;
}

/* Load a thread's 16-byte pieces of a block, from number `first`. Positions that no row
 * sees load as 0, because their weight 0 times NaN would be NaN. */
template <class S, int DIM, int LOADS>
DEVICE void attention_fetch(const uint16_t *pages, int32_t dim, const uint32_t *place,
			    int32_t first, u32x4 *out)
{
	UNROLL
	for (int i = 0; i < LOADS; i++) {
		int32_t c = first + (int32_t)thread_index() + i * S::THREADS;
		uint32_t row = place[c / (DIM / 8)];
		out[i] = attention_load8(pages, row, row != ATTENTION_NOWHERE,
					 c % (DIM / 8) * 8, dim);
	}
}

template <class S, int DIM, int LOADS, int PITCH>
DEVICE void attention_put(const u32x4 *in, int32_t first, uint16_t *lds)
{
	UNROLL
	for (int i = 0; i < LOADS; i++) {
		int32_t c = first + (int32_t)thread_index() + i * S::THREADS;
		*(u32x4 *)(lds + c / (DIM / 8) * PITCH + c % (DIM / 8) * 8) = in[i];
	}
}

/* The token of the job and the query head of row r. Returns false for unused rows. */
template <class S>
DEVICE bool attention_row(const attention_job &j, int32_t r, int32_t *token, int32_t *head)
{
	if constexpr (S::FUSED) {
		*token = 0;
		*head = j.head + r;
		return r < j.n_heads;
	}
	*token = r / j.heads;
	*head = j.head + r % j.heads;
	return *token < j.n && r % j.heads < j.n_heads;
}
