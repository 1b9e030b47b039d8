/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements walk.h. A wave starts with the address of its arguments in s[0:1], its
 * workgroup's coordinates in s2 and s3, and the thread's number in v0. Clang does so for
 * kernels that request nothing else (AMDGPU user guide of LLVM, "Initial Kernel Execution
 * State").
 */
#include "lab/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lab/walk_wave.h"

enum { MAX_STEPS = 4000000, MIN_GROUPS = 8, MAX_GUESSES = 2, TRANS_CYCLES = 4,
       STEPS = 400000 /* most steps for all groups, except the first MIN_GROUPS */ };

enum op_kind { KIND_NONE, KIND_V32, KIND_S32N, KIND_V64, KIND_CARRY, KIND_CNDMASK,
	       KIND_CSELECT, KIND_CMP, KIND_BIT, KIND_FIRST_LANE, KIND_LANES_BELOW,
	       KIND_FMAC, KIND_SAVE, KIND_BRANCH, KIND_END };

static const uint8_t kinds[WALK_OP_COUNT] = {
#define OP(ident, kind, ...) KIND_##kind,
#include "lab/walk_ops.def"
#undef OP
};

const char *walk_class_name(enum walk_class c)
{
	static const char *const names[] = {
		"valu", "trans", "matrix", "dual", "salu", "smem", "load", "store", "atomic",
		"lds", "branch", "wait", "barrier", "hint"};
	return names[c];
}

/* --- operands --------------------------------------------------------------------- */

uint32_t walk_scalar(const struct walk_wave *w, const struct walk_operand *o, int i,
		     bool *known)
{
	*known = true;
	if (o->kind == OPERAND_LITERAL)
		return i == 0 ? o->literal : (uint32_t)((int32_t)o->literal >> 31);
	if (o->kind != OPERAND_SGPR || o->reg == WALK_NULL || o->reg + i >= WALK_SGPRS)
		return 0;
	*known = w->s_known[o->reg + i];
	return w->s[o->reg + i];
}

void walk_set_scalar(struct walk_wave *w, const struct walk_operand *o, int i, uint32_t x,
		     bool known)
{
	if (o->kind != OPERAND_SGPR || o->reg == WALK_NULL || o->reg + i >= WALK_SGPRS)
		return;
	w->s[o->reg + i] = x;
	w->s_known[o->reg + i] = known;
}

uint32_t walk_vector(const struct walk_wave *w, const struct walk_operand *o, int i,
		     uint32_t *out)
{
	uint32_t known = UINT32_MAX;
	if (o->kind == OPERAND_VGPR && o->reg + i < WALK_VGPRS) {
		memcpy(out, w->v[o->reg + i], sizeof w->v[0]);
		known = w->v_known[o->reg + i];
	} else {
		bool is_known;
		uint32_t x = walk_scalar(w, o, i, &is_known);
		for (int lane = 0; lane < WALK_LANES; lane++)
			out[lane] = x;
		known = is_known ? UINT32_MAX : 0;
	}
	for (int lane = 0; (o->is_absolute || o->is_negative) && lane < WALK_LANES; lane++) {
		out[lane] &= o->is_absolute ? 0x7FFFFFFF : UINT32_MAX;
		out[lane] ^= o->is_negative ? 0x80000000 : 0;
	}
	return known;
}

static void set_vector(struct walk_wave *w, const struct walk_operand *o, int i,
		       const uint32_t *x, uint32_t known)
{
	uint32_t exec = w->s[WALK_EXEC];
	int reg = o->reg + i;
	if (o->kind != OPERAND_VGPR || reg >= WALK_VGPRS)
		return;
	for (int lane = 0; lane < WALK_LANES; lane++)
		if (exec >> lane & 1)
			w->v[reg][lane] = x[lane];
	w->v_known[reg] = (w->v_known[reg] & ~exec) | (known & exec);
}

/* Set a mask of lanes. Lanes with an unknown bit count as set. */
static void set_mask(struct walk_wave *w, const struct walk_operand *o, uint32_t bits,
		     uint32_t known)
{
	uint32_t exec = w->s[WALK_EXEC];
	walk_set_scalar(w, o, 0, (bits | ~known) & exec, (known & exec) == exec);
}

/* --- vector arithmetic ------------------------------------------------------------ */

static const struct walk_operand vcc = {.kind = OPERAND_SGPR, .n = 1, .reg = WALK_VCC};
static const struct walk_operand exec_mask = {.kind = OPERAND_SGPR, .n = 1,
					      .reg = WALK_EXEC};

static void forget(struct walk_wave *w, const struct walk_half *h)
{
	static const uint32_t zeros[WALK_LANES];
	const struct walk_operand *o = &h->o[0];
	for (int r = 0; r < o->n; r++)
		if (o->kind == OPERAND_VGPR)
			set_vector(w, o, r, zeros, 0);
		else
			walk_set_scalar(w, o, r, 0, false);
}

static uint32_t vector_32(struct walk_wave *w, const struct walk_half *h, uint32_t *out)
{
	uint32_t a[WALK_LANES], b[WALK_LANES], c[WALK_LANES];
	uint32_t known = walk_vector(w, &h->o[1], 0, a);
	known &= walk_vector(w, &h->o[2], 0, b);
	known &= walk_vector(w, &h->o[kinds[h->op] == KIND_FMAC ? 0 : 3], 0, c);
	enum walk_op op = kinds[h->op] == KIND_FMAC ? WALK_OP_FMA : h->op;
	for (int lane = 0; lane < WALK_LANES; lane++) {
		bool carry = false;
		out[lane] = walk_alu(op, a[lane], b[lane], c[lane], &carry);
	}
	return known;
}

static uint32_t vector_select(struct walk_wave *w, const struct walk_half *h, uint32_t *out)
{
	uint32_t a[WALK_LANES], b[WALK_LANES];
	bool known;
	uint32_t in_a = walk_vector(w, &h->o[1], 0, a);
	uint32_t in_b = walk_vector(w, &h->o[2], 0, b);
	uint32_t mask = walk_scalar(w, h->n > 3 ? &h->o[3] : &vcc, 0, &known);
	for (int lane = 0; lane < WALK_LANES; lane++)
		out[lane] = mask >> lane & 1 ? b[lane] : a[lane];
	return known ? (in_a & ~mask) | (in_b & mask) : 0;
}

static void vector_64(struct walk_wave *w, const struct walk_half *h)
{
	uint32_t x[3][2][WALK_LANES], out[2][WALK_LANES], known = UINT32_MAX;
	bool is_mad = h->op == WALK_OP_MAD64_U || h->op == WALK_OP_MAD64_I;
	int first = is_mad ? 2 : 1;
	for (int i = 0; i < 3; i++)
		for (int r = 0; r < 2; r++)
			known &= walk_vector(w, &h->o[MIN(first + i, WALK_OPERANDS - 1)], r,
					     x[i][r]) | (r == 1 && h->o[first + i].n < 2
								 ? UINT32_MAX : 0);
	for (int lane = 0; lane < WALK_LANES; lane++) {
		uint64_t v[3];
		for (int i = 0; i < 3; i++)
			v[i] = (uint64_t)x[i][1][lane] << 32 | x[i][0][lane];
		uint64_t y = walk_alu64(h->op, v[0], v[1], v[2]);
		out[0][lane] = (uint32_t)y;
		out[1][lane] = (uint32_t)(y >> 32);
	}
	set_vector(w, &h->o[0], 0, out[0], known);
	set_vector(w, &h->o[0], 1, out[1], known);
}

static void vector_carry(struct walk_wave *w, const struct walk_half *h)
{
	uint32_t a[WALK_LANES], b[WALK_LANES], out[WALK_LANES], carry = 0;
	bool has_in = h->op == WALK_OP_ADD_CO_CI || h->op == WALK_OP_SUB_CO_CI ||
		      h->op == WALK_OP_SUBREV_CO_CI;
	bool is_sum = h->op == WALK_OP_ADD_CO || h->op == WALK_OP_ADD_CO_CI;
	bool is_reversed = h->op == WALK_OP_SUBREV_CO || h->op == WALK_OP_SUBREV_CO_CI;
	bool in_known = true;
	uint32_t in = has_in ? walk_scalar(w, &h->o[4], 0, &in_known) : 0;
	uint32_t known = walk_vector(w, &h->o[is_reversed ? 3 : 2], 0, a);
	known &= walk_vector(w, &h->o[is_reversed ? 2 : 3], 0, b);
	known = in_known ? known : 0;
	for (int lane = 0; lane < WALK_LANES; lane++) {
		uint64_t bit = in >> lane & 1;
		uint64_t x = is_sum ? (uint64_t)a[lane] + b[lane] + bit
				    : (uint64_t)a[lane] - b[lane] - bit;
		out[lane] = (uint32_t)x;
		carry |= (uint32_t)(x >> 32 & 1) << lane;
	}
	set_vector(w, &h->o[0], 0, out, known);
	uint32_t exec = w->s[WALK_EXEC];
	walk_set_scalar(w, &h->o[1], 0, carry & exec, (known & exec) == exec);
}

static void vector_compare(struct walk_wave *w, const struct walk_inst *i)
{
	const struct walk_half *h = &i->half[0];
	uint32_t x[2][2][WALK_LANES] = {0}, known = UINT32_MAX, bits = 0;
	bool is_64 = i->bytes == 8;
	int first = i->is_x ? 0 : 1;
	for (int k = 0; k < 2; k++)
		for (int r = 0; r <= is_64; r++)
			known &= walk_vector(w, &h->o[first + k], r, x[k][r]);
	if (i->type == 'x')
		known = 0;
	for (int lane = 0; lane < WALK_LANES; lane++) {
		uint64_t a = (uint64_t)x[0][1][lane] << 32 | x[0][0][lane];
		uint64_t b = (uint64_t)x[1][1][lane] << 32 | x[1][0][lane];
		bits |= (uint32_t)walk_compare(i->cmp, i->type, a, b, i->bytes) << lane;
	}
	set_mask(w, i->is_x ? &exec_mask : &h->o[0], bits, known);
}

static void first_lane(struct walk_wave *w, const struct walk_half *h)
{
	uint32_t x[WALK_LANES], exec = w->s[WALK_EXEC];
	uint32_t known = walk_vector(w, &h->o[1], 0, x);
	int lane = exec ? __builtin_ctz(exec) : 0;
	walk_set_scalar(w, &h->o[0], 0, x[lane], known >> lane & 1);
}

static void lanes_below(struct walk_wave *w, const struct walk_half *h)
{
	uint32_t a[WALK_LANES], b[WALK_LANES];
	uint32_t known = walk_vector(w, &h->o[1], 0, a) & walk_vector(w, &h->o[2], 0, b);
	for (int lane = 0; lane < WALK_LANES; lane++)
		a[lane] = b[lane] + (uint32_t)__builtin_popcount(a[lane] & ((1u << lane) - 1));
	set_vector(w, &h->o[0], 0, a, known);
}

/* Both halves of a dual instruction read their operands before either writes. */
static void vector(struct walk_wave *w, const struct walk_inst *i)
{
	uint32_t out[2][WALK_LANES], known[2] = {0};
	for (int k = 0; k < i->n_halves; k++) {
		const struct walk_half *h = &i->half[k];
		if (kinds[h->op] == KIND_CNDMASK)
			known[k] = vector_select(w, h, out[k]);
		else if (kinds[h->op] == KIND_V32 || kinds[h->op] == KIND_S32N ||
			 kinds[h->op] == KIND_FMAC)
			known[k] = vector_32(w, h, out[k]);
	}
	for (int k = 0; k < i->n_halves; k++) {
		const struct walk_half *h = &i->half[k];
		switch (kinds[h->op]) {
		case KIND_V32:
		case KIND_S32N:
		case KIND_FMAC:
		case KIND_CNDMASK: set_vector(w, &h->o[0], 0, out[k], known[k]); break;
		case KIND_V64: vector_64(w, h); break;
		case KIND_CARRY: vector_carry(w, h); break;
		case KIND_CMP: vector_compare(w, i); break;
		case KIND_FIRST_LANE: first_lane(w, h); break;
		case KIND_LANES_BELOW: lanes_below(w, h); break;
		default: forget(w, h);
		}
	}
}

/* --- scalar arithmetic ------------------------------------------------------------ */

static uint64_t scalar_64(const struct walk_wave *w, const struct walk_operand *o,
			  bool *known)
{
	bool k0, k1;
	uint64_t x = walk_scalar(w, o, 0, &k0);
	x |= (uint64_t)walk_scalar(w, o, 1, &k1) << 32;
	*known &= k0 && k1;
	return x;
}

static void set_scc(struct walk_wave *w, bool scc, bool known)
{
	w->scc = scc;
	w->scc_known = known;
}

static void scalar_32(struct walk_wave *w, const struct walk_inst *i)
{
	const struct walk_half *h = &i->half[0];
	bool k0, k1, carry = w->scc;
	uint32_t a = walk_scalar(w, &h->o[1], 0, &k0), b = walk_scalar(w, &h->o[2], 0, &k1);
	uint32_t c = 0;
	bool known = k0 && k1;
	if (h->op == WALK_OP_BFE_U || h->op == WALK_OP_BFE_I) {
		c = b >> 16 & 127;
		b &= 31;
	}
	if (h->op == WALK_OP_FMA) {
		bool k2;
		c = walk_scalar(w, &h->o[3], 0, &k2);
		known = known && k2;
	}
	if (h->op == WALK_OP_ADDC || h->op == WALK_OP_SUBB)
		known = known && w->scc_known;
	/* exec |= saved mask, at the end of a branch. exec's lanes are a subset of the
	 * saved ones, so the result is known if the saved mask is. */
	if (h->op == WALK_OP_OR && h->o[0].reg == WALK_EXEC && h->o[1].reg == WALK_EXEC)
		known = k1;
	uint32_t x = walk_alu(h->op, a, b, c, &carry);
	walk_set_scalar(w, &h->o[0], 0, x, known);
	if (kinds[h->op] == KIND_S32N || h->op == WALK_OP_BITS_ONE)
		set_scc(w, x != 0, known);
	else if (h->op != WALK_OP_MOV && h->op != WALK_OP_MUL && h->op != WALK_OP_MUL_HI_U &&
		 h->op != WALK_OP_MUL_HI_I)
		set_scc(w, carry, known);
}

static void scalar_compare(struct walk_wave *w, const struct walk_inst *i)
{
	bool known = true;
	const struct walk_half *h = &i->half[0];
	uint64_t a = scalar_64(w, &h->o[0], &known), b = scalar_64(w, &h->o[1], &known);
	if (i->bytes != 8) {
		bool k0, k1;
		a = walk_scalar(w, &h->o[0], 0, &k0);
		b = walk_scalar(w, &h->o[1], 0, &k1);
		known = k0 && k1;
	}
	bool is_so = walk_compare(i->cmp, i->type, a, b, i->bytes);
	set_scc(w, is_so || !known, known && i->type != 'x');
}

static void scalar_save(struct walk_wave *w, const struct walk_half *h)
{
	bool known;
	uint32_t a = walk_scalar(w, &h->o[1], 0, &known), exec = w->s[WALK_EXEC];
	bool was_known = w->s_known[WALK_EXEC];
	walk_set_scalar(w, &h->o[0], 0, exec, was_known);
	uint32_t x = h->op == WALK_OP_AND_SAVE ? a & exec
		     : h->op == WALK_OP_OR_SAVE ? a | exec : a & ~exec;
	walk_set_scalar(w, &exec_mask, 0, x, known && was_known);
	set_scc(w, x != 0, known && was_known);
}

static void scalar(struct walk_wave *w, const struct walk_inst *i)
{
	const struct walk_half *h = &i->half[0];
	bool k0 = true, k1 = true;
	uint32_t a, b;
	uint64_t x;
	switch (kinds[h->op]) {
	case KIND_V32:
	case KIND_S32N: scalar_32(w, i); break;
	case KIND_V64:
		x = walk_alu64(h->op, scalar_64(w, &h->o[1], &k0),
			       walk_scalar(w, &h->o[2], 0, &k1), 0);
		walk_set_scalar(w, &h->o[0], 0, (uint32_t)x, k0 && k1);
		walk_set_scalar(w, &h->o[0], 1, (uint32_t)(x >> 32), k0 && k1);
		if (h->op != WALK_OP_MOV64)
			set_scc(w, x != 0, k0 && k1);
		break;
	case KIND_CSELECT:
		a = walk_scalar(w, &h->o[1], 0, &k0);
		b = walk_scalar(w, &h->o[2], 0, &k1);
		walk_set_scalar(w, &h->o[0], 0, w->scc ? a : b,
				w->scc_known && (w->scc ? k0 : k1));
		break;
	case KIND_CMP: scalar_compare(w, i); break;
	case KIND_BIT:
		a = walk_scalar(w, &h->o[0], 0, &k0);
		b = walk_scalar(w, &h->o[1], 0, &k1);
		set_scc(w, (a >> (b & 31) & 1) == (h->op == WALK_OP_BIT_IS_1), k0 && k1);
		break;
	case KIND_SAVE: scalar_save(w, h); break;
	default: forget(w, h);
	}
}

/* --- the walk --------------------------------------------------------------------- */

/* The index of the next instruction. A branch on an unknown value is not taken. After
 * MAX_GUESSES such guesses the branch goes the other way. */
static size_t branch(struct walk_wave *w, const struct walk_inst *i, size_t at)
{
	uint16_t op = i->half[0].op;
	bool known = true, is_taken = true;
	if (op == WALK_OP_IF_SCC0 || op == WALK_OP_IF_SCC1) {
		known = w->scc_known;
		is_taken = w->scc == (op == WALK_OP_IF_SCC1);
	} else if (op == WALK_OP_IF_VCCZ || op == WALK_OP_IF_VCCNZ) {
		known = w->s_known[WALK_VCC];
		is_taken = (w->s[WALK_VCC] != 0) == (op == WALK_OP_IF_VCCNZ);
	} else if (op == WALK_OP_IF_EXECZ || op == WALK_OP_IF_EXECNZ) {
		is_taken = (w->s[WALK_EXEC] != 0) == (op == WALK_OP_IF_EXECNZ);
		known = w->s_known[WALK_EXEC] || i->target > (int32_t)at;
	}
	w->count->unknown += !known;
	if (!known)
		is_taken = false;
	/* Unknown conditions must not make the walk endless. */
	bool is_guess = !known || (op >= WALK_OP_IF_EXECZ && !w->s_known[WALK_EXEC]);
	if (is_guess && w->visits[at] == MAX_GUESSES)
		is_taken = !is_taken;
	else if (is_guess)
		w->visits[at]++;
	return is_taken && i->target >= 0 ? (size_t)i->target : at + 1;
}

static void step_wave(struct walk_wave *w, const struct walk_inst *i)
{
	switch (i->class) {
	case WALK_VALU:
	case WALK_TRANS:
	case WALK_MATRIX:
	case WALK_DUAL: vector(w, i); break;
	case WALK_SALU: scalar(w, i); break;
	case WALK_SMEM: walk_scalar_load(w, i); break;
	case WALK_LOAD:
	case WALK_STORE:
	case WALK_ATOMIC:
	case WALK_LDS: walk_memory(w, i); break;
	case WALK_WAIT: walk_wait(w, i); break;
	default: break;
	}
}

static double cycles_of(const struct walk_wave *w, const struct walk_inst *i)
{
	return i->class == WALK_HINT || i->class == WALK_WAIT ? 0
	       : i->class == WALK_TRANS ? TRANS_CYCLES
	       : i->class == WALK_MATRIX ? w->l->latency.matrix
	       : i->class == WALK_BARRIER ? w->l->latency.barrier : 1;
}

static bool is_vector(const struct walk_inst *i)
{
	return i->class == WALK_VALU || i->class == WALK_TRANS || i->class == WALK_MATRIX ||
	       i->class == WALK_DUAL;
}

/* When each vector result that the instruction reads is there. Stores have no result, so their
 * first operand is read, too. What a load wrote is waited for by s_waitcnt. */
static double ready_at(const struct walk_wave *w, const struct walk_inst *i)
{
	double at = -1e9, wait = is_vector(i) || i->class == WALK_SALU ? w->l->latency.vector
								       : w->l->latency.to_memory;
	bool has_result = is_vector(i) || i->class == WALK_SALU || i->class == WALK_LOAD ||
			  (i->class == WALK_LDS && i->type == 'l');
	for (int k = 0; k < i->n_halves; k++) {
		const struct walk_half *h = &i->half[k];
		bool reads_result = !has_result || i->is_x || kinds[h->op] == KIND_FMAC ||
				    (i->class == WALK_SALU && kinds[h->op] == KIND_CMP);
		for (int j = reads_result ? 0 : 1; j < h->n; j++) {
			const struct walk_operand *o = &h->o[j];
			const double *time = o->kind == OPERAND_VGPR ? w->v_time
					     : o->kind == OPERAND_SGPR ? w->s_time : NULL;
			int end = o->kind == OPERAND_VGPR ? WALK_VGPRS : WALK_SGPRS;
			for (int r = o->reg; time && r < MIN(o->reg + o->n, end); r++)
				at = MAX(at, time[r] + wait);
		}
	}
	if (i->class == WALK_BRANCH && i->half[0].op >= WALK_OP_IF_VCCZ)
		at = MAX(at, w->s_time[i->half[0].op >= WALK_OP_IF_EXECZ ? WALK_EXEC : WALK_VCC] +
			     w->l->latency.vector);
	return at;
}

static void note_result(struct walk_wave *w, const struct walk_inst *i)
{
	double now = is_vector(i) ? w->t - 1 : -1e9;
	for (int k = 0; k < i->n_halves; k++) {
		const struct walk_operand *o = i->is_x ? &exec_mask : &i->half[k].o[0];
		double *time = o->kind == OPERAND_VGPR ? w->v_time
			       : o->kind == OPERAND_SGPR ? w->s_time : NULL;
		int end = o->kind == OPERAND_VGPR ? WALK_VGPRS : WALK_SGPRS;
		for (int r = o->reg; time && r < MIN(o->reg + o->n, end); r++)
			time[r] = now;
	}
}

/* Advance the time to where the instruction has been issued. */
static void spend(struct walk_wave *w, const struct walk_inst *i)
{
	if (i->class != WALK_HINT && i->class != WALK_WAIT && i->class != WALK_BARRIER)
		w->t = MAX(w->t, ready_at(w, i));
	w->t += cycles_of(w, i);
	if (is_vector(i) || i->class == WALK_SALU || i->class == WALK_LOAD)
		note_result(w, i);
}

/* Walk a wave to its next barrier or to its end. False: it does not end. */
static bool walk_to_barrier(struct walk_wave *w, const struct walk_code *code)
{
	while (w->n_steps++ < MAX_STEPS) {
		w->has_ended = w->at >= code->n;
		if (w->has_ended)
			return true;
		const struct walk_inst *i = &code->inst[w->at];
		w->count->issued[i->class]++;
		spend(w, i);
		w->has_ended = i->half[0].op == WALK_OP_END;
		if (w->has_ended)
			return true;
		w->at = i->class == WALK_BRANCH ? branch(w, i, w->at) : w->at + 1;
		step_wave(w, i);
		if (i->class == WALK_BARRIER)
			return true;
	}
	return false;
}

static void begin_wave(struct walk_wave *w, int number)
{
	const struct walk_launch *l = w->l;
	uint64_t arguments = (uint64_t)(uintptr_t)l->kernarg;
	memset(w->s, 0, sizeof w->s);
	memset(w->v, 0, sizeof w->v);
	/* Registers that no instruction has written count as known zeros. */
	memset(w->s_known, 1, sizeof w->s_known);
	memset(w->v_known, 0xFF, sizeof w->v_known);
	w->s[0] = (uint32_t)arguments;
	w->s[1] = (uint32_t)(arguments >> 32);
	w->s[2] = (uint32_t)w->x;
	w->s[3] = (uint32_t)w->y;
	int left = l->n_threads - WALK_LANES * number;
	w->s[WALK_EXEC] = left >= WALK_LANES ? UINT32_MAX : (1u << left) - 1;
	for (int lane = 0; lane < WALK_LANES; lane++)
		w->v[0][lane] = (uint32_t)(WALK_LANES * number + lane);
	w->t = w->stored = 0;
	for (int r = 0; r < WALK_VGPRS; r++)
		w->v_time[r] = w->s_time[r % WALK_SGPRS] = -1e9;
	for (int k = 0; k < 2; k++) {
		w->first[k] = 1e12;
		w->last[k] = -1;
	}
	w->has_loaded_scalar = false;
	w->at = 0;
	w->n_steps = 0;
	w->has_ended = false;
	w->vm.n = w->lgkm.n = 0;
}

struct walk_cache {
	char *objdump;
	struct entry {
		const struct code_kernel *kernel;
		struct walk_code code;
	} *entry;
	size_t n;
};

struct walk_cache *walk_cache_create(const char *objdump)
{
	struct walk_cache *c = xcalloc(1, sizeof *c);
	c->objdump = objdump ? xstrdup(objdump) : NULL;
	return c;
}

void walk_cache_destroy(struct walk_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		free(c->entry[i].code.inst);
	free(c->entry);
	free(c->objdump);
	free(c);
}

static enum status code_of(struct walk_cache *c, const struct walk_launch *l,
			   struct walk_code *out, struct fail *fail)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->entry[i].kernel == l->kernel) {
			*out = c->entry[i].code;
			return OK;
		}
	enum status st = walk_decode(l, c->objdump, out, fail);
	if (st != OK) {
		free(out->inst);
		return st;
	}
	c->entry = xrealloc(c->entry, (c->n + 1) * sizeof *c->entry);
	c->entry[c->n++] = (struct entry){l->kernel, *out};
	return OK;
}

/* to += from * by. */
static void add_times(struct walk_count *to, const struct walk_count *from, double by)
{
	for (int i = 0; i < WALK_CLASSES; i++)
		to->issued[i] += by * from->issued[i];
	to->load_bytes += by * from->load_bytes;
	to->stream_bytes += by * from->stream_bytes;
	to->store_bytes += by * from->store_bytes;
	to->lines += by * from->lines;
	to->group_lines += by * from->group_lines;
	to->lds_cycles += by * from->lds_cycles;
	to->unknown += by * from->unknown;
	to->wave_cycles += by * from->wave_cycles;
	to->ramp_cycles += by * from->ramp_cycles;
	to->tail_cycles += by * from->tail_cycles;
}

/* The waves of a workgroup; they share its LDS, its counts and the set of lines. */
struct walk_waves {
	struct walk_wave *wave;
	int n;
};

static void begin_group(struct walk_waves *g, const struct walk_code *code, int32_t x,
			int32_t y, struct walk_count *out)
{
	*out = (struct walk_count){0};
	memset(g->wave->lds, 0, sizeof *g->wave->lds);
	for (int i = 0; i < g->n; i++) {
		struct walk_wave *w = &g->wave[i];
		w->count = out;
		w->is_last = x == w->l->x - 1 && y == w->l->y - 1;
		w->x = x;
		w->y = y;
		w->group++;
		begin_wave(w, i);
		memset(w->visits, 0, code->n);
	}
}

/* No wave goes beyond a barrier before all have come to it. */
static void meet(struct walk_waves *g)
{
	double latest = 0;
	for (int i = 0; i < g->n; i++)
		latest = g->wave[i].has_ended ? latest : MAX(latest, g->wave[i].t);
	for (int i = 0; i < g->n; i++)
		if (!g->wave[i].has_ended)
			g->wave[i].t = latest;
}

/* Walk all waves of workgroup (x, y). Each goes to its next barrier before any goes beyond,
 * so what a wave reads in LDS is there. The time in *out is the mean of the waves. */
static enum status walk_group(struct walk_waves *g, const struct walk_code *code, int32_t x,
			      int32_t y, struct walk_count *out, struct fail *fail)
{
	begin_group(g, code, x, y, out);
	for (bool is_done = false; !is_done;) {
		is_done = true;
		for (int i = 0; i < g->n; i++) {
			struct walk_wave *w = &g->wave[i];
			if (!w->has_ended && !walk_to_barrier(w, code))
				return fail_set(fail, E_FORMAT, "%s: a wave did not end",
						w->l->kernel->name);
			is_done = is_done && w->has_ended;
		}
		meet(g);
	}
	for (int i = 0; i < g->n; i++) {
		const struct walk_wave *w = &g->wave[i];
		double end = MAX(w->t, w->stored);
		int bulk = w->last[1] >= 0;
		out->wave_cycles += end / g->n;
		if (w->last[bulk] < 0)
			continue;
		out->ramp_cycles += MIN(end, w->first[bulk]) / g->n;
		out->tail_cycles += MAX(0, end - w->last[bulk]) / g->n;
	}
	return OK;
}

/* Choose how many groups to walk in x and in y: about n in total. */
static void choose(const struct walk_launch *l, double n, int32_t *nx, int32_t *ny)
{
	double y = sqrt(n * l->y / l->x);
	*ny = (int32_t)fmin(l->y, fmax(y, fmin(l->y, 2)));
	*nx = (int32_t)fmin(l->x, fmax(n / *ny, fmin(l->x, 2)));
	*ny = (int32_t)fmin(l->y, fmax(n / *nx, *ny));
}

/* Divide the grid into nx by ny parts; the middle group of each stands for its part. The
 * last group stands for itself. Walking one group first tells how many can be afforded. */
static enum status walk_groups(struct walk_waves *g, const struct walk_code *code,
			       struct walk_count *out, struct fail *fail)
{
	struct walk_count one;
	const struct walk_launch *l = g->wave->l;
	double total = (double)l->x * l->y, steps = 1;
	enum status st = walk_group(g, code, l->x / 2, l->y / 2, &one, fail);
	for (int i = 0; i < WALK_CLASSES; i++)
		steps += one.issued[i];
	int32_t nx, ny;
	choose(l, fmin(total, fmax(MIN_GROUPS, STEPS / steps)), &nx, &ny);
	double all = (double)nx * ny, each = all > 1 ? (total - 1) / (all - (all == total)) : 0;
	for (int32_t k = 0; k < nx * ny && st == OK; k++) {
		int32_t x = (int32_t)((2 * (int64_t)(k % nx) + 1) * l->x / (2 * nx));
		int32_t y = (int32_t)((2 * (int64_t)(k / nx) + 1) * l->y / (2 * ny));
		if (x == l->x - 1 && y == l->y - 1)
			continue;
		st = walk_group(g, code, x, y, &one, fail);
		add_times(out, &one, each);
	}
	if (st == OK)
		st = walk_group(g, code, l->x - 1, l->y - 1, &one, fail);
	out->last_cycles = one.wave_cycles;
	add_times(out, &one, 1);
	out->wave_cycles /= total;
	out->ramp_cycles /= total;
	out->tail_cycles /= total;
	out->kept_lines = walk_lines_sum(g->wave->lines, (double)l->x / nx, (double)l->y / ny,
					 &out->far_lines);
	return st;
}

static struct walk_waves make_waves(const struct walk_launch *l, const struct walk_code *code)
{
	struct walk_waves g = {.n = DIV_UP(l->n_threads, WALK_LANES)};
	struct walk_lines *lines = walk_lines_create();
	struct walk_lds *lds = xcalloc(1, sizeof *lds);
	g.wave = xcalloc((size_t)g.n, sizeof *g.wave);
	for (int i = 0; i < g.n; i++)
		g.wave[i] = (struct walk_wave){.l = l, .lines = lines, .lds = lds,
					       .visits = xcalloc(code->n, 1)};
	return g;
}

static void destroy_waves(struct walk_waves *g)
{
	walk_lines_destroy(g->wave->lines);
	free(g->wave->lds);
	for (int i = 0; i < g->n; i++)
		free(g->wave[i].visits);
	free(g->wave);
}

enum status walk_run(struct walk_cache *c, const struct walk_launch *l,
		     struct walk_count *out, struct fail *fail)
{
	struct walk_code code;
	*out = (struct walk_count){0};
	enum status st = code_of(c, l, &code, fail);
	if (st != OK)
		return st;
	struct walk_waves g = make_waves(l, &code);
	st = walk_groups(&g, &code, out, fail);
	out->waves = (double)l->x * l->y * g.n;
	destroy_waves(&g);
	return st;
}
