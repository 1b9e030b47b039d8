/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/attention.h, by online softmax in base 2 (Milakov and Gimelshein,
 *           2018) over blocks of positions
 * LAYOUT    kernels/attention_launch.h. A row is a query head of a token; the heads that
 *           share a key head are rows of one 16 x 16 tile, so that keys and values are
 *           read once for up to 16 of them, at decode too. Keys and values come through
 *           LDS, where each row has 16 bytes more than it needs: rows lie in different
 *           banks.
 * GEOMETRY  workgroups of four waves. Per block: the waves share out the score tiles
 *           (16 rows, 16 positions; or the steps of K of one tile, `parts`), eight lanes
 *           a row make weights of scores, and the waves share out the elements of the
 *           values. Three barriers a block; the next keys and this block's values are on
 *           their way meanwhile. split: one token and a segment of its positions a
 *           workgroup; the one that ends last adds up. whole: a tile of tokens. LDS: see
 *           ATTENTION_LDS, 25 KiB (split) and 46 KiB (whole) at K = 128.
 *           What comes out of a row is a function of that row alone, the same in both
 *           kernels: blocks and segments begin at multiples of their size, a segment is
 *           64 positions or, beyond 2048, what makes 32 of them, and segments are added
 *           in order, each from its own maximum. Blocks that a row does not see change
 *           no bit of it.
 * PRECISION scores in f32; weights exp2(score - maximum + 12) rounded to f16, where the
 *           12 keeps 2^-36 of the greatest from vanishing; their sum is that of the
 *           rounded ones; values times weights in f32
 * ROOFLINE  a block of 32 positions at K = 128 and up to 16 heads: 16 KiB, 32 matrix
 *           products of 32 cycles, on four SIMDs 256 cycles: 40 compute units at 2.9 GHz
 *           could take 3.7 TB/s of cache (gfx1151: 0.256 of it from memory, 5 workgroups
 *           a WGP have 80 KiB on their way), 96 at 2.2 GHz 6.8 TB/s. Prefill: 64 rows
 *           share a block, 64 operations a byte of L2.
 * TRIED     on paper: dot2 instead of tiles at decode: 150 vector instructions for two
 *           positions of 8 heads, 1.6 TB/s on gfx1151, and other bits than prefill has;
 *           scores in registers: on gfx11 a row lies across 16 lanes, on NVIDIA across
 *           four, through LDS it is one code, and 0.4 KiB a block and wave
 *           (elsewhere, on gfx1151) values fetched after the scores: 5.5 % slower at 32K;
 *           more than 32 segments: nothing gained; templates over the number of segments:
 *           a missing one returned old results
 *           (measured on an H200, 30B-A3B's heads at 128..256 tokens) the first values
 *           fetched with the first keys and the merge by four elements a thread: 15.5
 *           us where this takes 14.3, and prefill of 4,096 tokens 11 % slower; (at 8 to
 *           258 tokens) one segment up to 256 positions: 13.9 us where this takes 9.0,
 *           segments of 128: 11.6; the merge an element a thread and turn: 12.8 at 100
 * SEE       kernels/attention_ref.c, kernels/attention.def
 */
#include "kernels/dialect.h"
#include "kernels/attention_launch.h"

#define ATTENTION_NOTHING (-1e30f) /* maximum of no scores; differences stay finite */
#define ATTENTION_HIDDEN bits_cast<float>(0xFF800000u) /* score without weight */
#define ATTENTION_SHIFT 12.0f
#define ATTENTION_NOWHERE 0xFFFFFFFFu
#define ATTENTION_LOG2E 1.44269504f

template <int KEY_, int VALUE_, int BLOCK_, int PARTS_, bool SHARED_, int TILES_>
struct attention_of {
	enum : int {
		KEY = KEY_, VALUE = VALUE_, BLOCK = BLOCK_, PARTS = PARTS_, TILES = TILES_,
		WAVES = ATTENTION_WAVES, THREADS = WAVES * WAVE, ROWS = TILES * 16,
		PASS = THREADS / 8,     /* rows whose weights are made at once */
		EACH = BLOCK / 8,       /* positions of a lane there */
		KEY_PITCH = KEY + 8,
		VALUE_PITCH = SHARED_ ? KEY_PITCH : VALUE + 8,
		SCORE_PITCH = BLOCK + 4,       /* floats */
		WEIGHT_PITCH = SCORE_PITCH * 2, /* halves, in the place of the scores */
		KEY_LOADS = BLOCK * KEY / 8 / THREADS,
		VALUE_LOADS = SHARED_ ? 1 : BLOCK * VALUE / 8 / THREADS,
		KEY_TILES = BLOCK / 16,
		SCORE_TILES = PARTS > 1 || TILES * KEY_TILES < WAVES
				      ? 1 : TILES * KEY_TILES / WAVES,
		VALUE_TILES = VALUE / 16 / WAVES,
		PER_SEGMENT = ATTENTION_SEGMENT / BLOCK /* blocks */
	};
	static constexpr bool SHARED = SHARED_;
	/* Fetched well before they are needed, where there are registers for that; the
	 * others when their place in LDS is free. */
	static constexpr bool EARLY_KEYS = KEY <= 128, EARLY_VALUES = VALUE <= 256 && !SHARED;
	static_assert(KEY_LOADS * THREADS * 8 == BLOCK * KEY && ROWS % PASS == 0 &&
		      VALUE_TILES * WAVES * 16 == VALUE &&
		      (PARTS == 1 || (TILES == 1 && KEY_TILES == 1 && PARTS == WAVES)), "");
};

/* What a workgroup works on: n tokens from `token`, at positions from `position`, of
 * sequence b; query heads from `head`, n_heads of them, `heads` rows a token. */
struct attention_job {
	int32_t b, token, n, position, g, head, n_heads, heads;
	int32_t seen;         /* first position that any of them sees */
	int32_t from, to;     /* blocks, `to` its own */
	int32_t segment;      /* blocks of a segment */
};

/* A row: maximum and sum of weights of the segment and of the segments before it, and
 * which positions it sees. Its eight lanes have it in turns with the rows of the other
 * passes, so it is kept in LDS. */
struct attention_state {
	float max, sum, total_max, total_sum;
	int32_t first, last;
};

/* LDS of a workgroup. */
template <class S> struct attention_lds {
	uint16_t *q, *k, *v;  /* (ROWS, KEY_PITCH) (BLOCK, KEY_PITCH) (BLOCK, VALUE_PITCH) */
	float *score;         /* (PARTS, ROWS, SCORE_PITCH), then weights */
	float *factor;        /* (3, ROWS): of the sums so far; at the end of a segment, of
			       * the total and of the segment */
	attention_state *row; /* (ROWS) */
	uint32_t *place;      /* (2, BLOCK): rows of the pages */
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
	l.row = (attention_state *)(l.factor + 3 * S::ROWS);
	l.place = (uint32_t *)(l.row + S::ROWS);
	return l;
}

/* --- memory ----------------------------------------------------------------------- */

/* Elements [at, at + 8) of row `row` of dim; 0 beyond its end and where it is nowhere. */
DEVICE u32x4 attention_load8(const uint16_t *rows, size_t row, bool is_there, int32_t at,
			     int32_t dim)
{
	is_there = is_there && at < dim;
	const uint16_t *p = rows + (is_there ? row * (size_t)dim + (size_t)at : 0);
	u32x4 out = {};
	if (dim % 8 == 0) { /* the same for all */
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

/* Where the positions of a block lie, in rows of the pages of head g. */
template <class S>
DEVICE void attention_place(const attention_launch &a, const attention_job &j,
			    int32_t block, uint32_t *place)
{
	int32_t i = (int32_t)thread_index(), at = block * S::BLOCK + i, page, offset;
	if (i >= S::BLOCK)
		return;
	place[i] = ATTENTION_NOWHERE;
	if (block > j.to || at < j.seen || at >= j.position + j.n)
		return;
	if (a.page_shift >= 0) {
		page = at >> a.page_shift;
		offset = at & (a.page_size - 1);
	} else {
		page = at / a.page_size;
		offset = at % a.page_size;
	}
	page = a.page_table[(size_t)j.b * (size_t)a.max_pages_per_seq + (size_t)page];
	place[i] = (uint32_t)((page * a.n_kv_heads + j.g) * a.page_size + offset);
}

/* A thread's pieces of a block, from `first`; what is seen by nobody is 0, for 0 times it
 * must be. */
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

/* A block at once from memory to LDS, in three parts where it is large. */
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

/* Token of the job and query head of row r; false: there is none. */
DEVICE bool attention_row(const attention_job &j, int32_t r, int32_t *token, int32_t *head)
{
	*token = r / j.heads;
	*head = j.head + r % j.heads;
	return *token < j.n && r % j.heads < j.n_heads;
}

template <class S>
DEVICE void attention_queries(const attention_launch &a, const attention_job &j, uint16_t *q)
{
	for (int32_t c = (int32_t)thread_index(); c < S::ROWS * S::KEY / 8; c += S::THREADS) {
		int32_t r = c / (S::KEY / 8), at = c % (S::KEY / 8) * 8, token, head;
		bool is_row = attention_row(j, r, &token, &head);
		size_t row = (size_t)(j.token + token) * (size_t)a.n_heads + (size_t)head;
		*(u32x4 *)(q + r * S::KEY_PITCH + at) =
			attention_load8(a.q, row, is_row, at, a.head_dim);
	}
}

/* --- a block ---------------------------------------------------------------------- */

/* The waves' tiles of queries times keys. */
template <class S> DEVICE void attention_scores(const attention_lds<S> &l)
{
	constexpr int STEPS = S::KEY / 16 / S::PARTS, N = S::SCORE_TILES;
	int32_t w = (int32_t)wave_index();
	int32_t column = S::PARTS > 1 ? 0 : w % S::KEY_TILES;
	int32_t row = S::PARTS > 1 ? 0 : w / S::KEY_TILES * N;
	int32_t step = S::PARTS > 1 ? w * STEPS : 0;
	if (row >= S::TILES)
		return;
	tile_c c[N] = {};
	ONE_BY_ONE
	for (int i = 0; i < STEPS; i++) {
		int32_t at = (step + i) * 16;
		tile_b<TILE_F16> k = tile_load_b<TILE_F16>(
			l.k + column * 16 * S::KEY_PITCH + at, S::KEY_PITCH);
		UNROLL
		for (int n = 0; n < N; n++)
			c[n] = tile_mma(tile_load_a<TILE_F16>(
						l.q + (row + n) * 16 * S::KEY_PITCH + at,
						S::KEY_PITCH),
					k, c[n]);
	}
	float *out = l.score + (S::PARTS > 1 ? w * S::ROWS * S::SCORE_PITCH : 0);
	UNROLL
	for (int n = 0; n < N; n++)
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			out[((row + n) * 16 + tile_row(i)) * S::SCORE_PITCH + column * 16 +
			    tile_column(i)] = c[n].v[i];
}

DEVICE float attention_max8(float x)
{
	float y = wave_xor<1>(x);
	x = y > x ? y : x;
	y = wave_xor<2>(x);
	x = y > x ? y : x;
	y = wave_xor<4>(x);
	return y > x ? y : x;
}

DEVICE float attention_sum8(float x)
{
	x += wave_xor<1>(x);
	x += wave_xor<2>(x);
	return x + wave_xor<4>(x);
}

/* Scores of row r to weights, in place. The eight lanes exchange, and so have read their
 * scores, before one of them writes. Returns the factor of the sums before. */
template <class S>
DEVICE float attention_weigh_row(const attention_launch &a, const attention_lds<S> &l,
				 int32_t r, int32_t at, attention_state *row)
{
	float x[S::EACH], most = ATTENTION_HIDDEN, all = 0, c = a.scale * ATTENTION_LOG2E;
	uint32_t pairs[S::EACH / 2];
	int32_t from = (int32_t)lane_index() % 8 * S::EACH;
	UNROLL
	for (int i = 0; i < S::EACH; i++) {
		x[i] = l.score[r * S::SCORE_PITCH + from + i];
		UNROLL
		for (int p = 1; p < S::PARTS; p++)
			x[i] += l.score[(p * S::ROWS + r) * S::SCORE_PITCH + from + i];
		x[i] *= c;
		if (at + from + i < row->first || at + from + i > row->last)
			x[i] = ATTENTION_HIDDEN;
		most = x[i] > most ? x[i] : most;
	}
	most = attention_max8(most);
	most = most > row->max ? most : row->max;
	UNROLL
	for (int i = 0; i < S::EACH; i++) {
		uint16_t h = f32_to_f16(fast_exp2(x[i] - most + ATTENTION_SHIFT));
		all += f16_to_f32(h);
		pairs[i / 2] = i % 2 ? pairs[i / 2] | (uint32_t)h << 16 : h;
	}
	float before = fast_exp2(row->max - most);
	row->sum = fma_f32(row->sum, before, attention_sum8(all));
	row->max = most;
	uint32_t *to = (uint32_t *)l.score + (r * S::WEIGHT_PITCH + from) / 2;
	UNROLL
	for (int i = 0; i < S::EACH / 2; i++)
		to[i] = pairs[i];
	return before;
}

/* (max, sum) += (m, s): factors of the two. */
DEVICE void attention_join(float *max, float *sum, float m, float s, float *old_factor,
			   float *new_factor)
{
	float most = m > *max ? m : *max;
	*old_factor = fast_exp2(*max - most);
	*new_factor = fast_exp2(m - most);
	*sum = fma_f32(*sum, *old_factor, s * *new_factor);
	*max = most;
}

template <class S>
DEVICE void attention_weigh(const attention_launch &a, const attention_lds<S> &l,
			    int32_t block, bool ends)
{
	ONE_BY_ONE
	for (int32_t r = (int32_t)thread_index() / 8; r < S::ROWS; r += S::PASS) {
		attention_state row = l.row[r];
		float before = attention_weigh_row<S>(a, l, r, block * S::BLOCK, &row);
		float total = 1, part = 0;
		if (ends) {
			attention_join(&row.total_max, &row.total_sum, row.max, row.sum,
				       &total, &part);
			row.max = ATTENTION_NOTHING;
			row.sum = 0;
		}
		if (lane_index() % 8 != 0)
			continue;
		l.row[r] = row;
		l.factor[r] = before;
		l.factor[S::ROWS + r] = total;
		l.factor[2 * S::ROWS + r] = part;
	}
}

/* part = factor part + weights values. The factor of what was left by the segment
 * before is 0, once the row has seen a position. */
template <class S>
DEVICE void attention_values(const attention_lds<S> &l, attention_sums<S> *sums)
{
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	const uint16_t *weights = (const uint16_t *)l.score;
	UNROLL
	for (int t = 0; t < S::TILES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			float f = l.factor[t * 16 + tile_row(i)];
			UNROLL
			for (int n = 0; n < S::VALUE_TILES; n++)
				sums->part[t][n].v[i] *= f;
		}
	}
	ONE_BY_ONE
	for (int k = 0; k < S::BLOCK; k += 16) {
		tile_a<TILE_F16> w[S::TILES];
		UNROLL
		for (int t = 0; t < S::TILES; t++)
			w[t] = tile_load_a<TILE_F16>(weights + t * 16 * S::WEIGHT_PITCH + k,
						     S::WEIGHT_PITCH);
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			if constexpr (S::VALUE_TILES > 4)
				schedule_barrier();
			tile_b<TILE_F16> v = tile_load_b_rows<TILE_F16>(
				l.v + k * S::VALUE_PITCH + column + n * 16, S::VALUE_PITCH);
			UNROLL
			for (int t = 0; t < S::TILES; t++)
				sums->part[t][n] = tile_mma(w[t], v, sums->part[t][n]);
		}
	}
}

/* total = factor total + factor part, after the last block of a segment. */
template <class S>
DEVICE void attention_fold(const attention_lds<S> &l, attention_sums<S> *sums)
{
	UNROLL
	for (int t = 0; t < S::TILES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			float total = l.factor[S::ROWS + t * 16 + tile_row(i)];
			float part = l.factor[2 * S::ROWS + t * 16 + tile_row(i)];
			UNROLL
			for (int n = 0; n < S::VALUE_TILES; n++)
				sums->total[t][n].v[i] =
					fma_f32(sums->total[t][n].v[i], total,
						sums->part[t][n].v[i] * part);
		}
	}
}

/* --- a job ------------------------------------------------------------------------ */

template <class S>
DEVICE void attention_begin(const attention_launch &a, const attention_job &j,
			    const attention_lds<S> &l)
{
	int32_t r = (int32_t)thread_index(), token, head;
	if (r >= S::ROWS)
		return;
	bool is_row = attention_row(j, r, &token, &head);
	int32_t last = j.position + token;
	l.row[r] = attention_state{
		ATTENTION_NOTHING, 0, ATTENTION_NOTHING, 0,
		a.window && last >= a.window ? last - a.window + 1 : 0, is_row ? last : -1};
}

/* All blocks of a job; FOLDS: into the total, at the end of each segment. */
template <class S, bool FOLDS>
DEVICE void attention_blocks(const attention_launch &a, const attention_job &j,
			     const attention_lds<S> &l, attention_sums<S> *sums)
{
	u32x4 keys[S::KEY_LOADS], values[S::VALUE_LOADS];
	attention_begin<S>(a, j, l);
	attention_place<S>(a, j, j.from, l.place);
	attention_queries<S>(a, j, l.q);
	group_barrier();
	attention_copy<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(a.k, a.head_dim, l.place, l.k);
	for (int32_t block = j.from; block <= j.to; block++) {
		uint32_t *place = l.place + ((block - j.from) & 1) * S::BLOCK;
		uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
		bool ends = FOLDS && (block == j.to || (block + 1) % j.segment == 0);
		group_barrier(); /* keys are there; the last values have been used */
		if constexpr (S::EARLY_VALUES)
			attention_fetch<S, S::VALUE, S::VALUE_LOADS>(a.v, a.v_dim, place, 0,
								     values);
		attention_place<S>(a, j, block + 1, next);
		attention_scores<S>(l);
		group_barrier(); /* scores are there, keys have been used */
		if constexpr (S::EARLY_KEYS)
			attention_fetch<S, S::KEY, S::KEY_LOADS>(a.k, a.head_dim, next, 0,
								 keys);
		if constexpr (S::EARLY_VALUES)
			attention_put<S, S::VALUE, S::VALUE_LOADS, S::VALUE_PITCH>(values, 0,
										   l.v);
		else if constexpr (!S::SHARED)
			attention_copy<S, S::VALUE, S::VALUE_LOADS, S::VALUE_PITCH>(
				a.v, a.v_dim, place, l.v);
		attention_weigh<S>(a, l, block, ends);
		group_barrier(); /* weights and values are there */
		attention_values<S>(l, sums);
		if (ends)
			attention_fold<S>(l, sums);
		if constexpr (S::SHARED)
			group_barrier(); /* the values were the keys */
		if constexpr (S::EARLY_KEYS)
			attention_put<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(keys, 0, l.k);
		else
			attention_copy<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(
				a.k, a.head_dim, next, l.k);
	}
}

/* What a row's sum of values is to be multiplied by. */
DEVICE float attention_scale(const attention_launch &a, int32_t head, float max, float sum)
{
	if (!a.sinks)
		return fast_rcp(sum);
	float sink = a.sinks[head] * ATTENTION_LOG2E, most = sink > max ? sink : max;
	float f = fast_exp2(max - most);
	return f * fast_rcp(fma_f32(sum, f, fast_exp2(sink - most + ATTENTION_SHIFT)));
}

/* y of all rows; IS_TOTAL: from the totals, else of the one segment. + 0: no -0, which
 * depends on how often a 0 was added. */
template <class S, bool IS_TOTAL>
DEVICE void attention_finish(const attention_launch &a, const attention_job &j,
			     const attention_lds<S> &l,
			     const tile_c (*values)[S::VALUE_TILES])
{
	uint32_t *where = (uint32_t *)l.score; /* (ROWS): heads of y */
	group_barrier();                       /* factors and weights have been used */
	int32_t of = (int32_t)thread_index(), token, head;
	if (of < S::ROWS) {
		bool is_row = attention_row(j, of, &token, &head);
		attention_state row = l.row[of];
		where[of] = is_row ? (uint32_t)((j.token + token) * a.n_heads + head)
				   : ATTENTION_NOWHERE;
		l.factor[of] = !is_row ? 0
			       : attention_scale(a, head,
						 IS_TOTAL ? row.total_max : row.max,
						 IS_TOTAL ? row.total_sum : row.sum);
	}
	group_barrier();
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	UNROLL
	for (int t = 0; t < S::TILES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t r = t * 16 + tile_row(i);
			if (where[r] == ATTENTION_NOWHERE)
				continue;
			uint16_t *y = a.y + (size_t)where[r] * (size_t)a.v_dim;
			UNROLL
			for (int n = 0; n < S::VALUE_TILES; n++) {
				int32_t d = column + n * 16 + tile_column(i);
				if (d < a.v_dim)
					y[d] = f32_to_f16(values[t][n].v[i] * l.factor[r] +
							  0.0f);
			}
		}
	}
}

/* Heads and sequence of a workgroup; what remains of grid x. */
DEVICE int32_t attention_heads(const attention_launch &a, attention_job *j)
{
	int32_t group = a.n_heads / a.n_kv_heads, subs = ATTENTION_SUBS(group);
	int32_t x = (int32_t)group_index_x(), of = x % (a.n_kv_heads * subs);
	j->b = a.first_seq + (int32_t)group_index_y();
	j->g = of / subs;
	j->heads = ATTENTION_HEADS(group);
	int32_t sub = of % subs * j->heads;
	j->head = j->g * group + sub;
	j->n_heads = group - sub < j->heads ? group - sub : j->heads;
	return x / (a.n_kv_heads * subs);
}

/* Blocks that n tokens see, and the segments that those at such positions have. */
template <class S> DEVICE void attention_range(const attention_launch &a, attention_job *j)
{
	int32_t p = j->position, n = p / ATTENTION_SEGMENT + 1, size = 1;
	while (n > ATTENTION_SEGMENTS * size)
		size *= 2;
	j->segment = size * S::PER_SEGMENT;
	j->seen = a.window && p >= a.window ? p - a.window + 1 : 0;
	j->from = j->seen / S::BLOCK;
	j->to = (p + j->n - 1) / S::BLOCK;
}

/* --- whole ------------------------------------------------------------------------ */

template <class S> DEVICE void attention_whole(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	int32_t tile = attention_heads(a, &j), first = a.first_tok[j.b];
	int32_t n = a.first_tok[j.b + 1] - first, each = a.tile_tok;
	if (n < 1 || (n == 1 && a.skips_single))
		return;
	/* Tiles begin at multiples of their size; the last, which sees most, is first. */
	int32_t p = a.position[first], n_tiles = (p + n - 1) / each - p / each + 1;
	if (tile >= n_tiles)
		return;
	int32_t from = (p / each + n_tiles - 1 - tile) * each, to = from + each;
	from = from > p ? from : p;
	to = to < p + n ? to : p + n;
	j.token = first + from - p;
	j.n = to - from;
	j.position = from;
	attention_range<S>(a, &j);

	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	attention_blocks<S, true>(a, j, l, &sums);
	attention_finish<S, true>(a, j, l, sums.total);
}

/* --- split ------------------------------------------------------------------------ */

/* A segment's rows to work: maximum, sum, values of each head. */
template <class S>
DEVICE void attention_leave(const attention_launch &a, const attention_job &j,
			    const attention_lds<S> &l, const attention_sums<S> &sums,
			    float *work)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	int32_t r = (int32_t)thread_index() / 8; /* of the lanes that wrote it */
	int32_t column = (int32_t)wave_index() * S::VALUE_TILES * 16;
	if (lane_index() % 8 == 0 && r < j.n_heads) {
		work[r * pitch] = l.row[r].max;
		work[r * pitch + 1] = l.row[r].sum;
	}
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			int32_t d = column + n * 16 + tile_column(i);
			if (tile_row(i) < j.n_heads && d < a.v_dim)
				work[tile_row(i) * pitch + ATTENTION_ROW_EXTRA + d] =
					sums.part[0][n].v[i];
		}
}

/* Is this the last workgroup of n that comes here? If so, it sees what all have left. */
DEVICE bool attention_is_last(uint32_t *arrived, int32_t n, uint32_t *before)
{
	bool is_last = group_arrive(arrived, before) + 1 == (uint32_t)n;
	if (is_last && thread_index() == 0)
		*arrived = 0;
	return is_last;
}

/* The factors of n segments for each row, in order; LDS f (2, segments, rows). */
DEVICE void attention_factors(const attention_launch &a, const attention_job &j,
			      const float *work, int32_t n, float *f, float *scale)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA, all = n * j.n_heads;
	float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP;
	for (int32_t i = (int32_t)thread_index(); i < all; i += ATTENTION_WAVES * WAVE) {
		int32_t at = i / j.n_heads * ATTENTION_GROUP + i % j.n_heads;
		int32_t from = (i / j.n_heads * j.heads + i % j.n_heads) * pitch;
		f[at] = work[from];
		g[at] = work[from + 1];
	}
	group_barrier();
	int32_t r = (int32_t)thread_index();
	if (r < j.n_heads) {
		float max = ATTENTION_NOTHING, sum = 0;
		for (int32_t s = 0; s < n; s++) {
			int32_t at = s * ATTENTION_GROUP + r;
			attention_join(&max, &sum, f[at], g[at], &f[at], &g[at]);
		}
		scale[r] = attention_scale(a, j.head + r, max, sum);
	}
	group_barrier();
}

/* Elements [d, d + 8) of the values of a row of a segment; 0 where there are none. */
DEVICE f32x8 attention_value8(const attention_launch &a, const float *row, bool is_there,
			      int32_t d)
{
	f32x8 out = {};
	const float *p = row + ATTENTION_ROW_EXTRA + d;
	if (a.v_dim % 8 == 0 && is_there) {
		u32x4 lo = *(const u32x4 *)p, hi = *(const u32x4 *)(p + 4);
		UNROLL
		for (int i = 0; i < 4; i++) {
			out[i] = bits_cast<float>((uint32_t)lo[i]);
			out[i + 4] = bits_cast<float>((uint32_t)hi[i]);
		}
		return out;
	}
	UNROLL
	for (int i = 0; i < 8; i++)
		out[i] = is_there && d + i < a.v_dim ? p[i] : 0;
	return out;
}

/* What a thread adds up: eight elements of a row, AT_ONCE segments asked for at once. */
struct attention_eight {
	enum { AT_ONCE = 4 };
	f32x8 v[AT_ONCE], total;
	int32_t r, d;
};

DEVICE void attention_ask8(const attention_launch &a, const attention_job &j,
			   const float *work, int32_t s, int32_t n, attention_eight *t)
{
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	UNROLL
	for (int u = 0; u < attention_eight::AT_ONCE; u++)
		t->v[u] = attention_value8(
			a, work + (size_t)((s + u) * j.heads + t->r) * (size_t)pitch,
			s + u < n && t->r < j.n_heads, t->d);
}

DEVICE void attention_add8(const float *f, int32_t s, int32_t n, attention_eight *t)
{
	const float *g = f + ATTENTION_SEGMENTS * ATTENTION_GROUP;
	UNROLL
	for (int u = 0; u < attention_eight::AT_ONCE; u++) {
		int32_t at = (s + u) * ATTENTION_GROUP + t->r;
		if (s + u >= n)
			continue;
		UNROLL
		for (int i = 0; i < 8; i++)
			t->total[i] = fma_f32(t->total[i], f[at], t->v[u][i] * g[at]);
	}
}

/* y of the one token, from n segments in work. The first values are on their way while
 * the segments' factors are found. */
DEVICE void attention_merge(const attention_launch &a, const attention_job &j,
			    const float *work, int32_t n, float *f, float *scale)
{
	int32_t each = (a.v_dim + 7) / 8, i = (int32_t)thread_index();
	attention_eight t = {};
	t.r = i / each;
	t.d = i % each * 8;
	attention_ask8(a, j, work, 0, n, &t);
	attention_factors(a, j, work, n, f, scale);
	for (; t.r < j.n_heads; i += ATTENTION_WAVES * WAVE) {
		if (i != (int32_t)thread_index())
			attention_ask8(a, j, work, 0, n, &t);
		t.total = f32x8{};
		for (int32_t s = 0; s < n; s += attention_eight::AT_ONCE) {
			if (s)
				attention_ask8(a, j, work, s, n, &t);
			attention_add8(f, s, n, &t);
		}
		uint16_t *y = a.y + ((size_t)j.token * (size_t)a.n_heads +
				     (size_t)(j.head + t.r)) * (size_t)a.v_dim;
		UNROLL
		for (int e = 0; e < 8; e++)
			if (t.d + e < a.v_dim)
				y[t.d + e] = f32_to_f16(t.total[e] * scale[t.r] + 0.0f);
		t.r = (i + ATTENTION_WAVES * WAVE) / each;
		t.d = (i + ATTENTION_WAVES * WAVE) % each * 8;
	}
}

template <class S> DEVICE void attention_split(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	LDS(uint32_t, before, 1);
	attention_job j;
	int32_t i = attention_heads(a, &j);
	j.token = a.first_tok[j.b];
	j.n = a.first_tok[j.b + 1] - j.token;
	if (j.n != 1)
		return;
	j.position = a.position[j.token];
	attention_range<S>(a, &j);
	int32_t first = j.from / j.segment, n = j.to / j.segment - first + 1;
	if (i >= n)
		return;
	int32_t from = (first + i) * j.segment, to = from + j.segment - 1;
	j.from = from > j.from ? from : j.from;
	j.to = to < j.to ? to : j.to;

	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	attention_blocks<S, false>(a, j, l, &sums);
	if (n == 1) {
		attention_finish<S, false>(a, j, l, sums.part);
		return;
	}
	int32_t group = a.n_heads / a.n_kv_heads, subs = ATTENTION_SUBS(group);
	int32_t of = j.g * subs + (j.head - j.g * group) / j.heads;
	int32_t at = (int32_t)group_index_y() * a.n_kv_heads * subs + of;
	int32_t pitch = a.v_dim + ATTENTION_ROW_EXTRA;
	float *work = a.work + (size_t)at * (size_t)ATTENTION_WORK(j.heads, a.v_dim);
	attention_leave<S>(a, j, l, sums, work + i * j.heads * pitch);
	if (attention_is_last(&a.arrived[at], n, before))
		attention_merge(a, j, work, n, (float *)lds, l.factor);
}

#define SHAPE(name, key, value, block, parts, is_shared, tiles) \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_whole_kernel(attention_launch a) \
	{ \
		attention_whole<attention_of<key, value, block, parts, is_shared, tiles>>(a); \
	} \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_split_kernel(attention_launch a) \
	{ \
		attention_split<attention_of<key, value, block, parts, is_shared, 1>>(a); \
	}
#include "kernels/attention.def"
#undef SHAPE
