/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar instructions (gfx11_exec.h includes this). x, y: sources; q: the result.
 */
#pragma once
#define S1(name, expression)                                                               \
	DEF(name)                                                                           \
	{                                                                                   \
		u32 x = scalar(w, &p->s[0]), q;                                             \
		q = (u32)(expression);                                                      \
		write_sgpr(w, p->d.reg, q);                                                 \
	}
/* … and SCC says whether it is not 0 */
#define S1_NONZERO(name, expression)                                                       \
	DEF(name)                                                                           \
	{                                                                                   \
		u32 x = scalar(w, &p->s[0]), q;                                             \
		q = (u32)(expression);                                                      \
		write_sgpr(w, p->d.reg, q);                                                 \
		w->scc = q != 0;                                                            \
	}
/* carry: SCC, of x, y and q */
#define S2_SCC(name, expression, carry)                                                    \
	DEF(name)                                                                           \
	{                                                                                   \
		u32 x = scalar(w, &p->s[0]), y = scalar(w, &p->s[1]), q;                    \
		q = (u32)(expression);                                                      \
		w->scc = (carry);                                                           \
		write_sgpr(w, p->d.reg, q);                                                 \
	}
#define S2(name, expression) S2_SCC(name, expression, w->scc)
#define S2_NONZERO(name, expression) S2_SCC(name, expression, q != 0)
#define S2_F32(name, expression)                                                           \
	DEF(name)                                                                           \
	{                                                                                   \
		float x = as_f32(scalar(w, &p->s[0])), y = as_f32(scalar(w, &p->s[1]));     \
		write_sgpr(w, p->d.reg, of_f32(expression));                                \
	}
#define S2_64(name, expression, carry)                                                     \
	DEF(name)                                                                           \
	{                                                                                   \
		u64 x = scalar64(w, &p->s[0]);                                              \
		u64 y = p->s[1].n > 1 || p->s[1].type == 'q' ? scalar64(w, &p->s[1])        \
							     : scalar(w, &p->s[1]), q;      \
		q = (u64)(expression);                                                      \
		w->scc = (carry);                                                           \
		write_sgpr64(w, p->d.reg, q);                                               \
	}
#define S_CMP(name, type, operation)                                                       \
	DEF(s_cmp_##name)                                                                   \
	{                                                                                   \
		w->scc = (type)scalar(w, &p->s[0]) operation (type)scalar(w, &p->s[1]);     \
	}
/* SOPK's field is 16 bits, with a sign where the type has one. */
#define S_CMPK(name, operation)                                                            \
	S_CMP(name##_i32, i32, operation)                                                   \
	S_CMP(name##_u32, u32, operation)                                                   \
	DEF(s_cmpk_##name##_i32)                                                            \
	{                                                                                   \
		w->scc = (i32)scalar(w, &p->s[0]) operation p->imm;                         \
	}                                                                                   \
	DEF(s_cmpk_##name##_u32)                                                            \
	{                                                                                   \
		w->scc = scalar(w, &p->s[0]) operation ((u32)p->imm & 0xFFFF);              \
	}
#define S_SAVE(name, expression)                                                           \
	DEF(name)                                                                           \
	{                                                                                   \
		u32 x = scalar(w, &p->s[0]), e = EXEC(w);                                   \
		write_sgpr(w, p->d.reg, e);                                                 \
		EXEC(w) = (expression);                                                     \
		w->scc = EXEC(w) != 0;                                                      \
	}

/* Out of range and NaN: as the vector instruction has it. */
static inline u32 u32_of_f32(float f)
{
	return !(f > 0) ? 0 : f >= 4294967296.0f ? FULL : (u32)f;
}

static inline u32 i32_of_f32(float f)
{
	return f != f ? 0 : f >= 2147483648.0f ? 0x7FFFFFFF
	       : f <= -2147483648.0f ? 0x80000000 : (u32)(i32)f;
}

static inline u32 field(u32 x, u32 at, u32 n)
{
	x >>= at & 31;
	return n >= 32 ? x : x & ((1u << n) - 1);
}

static inline u32 sign_extend(u32 x, u32 n)
{
	return n == 0 ? 0 : n >= 32 ? x : (u32)((i32)(x << (32 - n)) >> (32 - n));
}

S1(s_mov_b32, x)
S1_NONZERO(s_not_b32, ~x)
S1_NONZERO(s_abs_i32, (i32)x < 0 ? 0 - x : x)
S1_NONZERO(s_bcnt1_i32_b32, __builtin_popcount(x))
S1(s_cvt_f32_u32, of_f32((float)x))
S1(s_cvt_f32_i32, of_f32((float)(i32)x))
S1(s_cvt_u32_f32, u32_of_f32(as_f32(x)))
S1(s_cvt_i32_f32, i32_of_f32(as_f32(x)))
S1(s_trunc_f32, of_f32(truncf(as_f32(x))))
S1(s_ceil_f32, of_f32(ceilf(as_f32(x))))
S1(s_floor_f32, of_f32(floorf(as_f32(x))))
S1(s_rndne_f32, of_f32(rintf(as_f32(x))))
S1(s_ctz_i32_b32, x ? __builtin_ctz(x) : -1)
S1(s_clz_i32_u32, x ? __builtin_clz(x) : -1)
S1(s_sext_i32_i8, (i32)(int8_t)x)
S1(s_sext_i32_i16, (i32)(i16)x)
S1(s_cmov_b32, w->scc ? x : w->s[p->d.reg])
S1(s_bitset1_b32, w->s[p->d.reg] | 1u << (x & 31))

DEF(s_brev_b32)
{
	u32 x = scalar(w, &p->s[0]), q = 0;
	for (int i = 0; i < 32; i++)
		q |= (x >> i & 1) << (31 - i);
	write_sgpr(w, p->d.reg, q);
}

DEF(s_mov_b64)
{
	write_sgpr64(w, p->d.reg, scalar64(w, &p->s[0]));
}

DEF(s_not_b64)
{
	u64 q = ~scalar64(w, &p->s[0]);
	write_sgpr64(w, p->d.reg, q);
	w->scc = q != 0;
}

/* The address of the next instruction: in the image as loaded. */
DEF(s_getpc_b64)
{
	write_sgpr64(w, p->d.reg, (u64)(uintptr_t)w->g->l->code->image + p->address + 4);
}

S_SAVE(s_and_saveexec_b32, x & e)
S_SAVE(s_or_saveexec_b32, x | e)
S_SAVE(s_xor_saveexec_b32, x ^ e)
S_SAVE(s_and_not1_saveexec_b32, x & ~e)

S2_SCC(s_add_u32, x + y, q < x)
S2_SCC(s_sub_u32, x - y, y > x)
S2_SCC(s_add_i32, x + y, (~(x ^ y) & (x ^ q)) >> 31)
S2_SCC(s_sub_i32, x - y, ((x ^ y) & (x ^ q)) >> 31)
S2_SCC(s_addc_u32, x + y + w->scc, ((u64)x + y + w->scc) >> 32 != 0)
S2_SCC(s_subb_u32, x - y - w->scc, (u64)y + w->scc > x)
S2_NONZERO(s_absdiff_i32, (i32)(x - y) < 0 ? y - x : x - y)
S2_NONZERO(s_lshl_b32, x << (y & 31))
S2_NONZERO(s_lshr_b32, x >> (y & 31))
S2_NONZERO(s_ashr_i32, (i32)x >> (y & 31))
S2_SCC(s_lshl1_add_u32, (x << 1) + y, (((u64)x << 1) + y) >> 32 != 0)
S2_SCC(s_lshl2_add_u32, (x << 2) + y, (((u64)x << 2) + y) >> 32 != 0)
S2_SCC(s_lshl3_add_u32, (x << 3) + y, (((u64)x << 3) + y) >> 32 != 0)
S2_SCC(s_lshl4_add_u32, (x << 4) + y, (((u64)x << 4) + y) >> 32 != 0)
S2_SCC(s_min_i32, (i32)x < (i32)y ? x : y, (i32)x < (i32)y)
S2_SCC(s_min_u32, x < y ? x : y, x < y)
S2_SCC(s_max_i32, (i32)x >= (i32)y ? x : y, (i32)x >= (i32)y)
S2_SCC(s_max_u32, x >= y ? x : y, x >= y)
S2_NONZERO(s_and_b32, x & y)
S2_NONZERO(s_or_b32, x | y)
S2_NONZERO(s_xor_b32, x ^ y)
S2_NONZERO(s_and_not1_b32, x & ~y)
S2_NONZERO(s_or_not1_b32, x | ~y)
S2_NONZERO(s_bfe_u32, field(x, y, y >> 16 & 127))
S2_NONZERO(s_bfe_i32, sign_extend(x >> (y & 31), y >> 16 & 127))
S2(s_mul_i32, x * y)
S2(s_mul_hi_u32, ((u64)x * y) >> 32)
S2(s_mul_hi_i32, ((i64)(i32)x * (i32)y) >> 32)
S2(s_cselect_b32, w->scc ? x : y)
S2(s_pack_ll_b32_b16, (x & 0xFFFF) | y << 16)
S2(s_pack_lh_b32_b16, (x & 0xFFFF) | (y & 0xFFFF0000))
S2(s_pack_hh_b32_b16, x >> 16 | (y & 0xFFFF0000))
S2_F32(s_add_f32, x + y)
S2_F32(s_sub_f32, x - y)
S2_F32(s_mul_f32, x * y)
S2_F32(s_fmaak_f32, fmaf(x, y, as_f32(scalar(w, &p->s[2]))))
S2_F32(s_fmamk_f32, fmaf(x, y, as_f32(scalar(w, &p->s[2]))))
S2_F32(s_fmac_f32, fmaf(x, y, as_f32(w->s[p->d.reg])))
S2_64(s_lshl_b64, x << (y & 63), q != 0)
S2_64(s_lshr_b64, x >> (y & 63), q != 0)
S2_64(s_ashr_i64, (i64)x >> (y & 63), q != 0)
S2_64(s_and_b64, x & y, q != 0)
S2_64(s_or_b64, x | y, q != 0)
S2_64(s_xor_b64, x ^ y, q != 0)
S2_64(s_cselect_b64, w->scc ? x : y, w->scc)

S_CMPK(eq, ==)
S_CMPK(lg, !=)
S_CMPK(gt, >)
S_CMPK(ge, >=)
S_CMPK(lt, <)
S_CMPK(le, <=)

DEF(s_bitcmp0_b32)
{
	w->scc = !(scalar(w, &p->s[0]) >> (scalar(w, &p->s[1]) & 31) & 1);
}

DEF(s_bitcmp1_b32)
{
	w->scc = scalar(w, &p->s[0]) >> (scalar(w, &p->s[1]) & 31) & 1;
}

DEF(s_cmp_eq_u64)
{
	w->scc = scalar64(w, &p->s[0]) == scalar64(w, &p->s[1]);
}

DEF(s_cmp_lg_u64)
{
	w->scc = scalar64(w, &p->s[0]) != scalar64(w, &p->s[1]);
}

DEF(s_movk_i32)
{
	write_sgpr(w, p->d.reg, (u32)p->imm);
}

DEF(s_addk_i32)
{
	u32 x = w->s[p->d.reg], y = (u32)p->imm, q = x + y;
	w->scc = (~(x ^ y) & (x ^ q)) >> 31;
	write_sgpr(w, p->d.reg, q);
}

DEF(s_mulk_i32)
{
	write_sgpr(w, p->d.reg, w->s[p->d.reg] * (u32)p->imm);
}

/* --- loads ------------------------------------------------------------------------- */

static inline void load_scalar(struct wave *w, const struct inst *p, u32 n)
{
	u64 a = (w->s[p->s[0].reg] | (u64)w->s[p->s[0].reg + 1] << 32) + (u64)(i64)p->imm;
	if (p->s[1].reg != REG_NULL)
		a += w->s[p->s[1].reg];
	if (a & 3 || !launch_range(w->g->l, a, a + 4 * n, MAY_READ)) {
		wave_fault(w, p, "reads %u bytes at %llx: %s", 4 * n, (unsigned long long)a,
			   a & 3 ? "not aligned"
				 : launch_refusal(w->g->l, a, a + 4 * n, MAY_READ));
		return;
	}
	for (u32 i = 0; i < n; i++)
		memcpy(&w->s[p->d.reg + i], (const char *)(uintptr_t)a + 4 * i, 4);
	wave_load_sgprs(w, p->d.reg, n);
	if (__builtin_expect(caches_is_marked(a) || caches_is_marked(a + 4 * n - 1), 0))
		caches_load_scalar(w, p, a, 4 * n);
	if (w->g->l->is_counting)
		w->g->counts.scalar_bytes += 4 * n;
}

#define SCALAR(bits)                                                                       \
	DEF(s_load_b##bits)                                                                 \
	{                                                                                   \
		load_scalar(w, p, bits / 32);                                               \
	}
SCALAR(32)
SCALAR(64)
SCALAR(128)
SCALAR(256)
SCALAR(512)
