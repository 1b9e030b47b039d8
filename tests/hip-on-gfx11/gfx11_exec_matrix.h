/* SPDX-License-Identifier: Apache-2.0
 *
 * Dot products and matrices (gfx11_exec.h includes this).
 */
#pragma once
/* --- dot products --------------------------------------------------------------------- */

/* In the order that IEEE would have, or as silicon does (gfx11_adder.c). */
static inline void dot2(const u32 *a, const u32 *b, const u32 *c, u32 *o)
{
	if (adder_is_silicon) {
		LANE o[i] = of_f32(adder_dot2(a[i], b[i], c[i], false));
		return;
	}
	FLOATS(x);
	FLOATS(y);
	FLOATS(lo);
	VECTOR(t);
	halves_widen(a, x);
	halves_widen(b, y);
	LANE lo[i] = x[i] * y[i] + as_f32(c[i]);
	LANE t[i] = a[i] >> 16;
	halves_widen(t, x);
	LANE t[i] = b[i] >> 16;
	halves_widen(t, y);
	LANE o[i] = of_f32(x[i] * y[i] + lo[i]);
}

CALC(v_dot2acc_f32_f16)
{
	VECTOR(ta);
	VECTOR(tb);
	dot2(source(w, &s[0], ta), source(w, &s[1], tb), w->v[d->reg], o);
}
RUN(v_dot2acc_f32_f16, out)

DEF(v_dot2_f32_f16)
{
	VECTOR(ta);
	VECTOR(tb);
	VECTOR(tc);
	VECTOR(o);
	if (p->op_sel || p->op_sel_hi != 7 || p->neg_lo || p->neg_hi)
		wave_fault(w, p, "modifiers of a dot product are not modelled");
	dot2(source(w, &p->s[0], ta), source(w, &p->s[1], tb), source(w, &p->s[2], tc), o);
	out_f32(w, p, o);
}

DEF(v_dot2_f32_bf16)
{
	VECTOR(ta);
	VECTOR(tb);
	VECTOR(tc);
	VECTOR(o);
	if (p->op_sel || p->op_sel_hi != 7 || p->neg_lo || p->neg_hi)
		wave_fault(w, p, "modifiers of a dot product are not modelled");
	const u32 *a = source(w, &p->s[0], ta), *b = source(w, &p->s[1], tb);
	const u32 *c = source(w, &p->s[2], tc);
	if (adder_is_silicon)
		LANE o[i] = of_f32(adder_dot2(a[i], b[i], c[i], true));
	else LANE {
		float lo = as_f32(a[i] << 16) * as_f32(b[i] << 16) + as_f32(c[i]);
		o[i] = of_f32(as_f32(a[i] & 0xFFFF0000) * as_f32(b[i] & 0xFFFF0000) + lo);
	}
	out_f32(w, p, o);
}

/* --- matrices -------------------------------------------------------------------------- */

enum { MATRIX = 16 };

/* Register j of lane l holds elements 2 j and 2 j + 1 of row (column) l; lanes 16 to 31
 * the same again. o[k][l]: float32. */
static inline void matrix_widen(struct wave *w, const struct inst *p, int which, bool is_bf16,
				float o[MATRIX][LANES])
{
	u32 differs = 0;
	for (int j = 0; j < 8; j++) {
		const u32 *x = w->v[p->s[which].reg + j];
		for (int l = 0; l < MATRIX; l++)
			differs |= x[l] ^ x[l + MATRIX];
		if (is_bf16) {
			LANE o[2 * j][i] = as_f32(x[i] << 16);
			LANE o[2 * j + 1][i] = as_f32(x[i] & 0xFFFF0000);
		} else {
			VECTOR(hi);
			LANE hi[i] = x[i] >> 16;
			halves_widen(x, o[2 * j]);
			halves_widen(hi, o[2 * j + 1]);
		}
	}
	if (differs)
		wave_fault(w, p, "lanes 16 to 31 of a matrix are not as lanes 0 to 15");
}

static void wmma_silicon(struct wave *w, const struct inst *p, int row, bool is_bf16, float *sum)
{
	for (int l = 0; l < MATRIX; l++)
		for (unsigned j = 0; j < 8; j++)
			sum[l] = adder_dot2(w->v[p->s[0].reg + j][row], w->v[p->s[1].reg + j][l],
					    of_f32(sum[l]), is_bf16);
}

/* Register v of the result holds row 2 v in lanes 0 to 15, row 2 v + 1 in the others. */
static inline void wmma(struct wave *w, const struct inst *p, bool is_bf16)
{
	float a[MATRIX][LANES] __attribute__((aligned(64)));
	float b[MATRIX][LANES] __attribute__((aligned(64)));
	u32 o[8][LANES] __attribute__((aligned(64)));
	if (EXEC(w) != FULL)
		wave_fault(w, p, "a matrix instruction with EXEC %08x", EXEC(w));
	if (p->s[0].kind != KIND_VGPR || p->s[1].kind != KIND_VGPR || p->op_sel ||
	    p->neg_lo || p->neg_hi || p->clamp) {
		wave_fault(w, p, "operands of a matrix instruction that are not modelled");
		return;
	}
	matrix_widen(w, p, 0, is_bf16, a);
	matrix_widen(w, p, 1, is_bf16, b);
	for (int v = 0; v < 8; v++)
		for (int half = 0; half < 2; half++) {
			float sum[MATRIX] __attribute__((aligned(64)));
			int row = 2 * v + half;
			const u32 *c = w->v[p->s[2].reg + v] + MATRIX * half;
			for (int l = 0; l < MATRIX; l++)
				sum[l] = as_f32(p->s[2].kind == KIND_VGPR ? c[l]
									  : p->s[2].imm);
			if (adder_is_silicon)
				wmma_silicon(w, p, row, is_bf16, sum);
			for (int k = 0; k < MATRIX && !adder_is_silicon; k++)
				for (int l = 0; l < MATRIX; l++)
					sum[l] += a[k][row] * b[k][l];
			for (int l = 0; l < MATRIX; l++)
				o[v][MATRIX * half + l] = of_f32(sum[l]);
		}
	memcpy(w->v[p->d.reg], o, sizeof o);
	if (w->g->l->is_counting)
		w->g->counts.wmma_cycles += 32;
	wave_note_hazards(w, p);
}

DEF(v_wmma_f32_16x16x16_f16)
{
	wmma(w, p, false);
}

DEF(v_wmma_f32_16x16x16_bf16)
{
	wmma(w, p, true);
}
