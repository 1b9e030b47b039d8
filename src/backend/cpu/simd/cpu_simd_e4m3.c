/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels of FP8 (e4m3) times inputs as floats, or as bf16 if the processor multiplies
 * bf16 pairs: every e4m3 number is exact in bf16. A group of columns has one scale. Up to
 * SEGMENT columns are summed before scaling:
 *
 *   y[r] += scale[r][g] (sum over the segment of w[r] . x)
 *
 * The order of additions is the same for any number of inputs.
 */
#include "backend/cpu/simd/cpu_simd_pairs.h"

enum { ROWS = CPU_ROWS, N_VEC = ROWS / VL, SEGMENT = 256 };

#if CPU_AVX512
/* Convert the e4m3 in the low byte of each 16 bits to bf16. */
VINLINE __m512i widen(__m512i v)
{
	/* Move exponent and fraction to bf16's fields and add 120 to the exponent (bias
	 * 127 - 7). Subnormals have no exponent: look up fraction * 2^-9. */
	const __m512i small = _mm512_castsi128_si512(
		_mm_setr_epi16(0, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C20, 0x3C40, 0x3C60));
	__m512i magnitude = _mm512_and_si512(_mm512_slli_epi16(v, 4),
					     _mm512_set1_epi16(0x07F0));
	__mmask32 is_small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(0x80));
	__m512i wide = _mm512_add_epi16(magnitude, _mm512_set1_epi16(120 << 7));
	wide = _mm512_mask_permutexvar_epi16(wide, is_small, v, small);
	__m512i sign = _mm512_and_si512(_mm512_slli_epi16(v, 8),
					_mm512_set1_epi16((short)0x8000));
	return _mm512_or_si512(wide, sign);
}

/* Convert four columns of 16 rows to pairs. */
VINLINE void unpack(const uint8_t *q, cpu_pair *pairs)
{
	__m512i v = _mm512_loadu_si512(q);
	pairs[0] = cpu_pair_of(widen(v));
	pairs[1] = cpu_pair_of(widen(_mm512_srli_epi16(v, 8)));
}

/* For one or two inputs: weights are converted in registers, not to memory. */
VINLINE void run_few(const struct cpu_pairs *p, const uint8_t *q, int n_x)
{
	const cpu_input *x = p->x;
	vf even[2] = {{0}}, odd[2] = {{0}};
	for (int i = 0; i < p->n_pairs; i += 2, x += 2 * CPU_PAIR * n_x, q += 64) {
		cpu_pair w[2];
		cpu_fetch(q, 0);
		unpack(q, w);
CPU_UNROLL(2)
		for (int j = 0; j < n_x; j++) {
			even[j] = cpu_pair_dot(even[j], w[0], x + j, n_x);
			odd[j] = cpu_pair_dot(odd[j], w[1], x + CPU_PAIR * n_x + j, n_x);
		}
	}
	cpu_pairs_add(p->scale, even, odd, n_x, p->acc);
}

#else
/* The columns of a segment within one group, times n_x inputs, added to acc. */
struct e4m3_part {
	const uint8_t *q;
	bool fetches;
	const void *tile;
	int n_cols, n_x;
	vf scale[N_VEC];
	float (*acc)[ROWS];
};

/* Sum four columns of VL rows separately before adding them to the running sums, which
 * shortens the chain of dependent additions. */
VINLINE void run(const struct e4m3_part *p, int n_x)
{
	const float *tile = p->tile;
	vf sum[CPU_TOK][N_VEC] = {{{0}}};
	for (int i = 0; i < p->n_cols; i += 4, tile += 4 * n_x) {
		const uint8_t *q = p->q + (size_t)i * ROWS;
		if (p->fetches)
			cpu_fetch(q, 0);
CPU_UNROLL(4)
		for (int v = 0; v < N_VEC; v++) {
			static const int place[4] = {0, 2, 1, 3};
			vi raw = vi_load(q + 4 * VL * v);
			vf w[4];
CPU_UNROLL(4)
			for (int c = 0; c < 4; c++) {
				vi high = raw << (24 - 8 * place[c]);
				w[c] = (vf)(high >> 4 & (int32_t)0x87F00000) *
				       vf_all(0x1p120f);
			}
			for (int j = 0; j < n_x; j++) {
				const float *x = tile + j;
				vf four = w[0] * vf_all(x[0]);
				four = vf_fma(w[1], vf_all(x[n_x]), four);
				four = vf_fma(w[2], vf_all(x[2 * n_x]), four);
				four = vf_fma(w[3], vf_all(x[3 * n_x]), four);
				sum[j][v] += four;
			}
		}
	}
	for (int j = 0; j < n_x; j++)
		for (int v = 0; v < N_VEC; v++)
			vf_store(p->acc[j] + VL * v,
				 vf_fma(sum[j][v], p->scale[v],
					vf_load(p->acc[j] + VL * v)));
}

static void run_part(const struct e4m3_part *p)
{
	if (p->n_x == 1) /* sums of a single input stay in registers */
		run(p, 1);
	else
		run(p, p->n_x);
}
#endif

#if !CPU_AVX512
void ISA(cpu_spread)(const float *const *x, int n_x, int32_t k, int planes, void *tile)
{
	float *out = tile;
	for (int32_t i = 0; i < k; i++)
		for (int j = 0; j < n_x; j++)
			*out++ = x[j][i];
}
#endif

/* --- a panel ---------------------------------------------------------------------- */

#if CPU_AVX512
/* Multiply columns [k0, k0 + n) of the panel by all tiles; q: their numbers. */
static void segment(const uint8_t *q, const struct cpu_tiles *t, int32_t k, int32_t k0,
		    int n, const vf *scale, float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	cpu_pair wide[SEGMENT / 2];
	struct cpu_pairs p = {.wide = wide, .n_pairs = n / 2, .scale = scale[0],
			      .fetch = (const char *)q + CPU_AHEAD};
	p.end = p.fetch + n * ROWS;
	bool is_wide = t->n > 1 || t->n_x[0] > 2;
	for (int i = 0; is_wide && i < n; i += 4)
		unpack(q + (size_t)i * ROWS, wide + i / 2);
	const cpu_input *x = t->at;
	for (int i = 0; i < t->n; i++) {
		p.n_x = t->n_x[i];
		p.x = x + (size_t)(k0 / 2 * CPU_PAIR) * (size_t)p.n_x;
		p.acc = out[i];
		if (is_wide)
			cpu_pairs_go(&p, CPU_WIDE, 1);
		else if (p.n_x == 1)
			run_few(&p, q, 1);
		else
			run_few(&p, q, 2);
		p.fetch = p.end;
		x += (size_t)(k / 2 * CPU_PAIR) * (size_t)p.n_x;
	}
}
#else
static void segment(const uint8_t *q, const struct cpu_tiles *t, int32_t k, int32_t k0,
		    int n, const vf *scale, float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	struct e4m3_part p = {.q = q, .n_cols = n, .fetches = true};
	memcpy(p.scale, scale, sizeof p.scale);
	const float *x = t->at;
	for (int i = 0; i < t->n; i++) {
		p.n_x = t->n_x[i];
		p.tile = x + (size_t)k0 * (size_t)p.n_x;
		p.acc = out[i];
		run_part(&p);
		p.fetches = false;
		x += (size_t)k * (size_t)p.n_x;
	}
}
#endif

void ISA(cpu_panel_e4m3)(const struct cpu_panels *w, int32_t i_panel,
			 const struct cpu_tiles *t,
			 float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	const uint8_t *panel = cpu_panels_at(w, i_panel);
	memset(out, 0, (size_t)t->n * sizeof *out);
	for (int32_t k0 = 0, n; k0 < w->k; k0 += n) {
		int32_t end = (k0 / w->group + 1) * w->group;
		end = end < w->k ? end : w->k;
		n = end - k0 < SEGMENT ? end - k0 : SEGMENT;
		vf scale[N_VEC];
		for (int v = 0; v < N_VEC; v++)
			scale[v] = cpu_floats(panel, w->scale_type,
					      (size_t)(k0 / w->group * ROWS + VL * v));
		segment(panel + w->at_q + (size_t)k0 * ROWS, t, w->k, k0, n, scale, out);
	}
}
