/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/attention.h, by online softmax in base 2 (Milakov and Gimelshein,
 *           2018) over steps of positions
 * LAYOUT    kernels/attention/attention_launch.h. A row is one query head of one token.
 *           Heads that share a key head are rows of one 16 x 16 tile, so that keys and
 *           values are read once for up to 16 heads, at decode too. Keys and values go
 *           through LDS, where rows are padded by 16 bytes to lie in different banks.
 * GEOMETRY  workgroups of four waves, of prefill for heads of 65 to 256 eight. A block is the
 *           positions that LDS holds at once.
 *           split, and prefill for heads above 256: the waves divide the score tiles of a
 *           block (16 rows by 16 positions). If there is one tile only, they divide its
 *           sum over K (`parts`). Then eight lanes a row turn scores into weights, and
 *           the waves divide the elements of the values. A block takes three barriers;
 *           the next keys and this block's values are loaded meanwhile. A workgroup of
 *           split has one token and a segment of its positions; the last workgroup to
 *           finish merges the segments.
 *           prefill, for heads up to 256 (attention_rows.h): a tile of tokens, 16 rows a
 *           wave. The wave keeps scores and sums in registers; a block takes two
 *           barriers. Above 128 two waves have 16 rows together, and four barriers: values
 *           overwrite the keys in LDS, so that there is room for eight waves.
 *           single is prefill with its scores in LDS and one token a workgroup: many sequences
 *           of one token, as an indexer's choices are.
 *           bidirectional is prefill by rows for tokens that see later positions: a vision
 *           tower's patches see all, an image's tokens in a prompt see the whole image. Each row
 *           has its first and last position in LDS, 64 bytes more a wave. It differs from
 *           prefill in masks only, so a row that sees no later position has the same bits.
 *           tile_split (attention_tile_split.h): a tile of prefill and a segment of split. A
 *           launch of its own merges the segments of tile_split, and of split behind long caches,
 *           one row a workgroup.
 *           LDS at K = 128: 44 KiB (split; 45 fused), 54 (prefill, with 32 positions at once).
 *           At K = 256 prefill takes 63. Two workgroups of either share a WGP.
 *           The result of a row is bit-identical in all kernels and depends on that row
 *           only. Steps and segments begin at multiples of their size. A segment is the
 *           smallest multiple of 64 positions for which 72 segments cover the row's
 *           positions, and at least 128 behind 4,096 and up to 128 positions (attention_each).
 *           Segments are added in order, each relative to its own maximum.
 *           Steps that a row does not see do not change its bits.
 * PRECISION scores in f32. Weights are exp2(c (score - maximum) + 12) rounded to f16,
 *           with c = scale log2(e). The 12 keeps weights down to 2^-36 of the largest
 *           from vanishing. The sum of weights adds the rounded ones. Values times
 *           weights in f32.
 * ROOFLINE  a block of 64 positions at K = 128 and up to 16 heads: 32 KiB and 64 matrix
 *           products of 32 cycles, which is 512 cycles on four SIMDs. So 40 compute units
 *           at 2.9 GHz could process 3.7 TB/s from cache (gfx1151's memory gives 0.256;
 *           two workgroups a WGP keep 64 KiB in flight), and 96 at 2.2 GHz 6.8 TB/s.
 *           Prefill by rows: 128 rows share a block (K = 128), or 64 (K = 256).
 *           32 products and 323 other vector instructions for a wave and 32 positions
 *           (gfx1151, as compiled), so the matrix unit could be busy 72 % of the time.
 *           They were 569. fmaxf quiets its operands first. Addresses were two 64-bit
 *           products. Pieces of positions that no row sees were cleared. A maximum over
 *           the positions was four exchanges between lanes, for each of eight rows.
 *           Measured on an H200 with the heads of Qwen3-30B-A3B (H = 32, G = 4). Prompts
 *           of 2,048 tokens: 217 TFLOP/s after 16,384 cached positions, 195 before that.
 *           Decode after 32,800 positions: 36 us, 1.9 TB/s, of which merging 57 segments
 *           takes 8 us.
 *           Measured on an H100, heads of Qwen3.5-35B-A3B (K = 256, H = 16, G = 2).
 *           Prompts of 2,048 tokens: 121 TFLOP/s after 30,720 cached positions, 104 after
 *           none, with four waves. gfx1151, predicted: 4.9 ms a layer for 4,096 tokens. To
 *           issue instructions takes 4.3 of it, of that 3.1 for matrix products. LDS is busy
 *           for 2.8, and lines that L2 misses take 0.3, if workgroups that run at once share
 *           them. If none did, they would take 2.2, and a layer 5.2.
 * TRIED     on paper: dot2 in place of tiles at decode. 150 vector instructions for two
 *           positions of 8 heads give 1.6 TB/s on gfx1151, and the bits would differ from
 *           prefill's.
 *           elsewhere, on gfx1151: values loaded after the scores: 5.5 % slower at 32K
 *           positions. Templates over the number of segments: a missing instance returned
 *           old results.
 *           on an H200, the same heads, 128 to 256 positions: loading the first values
 *           with the first keys, and merging four elements a thread: 15.5 us instead of
 *           14.3, and prefill of 4,096 tokens 11 % slower.
 *           on an H200, 8 to 258 positions: one segment up to 256 positions: 13.9 us
 *           instead of 9.0; segments of 128: 11.6; merging one element a thread: 12.8 at
 *           100 positions. With blocks copied ahead, one segment up to 128 positions: a
 *           token of Qwen3-30B-A3B, 12 layers, takes 1.8 % less. Up to 192: 0.7 % more.
 *           on an H200, long caches: prefill with scores in LDS, as split has them: 80
 *           TFLOP/s instead of 200. By rows with 32 positions in LDS at once: 158; with
 *           one maximum for 64: 189. At most 32 segments in powers of two: 97 us at
 *           32,800 positions, which had 17 segments; 128 segments: 49; 48: 46 (these
 *           three while the merge read the maxima one by one). Decode with blocks of 32
 *           positions: 42 us instead of 36. Loading 8 or 16 segments at once in the merge
 *           instead of 4: the same within 3 %, with more registers.
 *           on an H200, 32,768 positions, by whole steps of decode: 96 segments instead of
 *           64: 1 % faster with 4 key heads and 8 % with 8, but 512 tokens behind 4,096 1 %
 *           slower; 72: 2 % faster there and 2 % slower behind 4,096, which is why 4,096 and
 *           a few more positions have 33; 128, with registers for four workgroups: 1 to 4 %
 *           slower. All keys and values of a segment brought into L2 first: 6 to 12 % slower.
 *           on an H100: prompts with heads of 256 and their scores in LDS: 74 TFLOP/s
 *           instead of 121; predicted for gfx1151: 112 ms a layer instead of 48. Decode
 *           of Qwen3-30B-A3B after 32,768 positions with keys asked for a whole block
 *           ahead, as values are: 3.94 ms instead of 3.86. A merge that waits for four
 *           segments before it asks for the next four: 36.3 us instead of 34.1 at 16,448
 *           positions.
 *           one multiply-add a weight, score c - (maximum c - 12): where scores are 1e30,
 *           that rounds to weights without bound.
 *           the tokens of a prompt that an indexer chooses for, by split: 33 segments a token
 *           of 2,048 chosen positions. Predicted for gfx1151 (K = 256, H = 24, G = 2): 104 ms a
 *           layer for 2,048 tokens, bound by latency. Work memory holds 90 tokens a launch.
 *           gfx1151, as compiled: by rows with 64 positions a step: 500 registers
 *           spilled; the steps over K without tile_pin: 300. Heads of 256 with all values
 *           of a block asked for before the scores: 3; with the next keys asked for while
 *           scores become weights: 15. By rows with each step loaded just before it is
 *           multiplied: 16 to 24 registers less, but waves wait for LDS. Predicted for a
 *           layer, with four waves: 10.7 ms instead of 9.5 (K = 256, H = 16, G = 2, 4,096
 *           tokens), and 1.60 instead of 1.47 (K = 128, H = 32, G = 4, 2,048 tokens).
 *           gfx1151, predicted: by rows with four waves. Then two waves are on a SIMD at
 *           once instead of four (K = 128: three), and a block is loaded for half as many
 *           rows: 9.5 ms instead of 5.2 (K = 256, as above), and 5.7 instead of 4.6
 *           (K = 128, H = 32, G = 4, 4,096 tokens). Tiles of all key heads side by side in
 *           the grid: L2 then has fewer positions of each: 5.2 instead of 4.9, and 4.6 of 4.5.
 * SEE       kernels/ops/attention_ref.c, kernels/attention/attention.def
 */
#include "kernels/attention/attention_block.h"
#include "kernels/attention/attention_fused_split.h"
#include "kernels/attention/attention_merge.h"
#include "kernels/attention/attention_rows.h"
#include "kernels/attention/attention_tile_split.h"

/* Process all blocks of a job. FOLDS: add the segment's sums to the total at the end of
 * each segment. */
template <class S, bool FOLDS>
DEVICE void attention_blocks(const attention_launch &a, const attention_job &j,
			     const attention_lds<S> &l, attention_sums<S> *sums)
{
	attention_pieces<S::KEY_LOADS, S::BYTES> keys;
	attention_pieces<S::VALUE_LOADS, S::BYTES> values;
	attention_from k = attention_keys_of(a), v = attention_values_of(a);
	int32_t end = attention_segment_end(j, j.from);
	attention_begin<S>(a, j, l);
	attention_place<S>(a, j, attention_look<S>(a, j, j.from), l.place);
	attention_queries<S>(a, j, l.q);
	group_barrier();
	attention_bring<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(k, l.place, l.k);
	for (int32_t block = j.from; block <= j.to; block++) {
		uint32_t *place = l.place + ((block - j.from) & 1) * S::BLOCK;
		uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
		bool ends = FOLDS && (block == j.to || block == end);
		end += block == end ? j.each : 0;
		group_barrier(); /* keys are in LDS; the last values are no longer needed */
		if constexpr (S::EARLY_VALUES)
			attention_ask<S, S::VALUE, S::VALUE_LOADS>(v, place, &values);
		attention_place<S>(a, j, attention_look<S>(a, j, block + 1), next);
		attention_scores<S>(l);
		group_barrier(); /* scores are in LDS; keys are no longer needed */
		if constexpr (S::EARLY_KEYS)
			attention_ask<S, S::KEY, S::KEY_LOADS>(k, next, &keys);
		if constexpr (S::EARLY_VALUES)
			attention_land<S, S::VALUE, S::VALUE_LOADS, S::VALUE_PITCH>(values,
										    l.v);
		else if constexpr (!S::SHARED)
			attention_bring<S, S::VALUE, S::VALUE_LOADS, S::VALUE_PITCH>(v, place,
										     l.v);
		attention_weigh<S>(a, l, block, ends);
		group_barrier(); /* weights and values are in LDS */
		attention_values<S>(l, sums);
		if (ends)
			attention_fold<S>(l, sums);
		if constexpr (S::SHARED)
			group_barrier(); /* values share the keys' LDS: both are no longer
					  * needed */
		if constexpr (S::EARLY_KEYS)
			attention_land<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(keys, l.k);
		else
			attention_bring<S, S::KEY, S::KEY_LOADS, S::KEY_PITCH>(k, next, l.k);
	}
}

/* --- prefill ---------------------------------------------------------------------- */

template <class S> DEVICE void attention_prefill(const attention_launch &a)
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

/* --- tile_split ------------------------------------------------------------------- */

template <class S> DEVICE void attention_tile_split(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	size_t at;
	int32_t n = attention_tile_split_job<S>(a, &j, &at);
	if (n == 0)
		return;
	attention_lds<S> l = attention_lds_of<S>(lds);
	attention_sums<S> sums = {};
	attention_blocks<S, false>(a, j, l, &sums);
	if (n > 1)
		attention_leave<S>(a, j, l, sums, a.work + at);
	else
		attention_finish<S, false>(a, j, l, sums.part);
}

KERNEL(ATTENTION_WAVES * WAVE)
void attention_merge_kernel(attention_launch a, attention_merge_launch r)
{
	attention_merge_row(a, r);
}

#define FUSED_0(name, key, value, block, step)
#define FUSED_1(name, key, value, block, step) \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_fused_split_kernel(attention_launch a, attention_fused f) \
	{ \
		attention_fused_split< \
			attention_of<key, value, block, step, 1, false, 1, true>>(a, f); \
	} \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_bytes_fused_split_kernel(attention_launch a, \
							 attention_fused f) \
	{ \
		attention_fused_split< \
			attention_of<key, value, block, step, 1, false, 1, true, true>>(a, f); \
	} \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_bytes_split_kernel(attention_launch a) \
	{ \
		attention_split< \
			attention_of<key, value, block, step, 1, false, 1, false, true>>(a); \
	}
/* The constants of a prefill or a tile_split kernel and its body, for the kind of row in
 * attention.def. OF_1 and OF_2: by rows (attention_rows.h), with one wave or two for 16 rows.
 * OF_0: not by rows. */
#define OF_0(key, value, block, step, parts, is_shared, tiles) \
	attention_of<key, value, block, step, parts, is_shared, tiles>
#define OF_1(key, value, block, step, parts, is_shared, tiles) \
	attention_rows_of<key, value, step, tiles, 1>
#define OF_2(key, value, block, step, parts, is_shared, tiles) \
	attention_rows_of<key, value, step, tiles * 2, 2>
#define PREFILL_0 attention_prefill
#define PREFILL_1 attention_rows
#define PREFILL_2 attention_rows
#define TILE_SPLIT_0 attention_tile_split
#define TILE_SPLIT_1 attention_rows_tile_split
#define TILE_SPLIT_2 attention_rows_tile_split
/* One token a workgroup. Where prefill is not by rows, its kernel does that, too. */
#define SINGLE_0(name, key, value, block, step, parts, is_shared)
#define SINGLE_1(name, key, value, block, step, parts, is_shared) \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_single_kernel(attention_launch a) \
	{ \
		attention_prefill< \
			attention_of<key, value, block, step, parts, is_shared, 1>>(a); \
	}
#define SINGLE_2 SINGLE_1
#define BIDIRECTIONAL_0(name, key, value, step, tiles)
#define BIDIRECTIONAL_N(name, key, value, step, waves, share) \
	KERNEL((waves) * WAVE) \
	void attention_##name##_bidirectional_kernel(attention_launch a) \
	{ \
		attention_rows<attention_rows_of<key, value, step, waves, share, true>>(a); \
	}
#define BIDIRECTIONAL_1(name, key, value, step, tiles) \
	BIDIRECTIONAL_N(name, key, value, step, tiles, 1)
#define BIDIRECTIONAL_2(name, key, value, step, tiles) \
	BIDIRECTIONAL_N(name, key, value, step, tiles * 2, 2)
#define SHAPE(name, key, value, block, step, parts, is_shared, tiles, is_fused, by_rows) \
	KERNEL(ATTENTION_PREFILL_WAVES(by_rows, tiles) * WAVE) \
	void attention_##name##_prefill_kernel(attention_launch a) \
	{ \
		PREFILL_##by_rows< \
			OF_##by_rows(key, value, block, step, parts, is_shared, tiles)>(a); \
	} \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_tile_split_kernel(attention_launch a) \
	{ \
		TILE_SPLIT_##by_rows<OF_##by_rows( \
			key, value, block, step, parts, is_shared, \
			ATTENTION_SPLIT_TILES(by_rows, tiles))>(a); \
	} \
	KERNEL(ATTENTION_WAVES * WAVE) \
	void attention_##name##_split_kernel(attention_launch a) \
	{ \
		attention_split<attention_of<key, value, block, step, parts, is_shared, 1>>(a); \
	} \
	FUSED_##is_fused(name, key, value, block, step) \
	SINGLE_##by_rows(name, key, value, block, step, parts, is_shared) \
	BIDIRECTIONAL_##by_rows(name, key, value, step, tiles)
#include "kernels/attention/attention.def"
#undef SHAPE
