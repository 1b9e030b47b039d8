/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector instructions on 16 bits and packed halves (gfx11_exec.h includes this). Halves
 * become floats, are computed in float32, and are rounded once.
 */
#pragma once
/* float32 of the low 16 bits of each lane, and back (nearest even). */
static inline void halves_widen(const u32 *x, float *o);
static inline void halves_round(const float *x, u32 *o);

#if HALVES == 512
static inline void halves_widen(const u32 *x, float *o)
{
	for (int i = 0; i < LANES; i += 16) {
		__m256i h = _mm512_cvtepi32_epi16(_mm512_loadu_si512(x + i));
		_mm512_storeu_ps(o + i, _mm512_cvtph_ps(h));
	}
}

static inline void halves_round(const float *x, u32 *o)
{
	for (int i = 0; i < LANES; i += 16) {
		__m256i h = _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0);
		_mm512_storeu_si512(o + i, _mm512_cvtepu16_epi32(h));
	}
}
#elif HALVES == 256
static inline void halves_widen(const u32 *x, float *o)
{
	const __m256i low = _mm256_set1_epi32(0xFFFF);
	for (int i = 0; i < LANES; i += 8) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
		a = _mm256_and_si256(a, low);
		a = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, a), 0x08);
		_mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm256_castsi256_si128(a)));
	}
}

static inline void halves_round(const float *x, u32 *o)
{
	for (int i = 0; i < LANES; i += 8) {
		__m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0);
		_mm256_storeu_si256((__m256i *)(void *)(o + i), _mm256_cvtepu16_epi32(h));
	}
}
#else
static inline void halves_widen(const u32 *x, float *o)
{
	LANE {
		u16 bits = (u16)x[i];
		_Float16 h;
		memcpy(&h, &bits, sizeof h);
		o[i] = (float)h;
	}
}

static inline void halves_round(const float *x, u32 *o)
{
	LANE {
		_Float16 h = (_Float16)x[i];
		u16 bits;
		memcpy(&bits, &h, sizeof h);
		o[i] = bits;
	}
}
#endif

#define FLOATS(name) float name[LANES] __attribute__((aligned(64)))

/* a b + c, all halves: exact but for the last bit, which is set where it is not (round to
 * odd), so that the rounding to a half that follows is the only one. */
static inline float fma_odd(float a, float b, float c)
{
	float p = a * b, s = p + c, part = s - p, rest = (p - (s - part)) + (c - part);
	u32 bits = of_f32(s), off = of_f32(rest);
	u32 is_off = (off << 1) - 1 < 0xFF000000u ? 1 : 0; /* neither 0 nor NaN */
	u32 up = is_off & ~bits, is_down = (off ^ bits) >> 31;
	return as_f32(bits + up - (up & is_down) * 2);
}

/* --- 16 bits ------------------------------------------------------------------------ */

#define W2(name, expression)                                                               \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(a);                                                                  \
		VECTOR(b);                                                                  \
		VECTOR(o);                                                                  \
		source16(w, p, 0, a);                                                       \
		source16(w, p, 1, b);                                                       \
		LANE {                                                                      \
			u32 x = a[i], y = b[i];                                             \
			o[i] = (u16)(expression);                                           \
		}                                                                           \
		out16(w, p, o);                                                             \
	}
W2(v_add_nc_u16, x + y)
W2(v_sub_nc_u16, x - y)
W2(v_mul_lo_u16, x * y)
W2(v_max_u16, x > y ? x : y)
W2(v_min_u16, x < y ? x : y)
W2(v_max_i16, (i16)x > (i16)y ? x : y)
W2(v_min_i16, (i16)x < (i16)y ? x : y)
W2(v_lshlrev_b16, y << (x & 15))
W2(v_lshrrev_b16, y >> (x & 15))
W2(v_ashrrev_i16, (i16)y >> (x & 15))

DEF(v_mad_u16)
{
	VECTOR(a);
	VECTOR(b);
	VECTOR(c);
	source16(w, p, 0, a);
	source16(w, p, 1, b);
	source16(w, p, 2, c);
	LANE a[i] = (a[i] * b[i] + c[i]) & 0xFFFF;
	out16(w, p, a);
}

#define H2(name, expression)                                                               \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(t);                                                                  \
		FLOATS(a);                                                                  \
		FLOATS(b);                                                                  \
		source16(w, p, 0, t);                                                       \
		halves_widen(t, a);                                                         \
		source16(w, p, 1, t);                                                       \
		halves_widen(t, b);                                                         \
		LANE a[i] = (expression);                                                   \
		halves_round(a, t);                                                         \
		out16(w, p, t);                                                             \
	}
H2(v_add_f16, a[i] + b[i])
H2(v_sub_f16, a[i] - b[i])
H2(v_mul_f16, a[i] * b[i])

DEF(v_cvt_f16_f32)
{
	VECTOR(t);
	FLOATS(a);
	const u32 *x = source(w, &p->s[0], t);
	LANE a[i] = as_f32(x[i]);
	halves_round(a, t);
	out16(w, p, t);
}

DEF(v_cvt_f32_f16)
{
	VECTOR(t);
	FLOATS(a);
	source16(w, p, 0, t);
	halves_widen(t, a);
	LANE t[i] = of_f32(a[i]);
	out_f32(w, p, t);
}

/* --- packed -------------------------------------------------------------------------- */

/* Half `hi` of the result reads the half that op_sel (op_sel_hi) names. */
static inline void packed_bits(const struct wave *w, const struct inst *p, int which,
			       int hi, u32 *o)
{
	VECTOR(t);
	const u32 *x = source(w, &p->s[which], t);
	u32 shift = (hi ? p->op_sel_hi : p->op_sel) >> which & 1 ? 16 : 0;
	LANE o[i] = x[i] >> shift & 0xFFFF;
}

static inline void packed(const struct wave *w, const struct inst *p, int which, int hi,
			  float *o)
{
	VECTOR(h);
	u32 neg = (hi ? p->neg_hi : p->neg_lo) >> which & 1 ? 0x8000 : 0;
	packed_bits(w, p, which, hi, h);
	LANE h[i] ^= neg;
	halves_widen(h, o);
}

DEF(v_pk_lshrrev_b16)
{
	VECTOR(o);
	VECTOR(half[2]);
	for (int hi = 0; hi < 2; hi++) {
		VECTOR(n);
		packed_bits(w, p, 0, hi, n);
		packed_bits(w, p, 1, hi, half[hi]);
		LANE half[hi][i] >>= n[i] & 15;
	}
	LANE o[i] = half[0][i] | half[1][i] << 16;
	out(w, p, o);
}

#define PACKED(name, n, expression)                                                        \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(half[2]);                                                            \
		for (int hi = 0; hi < 2; hi++) {                                            \
			FLOATS(a);                                                          \
			FLOATS(b);                                                          \
			FLOATS(c);                                                          \
			packed(w, p, 0, hi, a);                                             \
			packed(w, p, 1, hi, b);                                             \
			if (n > 2)                                                          \
				packed(w, p, 2, hi, c);                                     \
			LANE a[i] = (expression);                                           \
			halves_round(a, half[hi]);                                          \
		}                                                                           \
		LANE half[0][i] |= half[1][i] << 16;                                        \
		out(w, p, half[0]);                                                         \
	}
PACKED(v_pk_add_f16, 2, a[i] + b[i])
PACKED(v_pk_mul_f16, 2, a[i] * b[i])
PACKED(v_pk_fma_f16, 3, fma_odd(a[i], b[i], c[i]))

/* Sources are floats, or the half that op_sel names where op_sel_hi is set. */
static inline void mixed(const struct wave *w, const struct inst *p, float *o)
{
	FLOATS(x[3]);
	for (int k = 0; k < 3; k++) {
		VECTOR(t);
		if (p->op_sel_hi >> k & 1) {
			source16(w, p, k, t);
			halves_widen(t, x[k]);
		} else {
			const u32 *f = source(w, &p->s[k], t);
			LANE x[k][i] = as_f32(f[i]);
		}
	}
	LANE o[i] = fmaf(x[0][i], x[1][i], x[2][i]);
}

DEF(v_fma_mix_f32)
{
	FLOATS(x);
	VECTOR(o);
	mixed(w, p, x);
	LANE o[i] = of_f32(x[i]);
	out_f32(w, p, o);
}

static inline void mixed_half(struct wave *w, const struct inst *p, u32 shift)
{
	FLOATS(x);
	VECTOR(o);
	mixed(w, p, x);
	halves_round(x, o);
	const u32 *old = w->v[p->d.reg];
	LANE o[i] = (old[i] & ~(0xFFFFu << shift)) | o[i] << shift;
	out(w, p, o);
}

DEF(v_fma_mixlo_f16)
{
	mixed_half(w, p, 0);
}

DEF(v_fma_mixhi_f16)
{
	mixed_half(w, p, 16);
}
