/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector comparisons: into lane masks and EXEC (gfx11_exec.h includes this).
 */
#pragma once
/* --- comparisons -------------------------------------------------------------------- */

static inline u32 mask_of(const u32 *is)
{
	u32 mask = 0;
	LANE mask |= (is[i] & 1) << i;
	return mask;
}

/* v_cmp writes a lane mask, v_cmpx EXEC. */
#define COMPARE(name, type, convert, expression)                                           \
	static inline u32 compare_##name(struct wave *w, const struct inst *p)              \
	{                                                                                   \
		VECTOR(ta);                                                                 \
		VECTOR(tb);                                                                 \
		VECTOR(is);                                                                 \
		const u32 *a = source(w, &p->s[0], ta), *b = source(w, &p->s[1], tb);       \
		LANE {                                                                      \
			type x = convert(a[i]), y = convert(b[i]);                          \
			is[i] = (expression);                                               \
		}                                                                           \
		return mask_of(is) & EXEC(w);                                               \
	}                                                                                   \
	COMPARE_RUN(name)
#define COMPARE_RUN(name)                                                                  \
	DEF(v_cmp_##name)                                                                   \
	{                                                                                   \
		write_sgpr(w, p->d.reg, compare_##name(w, p));                              \
	}                                                                                   \
	DEF(v_cmpx_##name)                                                                  \
	{                                                                                   \
		EXEC(w) = compare_##name(w, p);                                             \
		wave_note_hazards(w, p);                                                    \
	}
#define COMPARE64(name, type, expression)                                                  \
	static inline u32 compare_##name(struct wave *w, const struct inst *p)              \
	{                                                                                   \
		u64 a[LANES], b[LANES];                                                     \
		VECTOR(is);                                                                 \
		source64(w, &p->s[0], a);                                                   \
		source64(w, &p->s[1], b);                                                   \
		LANE {                                                                      \
			type x = (type)a[i], y = (type)b[i];                                \
			is[i] = (expression);                                               \
		}                                                                           \
		return mask_of(is) & EXEC(w);                                               \
	}                                                                                   \
	COMPARE_RUN(name)
#define COMPARE_ALL(make)                                                                  \
	make(lt, x < y) make(eq, x == y) make(le, x <= y) make(gt, x > y) make(ne, x != y)  \
	make(ge, x >= y)
#define MAKE_I16(n, e) COMPARE(n##_i16, i16, (i16), e)
#define MAKE_U16(n, e) COMPARE(n##_u16, u16, (u16), e)
#define MAKE_I32(n, e) COMPARE(n##_i32, i32, (i32), e)
#define MAKE_U32(n, e) COMPARE(n##_u32, u32, (u32), e)
#define MAKE_I64(n, e) COMPARE64(n##_i64, i64, e)
#define MAKE_U64(n, e) COMPARE64(n##_u64, u64, e)
#define MAKE_F32(n, e) COMPARE(n##_f32, float, as_f32, e)
COMPARE_ALL(MAKE_I16)
COMPARE_ALL(MAKE_U16)
COMPARE_ALL(MAKE_I32)
COMPARE_ALL(MAKE_U32)
COMPARE_ALL(MAKE_I64)
COMPARE_ALL(MAKE_U64)
MAKE_F32(lt, x < y)
MAKE_F32(eq, x == y)
MAKE_F32(le, x <= y)
MAKE_F32(gt, x > y)
MAKE_F32(lg, x < y || x > y)
MAKE_F32(ge, x >= y)
MAKE_F32(o, x == x && y == y)
MAKE_F32(u, x != x || y != y)
MAKE_F32(nge, !(x >= y))
MAKE_F32(nlg, !(x < y || x > y))
MAKE_F32(ngt, !(x > y))
MAKE_F32(nle, !(x <= y))
MAKE_F32(neq, x != y)
MAKE_F32(nlt, !(x < y))
