/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/index.h
 * LAYOUT    queries and keys f16 in wider rows; pages of keys (n_pages, P, K) f16, of keys of
 *           blocks (n_pages, P / ratio, K) f16; scores f32
 * GEOMETRY  index_put: one thread a number, (K over 128, T) workgroups. index_fill: one wave
 *           a token, (T over 4); waves whose token fills no block end at once. LDS: 2 KiB a
 *           wave. index_choose: one workgroup a token; a thread scores every 256th block,
 *           and keeps those scores to itself. LDS: the token's queries
 * PRECISION dots by dot2 in f32, in pairs of a key's order; scores f32. The least score that
 *           is chosen is found bit by bit, in sort keys. Counts are exact in f32 below 2^24
 *           blocks
 * ROOFLINE  a context of 32,768 positions in blocks of 4, K = 128: 2 MiB of keys of blocks,
 *           read once for each head, from caches after the first. One token has one workgroup,
 *           so decode of one sequence is bound by latency
 * TRIED     no other form
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

/* The score of the block in `page`. weight: of the token's heads, or NULL. */
DEVICE float index_score(const index_choose_launch &a, const uint32_t *q, const float *weight,
			 int32_t page)
{
	const uint16_t *key = a.blocks + (size_t)page * (size_t)a.dim;
	float sum = 0;
	for (int32_t h = 0; h < a.n_heads; h++) {
		float dot = 0;
		for (int32_t d = 0; d < a.dim; d += 8) {
			u32x4 k = load_global<u32x4>(key + d);
			u32x4 v = *(const u32x4 *)(q + (h * a.dim + d) / 2);
			UNROLL
			for (int j = 0; j < 4; j++)
				dot = dot2_f16(v[j], k[j], dot);
		}
		dot = dot > 0 ? dot : 0;
		sum += weight ? load_global<float>(weight + h) * dot : dot;
	}
	return sum;
}

/* How many of this workgroup's n scores have a sort key of `least` or more. */
DEVICE int32_t index_count(const float *scores, int32_t n, uint32_t least, float *part)
{
	float mine = 0;
	for (int32_t b = (int32_t)thread_index(); b < n; b += INDEX_THREADS)
		mine += order_key(scores[b]) >= least;
	float all = group_sum<INDEX_THREADS>(mine, part);
	group_barrier();
	return (int32_t)all;
}

struct index_rule {
	uint32_t least;   /* sort key of the least score that is chosen */
	int32_t n_equal;  /* blocks of exactly that score that are chosen */
	bool takes_all;
};

/* Writes the blocks that the rule takes to the table, in order; returns how many. counts: LDS,
 * two numbers a wave. */
DEVICE int32_t index_take(const index_choose_launch &a, const int32_t *pages,
			  const float *scores, int32_t n, const index_rule &rule,
			  uint32_t *counts, int32_t *table)
{
	constexpr uint32_t WAVES = INDEX_THREADS / WAVE;
	uint32_t n_above = 0, n_equal = 0, most = (uint32_t)rule.n_equal;
	uint32_t below = (1u << lane_index()) - 1, wave = wave_index();
	for (int32_t base = 0; base < n; base += INDEX_THREADS) {
		int32_t b = base + (int32_t)thread_index();
		uint32_t bits = b < n && !rule.takes_all ? order_key(scores[b]) : 0;
		bool is_above = b < n && (rule.takes_all || bits > rule.least);
		bool is_equal = b < n && !is_above && bits == rule.least;
		uint32_t above = wave_ballot(is_above), equal = wave_ballot(is_equal);
		if (lane_index() == 0) {
			counts[2 * wave] = bit_count(above);
			counts[2 * wave + 1] = bit_count(equal);
		}
		group_barrier();
		uint32_t at = n_above + bit_count(above & below);
		uint32_t rank = n_equal + bit_count(equal & below);
		for (uint32_t w = 0; w < WAVES; w++) {
			at += w < wave ? counts[2 * w] : 0;
			rank += w < wave ? counts[2 * w + 1] : 0;
			n_above += counts[2 * w];
			n_equal += counts[2 * w + 1];
		}
		if (is_above || (is_equal && rank < most))
			table[at + (rank < most ? rank : most)] = index_page_of(a, pages, b);
		group_barrier();
	}
	return (int32_t)(n_above + (n_equal < most ? n_equal : most));
}

KERNEL(INDEX_THREADS)
void index_choose_kernel(index_choose_launch a)
{
	LDS_DYNAMIC(uint32_t, q);
	LDS(float, part, INDEX_THREADS / WAVE);
	LDS(uint32_t, counts, 2 * INDEX_THREADS / WAVE);
	size_t t = group_index_x();
	int32_t n_seen = a.position[t] + 1, n = n_seen / a.ratio, rest = n_seen % a.ratio;
	const int32_t *pages = a.page_table + (size_t)a.seq_of[t] * (size_t)a.max_pages_per_seq;
	int32_t *table = a.table + t * (size_t)(a.top + 1);
	float *scores = a.work + t * (size_t)a.n_work;
	const float *weight = a.weight ? a.weight + t * (size_t)a.n_heads : nullptr;
	index_rule rule = {0, 0, n <= a.top};
	if (!rule.takes_all) {
		const uint32_t *from = (const uint32_t *)(a.q + t * (size_t)a.row);
		for (int32_t i = (int32_t)thread_index(); i < a.n_heads * a.dim / 2;
		     i += INDEX_THREADS)
			q[i] = from[i];
		group_barrier();
		for (int32_t b = (int32_t)thread_index(); b < n; b += INDEX_THREADS)
			scores[b] = index_score(a, q, weight, index_page_of(a, pages, b));
		for (uint32_t bit = 1u << 31; bit; bit >>= 1)
			if (index_count(scores, n, rule.least | bit, part) >= a.top)
				rule.least |= bit;
		rule.n_equal = a.top - index_count(scores, n, rule.least + 1, part);
	}
	int32_t k = index_take(a, pages, scores, n, rule, counts, table);
	if (thread_index() == 0) {
		if (rest)
			table[k] = index_page_of(a, pages, n);
		a.last[t] = k * a.ratio + rest - 1;
	}
}
