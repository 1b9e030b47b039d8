/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector instructions on 32 bits (gfx11_exec.h includes this). x, y, z: a lane's sources.
 */
#pragma once
/* calc_NAME computes all lanes and writes nothing: VOPD reads for both halves first. */
typedef void calculate(struct wave *w, const struct operand *s, const struct operand *d,
		       u32 *o);
#define CALC(name) \
	static inline void calc_##name(struct wave *w, const struct operand *s, \
				       const struct operand *d, u32 *o)
#define CALC1(name, expression)                                                            \
	CALC(name)                                                                          \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		const u32 *a = source(w, &s[0], ta);                                        \
		(void)d;                                                                    \
		LANE {                                                                      \
			u32 x = a[i];                                                       \
			o[i] = (u32)(expression);                                           \
		}                                                                           \
	}
#define CALC2(name, expression)                                                            \
	CALC(name)                                                                          \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		VECTOR(tb);                                                                 \
		const u32 *a = source(w, &s[0], ta), *b = source(w, &s[1], tb);             \
		(void)d;                                                                    \
		LANE {                                                                      \
			u32 x = a[i], y = b[i];                                             \
			o[i] = (u32)(expression);                                           \
		}                                                                           \
	}
#define CALC3(name, expression)                                                            \
	CALC(name)                                                                          \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		VECTOR(tb);                                                                 \
		VECTOR(tc);                                                                 \
		const u32 *a = source(w, &s[0], ta), *b = source(w, &s[1], tb);             \
		const u32 *c = source(w, &s[2], tc);                                        \
		(void)d;                                                                    \
		LANE {                                                                      \
			u32 x = a[i], y = b[i], z = c[i];                                   \
			o[i] = (u32)(expression);                                           \
		}                                                                           \
	}
#define RUN(name, write)                                                                   \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(o);                                                                  \
		calc_##name(w, p->s, &p->d, o);                                             \
		write(w, p, o);                                                             \
	}
#define V1(name, expression) CALC1(name, expression) RUN(name, out)
#define V2(name, expression) CALC2(name, expression) RUN(name, out)
#define V3(name, expression) CALC3(name, expression) RUN(name, out)
#define F1(name, expression) CALC1(name, of_f32(expression)) RUN(name, out_f32)
#define F2(name, expression) CALC2(name, of_f32(expression)) RUN(name, out_f32)
#define F3(name, expression) CALC3(name, of_f32(expression)) RUN(name, out_f32)
#define X as_f32(x)
#define Y as_f32(y)
#define Z as_f32(z)

static inline float max_f32(float x, float y)
{
	return x != x ? y : y != y ? x : x > y ? x : y > x ? y : signbit(x) ? y : x;
}

static inline float min_f32(float x, float y)
{
	return x != x ? y : y != y ? x : x < y ? x : y < x ? y : signbit(x) ? x : y;
}

static inline i32 sign24(u32 x)
{
	return (i32)(x << 8) >> 8;
}

static inline i32 max_i32(i32 x, i32 y) { return x > y ? x : y; }
static inline i32 min_i32(i32 x, i32 y) { return x < y ? x : y; }
static inline u32 max_u32(u32 x, u32 y) { return x > y ? x : y; }
static inline u32 min_u32(u32 x, u32 y) { return x < y ? x : y; }

DEF(v_nop)
{
	(void)w;
	(void)p;
}

V1(v_mov_b32, x)
V1(v_not_b32, ~x)
V1(v_clz_i32_u32, x ? __builtin_clz(x) : -1)
V1(v_ctz_i32_b32, x ? __builtin_ctz(x) : -1)
V1(v_bfrev_b32, __builtin_bswap32((x & 0x01010101) << 7 | (x & 0x02020202) << 5 |
				  (x & 0x04040404) << 3 | (x & 0x08080808) << 1 |
				  (x & 0x10101010) >> 1 | (x & 0x20202020) >> 3 |
				  (x & 0x40404040) >> 5 | (x & 0x80808080) >> 7))
F1(v_cvt_f32_i32, (float)(i32)x)
F1(v_cvt_f32_u32, (float)x)
F1(v_cvt_f32_ubyte0, (float)(x & 255))
F1(v_cvt_f32_ubyte1, (float)(x >> 8 & 255))
F1(v_cvt_f32_ubyte2, (float)(x >> 16 & 255))
F1(v_cvt_f32_ubyte3, (float)(x >> 24))
V1(v_cvt_u32_f32, u32_of_f32(X))
V1(v_cvt_i32_f32, i32_of_f32(X))
F1(v_fract_f32, X - floorf(X))
F1(v_trunc_f32, truncf(X))
F1(v_ceil_f32, ceilf(X))
F1(v_rndne_f32, rintf(X))
F1(v_floor_f32, floorf(X))

F2(v_add_f32, X + Y)
F2(v_sub_f32, X - Y)
F2(v_subrev_f32, Y - X)
F2(v_mul_f32, X * Y)
F2(v_min_f32, min_f32(X, Y))
F2(v_max_f32, max_f32(X, Y))
V2(v_mul_i32_i24, sign24(x) * sign24(y))
V2(v_mul_u32_u24, (x & 0xFFFFFF) * (y & 0xFFFFFF))
V2(v_mul_hi_u32_u24, ((u64)(x & 0xFFFFFF) * (y & 0xFFFFFF)) >> 32)
V2(v_min_i32, min_i32((i32)x, (i32)y))
V2(v_max_i32, max_i32((i32)x, (i32)y))
V2(v_min_u32, min_u32(x, y))
V2(v_max_u32, max_u32(x, y))
V2(v_lshlrev_b32, y << (x & 31))
V2(v_lshrrev_b32, y >> (x & 31))
V2(v_ashrrev_i32, (i32)y >> (x & 31))
V2(v_and_b32, x & y)
V2(v_or_b32, x | y)
V2(v_xor_b32, x ^ y)
V2(v_xnor_b32, ~(x ^ y))
V2(v_subrev_nc_u32, y - x)
V2(v_mul_lo_u32, x * y)
V2(v_mul_hi_u32, ((u64)x * y) >> 32)
V2(v_mul_hi_i32, ((i64)(i32)x * (i32)y) >> 32)
V2(v_bcnt_u32_b32, (u32)__builtin_popcount(x) + y)
V2(v_mbcnt_lo_u32_b32, (u32)__builtin_popcount(x & ((1u << i) - 1)) + y)

CALC2(v_add_nc_u32, x + y)
CALC2(v_sub_nc_u32, x - y)

/* With clamp: as far as 32 bits go. */
DEF(v_add_nc_u32)
{
	VECTOR(o);
	calc_v_add_nc_u32(w, p->s, &p->d, o);
	if (p->clamp) {
		VECTOR(t);
		const u32 *x = source(w, &p->s[0], t);
		LANE o[i] = o[i] < x[i] ? FULL : o[i];
	}
	out(w, p, o);
}

DEF(v_sub_nc_u32)
{
	VECTOR(o);
	calc_v_sub_nc_u32(w, p->s, &p->d, o);
	if (p->clamp) {
		VECTOR(t);
		const u32 *x = source(w, &p->s[0], t);
		LANE o[i] = o[i] > x[i] ? 0 : o[i];
	}
	out(w, p, o);
}

F3(v_fma_f32, fmaf(X, Y, Z))
F3(v_fmamk_f32, fmaf(X, Y, Z))
F3(v_fmaak_f32, fmaf(X, Y, Z))
F3(v_min3_f32, min_f32(min_f32(X, Y), Z))
F3(v_max3_f32, max_f32(max_f32(X, Y), Z))
F3(v_maxmin_f32, min_f32(max_f32(X, Y), Z))
F3(v_med3_f32, max_f32(min_f32(X, Y), min_f32(max_f32(X, Y), Z)))
V3(v_min3_i32, min_i32(min_i32((i32)x, (i32)y), (i32)z))
V3(v_max3_i32, max_i32(max_i32((i32)x, (i32)y), (i32)z))
V3(v_min3_u32, min_u32(min_u32(x, y), z))
V3(v_max3_u32, max_u32(max_u32(x, y), z))
V3(v_med3_i32, max_i32(min_i32((i32)x, (i32)y),
		       min_i32(max_i32((i32)x, (i32)y), (i32)z)))
V3(v_med3_u32, max_u32(min_u32(x, y), min_u32(max_u32(x, y), z)))
V3(v_mad_i32_i24, (u32)(sign24(x) * sign24(y)) + z)
V3(v_mad_u32_u24, (x & 0xFFFFFF) * (y & 0xFFFFFF) + z)
V3(v_bfe_u32, x >> (y & 31) & ((1u << (z & 31)) - 1))
V3(v_bfe_i32, sign_extend(x >> (y & 31), z & 31))
V3(v_bfi_b32, (x & y) | (~x & z))
V3(v_alignbit_b32, ((u64)x << 32 | y) >> (z & 31))
V3(v_alignbyte_b32, ((u64)x << 32 | y) >> (8 * (z & 3)))
V3(v_xor3_b32, x ^ y ^ z)
V3(v_xad_u32, (x ^ y) + z)
V3(v_lshl_add_u32, (x << (y & 31)) + z)
V3(v_add_lshl_u32, (x + y) << (z & 31))
V3(v_add3_u32, x + y + z)
V3(v_lshl_or_b32, x << (y & 31) | z)
V3(v_and_or_b32, (x & y) | z)
V3(v_or3_b32, x | y | z)

static inline u32 lerp(u32 x, u32 y, u32 z)
{
	u32 q = 0;
	for (int k = 0; k < 32; k += 8)
		q |= (((x >> k & 255) + (y >> k & 255) + (z >> k & 1)) >> 1) << k;
	return q;
}
V3(v_lerp_u8, lerp(x, y, z))

/* Byte s of the eight: 0 to 3 of y, 4 to 7 of x; beyond, signs, 0 and 255. */
static inline u32 pick(u32 x, u32 y, u32 s)
{
	u32 word = s & 4 ? x : y;
	u32 byte = word >> (s & 3) * 8;
	u32 from = s & 2 ? x : y; /* 8: y's bit 15, 9: y's 31, 10, 11: x's */
	u32 sign = 0 - (from >> ((s & 1) * 16 + 15) & 1);
	u32 is_byte = 0 - (u32)(s < 8), is_sign = 0 - (u32)(s < 12);
	/* masks, not branches: the host does many lanes at once */
	return ((byte & is_byte) | (sign & is_sign & ~is_byte) | (0 - (u32)(s > 12))) & 255;
}
V3(v_perm_b32, pick(x, y, z & 255) | pick(x, y, z >> 8 & 255) << 8 |
	       pick(x, y, z >> 16 & 255) << 16 | pick(x, y, z >> 24) << 24)

CALC(v_fmac_f32)
{
	VECTOR(ta);
	VECTOR(tb);
	const u32 *a = source(w, &s[0], ta), *b = source(w, &s[1], tb);
	const u32 *c = w->v[d->reg];
	LANE o[i] = of_f32(fmaf(as_f32(a[i]), as_f32(b[i]), as_f32(c[i])));
}
RUN(v_fmac_f32, out_f32)

CALC(v_cndmask_b32)
{
	VECTOR(ta);
	VECTOR(tb);
	const u32 *a = source(w, &s[0], ta), *b = source(w, &s[1], tb);
	u32 mask = scalar(w, &s[2]);
	(void)d;
	LANE o[i] = mask >> i & 1 ? b[i] : a[i];
}
RUN(v_cndmask_b32, out)

DEF(v_ldexp_f32)
{
	VECTOR(ta);
	VECTOR(tb);
	VECTOR(o);
	const u32 *a = source(w, &p->s[0], ta), *b = source(w, &p->s[1], tb);
	LANE o[i] = of_f32(ldexpf(as_f32(a[i]), (i32)b[i]));
	out_f32(w, p, o);
}

/* --- transcendental: rounded to nearest here, within an ulp on the chip ------------- */

#define TRANS(name, expression)                                                            \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		VECTOR(o);                                                                  \
		const u32 *a = source(w, &p->s[0], ta);                                     \
		LANE {                                                                      \
			u32 x = a[i];                                                       \
			o[i] = of_f32(expression);                                          \
		}                                                                           \
		out_f32(w, p, o);                                                           \
		wave_note_hazards(w, p);                                                    \
	}
TRANS(v_exp_f32, exp2f(X))
TRANS(v_log_f32, log2f(X))
TRANS(v_rcp_f32, (float)(1 / (double)X))
TRANS(v_rcp_iflag_f32, (float)(1 / (double)X))
TRANS(v_rsq_f32, (float)(1 / sqrt((double)X)))
TRANS(v_sqrt_f32, (float)sqrt((double)X))
