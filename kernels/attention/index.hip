/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/index.h
 * LAYOUT    queries and keys f16 in wider rows; pages of keys (n_pages, P, K) f16, of keys of
 *           blocks (n_pages, P / ratio, K) f16; sort keys of scores u32 (T, n_work)
 * GEOMETRY  index_put: one thread a number, (K over 128, T) workgroups. index_fill: one wave
 *           a token, (T over 4); waves whose token fills no block end at once. LDS: 2 KiB a
 *           wave. index_score: one thread a block and 16 tokens, (blocks over 128, T over 16)
 *           workgroups. A thread holds its block's key of 128 elements in registers, and reads
 *           one of another size again for each head. Queries come by scalar loads. index_choose:
 *           one workgroup a token; a thread holds up to 64 sort keys, and reads more again in
 *           each turn. LDS: the chosen blocks
 * PRECISION dots by dot2 in f32, in pairs of a key's order, heads in order; scores f32. So a
 *           score has the same bits in every step. The least score that is chosen is found
 *           bit by bit, in sort keys. Counts are exact in f32 below 2^24 blocks
 * ROOFLINE  a context of 131,072 positions in blocks of 4, K = 128: 8 MiB of keys of blocks.
 *           One token reads them from DRAM: 45 us on gfx1151, and 25 us choose. 64 tokens are
 *           bound by vector instructions: 135 us and 63 us
 * TRIED     one kernel, a workgroup a token, whose threads read a key again for each head and a
 *           score again for each bit: 1,628 us a token there, 3,882 us 64 tokens. Predicted, as
 *           the figures above, by haloctl kernels predict
 * SEE       kernels/ops/index_ref.c
 */
#include "kernels/device/dialect.h"

#include "kernels/attention/index_launch.h"

KERNEL(INDEX_PUT_THREADS)
void index_put_kernel(index_keys_launch a)
{
	int32_t d = (int32_t)(group_index_x() * INDEX_PUT_THREADS + thread_index());
	size_t t = group_index_y();
	if (d < a.dim)
		a.keys[(size_t)a.slot[t] * (size_t)a.dim + (size_t)d] =
			a.key[t * (size_t)a.row + (size_t)d];
}

DEVICE float index_normalised(const index_keys_launch &a, const float *x, float scale, int32_t d)
{
	float y = x[d] * scale * a.norm[d];
	return a.bias ? y + a.bias[d] : y;
}

KERNEL(INDEX_FILL_WAVES * WAVE)
void index_fill_kernel(index_keys_launch a)
{
	LDS(float, means, INDEX_FILL_WAVES * INDEX_MAX_KEY);
	float *mean = means + wave_index() * INDEX_MAX_KEY;
	int32_t t = (int32_t)(group_index_x() * INDEX_FILL_WAVES + wave_index());
	if (t >= a.n_tok || a.slot[t] % a.ratio != a.ratio - 1)
		return;
	size_t block = (size_t)(a.slot[t] / a.ratio), dim = (size_t)a.dim;
	const uint16_t *key = a.ratio == 1 ? a.key + (size_t)t * (size_t)a.row
					   : a.keys + block * (size_t)a.ratio * dim;
	const float *rope = a.rope + (size_t)t * (size_t)a.n_freq * 2;
	float part = fast_rcp((float)a.ratio), squares = 0, all = 0, centre = 0;
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		float sum = 0;
		for (int32_t r = 0; r < a.ratio; r++)
			sum += f16_to_f32(key[(size_t)r * dim + (size_t)d]);
		sum *= part;
		mean[d] = sum;
		all += sum;
	}
	if (a.bias)
		centre = wave_sum(all) * fast_rcp((float)a.dim);
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		mean[d] -= centre;
		squares += mean[d] * mean[d];
	}
	float scale = fast_rsqrt(wave_sum(squares) * fast_rcp((float)a.dim) + a.eps);
	wave_barrier();
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		float x = index_normalised(a, mean, scale, d);
		if (d < 2 * a.n_freq) {
			int32_t i = d < a.n_freq ? d : d - a.n_freq;
			int32_t other = d < a.n_freq ? d + a.n_freq : i;
			float y = index_normalised(a, mean, scale, other), s = rope[2 * i + 1];
			x = x * rope[2 * i] + (d < a.n_freq ? -y : y) * s;
		}
		a.blocks[block * dim + (size_t)d] = f32_to_f16(x);
	}
}

/* The page of `ratio` positions that has block b. */
DEVICE int32_t index_page_of(const index_choose_launch &a, const int32_t *pages, int32_t b)
{
	int32_t each = a.page_size / a.ratio;
	return pages[b / each] * each + b % each;
}

/* Full blocks that token t sees. */
DEVICE int32_t index_seen(const index_choose_launch &a, int32_t t)
{
	return (load_uniform<int32_t>(a.position + t) + 1) / a.ratio;
}

/* The dot of a head and this lane's key, which is held or, if it has another size, at `key`. */
template <bool IS_HELD>
DEVICE float index_dot(const uint16_t *q, const uint16_t *key, const u32x4 *held, int32_t dim)
{
	float dot = 0;
	UNROLL
	for (int32_t i = 0; i < (IS_HELD ? INDEX_HELD_KEY : dim) / 8; i++) {
		u32x4 k = IS_HELD ? held[i] : load_global<u32x4>(key + i * 8);
		u32x4 v = load_uniform<u32x4>(q + i * 8);
		UNROLL
		for (int j = 0; j < 4; j++)
			dot = dot2_f16(v[j], k[j], dot);
	}
	return dot;
}

/* Sort keys of the scores of INDEX_TOKENS tokens and INDEX_SCORE_THREADS blocks. */
template <bool IS_HELD> DEVICE void index_scores(const index_choose_launch &a, int32_t n_tok)
{
	u32x4 held[INDEX_HELD_KEY / 8];
	int32_t begin = (int32_t)(group_index_x() * INDEX_SCORE_THREADS), seq = -1, n_held = 0;
	int32_t b = begin + (int32_t)thread_index(), end = begin + INDEX_SCORE_THREADS;
	int32_t first = (int32_t)(group_index_y() * INDEX_TOKENS);
	int32_t last = first + INDEX_TOKENS < n_tok ? first + INDEX_TOKENS : n_tok;
	const uint16_t *key = nullptr;
	ONE_BY_ONE
	for (int32_t t = first; t < last; t++) {
		int32_t n = index_seen(a, t), s = load_uniform<int32_t>(a.seq_of + t);
		if (n <= a.top || n <= begin)
			continue;
		if (s != seq || (n < end ? n : end) > n_held) {
			const int32_t *pages = a.page_table +
					       (size_t)s * (size_t)a.max_pages_per_seq;
			int32_t page = index_page_of(a, pages, b < n ? b : n - 1);
			key = a.blocks + (size_t)page * (size_t)a.dim;
			UNROLL
			for (int i = 0; IS_HELD && i < INDEX_HELD_KEY / 8; i++)
				held[i] = load_global<u32x4>(key + i * 8);
			seq = s;
			n_held = n < end ? n : end;
		}
		const uint16_t *q = a.q + (size_t)t * (size_t)a.row;
		float sum = 0;
		ONE_BY_ONE
		for (int32_t h = 0; h < a.n_heads; h++) {
			float dot = index_dot<IS_HELD>(q + h * a.dim, key, held, a.dim);
			dot = dot > 0 ? dot : 0;
			sum += a.weight ? load_uniform<float>(a.weight + t * a.n_heads + h) * dot
					: dot;
		}
		if (b < n)
			a.work[(size_t)t * (size_t)a.n_work + (size_t)b] = order_key(sum);
	}
}

KERNEL(INDEX_SCORE_THREADS)
void index_score_kernel(index_choose_launch a, int32_t n_tok)
{
	if (a.dim == INDEX_HELD_KEY)
		index_scores<true>(a, n_tok);
	else
		index_scores<false>(a, n_tok);
}

/* Sort keys of a token's scores. A wave has neighbouring rows of 32 blocks, a lane one of each. */
struct index_rows {
	const uint32_t *keys;
	int32_t n, n_rows, first; /* the token's blocks, a wave's rows, this lane's first block */
	uint32_t held[INDEX_HELD_ROWS];
};

/* Of row r >= INDEX_HELD_ROWS, or to be held. Behind the last block 0, below all scores. */
DEVICE uint32_t index_key(const index_rows &x, int32_t r)
{
	int32_t b = x.first + r * WAVE;
	uint32_t key = x.keys[b < x.n ? b : x.n - 1];
	return b < x.n ? key : 0;
}

/* For each row: f(row, this lane's key). */
template <class F> DEVICE void index_each(const index_rows &x, F f)
{
	UNROLL
	for (int32_t r = 0; r < INDEX_HELD_ROWS; r++) {
		if (r % 8 == 0 && r >= x.n_rows)
			return;
		f(r, x.held[r]);
	}
	for (int32_t r = INDEX_HELD_ROWS; r < x.n_rows; r++)
		f(r, index_key(x, r));
}

struct index_rule {
	uint32_t least;  /* sort key of the least score that is chosen */
	int32_t n_equal; /* blocks of exactly that score that are chosen */
};

DEVICE index_rule index_find(const index_rows &x, int32_t top, float *part)
{
	auto count = [&](uint32_t least, uint32_t turn) {
		int32_t mine = 0;
		index_each(x, [&](int32_t, uint32_t key) { mine += key >= least; });
		/* Parts in turn: a wave may write while another still reads the last ones. */
		return (int32_t)group_sum<INDEX_THREADS>((float)mine,
							 part + turn % 2 * INDEX_WAVES);
	};
	index_rule rule = {0, 0};
	ONE_BY_ONE
	for (uint32_t i = 0; i < 32; i++)
		if (count(rule.least | 1u << (31 - i), i) >= top)
			rule.least |= 1u << (31 - i);
	rule.n_equal = top - count(rule.least + 1, 0);
	return rule;
}

/* Writes the blocks that the rule takes to `chosen`, in order. counts: LDS, two numbers a wave. */
DEVICE void index_take(const index_rows &x, const index_rule &rule, uint32_t *counts,
		       int32_t *chosen)
{
	uint32_t n_above = 0, n_equal = 0, most = (uint32_t)rule.n_equal;
	uint32_t below = (1u << lane_index()) - 1, wave = wave_index();
	index_each(x, [&](int32_t, uint32_t key) {
		n_above += bit_count(wave_ballot(key > rule.least));
		n_equal += bit_count(wave_ballot(key == rule.least));
	});
	if (lane_index() == 0) {
		counts[2 * wave] = n_above;
		counts[2 * wave + 1] = n_equal;
	}
	group_barrier();
	n_above = n_equal = 0;
	for (uint32_t w = 0; w < wave; w++) {
		n_above += counts[2 * w];
		n_equal += counts[2 * w + 1];
	}
	index_each(x, [&](int32_t r, uint32_t key) {
		bool is_above = key > rule.least, is_equal = key == rule.least;
		uint32_t above = wave_ballot(is_above), equal = wave_ballot(is_equal);
		uint32_t at = n_above + bit_count(above & below);
		uint32_t rank = n_equal + bit_count(equal & below);
		n_above += bit_count(above);
		n_equal += bit_count(equal);
		if (is_above || (is_equal && rank < most))
			chosen[at + (rank < most ? rank : most)] = x.first + r * WAVE;
	});
}

KERNEL(INDEX_THREADS)
void index_choose_kernel(index_choose_launch a)
{
	LDS_DYNAMIC(int32_t, chosen);
	LDS(float, part, 2 * INDEX_WAVES);
	LDS(uint32_t, counts, 2 * INDEX_WAVES);
	int32_t t = (int32_t)group_index_x(), n = index_seen(a, t);
	int32_t rest = (load_uniform<int32_t>(a.position + t) + 1) % a.ratio;
	const int32_t *pages = a.page_table + (size_t)load_uniform<int32_t>(a.seq_of + t) *
						      (size_t)a.max_pages_per_seq;
	int32_t *table = a.table + (size_t)t * (size_t)(a.top + 1), k = n < a.top ? n : a.top;
	bool takes_all = n <= a.top;
	if (!takes_all) {
		index_rows x;
		x.keys = a.work + (size_t)t * (size_t)a.n_work;
		x.n = n;
		x.n_rows = (n + INDEX_THREADS - 1) / INDEX_THREADS;
		x.first = (int32_t)(wave_index() * WAVE) * x.n_rows + (int32_t)lane_index();
		UNROLL
		for (int32_t r = 0; r < INDEX_HELD_ROWS; r++)
			x.held[r] = r < x.n_rows ? index_key(x, r) : 0;
		index_rule rule = index_find(x, a.top, part);
		index_take(x, rule, counts, chosen);
		group_barrier();
	}
	for (int32_t i = (int32_t)thread_index(); i < k; i += INDEX_THREADS)
		table[i] = index_page_of(a, pages, takes_all ? i : chosen[i]);
	if (thread_index() == 0) {
		if (rest)
			table[k] = index_page_of(a, pages, n);
		a.last[t] = k * a.ratio + rest - 1;
	}
}
