/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges of lanes, and VOPD (gfx11_exec.h includes this).
 */
#pragma once
/* --- lanes -------------------------------------------------------------------------- */

DEF(v_readfirstlane_b32)
{
	u32 e = EXEC(w);
	if (!e)
		wave_fault(w, p, "no lane is active to be read");
	if (p->s[0].kind == KIND_VGPR)
		write_sgpr(w, p->d.reg, w->v[p->s[0].reg][e ? __builtin_ctz(e) : 0]);
	else
		write_sgpr(w, p->d.reg, scalar(w, &p->s[0]));
}

DEF(v_readlane_b32)
{
	write_sgpr(w, p->d.reg, w->v[p->s[0].reg][scalar(w, &p->s[1]) & 31]);
}

/* Each lane reads the other row of 16, at the place that four bits name. */
DEF(v_permlanex16_b32)
{
	VECTOR(o);
	u64 select = (u64)scalar(w, &p->s[2]) << 32 | scalar(w, &p->s[1]);
	const u32 *x = w->v[p->s[0].reg], *old = w->v[p->d.reg];
	u32 e = EXEC(w), bad = 0;
	LANE {
		u32 from = (((u32)i & 16) ^ 16) + (u32)(select >> (i & 15) * 4 & 15);
		bool is_active = e >> from & 1 || p->op_sel & 1;
		bad |= (u32)(!is_active && !(p->op_sel & 2)) << i;
		o[i] = is_active ? x[from] : p->op_sel & 2 ? 0 : old[i];
	}
	if (bad & e)
		wave_fault(w, p, "reads from an inactive lane (lanes %08x, EXEC %08x)",
			   bad & e, e);
	out(w, p, o);
}

/* The lanes that each lane reads, or -1 beyond its row. */
static inline void dpp_from(u32 control, i32 *from)
{
	int n = (int)control & 15;
	if (control < 0x100) {
		LANE from[i] = (i & ~3) + (int)(control >> 2 * (i & 3) & 3);
		return;
	}
	switch (control >> 4) {
	case 0x10: LANE from[i] = (i & 15) + n < 16 ? i + n : -1; break;
	case 0x11: LANE from[i] = (i & 15) >= n ? i - n : -1; break;
	case 0x12: LANE from[i] = (i & 16) + ((i - n) & 15); break;
	case 0x14: LANE from[i] = n ? i ^ 7 : i ^ 15; break;
	case 0x15: LANE from[i] = (i & 16) + n; break;
	default: LANE from[i] = i ^ n; break;
	}
}

/* The exchange into a register beyond all, then the instruction itself (p->inner), which
 * reads that one. */
static void run_dpp(struct wave *w, const struct inst *p)
{
	struct inst inner = *p;
	i32 from[LANES] __attribute__((aligned(64)));
	u32 e = EXEC(w), readable = p->dpp_fi ? FULL : e, bad = 0;
	const u32 *x = w->v[p->s[0].reg];
	dpp_from(p->dpp, from);
	LANE {
		bool is_there = from[i] >= 0, is_active = readable >> (from[i] & 31) & 1;
		bad |= (u32)(is_there & !is_active) << i;
		w->v[DPP_REG][i] = is_there && is_active ? x[from[i] & 31] : 0;
	}
	if (bad & e)
		wave_fault(w, p, "reads from an inactive lane (lanes %08x, EXEC %08x)",
			   bad & e, e);
	inner.s[0].reg = DPP_REG;
	p->inner(w, &inner);
}

/* --- VOPD --------------------------------------------------------------------------- */

static inline void calc_v_dot2acc_f32_f16(struct wave *w, const struct operand *s,
					  const struct operand *d, u32 *o);

static calculate *const halves[N_OPS] = {
#define OP(enc, code, name, sig, flags)
#define DUAL(code, name) [OP_##name] = calc_##name,
#include "tests/hip-on-gfx11/gfx11_ops.def"
};

static void run_dual(struct wave *w, const struct inst *p)
{
	VECTOR(x);
	VECTOR(y);
	halves[p->op](w, p->s, &p->d, x);
	halves[p->op_y](w, p->y_s, &p->y_d, y);
	write_vgpr(w, p->d.reg, x);
	write_vgpr(w, p->y_d.reg, y);
}
