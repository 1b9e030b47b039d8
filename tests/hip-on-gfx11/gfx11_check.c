/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chip would get wrong in silence: each is an error here.
 *
 * Waits. "RDNA3 Instruction Set Architecture", 4.4 (data dependency resolution): vmcnt and
 * vscnt count in order; lgkmcnt counts LDS in order and scalar loads in any order, so
 * that with a scalar load under way only lgkmcnt(0) says something. FLAT loads count in
 * both and, so LLVM says of gfx10 and later, in order (FlatLgkmVMemCountInOrder). A
 * register that a load is still to write must be neither read nor written.
 *
 * Barriers. LDS accesses of different waves to one word, of which one writes, must have a
 * barrier between them, and a wave must have waited for its own before the barrier.
 *
 * Hazards, where software must keep instructions apart:
 * - A matrix instruction whose result is A or B of the next one needs one vector
 *   instruction between (the document's chapter on WMMA, 7.9).
 * - v_permlane behind v_cmpx needs a vector instruction other than v_nop between. Source:
 *   LLVM's GCNHazardRecognizer (VcmpxPermlaneHazard); we did not find it in the document.
 * - gfx1100: a vector instruction that reads a transcendental's result within five others,
 *   or one transcendental, needs s_waitcnt_depctr with va_vdst 0, or a memory instruction
 *   between. Source: LLVM (VALUTransUseHazard). LLVM does it for gfx1100, and not for
 *   gfx1151; we did not find it in the document.
 * - s_clause: the instructions that it groups are of one kind (4.4 of the document).
 * What gfx11 resolves itself (s_delay_alu, SALU after VALU, VCC, EXEC) is not looked at,
 * nor are hazards of wave64, LDS parameters and scratch, which no kernel of halod has.
 */
#include "tests/hip-on-gfx11/gfx11_wave.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- faults ------------------------------------------------------------------------- */

void wave_fault(struct wave *w, const struct inst *p, const char *format, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct launch *l = w->g->l;
	char what[200], text[128];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	inst_text(p, text, sizeof text);
	w->state = WAVE_ENDED;
	pthread_mutex_lock(&lock);
	if (!l->error[0])
		snprintf(l->error, sizeof l->error, "%s+0x%x (%x): %s: %s [group %u,%u wave %u]",
			 l->kernel->name, p->address - l->kernel->begin, p->address, text,
			 what, w->g->x, w->g->y, w->number);
	pthread_mutex_unlock(&lock);
	__atomic_store_n(&l->has_failed, 1, __ATOMIC_RELAXED);
}

static bool overlaps(const struct operand *o, unsigned reg)
{
	return reg >= o->reg && reg < (unsigned)o->reg + o->n;
}

void wave_fault_busy(struct wave *w, const struct inst *p)
{
	for (unsigned i = 0; i < 256; i++) {
		if (!((w->busy_vgprs[i / 64] & p->vgprs[i / 64]) >> i % 64 & 1))
			continue;
		bool is_written = p->d.kind == KIND_VGPR && overlaps(&p->d, i);
		const char *wait = w->busy[i] == BUSY_VM ? "vmcnt"
				   : w->busy[i] == BUSY_LGKM ? "lgkmcnt"
							      : "vmcnt and lgkmcnt";
		wave_fault(w, p, "v%u is %s before %s waits for the load of it", i,
			   is_written ? "touched" : "read", wait);
		return;
	}
	for (unsigned i = 0; i < 128; i++)
		if ((w->busy_sgprs[i / 64] & p->sgprs[i / 64]) >> i % 64 & 1) {
			wave_fault(w, p, "s%u is touched before lgkmcnt waits for the load "
				   "of it", i);
			return;
		}
}

/* --- waits -------------------------------------------------------------------------- */

static void clear(struct wave *w, const struct pending *x, unsigned bit)
{
	for (unsigned i = x->reg; i < (unsigned)x->reg + x->n; i++) {
		if (x->kind == PENDING_SGPR) {
			w->busy_sgprs[i / 64] &= ~(1ull << i % 64);
		} else if (x->kind == PENDING_VGPR) {
			w->busy[i] &= (uint8_t)~bit;
			if (!w->busy[i])
				w->busy_vgprs[i / 64] &= ~(1ull << i % 64);
		}
	}
}

static void pop(struct wave *w, struct queue *q, unsigned bit)
{
	struct pending x = q->item[q->first];
	q->first = (q->first + 1) % QUEUE;
	q->n--;
	q->n_scalar -= x.kind == PENDING_SGPR;
	clear(w, &x, bit);
}

/* A full counter makes the chip wait for the oldest. */
static void push(struct wave *w, struct queue *q, struct pending x, unsigned bit)
{
	if (q->n == QUEUE - 1)
		pop(w, q, bit);
	q->item[(q->first + q->n++) % QUEUE] = x;
	q->n_scalar += x.kind == PENDING_SGPR;
}

void wave_load_vgprs(struct wave *w, unsigned reg, unsigned n, bool vm, bool lgkm)
{
	struct pending x = {(uint16_t)reg, (uint8_t)n, PENDING_VGPR};
	if (vm)
		push(w, &w->vm, x, BUSY_VM);
	if (lgkm)
		push(w, &w->lgkm, x, BUSY_LGKM);
	for (unsigned i = reg; i < reg + n; i++) {
		w->busy[i] |= (uint8_t)((vm ? BUSY_VM : 0) | (lgkm ? BUSY_LGKM : 0));
		w->busy_vgprs[i / 64] |= 1ull << i % 64;
	}
}

void wave_load_sgprs(struct wave *w, unsigned reg, unsigned n)
{
	push(w, &w->lgkm, (struct pending){(uint16_t)reg, (uint8_t)n, PENDING_SGPR}, BUSY_LGKM);
	for (unsigned i = reg; i < reg + n; i++)
		w->busy_sgprs[i / 64] |= 1ull << i % 64;
}

void wave_lds_access(struct wave *w)
{
	push(w, &w->lgkm, (struct pending){0, 0, PENDING_LDS}, BUSY_LGKM);
}

void wave_wait_vm(struct wave *w, unsigned n)
{
	while (w->vm.n > n)
		pop(w, &w->vm, BUSY_VM);
}

void wave_wait_lgkm(struct wave *w, unsigned n)
{
	if (n && w->lgkm.n_scalar)
		return;
	while (w->lgkm.n > n)
		pop(w, &w->lgkm, BUSY_LGKM);
}

void wave_wait_stores(struct wave *w, unsigned n)
{
	w->n_stores = w->n_stores < n ? w->n_stores : n;
}

/* --- hazards ------------------------------------------------------------------------ */

static bool reads(const struct inst *p, unsigned reg)
{
	const struct operand *all[] = {&p->s[0], &p->s[1], &p->s[2],
				       &p->y_s[0], &p->y_s[1], &p->y_s[2]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i]->kind == KIND_VGPR && overlaps(all[i], reg))
			return true;
	return (p->d.type == 'a' && p->d.reg == reg) ||
	       (p->y_d.type == 'a' && p->y_d.reg == reg);
}

enum { TRANS_WINDOW = 5 };

static void check_trans(struct wave *w, const struct inst *p)
{
	bool is_live = false;
	for (int i = 0; i < 2; i++) {
		/* how many stand between */
		uint32_t n = w->n_valu - w->trans[i].at - 1;
		if (!w->trans[i].at || n > TRANS_WINDOW)
			continue;
		is_live = true;
		if (reads(p, w->trans[i].reg))
			wave_fault(w, p, "v%u is read too soon behind the transcendental "
				   "that writes it", w->trans[i].reg);
		if ((p->d.kind == KIND_VGPR && overlaps(&p->d, w->trans[i].reg)) ||
		    (p->y_d.kind == KIND_VGPR && overlaps(&p->y_d, w->trans[i].reg)))
			w->trans[i].at = 0; /* another value since */
	}
	if (!is_live)
		w->hazards &= ~(unsigned)HAZARD_TRANS;
}

void wave_check_hazards(struct wave *w, const struct inst *p)
{
	if (w->hazards & HAZARD_TRANS)
		check_trans(w, p);
	if (w->hazards & HAZARD_WMMA && p->class == CLASS_WMMA)
		for (unsigned i = 0; i < 8; i++)
			if (overlaps(&p->s[0], w->wmma_reg + i) ||
			    overlaps(&p->s[1], w->wmma_reg + i)) {
				wave_fault(w, p, "reads as A or B what the matrix "
					   "instruction just before writes");
				break;
			}
	if (w->hazards & HAZARD_CMPX && p->op == OP_v_permlanex16_b32)
		wave_fault(w, p, "follows v_cmpx with no vector instruction between");
	w->hazards &= ~(unsigned)HAZARD_WMMA;
	if (p->op != OP_v_nop)
		w->hazards &= ~(unsigned)HAZARD_CMPX;
}

void wave_note_hazards(struct wave *w, const struct inst *p)
{
	if (p->class == CLASS_WMMA) {
		w->hazards |= HAZARD_WMMA;
		w->wmma_reg = p->d.reg;
	} else if (p->class == CLASS_TRANS) {
		if (!w->g->l->has_trans_hazard)
			return;
		w->trans[1] = w->trans[0];
		w->trans[0].reg = p->d.reg;
		w->trans[0].at = w->n_valu;
		if (!(w->hazards & HAZARD_TRANS))
			w->trans[1].at = 0;
		w->hazards |= HAZARD_TRANS;
	} else {
		w->hazards |= HAZARD_CMPX;
	}
}

/* The kinds that a clause may hold; waits and hints do not end it. */
void wave_check_clause(struct wave *w, const struct inst *p)
{
	unsigned class = p->class;
	if (w->clause_class == N_CLASSES)
		w->clause_class = class;
	if (class != w->clause_class || class == CLASS_BRANCH || class == CLASS_BARRIER)
		wave_fault(w, p, "stands in an s_clause of %s instructions",
			   class_names[w->clause_class]);
	w->clause_left--;
}

/* --- between waves ------------------------------------------------------------------ */

void wave_check_barrier(struct wave *w, const struct inst *p)
{
	for (unsigned i = 0; i < w->lgkm.n; i++)
		if (w->lgkm.item[(w->lgkm.first + i) % QUEUE].kind != PENDING_SGPR) {
			wave_fault(w, p, "an access to LDS is under way, without lgkmcnt(0)");
			return;
		}
}

static void conflict(struct wave *w, const struct inst *p, uint32_t word, lds_tag other,
		     const char *what)
{
	wave_fault(w, p, "word %x of LDS was %s by wave %u with no barrier between", word * 4,
		   what, (unsigned)other);
}

static lds_tag tag_of(const struct wave *w)
{
	return w->g->epoch << TAG_EPOCH | w->number;
}

static bool is_now(lds_tag t, const struct wave *w)
{
	return t >> TAG_EPOCH == w->g->epoch;
}

/* Of this stretch, and of another wave. */
static bool is_others(lds_tag t, const struct wave *w)
{
	return is_now(t, w) && (t & TAG_MANY || (t & TAG_WAVE) != w->number);
}

static void mark(lds_tag *t, const struct wave *w, bool is_atomic)
{
	bool is_same = is_now(*t, w);
	lds_tag many = is_others(*t, w) ? TAG_MANY : 0;
	lds_tag atomic = is_atomic && (!is_same || *t & TAG_ATOMIC) ? TAG_ATOMIC : 0;
	*t = tag_of(w) | many | atomic;
}

void wave_check_word(struct wave *w, const struct inst *p, uint32_t word, bool is_part,
		     enum lds_use use)
{
	lds_tag *wrote = &w->g->written[word], *read = &w->g->was_read[word];
	if (is_others(*wrote, w) && !(use == LDS_ATOMIC && *wrote & TAG_ATOMIC) &&
	    !(is_part && use == LDS_WRITE))
		conflict(w, p, word, *wrote & TAG_WAVE, "written");
	else if (use != LDS_READ && is_others(*read, w))
		conflict(w, p, word, *read & TAG_WAVE, "read");
	mark(use == LDS_READ ? read : wrote, w, use == LDS_ATOMIC);
}

/* An atomic on memory that returns a number tells other workgroups: what this one wrote must be
 * there. So its waves wait for their stores, then comes a barrier, then the atomic. One that
 * returns nothing only adds, and counts as a store. */
void wave_check_atomic(struct wave *w, const struct inst *p)
{
	struct group *g = w->g;
	if (!p->glc)
		return;
	for (uint32_t i = 0; i < g->n_waves; i++)
		if (g->waves[i].n_stores) {
			wave_fault(w, p, "wave %u has stores under way, without vscnt(0)", i);
			return;
		}
	if (is_others(g->stored, w))
		wave_fault(w, p, "wave %u stored, with no barrier between",
			   (unsigned)(g->stored & TAG_WAVE));
	mark(&g->told, w, true);
}

void wave_check_store(struct wave *w, const struct inst *p)
{
	struct group *g = w->g;
	if (is_others(g->told, w))
		wave_fault(w, p, "wave %u did an atomic, with no barrier between",
			   (unsigned)(g->told & TAG_WAVE));
	mark(&g->stored, w, false);
	w->n_stores++;
}

/* --- memory ------------------------------------------------------------------------- */

static const struct range *find(const struct launch *l, uint64_t lo, uint64_t hi)
{
	size_t a = 0, b = l->n_ranges;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (l->ranges[m].lo <= lo)
			a = m + 1;
		else
			b = m;
	}
	const struct range *r = a ? &l->ranges[a - 1] : NULL;
	return r && lo < hi && hi <= r->hi ? r : NULL;
}

const struct range *launch_range(const struct launch *l, uint64_t lo, uint64_t hi,
				 unsigned access)
{
	const struct range *r = find(l, lo, hi);
	return r && (r->allows & access) ? r : NULL;
}

const char *launch_refusal(const struct launch *l, uint64_t lo, uint64_t hi,
			   unsigned access)
{
	const struct range *r = find(l, lo, hi);
	if (!r)
		return "in no allocation";
	if (!r->allows)
		return "in pinned memory that is not coherent";
	return access == MAY_COUNT && (r->allows & MAY_WRITE)
		       ? "an atomic in the host's memory"
		       : "in memory that kernels only read";
}
