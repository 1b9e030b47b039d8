/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels of codes times activations of 8 bits. In the AVX-512 build cpu_simd_int.c does
 * the integers of 4 and 8 bits.
 *
 * For each form, `unpack` turns a block of 32 columns of a row into eight words of four
 * unsigned bytes (columns 0 2 4 6 and 1 3 5 7 of eight), by masks, shifts and a table of
 * 16 entries. One loop then serves all forms. It multiplies the bytes by the activations
 * (stored as in cpu_simd_int.c) and sums exactly in int32 over the 16 or 32 columns of a
 * scale:
 *
 *   y[r] += ((u . x - zero xsum) scale[r] - min[r] xsum) x_scale
 *
 * Sub-blocks are added in order in every variant of the loop. Scales are converted to
 * floats for CHUNK blocks at a time. A few inputs are multiplied right after unpacking, in
 * registers. For more inputs, a chunk is unpacked to memory in the first-level cache, for
 * all tiles.
 *
 * For more than one input, a sum begins at BIAS. Then its bits are those of the float
 * 1.5 2^23 + sum, and a fused multiply-add of scale and -1.5 2^23 scale converts and scales
 * it at once. The result is the same: where is_biased, a scale has at most 19 bits and a sum
 * less than 22, so that both products are exact.
 */
#include "backend/cpu/simd/cpu_simd.h"

#include "model/formats/iq2xxs_grid.h"

enum {
	ROWS = CPU_ROWS,
	N_VEC = ROWS / VL,
	Q_WORDS = CPU_Q_WORDS,
	STEP = Q_WORDS / 8, /* words of the tile for one word of four columns */
	WORDS = 8,
	CHUNK = 16,         /* blocks (32 columns) in a chunk: whole 256 columns */
	SUBS = 2 * CHUNK,   /* most scales in a chunk */
	BIAS = 0x4B400000,  /* the bits of 1.5 2^23 */
#if CPU_AVX512
	FEW = 4,            /* most inputs that are multiplied right after unpacking */
#else
	FEW = CPU_TOK,
#endif
};

struct chunk {
	float scale[SUBS][ROWS] __attribute__((aligned(64)));
	float low[SUBS][ROWS]; /* minima of each scale */
	/* Of a tile of more than one input: where the sum of each sub-block and input begins;
	 * or, for forms with minima, the float - xsum. */
	int32_t first[SUBS][CPU_PADDED(CPU_TOK)];
	float minus[SUBS][CPU_PADDED(CPU_TOK)];
	uint8_t words[CHUNK * WORDS * ROWS * 4]; /* unpacked bytes, as in CPU_FORM_8 */
#if !CPU_AVX512
	int32_t zero[SUBS][ROWS]; /* zero points of CPU_FORM_4 and CPU_FORM_8 */
#endif
};

/* --- codes to bytes --------------------------------------------------------------- */

/* NF4's values have two bytes: the value of CPU_FORM_NF4 times 256, plus the value of this one. */
#define NF4_LOW CPU_FORM_COUNT

/* The constant to subtract from a form's bytes. Forms of integers need it only without
 * zero points. */
VINLINE int zero_of(enum cpu_form f)
{
	switch (f) {
	case CPU_FORM_3: return 4;
	case CPU_FORM_4: return 8;
	case CPU_FORM_5: case CPU_FORM_E2M1: case CPU_FORM_E2M1_16: return 16;
	case CPU_FORM_6: return 32;
	case CPU_FORM_GRID: case CPU_FORM_IQ2: case CPU_FORM_IQ3_XXS: return 64;
	case CPU_FORM_IQ1: case CPU_FORM_IQ3_S: return 16;
	case CPU_FORM_IQ4: case CPU_FORM_NF4: case NF4_LOW: case CPU_FORM_8: return 128;
	default: return 0;
	}
}

/* All bytes of a form are below this limit. */
VINLINE int limit_of(enum cpu_form f)
{
	switch (f) {
	case CPU_FORM_4: case CPU_FORM_4_MIN: return 16;
	case CPU_FORM_6: return 64;
	default: return zero_of(f) == 128 ? 256 : zero_of(f) == 64 ? 128 : 32;
	}
}

/* True if BIAS serves: multiply-adds are fused, scales are short, and sums are small. */
VINLINE bool is_biased(enum cpu_form f)
{
#if CPU_AVX512 || CPU_AVX2
	switch (f) {
	case CPU_FORM_4: case CPU_FORM_8: return false; /* scales of float32 */
	case CPU_FORM_E2M1: return false; /* scales up to 2^127 */
	case CPU_FORM_E2M1_16: return false; /* scales times any factor */
	case CPU_FORM_NF4: return false; /* sums of 27 bits */
	default: return true;
	}
#else
	return false;
#endif
}

/* Without an instruction for this, a shuffle is done byte by byte. Inlined in all its places,
 * it would take the compiler ten seconds. */
#if CPU_AVX512 || CPU_AVX2
#define LOOK_UP VINLINE
#else
#define LOOK_UP static __attribute__((noinline))
#endif

/* Replace each byte of v (0 to 15) by its table entry. */
LOOK_UP vi look_up(vi v, const uint8_t table[16])
{
	__attribute__((aligned(16))) uint8_t all[4 * VL];
	for (int i = 0; i < VL / 4; i++)
		memcpy(all + 16 * i, table, 16);
#if CPU_AVX512
	return (vi)_mm512_shuffle_epi8(_mm512_loadu_si512(all), (__m512i)v);
#elif CPU_AVX2
	return (vi)_mm256_shuffle_epi8(_mm256_loadu_si256((void *)all), (__m256i)v);
#else
	typedef uint8_t bytes __attribute__((vector_size(16)));
	bytes t;
	memcpy(&t, all, sizeof t);
#if __has_builtin(__builtin_shuffle)
	return (vi)__builtin_shuffle(t, (bytes)v);
#else /* clang cannot shuffle by a variable */
	bytes at = (bytes)v, out;
	for (int i = 0; i < 16; i++)
		out[i] = t[at[i] & 15];
	return (vi)out;
#endif
#endif
}

/* The value of each code plus zero_of(form), which makes it unsigned. */
VINLINE vi numbers_of(enum cpu_form f, vi codes)
{
	static const uint8_t e2m1[16] = {16, 17, 18, 19, 20, 22, 24, 28,
					 16, 15, 14, 13, 12, 10, 8, 4};
	static const uint8_t iq4[16] = {1, 24, 45, 63, 79, 93, 106, 118,
					129, 141, 153, 166, 181, 197, 217, 241};
	static const uint8_t nf4[16] = {64, 83, 94, 103, 110, 116, 122, 128,
					133, 138, 144, 150, 156, 164, 174, 192};
	static const uint8_t nf4_low[16] = {128, 240, 232, 56, 76, 172, 172, 128,
					    152, 204, 64, 32, 180, 128, 200, 128};
	static const uint8_t grid[16] = {72, 89, 107, 0, 0, 0, 0, 0, 56, 39, 21};
	static const uint8_t iq1[16] = {7, 9, 15, 17, 23, 25};
	static const uint8_t iq3_xxs[16] = {68, 76, 84, 92, 100, 108, 116, 126,
					    60, 52, 44, 36, 28, 20, 12, 2};
	static const uint8_t iq3_s[16] = {17, 19, 21, 23, 25, 27, 29, 31,
					  15, 13, 11, 9, 7, 5, 3, 1};
	switch (f) {
	case CPU_FORM_IQ1: return look_up(codes, iq1);
	case CPU_FORM_IQ3_XXS: return look_up(codes, iq3_xxs);
	case CPU_FORM_IQ3_S: return look_up(codes, iq3_s);
	case CPU_FORM_E2M1: case CPU_FORM_E2M1_16: return look_up(codes, e2m1);
	case CPU_FORM_IQ4: return look_up(codes, iq4);
	case CPU_FORM_NF4: return look_up(codes, nf4);
	case NF4_LOW: return look_up(codes, nf4_low);
	case CPU_FORM_GRID: case CPU_FORM_IQ2: return look_up(codes, grid);
	default: return codes;
	}
}

/* Look up the eight magnitudes of IQ2_XXS, two bits each, for the indices in v. */
VINLINE vi grid_of(vi v)
{
#if CPU_AVX512 || CPU_AVX2
	/* The table has halves and gathers load words, so the last entry is read at a
	 * lower address, to stay inside the table. */
	vi last = v >> 7, at = v - last;
#if CPU_AVX512
	vi two = (vi)_mm512_i32gather_epi32((__m512i)at, iq2xxs_grid, 2);
	two = (vi)_mm512_srlv_epi32((__m512i)two, (__m512i)(last << 4));
#else
	vi two = (vi)_mm256_i32gather_epi32((const int *)(const void *)iq2xxs_grid,
					    (__m256i)at, 2);
	two = (vi)_mm256_srlv_epi32((__m256i)two, (__m256i)(last << 4));
#endif
	return two & 0xFFFF;
#else
	return (vi){iq2xxs_grid[v[0]], iq2xxs_grid[v[1]], iq2xxs_grid[v[2]],
		    iq2xxs_grid[v[3]]};
#endif
}

/* Columns 8 i .. 8 i + 7 of IQ2_XXS as nibbles: magnitude in two bits, sign in the top
 * bit. */
VINLINE vi grid_nibbles(vi indices, vi signs, int i)
{
	vi g = grid_of((vi)((vu)indices >> 8 * i) & 0xFF);
	g = (g | g << 8) & 0x00FF00FF;
	g = (g | g << 4) & 0x0F0F0F0F;
	g = (g | g << 2) & 0x33333333;
	vi s = (vi)((vu)signs >> 7 * i) & 0x7F, even = s ^ s >> 4;
	even ^= even >> 2;
	s |= ((even ^ even >> 1) & 1) << 7; /* the eighth sign makes their number even */
	s = (s | s << 12) & 0x000F000F;
	s = (s | s << 6) & 0x03030303;
	s = (s | s << 3) & 0x11111111;
	return g | s << 3;
}

/* Move bits [at, at + n) of each byte to bit `to`. */
VINLINE vi move_bits(vi v, int at, int n, int to)
{
	int32_t mask = 0x01010101 * (((1 << n) - 1) << to);
	return (to >= at ? v << (to - at) : (vi)((vu)v >> (at - to))) & mask;
}

/* The low bits of a block's codes as eight words of bytes: their nibbles, if the form has
 * nibbles. p: rows from VL v on. */
VINLINE void unpack_nibbles(enum cpu_form f, const uint8_t *p, vi *w)
{
	vi indices = vi_load(p), signs = {0};
	if (f == CPU_FORM_GRID)
		signs = vi_load(p + 4 * ROWS);
CPU_UNROLL(8)
	for (int i = 0; i < WORDS; i++) {
		vi raw = f == CPU_FORM_GRID ? grid_nibbles(indices, signs, i / 2)
					    : vi_load(p + i / 2 * 4 * ROWS);
		w[i] = move_bits(raw, i % 2 * 4, 4, 0);
	}
}

/* Word i of the code bits that are not in nibbles: the 2-bit parts, then the single bits.
 * has_nibbles: the 2-bit parts are the upper bits of a code. */
VINLINE vi other_bits(enum cpu_form f, bool has_nibbles, const uint8_t *p, int i)
{
	vi w = {0};
	if (f == CPU_FORM_6 || f == CPU_FORM_3 || f == CPU_FORM_2_MIN)
		w |= move_bits(vi_load(p + i / 4 * 4 * ROWS), i % 4 * 2, 2,
			       has_nibbles ? 4 : 0);
	if (f == CPU_FORM_3)
		w |= move_bits(vi_load(p + 2 * 4 * ROWS), i, 1, 2);
	if (f == CPU_FORM_5 || f == CPU_FORM_5_MIN)
		w |= move_bits(vi_load(p), i, 1, 4);
	return w;
}

/* Unpack a block of VL rows, from row VL v on, to eight words of bytes. */
VINLINE void unpack(enum cpu_form f, const uint8_t *q, int v, vi *w)
{
	const uint8_t *p = q + 4 * VL * v;
	const bool has_nibbles = f != CPU_FORM_3 && f != CPU_FORM_2_MIN;
	if (f == CPU_FORM_8) {
CPU_UNROLL(8)
		for (int i = 0; i < WORDS; i++)
			w[i] = vi_load(p + i * 4 * ROWS);
		return;
	}
	memset(w, 0, WORDS * sizeof *w);
	if (has_nibbles) {
		unpack_nibbles(f, p, w);
		p += 4 * 4 * ROWS;
	}
CPU_UNROLL(8)
	for (int i = 0; i < WORDS; i++)
		w[i] = numbers_of(f, w[i] | other_bits(f, has_nibbles, p, i));
}

VINLINE size_t block_bytes(enum cpu_form f)
{
	return (size_t)cpu_form_bits(f) * 4 * ROWS;
}

/* --- scales ----------------------------------------------------------------------- */

VINLINE vf floats_of(vi v)
{
	return __builtin_convertvector(v, vf);
}

/* 2^(b - 127) / 2 as a float. */
VINLINE vf half_power(vi b, bool has_nan)
{
	vi is_small = b < 2;
	vi small = (b + 1) << 21, bits = (b - 1) << 23;
	vi nan = has_nan ? (b == 255) & 0x7FC00000 : (vi){0};
	return (vf)((is_small & small) | (~is_small & bits) | nan);
}

VINLINE vf e4m3_of(vi b)
{
	vi magnitude = b & 0x7F, nan = (magnitude == 0x7F) & 0x7FC00000;
	vf f = (vf)(magnitude << 20) * vf_all(0x1p120f);
	return (vf)((vi)f | (b & 0x80) << 24 | nan);
}

/* Scale number i and minimum of the panel's rows from VL v on, for scalings whose
 * integers are multiplied by supers. */
VINLINE void super_at(const struct cpu_panels *w, const uint8_t *panel,
		      enum cpu_scaling s, int32_t i, int v, vf *scale, vf *low)
{
	const size_t at = (size_t)i * ROWS + (size_t)(VL * v);
	const size_t super = (size_t)(i / (256 / w->group) * ROWS + VL * v);
	const size_t at_min = (size_t)(w->k / 256) * ROWS;
	const uint8_t *supers = panel + w->at_super;
	const uint8_t *signs = panel + w->at_q + (size_t)i * block_bytes(CPU_FORM_GRID) +
			       4 * ROWS + 4 * VL * v;
	vi b = s == CPU_SCALING_GRID ? 2 * (vi)((vu)vi_load(signs) >> 28) + 1
				     : vi_of_bytes(panel + at);
	vi least = {0};
	if (s == CPU_SCALING_PAIR) {
		least = b >> 4;
		b &= 15;
	} else if (s == CPU_SCALING_SUPER) {
		b = (b ^ 128) - 128; /* sign extension of a byte */
		if (cpu_form_has_min(w->form))
			least = vi_of_bytes(panel + w->at_low + at);
	}
	*scale = cpu_floats(supers, DTYPE_F16, super) * (floats_of(b) * w->factor);
	*low = (vf){0};
	if (cpu_form_has_min(w->form))
		*low = cpu_floats(supers, DTYPE_F16, at_min + super) * floats_of(least);
}

/* Like super_at, for any scaling. */
VINLINE void scale_at(const struct cpu_panels *w, const uint8_t *panel,
		      enum cpu_scaling s, int32_t i, int v, vf *scale, vf *low)
{
	const size_t at = (size_t)i * ROWS + (size_t)(VL * v);
	*low = (vf){0};
	if (s == CPU_SCALING_E8M0) {
		*scale = half_power(vi_of_bytes(panel + at), w->has_nan_scale);
	} else if (s == CPU_SCALING_E4M3) {
		*scale = e4m3_of(vi_of_bytes(panel + at)) * w->factor;
	} else if (s == CPU_SCALING_FLOAT) {
		size_t of_group = (size_t)(i / (w->group / 32) * ROWS + VL * v);
		*scale = cpu_floats(panel, w->scale_type, of_group) * w->factor;
		if (cpu_form_has_min(w->form))
			*low = cpu_floats(panel + w->at_low, w->scale_type, of_group);
	} else {
		super_at(w, panel, s, i, v, scale, low);
	}
}

#define EACH_SCALING(X) X(FLOAT) X(E8M0) X(E4M3) X(SUPER) X(PAIR) X(GRID)

/* Convert scales [i0, i0 + n) to floats in c. */
static void load_scales(const struct cpu_panels *w, const uint8_t *panel, int32_t i0,
			int n, struct chunk *c)
{
	switch (w->scaling) {
#define CASE(s) \
	case CPU_SCALING_##s: \
		for (int i = 0; i < n; i++) \
			for (int v = 0; v < N_VEC; v++) { \
				vf scale, low; \
				scale_at(w, panel, CPU_SCALING_##s, i0 + i, v, &scale, \
					 &low); \
				vf_store(c->scale[i] + VL * v, scale); \
				vf_store(c->low[i] + VL * v, low); \
			} \
		break;
	EACH_SCALING(CASE)
#undef CASE
	case CPU_SCALING_NONE: break;
	}
#if !CPU_AVX512
	if (w->form != CPU_FORM_4 && w->form != CPU_FORM_8)
		return;
	for (int i = 0; i < n; i++) {
		const uint8_t *zeros = panel + w->at_low +
				       (size_t)((i0 + i) / (w->group / 32) * ROWS);
		for (int r = 0; r < ROWS; r++)
			c->zero[i][r] = w->has_zero ? zeros[r] : zero_of(w->form);
	}
#endif
}

/* --- products --------------------------------------------------------------------- */

/* sum + the products of n words of weights and n words of the tile, n_x apart.
 * limit: from limit_of. */
VINLINE vi dot(vi sum, const vi *w, int n, const int32_t *x, int n_x, int limit)
{
#if CPU_AVX512
CPU_UNROLL(8)
	for (int i = 0; i < n; i++)
		sum = bytes_dot(sum, w[i], x[i * n_x]);
	return sum;
#else
	const int per = 128 / limit; /* words whose products fit 16 bits together */
	vh low = {0}, high = {0};
CPU_UNROLL(8)
	for (int i = 0; i < n; i++, x += STEP * n_x) {
		if (limit > 128) { /* two products do not fit 16 bits: split the bytes */
			low += words_dot(w[i] & 0x0F0F0F0F, x, n_x);
			high += words_dot((vi)((vu)w[i] >> 4) & 0x0F0F0F0F, x, n_x);
			continue;
		}
		low += words_dot(w[i], x, n_x);
		if ((i + 1) % per == 0) {
			sum += add_pairs(low);
			low = (vh){0};
		}
	}
	return limit > 128 ? sum + add_pairs(high) * 16 + add_pairs(low) : sum;
#endif
}

/* A sub-block's scales and minima, for some rows. bias: -1.5 2^23 scale. */
struct scaling {
	vf scale, bias, low;
};

VINLINE struct scaling scaling_at(const struct chunk *c, int i, int v)
{
	vf scale = vf_load(c->scale[i] + VL * v);
	return (struct scaling){scale, scale * -0x1.8p23f, vf_load(c->low[i] + VL * v)};
}

/* acc + the sum of a sub-block, scaled and with its minimum subtracted. */
VINLINE vf add_scaled(vf acc, vi sum, struct scaling s, bool has_bias, bool has_min,
		      float minus_xsum, float x_scale)
{
	vf f = has_bias ? vf_fma((vf)sum, s.scale, s.bias) : floats_of(sum) * s.scale;
	if (has_min)
		f = vf_fma(s.low, vf_all(minus_xsum), f);
	return vf_fma(f, vf_all(x_scale), acc);
}

/* Blocks of a panel times n_x inputs, added to acc. q: the first block, or the chunk's
 * words. fetch: what to prefetch meanwhile, or NULL if another product has done so. */
struct product {
	const uint8_t *q, *fetch;
	size_t step; /* bytes of fetch for one block */
	int n_blocks, n_x;
	const int32_t *tile;
	const struct chunk *c;
	float (*acc)[ROWS];
};

/* Fill c->first, or c->minus, for p's blocks and tile. */
static void begin_sums(const struct product *p, enum cpu_form f, struct chunk *c)
{
	const int n_sub = 32 / cpu_form_sub(f), n_x = p->n_x;
	const vi zero = vi_all(zero_of(f)), bias = vi_all(is_biased(f) ? BIAS : 0);
	const int32_t *xsum = p->tile + Q_WORDS * n_x;
	for (int i = 0; i < p->n_blocks * n_sub; i++) {
		for (int j = 0; j < n_x; j += VL) {
			vi v = vi_load_some(xsum + j, n_x - j);
			if (cpu_form_has_min(f))
				vf_store(c->minus[i] + j, floats_of(v));
			else
				vi_store(c->first[i] + j, v * zero + bias);
		}
		xsum += (i + 1) % n_sub ? n_x : (Q_WORDS + 2) * n_x;
	}
}

/* Where the sum of sub-block i and input j begins, for rows from VL v on. minus: the
 * sub-block's - xsum. */
VINLINE vi begin_at(const struct product *p, enum cpu_form f, bool is_alone, int i, int v,
		    int j, int32_t minus)
{
#if !CPU_AVX512
	if (f == CPU_FORM_4 || f == CPU_FORM_8)
		return vi_load(p->c->zero[i] + VL * v) * vi_all(minus);
#endif
	if (is_alone)
		return vi_all(zero_of(f)) * vi_all(minus);
	return vi_all(cpu_form_has_min(f) ? is_biased(f) * BIAS : p->c->first[i][j]);
}

/* acc + the product of block b (rows from VL v on, unpacked to w) and input j of n_x.
 * tile: the tile's data of this block. low: NF4's lower bytes. */
VINLINE vf add_block(vf acc, const struct product *p, enum cpu_form f, const vi *w,
		     const vi *low, const struct scaling *scaling, int b, int v,
		     const int32_t *tile, int n_x, bool is_alone, int j)
{
	const int n_sub = 32 / cpu_form_sub(f), n = WORDS / n_sub;
	const int32_t *xsum = tile + Q_WORDS * n_x;
	const float *x_scale = (const void *)(xsum + n_sub * n_x);
CPU_UNROLL(2)
	for (int s = 0; s < n_sub; s++) {
		const int at = b * n_sub + s;
		const int32_t *x = tile + n * s * STEP * n_x + j;
		int32_t minus = xsum[s * n_x + j];
		vi begin = begin_at(p, f, is_alone, at, v, j, minus);
		vi sum = dot(begin, w + n * s, n, x, n_x, limit_of(f));
		if (f == CPU_FORM_NF4)
			sum = dot(sum * 256 + begin, low, n, x, n_x, limit_of(f));
		acc = add_scaled(acc, sum, scaling[s], is_biased(f) && !is_alone,
				 cpu_form_has_min(f),
				 is_alone ? (float)minus : p->c->minus[at][j], x_scale[j]);
	}
	return acc;
}

/* is_bytes: p->q are the chunk's words. */
VINLINE void run_blocks(const struct product *p, enum cpu_form f, int n_x, bool is_bytes)
{
	const size_t step = block_bytes(is_bytes ? CPU_FORM_8 : f);
	const int n_sub = 32 / cpu_form_sub(f);
	/* words of the tile for one input */
	const int words = Q_WORDS + n_sub + 1;
	vf lone[N_VEC] = {{0}}; /* sums of a single input stay in registers */
	for (int v = 0; v < N_VEC && n_x == 1; v++)
		lone[v] = vf_load(p->acc[0] + VL * v);
	for (int b = 0; b < p->n_blocks; b++) {
		const int32_t *tile = p->tile + (size_t)b * (size_t)(words * n_x);
		if (p->fetch)
			cpu_fetch(p->fetch + p->step * (size_t)b, cpu_form_bits(f));
CPU_UNROLL(4)
		for (int v = 0; v < N_VEC; v++) {
			const uint8_t *q = p->q + (size_t)b * step;
			struct scaling scaling[2] = {scaling_at(p->c, b * n_sub, v),
						     scaling_at(p->c, b * n_sub + n_sub - 1, v)};
			vi w[WORDS], low[WORDS];
			unpack(is_bytes ? CPU_FORM_8 : f, q, v, w);
			if (f == CPU_FORM_NF4)
				unpack(NF4_LOW, q, v, low);
			if (n_x == 1)
				lone[v] = add_block(lone[v], p, f, w, low, scaling, b, v, tile,
						    1, true, 0);
			for (int j = 0; j < n_x && n_x > 1; j++) {
				float *acc = p->acc[j] + VL * v;
				vf_store(acc, add_block(vf_load(acc), p, f, w, low, scaling, b,
							v, tile, n_x, false, j));
			}
		}
	}
	for (int v = 0; v < N_VEC && n_x == 1; v++)
		vf_store(p->acc[0] + VL * v, lone[v]);
}

#if CPU_AVX512
#define INTEGERS(X)
#else
#define INTEGERS(X) X(4) X(8)
#endif
#define EACH_FORM(X) \
	INTEGERS(X) X(4_MIN) X(5) X(5_MIN) X(6) X(3) X(2_MIN) X(E2M1) X(E2M1_16) X(IQ4) X(NF4) \
	X(GRID) X(IQ1) X(IQ2) X(IQ3_XXS) X(IQ3_S)
#define DEFINE(f) \
	static void blocks_##f(const struct product *p) \
	{ \
		if (p->n_x == 1) \
			run_blocks(p, CPU_FORM_##f, 1, false); \
		else \
			run_blocks(p, CPU_FORM_##f, p->n_x, false); \
	}
EACH_FORM(DEFINE)
#undef DEFINE

/* --- unpacked blocks -------------------------------------------------------------- */

#define DEFINE(f) \
	static void unpack_##f(const struct product *p, uint8_t *out) \
	{ \
		const uint8_t *q = p->q; \
		for (int b = 0; b < p->n_blocks; b++) { \
			for (int v = 0; v < N_VEC; v++) { \
				vi w[WORDS]; \
				unpack(CPU_FORM_##f, q, v, w); \
				for (int i = 0; i < WORDS; i++) \
					memcpy(out + 4 * (i * ROWS + VL * v), &w[i], \
					       sizeof w[i]); \
			} \
			out += block_bytes(CPU_FORM_8); \
			q += block_bytes(CPU_FORM_##f); \
		} \
	}
EACH_FORM(DEFINE)
#undef DEFINE

#if CPU_AVX512
/* Like run_blocks, for blocks unpacked to bytes; n_x is a constant. Prefetching is done
 * here and not while unpacking, which takes too little time to hide it. */
VINLINE void run_bytes(const struct product *p, int bits, int n_x, int n_sub, bool has_min,
		       bool has_bias)
{
	const uint8_t *q = p->q;
	const int32_t *tile = p->tile;
	vf acc[CPU_TOK];
CPU_UNROLL(12)
	for (int j = 0; j < n_x; j++)
		acc[j] = vf_load(p->acc[j]);
	for (int b = 0; b < p->n_blocks; b++) {
		const float *x_scale = (const void *)(tile + (Q_WORDS + n_sub) * n_x);
		if (p->fetch)
			cpu_fetch(p->fetch + p->step * (size_t)b, bits);
CPU_UNROLL(2)
		for (int s = 0; s < n_sub; s++) {
			const int at = b * n_sub + s;
			const struct scaling scaling = scaling_at(p->c, at, 0);
			vi sum[CPU_TOK];
CPU_UNROLL(12)
			for (int j = 0; j < n_x; j++)
				sum[j] = vi_all(has_min ? has_bias * BIAS : p->c->first[at][j]);
CPU_UNROLL(8)
			for (int i = 0; i < WORDS / n_sub; i++, q += 4 * ROWS) {
				vi w = vi_load(q);
CPU_UNROLL(12)
				for (int j = 0; j < n_x; j++)
					sum[j] = bytes_dot(sum[j], w, *tile++);
			}
CPU_UNROLL(12)
			for (int j = 0; j < n_x; j++)
				acc[j] = add_scaled(acc[j], sum[j], scaling, has_bias, has_min,
						    p->c->minus[at][j], x_scale[j]);
		}
		tile += (n_sub + 1) * n_x;
	}
CPU_UNROLL(12)
	for (int j = 0; j < n_x; j++)
		vf_store(p->acc[j], acc[j]);
}

#define EACH_COUNT(X, kind) \
	X(1, kind) X(2, kind) X(3, kind) X(4, kind) X(5, kind) X(6, kind) \
	X(7, kind) X(8, kind) X(9, kind) X(10, kind) X(11, kind) X(12, kind)
/* kind: first digit, sub-blocks of a block (1 or 2); second digit, 0: neither bias nor
 * minima, 1: bias, 2: both */
#define DEFINE(n, kind) \
	static void bytes_##kind##_##n(const struct product *p, int bits) \
	{ \
		run_bytes(p, bits, n, kind / 10, kind % 10 == 2, kind % 10 > 0); \
	}
EACH_COUNT(DEFINE, 10)
EACH_COUNT(DEFINE, 11)
EACH_COUNT(DEFINE, 12)
EACH_COUNT(DEFINE, 20)
EACH_COUNT(DEFINE, 21)
EACH_COUNT(DEFINE, 22)
#undef DEFINE
_Static_assert(CPU_TOK == 12, "EACH_COUNT");

static void multiply_bytes(const struct product *p, enum cpu_form f)
{
	typedef void one(const struct product *p, int bits);
#define NAME(n, kind) bytes_##kind##_##n,
	static one *const all[2][3][CPU_TOK] = {
		{{EACH_COUNT(NAME, 10)}, {EACH_COUNT(NAME, 11)}, {EACH_COUNT(NAME, 12)}},
		{{EACH_COUNT(NAME, 20)}, {EACH_COUNT(NAME, 21)}, {EACH_COUNT(NAME, 22)}}};
#undef NAME
	all[cpu_form_sub(f) == 16][is_biased(f) + cpu_form_has_min(f)][p->n_x - 1](
		p, cpu_form_bits(f));
}
#else
#define DEFINE(f) \
	static void bytes_##f(const struct product *p) \
	{ \
		if (p->n_x == CPU_TOK) \
			run_blocks(p, CPU_FORM_##f, CPU_TOK, true); \
		else \
			run_blocks(p, CPU_FORM_##f, p->n_x, true); \
	}
EACH_FORM(DEFINE)
#undef DEFINE

static void multiply_bytes(const struct product *p, enum cpu_form f)
{
	static void (*const run[CPU_FORM_COUNT])(const struct product *p) = {
#define NAME(f) [CPU_FORM_##f] = bytes_##f,
		EACH_FORM(NAME)
#undef NAME
	};
	run[f](p);
}
#endif

/* --- a panel ---------------------------------------------------------------------- */

/* Multiply p's blocks, which begin at block b of the panel, by all tiles. */
static void multiply_tiles(struct product *p, const struct cpu_panels *w, int32_t b,
			   const struct cpu_tiles *t, struct chunk *c,
			   float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	static void (*const run[CPU_FORM_COUNT])(const struct product *p) = {
#define NAME(f) [CPU_FORM_##f] = blocks_##f,
		EACH_FORM(NAME)
#undef NAME
	};
	const int words = Q_WORDS + 32 / cpu_form_sub(w->form) + 1;
	const int32_t *tile = t->at;
	for (int i = 0; i < t->n; i++) {
		p->n_x = t->n_x[i];
		p->acc = out[i];
		p->tile = tile + (size_t)b * (size_t)(words * p->n_x);
		tile += (size_t)(w->k / CPU_BLOCK) * (size_t)(words * p->n_x);
		if (p->n_x > 1 || p->q == c->words)
			begin_sums(p, w->form, c);
		if (p->q == p->c->words)
			multiply_bytes(p, w->form);
		else
			run[w->form](p);
		p->fetch = NULL;
	}
}

/* If enough inputs use them, unpack the bytes of p's blocks once for all. NF4's do not
 * fit c->words. */
static void spread(struct product *p, enum cpu_form f, const struct cpu_tiles *t,
		   struct chunk *c)
{
	static void (*const all[CPU_FORM_COUNT])(const struct product *p, uint8_t *out) = {
#define NAME(f) [CPU_FORM_##f] = unpack_##f,
		EACH_FORM(NAME)
#undef NAME
	};
	if ((t->n == 1 && t->n_x[0] <= FEW) || f == CPU_FORM_NF4)
		return;
	all[f](p, c->words);
	p->q = c->words;
}

void ISA(cpu_panel_codes)(const struct cpu_panels *w, int32_t i_panel,
			  const struct cpu_tiles *t,
			  float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	const int n_sub = 32 / cpu_form_sub(w->form);
	const int32_t n_blocks = w->k / CPU_BLOCK;
	const uint8_t *panel = cpu_panels_at(w, i_panel);
	const size_t step = w->panel_bytes / (size_t)n_blocks;
	struct chunk c;
	memset(out, 0, (size_t)t->n * sizeof *out);
	for (int32_t b = 0; b < n_blocks; b += CHUNK) {
		int n = n_blocks - b < CHUNK ? n_blocks - b : CHUNK;
		struct product p = {
			.q = panel + w->at_q + (size_t)b * block_bytes(w->form),
			.fetch = panel + (size_t)b * step, .step = step, .n_blocks = n,
			.c = &c};
		load_scales(w, panel, b * n_sub, n * n_sub, &c);
		spread(&p, w->form, t, &c);
		multiply_tiles(&p, w, b, t, &c, out);
	}
}
