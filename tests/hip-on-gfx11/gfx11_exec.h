/* SPDX-License-Identifier: Apache-2.0
 *
 * What instructions do: compiled once for each instruction set of the host by
 * gfx11_exec_*.c, which define EXECUTOR and say how halves become floats.
 *
 * "RDNA3 Instruction Set Architecture", chapter 16. A function run_NAME for each row of
 * gfx11_ops.def. Sources are 32 lanes each: a VGPR as it lies, or a scalar in all lanes.
 */
#pragma once
#include <math.h>
#include <string.h>

#include "tests/hip-on-gfx11/gfx11_wave.h"

typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef uint16_t u16;
typedef int16_t i16;

#define LANE for (int i = 0; i < LANES; i++)
#define VECTOR(name) u32 name[LANES] __attribute__((aligned(64)))
#define DEF(name) static void run_##name(struct wave *w, const struct inst *p)
#define FULL 0xFFFFFFFFu
#define EXEC(w) ((w)->s[REG_EXEC])

static inline float as_f32(u32 x)
{
	float f;
	memcpy(&f, &x, 4);
	return f;
}

static inline u32 of_f32(float f)
{
	u32 x;
	memcpy(&x, &f, 4);
	return x;
}

static inline double as_f64(u64 x)
{
	double f;
	memcpy(&f, &x, 8);
	return f;
}

static inline u64 of_f64(double f)
{
	u64 x;
	memcpy(&x, &f, 8);
	return x;
}

/* --- operands --------------------------------------------------------------------- */

static inline u32 scalar(const struct wave *w, const struct operand *o)
{
	return o->kind == KIND_SGPR ? w->s[o->reg] : o->kind == KIND_SCC ? w->scc : o->imm;
}

static inline u64 scalar64(const struct wave *w, const struct operand *o)
{
	if (o->kind == KIND_SGPR)
		return w->s[o->reg] |
		       (o->reg == REG_NULL ? 0 : (u64)w->s[o->reg + 1] << 32);
	if (o->type == 'd' || o->code == CODE_SHARED_BASE) /* inline integers: as integers */
		return o->code >= 128 && o->code <= 208 ? (u64)(i64)(i32)o->imm
							: (u64)o->imm << 32;
	if (o->code == CODE_LITERAL && o->type == 'q')
		return o->imm;
	return (u64)(i64)(i32)o->imm;
}

static const u32 *source_slow(const struct wave *w, const struct operand *o, u32 *t)
{
	u32 and = o->mods & MOD_ABS ? 0x7FFFFFFF : FULL;
	u32 xor = o->mods & MOD_NEG ? 0x80000000 : 0;
	if (o->kind == KIND_VGPR) {
		LANE t[i] = (w->v[o->reg][i] & and) ^ xor;
	} else {
		u32 x = (scalar(w, o) & and) ^ xor;
		LANE t[i] = x;
	}
	return t;
}

/* 32 bits a lane; modifiers as of float32. t: for those that do not lie in a VGPR. */
static inline const u32 *source(const struct wave *w, const struct operand *o, u32 *t)
{
	if (__builtin_expect(o->kind == KIND_VGPR && !o->mods, 1))
		return w->v[o->reg];
	return source_slow(w, o, t);
}

static inline const u32 *source_raw(const struct wave *w, const struct operand *o, u32 *t)
{
	struct operand plain = *o;
	plain.mods = 0;
	return source(w, &plain, t) == t ? t : w->v[o->reg];
}

/* 16 bits a lane, the half that op_sel names; modifiers as of float16. */
static inline void source16(const struct wave *w, const struct inst *p, int which, u32 *t)
{
	const struct operand *o = &p->s[which];
	VECTOR(raw);
	const u32 *x = source_raw(w, o, raw);
	u32 shift = p->op_sel >> which & 1 ? 16 : 0;
	u32 and = o->mods & MOD_ABS ? 0x7FFF : 0xFFFF, xor = o->mods & MOD_NEG ? 0x8000 : 0;
	LANE t[i] = (x[i] >> shift & and) ^ xor;
}

static inline void source64(const struct wave *w, const struct operand *o, u64 *t)
{
	if (o->kind == KIND_VGPR) {
		LANE t[i] = w->v[o->reg][i] | (u64)w->v[o->reg + 1][i] << 32;
	} else {
		u64 x = scalar64(w, o);
		LANE t[i] = x;
	}
	if (o->mods & MOD_ABS)
		LANE t[i] &= ~(1ull << 63);
	if (o->mods & MOD_NEG)
		LANE t[i] ^= 1ull << 63;
}

static inline void write_vgpr(struct wave *w, u32 reg, const u32 *o)
{
	u32 e = EXEC(w), *d = w->v[reg];
	if (__builtin_expect(e == FULL, 1)) {
		memcpy(d, o, sizeof w->v[0]);
		return;
	}
	LANE d[i] = e >> i & 1 ? o[i] : d[i];
}

static inline void out(struct wave *w, const struct inst *p, const u32 *o)
{
	write_vgpr(w, p->d.reg, o);
}

static inline void out64(struct wave *w, const struct inst *p, const u64 *o)
{
	VECTOR(lo);
	VECTOR(hi);
	LANE lo[i] = (u32)o[i];
	LANE hi[i] = (u32)(o[i] >> 32);
	write_vgpr(w, p->d.reg, lo);
	write_vgpr(w, p->d.reg + 1u, hi);
}

/* float32, with the output's modifiers. */
static inline void out_f32(struct wave *w, const struct inst *p, u32 *o)
{
	if (__builtin_expect(p->omod | p->clamp, 0)) {
		static const float by[] = {1, 2, 4, 0.5f};
		LANE {
			float x = as_f32(o[i]) * by[p->omod];
			x = !p->clamp ? x : x > 1 ? 1 : x > 0 ? x : 0;
			o[i] = of_f32(x);
		}
	}
	out(w, p, o);
}

/* 16 bits into the half that op_sel names; the other stays. */
static inline void out16(struct wave *w, const struct inst *p, u32 *o)
{
	const u32 *old = w->v[p->d.reg];
	if (p->op_sel & 8)
		LANE o[i] = (old[i] & 0xFFFF) | o[i] << 16;
	else
		LANE o[i] = (old[i] & 0xFFFF0000) | (o[i] & 0xFFFF);
	out(w, p, o);
}

static inline void write_sgpr(struct wave *w, u32 reg, u32 x)
{
	if (reg != REG_NULL)
		w->s[reg] = x;
}

static inline void write_sgpr64(struct wave *w, u32 reg, u64 x)
{
	write_sgpr(w, reg, (u32)x);
	if (reg != REG_NULL)
		write_sgpr(w, reg + 1, (u32)(x >> 32));
}

#include "tests/hip-on-gfx11/gfx11_exec_scalar.h"
#include "tests/hip-on-gfx11/gfx11_exec_control.h"
#include "tests/hip-on-gfx11/gfx11_exec_vector.h"
#include "tests/hip-on-gfx11/gfx11_exec_wide.h"
#include "tests/hip-on-gfx11/gfx11_exec_compare.h"
#include "tests/hip-on-gfx11/gfx11_exec_lanes.h"
#include "tests/hip-on-gfx11/gfx11_exec_half.h"
#include "tests/hip-on-gfx11/gfx11_exec_matrix.h"
#include "tests/hip-on-gfx11/gfx11_exec_fours.h"
#include "tests/hip-on-gfx11/gfx11_exec_memory.h"
#include "tests/hip-on-gfx11/gfx11_exec_lds.h"

/* --- the loop --------------------------------------------------------------------- */

static inline bool is_busy(const struct wave *w, const struct inst *p)
{
	u64 hit = (w->busy_sgprs[0] & p->sgprs[0]) | (w->busy_sgprs[1] & p->sgprs[1]);
	for (int i = 0; i < 4; i++)
		hit |= w->busy_vgprs[i] & p->vgprs[i];
	return hit != 0;
}

static void count_issued(struct group *g, const struct inst *p)
{
	g->counts.issued[p->class]++;
	g->counts.issued[CLASS_HINT] += p->n_hints;
}

/* At first: this instruction, and the hints behind it. */
static __attribute__((noinline)) void reach(uint8_t *reached, const struct inst *p)
{
	reached[0] = 1;
	for (u32 i = p->size; i < p->step; i += p[i].size)
		reached[i] = 1;
}

static void run_wave(struct wave *w)
{
	struct group *g = w->g;
	u32 begin = g->l->kernel->begin;
	uint8_t *reached = g->l->kernel->reached;
	u64 n = 0, left = g->l->max_insts - w->n_insts;
	bool is_counting = g->l->is_counting;
	while (w->state == WAVE_RUNS) {
		const struct inst *p = w->pc;
		w->pc = p + p->step;
		u32 at = (p->address - begin) / 4;
		if (__builtin_expect(!reached[at], 0))
			reach(reached + at, p);
		if (__builtin_expect(is_busy(w, p), 0)) {
			wave_fault_busy(w, p);
			break;
		}
		if (__builtin_expect(w->clause_left, 0))
			wave_check_clause(w, p);
		if (p->class <= CLASS_VOPD) {
			w->n_valu++;
			if (__builtin_expect(w->hazards, 0))
				wave_check_hazards(w, p);
		} else if (w->hazards && p->class >= CLASS_LOAD && p->class <= CLASS_LDS) {
			w->hazards &= ~(unsigned)HAZARD_TRANS;
		}
		if (is_counting)
			count_issued(g, p);
		n += 1u + p->n_hints;
		p->run(w, p);
		if (__builtin_expect(n > left, 0)) {
			wave_fault(w, p, "it runs for more than %llu instructions",
				   (unsigned long long)g->l->max_insts);
			break;
		}
	}
	w->n_insts += n;
}

static inst_run *const table[N_OPS] = {
#define OP(enc, code, name, sig, flags) run_##name,
#include "tests/hip-on-gfx11/gfx11_ops.def"
};

const struct executor EXECUTOR = {
	.name = EXECUTOR_NAME, .is_there = is_there, .run = table, .dual = run_dual,
	.dpp = run_dpp, .run_wave = run_wave,
};
