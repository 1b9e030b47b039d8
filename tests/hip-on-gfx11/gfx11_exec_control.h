/* SPDX-License-Identifier: Apache-2.0
 *
 * Branches, waits, barriers and hints (gfx11_exec.h includes this).
 */
#pragma once
/* --- control ---------------------------------------------------------------------- */

#define HINT(name)                                                                         \
	DEF(name)                                                                           \
	{                                                                                   \
		(void)w;                                                                    \
		(void)p;                                                                    \
	}
HINT(s_nop)
HINT(s_set_inst_prefetch_distance)
HINT(s_delay_alu)
HINT(s_setprio)

DEF(buffer_gl0_inv)
{
	caches_invalidate_l0(w, p);
}

DEF(buffer_gl1_inv)
{
	caches_invalidate_l1(w, p);
}

DEF(s_clause)
{
	w->clause_left = ((u32)p->imm & 63) + 1;
	w->clause_class = N_CLASSES;
}

/* va_vdst is the field's high four bits: 0 waits for all vector results. */
DEF(s_waitcnt_depctr)
{
	if (((u32)p->imm >> 12 & 15) == 0)
		w->hazards &= ~(unsigned)HAZARD_TRANS;
}

/* Coverage tells waits that found something under way. */
static inline void note_wait(const struct wave *w, const struct inst *p, unsigned before,
			     unsigned after)
{
	const struct code_kernel *k = w->g->l->kernel;
	if (before != after)
		k->reached[p - k->insts] = REACHED_EFFECT;
}

DEF(s_waitcnt)
{
	unsigned before = w->vm.n + w->lgkm.n;
	wave_wait_vm(w, (u32)p->imm >> 10 & 63);
	wave_wait_lgkm(w, (u32)p->imm >> 4 & 63);
	note_wait(w, p, before, w->vm.n + w->lgkm.n);
}

DEF(s_waitcnt_vscnt)
{
	unsigned before = w->n_stores;
	wave_wait_stores(w, (u32)p->imm & 63);
	note_wait(w, p, before, w->n_stores);
}

DEF(s_code_end)
{
	wave_fault(w, p, "the end of the code is reached");
}

DEF(s_sendmsg)
{
	if (p->imm == 3)
		w->has_released = true;
	else
		wave_fault(w, p, "a message that is not modelled");
}

DEF(s_endpgm)
{
	(void)p;
	w->state = WAVE_ENDED;
}

DEF(s_barrier)
{
	w->state = WAVE_WAITS;
	wave_check_barrier(w, p);
	caches_barrier(w);
}

#define BRANCH(name, condition)                                                            \
	DEF(name)                                                                           \
	{                                                                                   \
		if (condition)                                                              \
			w->pc = p->target;                                                  \
	}
BRANCH(s_branch, true)
BRANCH(s_cbranch_scc0, !w->scc)
BRANCH(s_cbranch_scc1, w->scc)
BRANCH(s_cbranch_vccz, !w->s[REG_VCC])
BRANCH(s_cbranch_vccnz, w->s[REG_VCC])
BRANCH(s_cbranch_execz, !EXEC(w))
BRANCH(s_cbranch_execnz, EXEC(w))
