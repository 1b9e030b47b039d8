/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/attention.h, by online softmax in base 2 (Milakov and Gimelshein,
 *           2018) over steps of positions
 * LAYOUT    kernels/attention/attention_launch.h. A row is a query head of a token; the heads that
 *           share a key head are rows of one 16 x 16 tile, so that keys and values are
 *           read once for up to 16 of them, at decode too. Keys and values come through
 *           LDS, where each row has 16 bytes more than it needs: rows lie in different
 *           banks.
 * GEOMETRY  workgroups of four waves. split (and whole, of wide heads): per block, the
 *           waves share out the score tiles (16 rows, 16 positions; or the steps of K of
 *           one tile, `parts`), eight lanes a row make weights of scores, and the waves
 *           share out the elements of the values. Three barriers a block; the next keys
 *           and this block's values are on their way meanwhile. A workgroup has one token
 *           and a segment of its positions; the one that ends last adds up. whole, of
 *           heads up to 128 (attention_rows.h): a tile of tokens, 16 rows a wave, which
 *           keeps scores and sums in registers; two barriers a block. LDS at K = 128: 44
 *           KiB (split; 45 fresh), 58 (whole where the machine copies to LDS by itself:
 *           64 positions at once), 40 (whole elsewhere: 32).
 *           What comes out of a row is a function of that row alone, the same in all
 *           kernels: steps and segments begin at multiples of their size, a segment is
 *           the fewest times 64 positions of which 64 reach the row's, and segments are
 *           added in order, each from its own greatest score. Steps that a row does not
 *           see change no bit of it.
 * PRECISION scores in f32; weights exp2(c (score - greatest) + 12) rounded to f16, where
 *           c = scale log2(e), and the 12 keeps 2^-36 of the greatest from vanishing;
 *           their sum is that of the rounded ones; values times weights in f32
 * ROOFLINE  a block of 64 positions at K = 128 and up to 16 heads: 32 KiB, 64 matrix
 *           products of 32 cycles, on four SIMDs 512 cycles: 40 compute units at 2.9 GHz
 *           could take 3.7 TB/s of cache (gfx1151: 0.256 of it from memory; two
 *           workgroups a WGP have 64 KiB on their way), 96 at 2.2 GHz 6.8 TB/s. Prefill:
 *           64 rows share a block, 64 operations a byte of L2. By rows, 32 products and
 *           569 other vector instructions a wave and 32 positions (gfx1151, as compiled):
 *           the matrix unit could be busy 64 % of the time.
 *           Measured on an H200, 30B-A3B's heads (H = 32, G = 4), prompts of 2,048: 200
 *           TFLOP/s behind 30,720 positions, 154 behind none; a token behind 32,800: 36
 *           us, 1.9 TB/s, of which the adding up of 57 segments takes 8.
 * TRIED     on paper: dot2 instead of tiles at decode: 150 vector instructions for two
 *           positions of 8 heads, 1.6 TB/s on gfx1151, and other bits than prefill has
 *           (elsewhere, on gfx1151) values fetched after the scores: 5.5 % slower at 32K;
 *           templates over the number of segments: a missing one returned old results
 *           (measured on an H200, 30B-A3B's heads at 128..256 tokens) the first values
 *           fetched with the first keys and the merge by four elements a thread: 15.5
 *           us where this takes 14.3, and prefill of 4,096 tokens 11 % slower; (at 8 to
 *           258 tokens) one segment up to 256 positions: 13.9 us where this takes 9.0,
 *           segments of 128: 11.6; the merge an element a thread and turn: 12.8 at 100
 *           (the same, behind long caches) scores of whole by way of LDS, as split has
 *           them: 80 TFLOP/s where rows have 200; by rows, 32 positions in LDS at once:
 *           158, 64 with one greatest score: 189; at most 32 segments in powers of two:
 *           97 us at 32,800, of which 17 were; 128 segments: 49, 48: 46 (both while the
 *           merge read maxima one by one); decode with 32 positions a block: 42 where 64
 *           take 36; 8 or 16 segments asked for at once by the merge instead of 4: the
 *           same within 3 %, and registers
 *           (gfx1151, as compiled) by rows with 64 positions a step: 500 registers
 *           spilled; K's steps without tile_pin: 300
 * SEE       kernels/ops/attention_ref.c, kernels/attention/attention.def
 */
#include "kernels/attention/attention_block.h"
#include "kernels/attention/attention_fresh.h"
#include "kernels/attention/attention_result.h"
#include "kernels/attention/attention_rows.h"

#ifdef DIALECT_COPIES_TO_LDS
/* By its name the host knows how many positions attention_rows.h has in LDS at once. It is
 * never launched. */
KERNEL(32) void dialect_copies_to_lds_kernel()
{
}
#endif

/* All blocks of a job; FOLDS: into the total, at the end of each segment. */
template <class S, bool FOLDS>
DEVICE void attention_blocks(const attention_launch &a, const attention_job &j,
			     const attention_lds<S> &l, attention_sums<S> *sums)
{
	u32x4 keys[S::KEY_LOADS], values[S::VALUE_LOADS];
	int32_t end = attention_segment_end(j, j.from);
	attention_begin<S>(a, j, l);
	attention_place<S>(a, j, attention_look<S>(a, j, j.from), l.place);
	attention_queries<S>(a, j, l.q);
	group_barrier();
	attention_copy<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(a.k, a.head_dim, l.place, l.k);
	for (int32_t block = j.from; block <= j.to; block++) {
		uint32_t *place = l.place + ((block - j.from) & 1) * S::BLOCK;
		uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
		bool ends = FOLDS && (block == j.to || block == end);
		end += block == end ? j.each : 0;
		group_barrier(); /* keys are there; the last values have been used */
		if constexpr (S::EARLY_VALUES)
			attention_fetch<S, S::VALUE, S::VALUE_LOADS>(a.v, a.v_dim, place, 0,
								     values);
		attention_place<S>(a, j, attention_look<S>(a, j, block + 1), next);
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

/* --- whole ------------------------------------------------------------------------ */

template <class S> DEVICE void attention_whole(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	if (!attention_tile(a, &j))
		return;
	attention_range<S>(a, &j);
	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	attention_blocks<S, true>(a, j, l, &sums);
	attention_finish<S, true>(a, j, l, sums.total);
}

/* --- split ------------------------------------------------------------------------ */

template <class S> DEVICE void attention_split(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	int32_t i = attention_heads(a, &j), n;
	j.token = a.first_tok[j.b];
	j.n = a.first_tok[j.b + 1] - j.token;
	if (j.n != 1)
		return;
	j.position = a.position[j.token];
	if (!attention_segment<S>(a, i, &j, &n))
		return;
	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	attention_blocks<S, false>(a, j, l, &sums);
	int32_t group = a.n_heads / a.n_kv_heads, subs = ATTENTION_SUBS(group);
	int32_t of = j.g * subs + (j.head - j.g * group) / j.heads;
	attention_end<S>(a, j, l, sums, i, n,
			 (int32_t)group_index_y() * a.n_kv_heads * subs + of);
}

#define FRESH_0(name, key, value, block, step)
#define FRESH_1(name, key, value, block, step) \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_fresh_split_kernel(attention_launch a, attention_fresh f) \
	{ \
		attention_fresh_split< \
			attention_of<key, value, block, step, 1, false, 1, true>>(a, f); \
	}
/* Whole, by rows or not. */
#define WHOLE_0(key, value, block, step, parts, is_shared, tiles) \
	attention_whole<attention_of<key, value, block, step, parts, is_shared, tiles>>
#define WHOLE_1(key, value, block, step, parts, is_shared, tiles) \
	attention_rows<attention_rows_of<key, value, block, step, tiles>>
#define SHAPE(name, key, value, block, step, parts, is_shared, tiles, has_fresh, by_rows) \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_whole_kernel(attention_launch a) \
	{ \
		WHOLE_##by_rows(key, value, block, step, parts, is_shared, tiles)(a); \
	} \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_split_kernel(attention_launch a) \
	{ \
		attention_split<attention_of<key, value, block, step, parts, is_shared, 1>>(a); \
	} \
	FRESH_##has_fresh(name, key, value, block, step)
#include "kernels/attention/attention.def"
#undef SHAPE
