/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector instructions with carries and on 64 bits (gfx11_exec.h includes this).
 */
#pragma once
/* --- carries ------------------------------------------------------------------------ */

/* x, y and the carry c give a sum, and the carry out */
#define CARRY(name, has_in, sum, over)                                                         \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		VECTOR(tb);                                                                 \
		VECTOR(o);                                                                  \
		VECTOR(carry);                                                              \
		const u32 *a = source(w, &p->s[0], ta), *b = source(w, &p->s[1], tb);       \
		u32 in = has_in ? scalar(w, &p->s[2]) : 0, mask = 0;                        \
		LANE {                                                                      \
			u32 x = a[i], y = b[i], c = in >> i & 1;                            \
			o[i] = (sum);                                                       \
			carry[i] = (over);                                                  \
			(void)c;                                                            \
		}                                                                           \
		LANE mask |= carry[i] << i;                                                 \
		out(w, p, o);                                                               \
		write_sgpr(w, p->sd.reg, mask & EXEC(w));                                   \
	}
CARRY(v_add_co_u32, false, x + y, x + y < x)
CARRY(v_sub_co_u32, false, x - y, x < y)
CARRY(v_subrev_co_u32, false, y - x, y < x)
CARRY(v_add_co_ci_u32, true, x + y + c, (x + y < x) | (x + y + c < c))
CARRY(v_sub_co_ci_u32, true, x - y - c, (x < y) | (x - y < c))
CARRY(v_subrev_co_ci_u32, true, y - x - c, (y < x) | (y - x < c))

/* What gfx1100 may leave in the high words (gfx11_run.c, forwards_badly). */
static void spoil_high(const struct inst *p, u64 *o)
{
	if (p->spoils_high)
		LANE o[i] = (u32)o[i] | (u64)0x7FC57FC5 << 32;
}

DEF(v_mad_u64_u32)
{
	VECTOR(ta);
	VECTOR(tb);
	u64 c[LANES], o[LANES];
	u32 mask = 0;
	const u32 *a = source(w, &p->s[0], ta), *b = source(w, &p->s[1], tb);
	source64(w, &p->s[2], c);
	LANE {
		u64 product = (u64)a[i] * b[i];
		o[i] = product + c[i];
		mask |= (u32)(o[i] < product) << i;
	}
	spoil_high(p, o);
	out64(w, p, o);
	write_sgpr(w, p->sd.reg, mask & EXEC(w));
}

DEF(v_mad_i64_i32)
{
	VECTOR(ta);
	VECTOR(tb);
	u64 c[LANES], o[LANES];
	const u32 *a = source(w, &p->s[0], ta), *b = source(w, &p->s[1], tb);
	source64(w, &p->s[2], c);
	LANE o[i] = (u64)((i64)(i32)a[i] * (i32)b[i]) + c[i];
	spoil_high(p, o);
	out64(w, p, o);
	if (p->sd.reg != REG_NULL)
		wave_fault(w, p, "the carry of a signed product is not modelled");
}

/* --- 64 bits ------------------------------------------------------------------------ */

#define SHIFT64(name, expression)                                                          \
	DEF(name)                                                                           \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		u64 b[LANES], o[LANES];                                                     \
		const u32 *a = source(w, &p->s[0], ta);                                     \
		source64(w, &p->s[1], b);                                                   \
		LANE {                                                                      \
			u64 x = a[i] & 63, y = b[i];                                        \
			o[i] = (u64)(expression);                                           \
		}                                                                           \
		out64(w, p, o);                                                             \
	}
SHIFT64(v_lshlrev_b64, y << x)
SHIFT64(v_lshrrev_b64, y >> x)
SHIFT64(v_ashrrev_i64, (i64)y >> x)

#define D3(name, n, expression)                                                            \
	DEF(name)                                                                           \
	{                                                                                   \
		u64 t[3][LANES], o[LANES];                                                  \
		for (int k = 0; k < n; k++)                                                 \
			source64(w, &p->s[k], t[k]);                                        \
		LANE {                                                                      \
			double x = as_f64(t[0][i]), y = n > 1 ? as_f64(t[1][i]) : 0;        \
			double z = n > 2 ? as_f64(t[2][i]) : 0;                             \
			(void)y;                                                            \
			(void)z;                                                            \
			o[i] = of_f64(expression);                                          \
		}                                                                           \
		out64(w, p, o);                                                             \
	}
D3(v_fma_f64, 3, fma(x, y, z))
D3(v_mul_f64, 2, x * y)
D3(v_add_f64, 2, x + y)
D3(v_rndne_f64, 1, rint(x))

DEF(v_cvt_f64_i32)
{
	VECTOR(t);
	u64 o[LANES];
	const u32 *x = source(w, &p->s[0], t);
	LANE o[i] = of_f64((double)(i32)x[i]);
	out64(w, p, o);
}

DEF(v_cvt_f64_f32)
{
	VECTOR(t);
	u64 o[LANES];
	const u32 *x = source(w, &p->s[0], t);
	LANE o[i] = of_f64((double)as_f32(x[i]));
	out64(w, p, o);
}

DEF(v_cvt_i32_f64)
{
	VECTOR(o);
	u64 t[LANES];
	source64(w, &p->s[0], t);
	LANE {
		double x = as_f64(t[i]);
		o[i] = x != x ? 0 : x >= 2147483647.0 ? 0x7FFFFFFF
		       : x <= -2147483648.0 ? 0x80000000 : (u32)(i32)x;
	}
	out(w, p, o);
}

DEF(v_cvt_f32_f64)
{
	VECTOR(o);
	u64 t[LANES];
	source64(w, &p->s[0], t);
	LANE o[i] = of_f32((float)as_f64(t[i]));
	out_f32(w, p, o);
}
