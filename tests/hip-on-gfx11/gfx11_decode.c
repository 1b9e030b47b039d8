/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder. Fields: "RDNA3 Instruction Set Architecture", chapter 15 (microcode
 * formats); the opcodes are in gfx11_ops.def.
 */
#include "tests/hip-on-gfx11/gfx11_inst.h"

#include <pthread.h>
#include <string.h>

#define T OP_TRANS
#define N OP_BARE
const struct op_row op_rows[N_OPS] = {
#define OP(enc, code, name, sig, flags) {#name, sig, code, enc, flags},
#include "tests/hip-on-gfx11/gfx11_ops.def"
};
#undef T
#undef N

const char *const class_names[N_CLASSES] = {
	"valu", "trans", "wmma", "vopd", "salu", "smem", "load", "store", "atomic", "lds",
	"branch", "wait", "barrier", "hint",
};

enum { MAX_CODE = 1024 };
static uint16_t rows[N_ENCODINGS][MAX_CODE]; /* enum op + 1 */
static uint16_t duals[32];

static void build(void)
{
	for (int i = 0; i < N_OPS; i++)
		rows[op_rows[i].encoding][op_rows[i].code] = (uint16_t)(i + 1);
#define OP(enc, code, name, sig, flags)
#define DUAL(code, name) duals[code] = OP_##name + 1;
#include "tests/hip-on-gfx11/gfx11_ops.def"
}

static uint32_t bits(uint32_t w, int from, int n)
{
	return w >> from & ((1u << n) - 1);
}

/* --- operands --------------------------------------------------------------------- */

static int width(char type)
{
	switch (type) {
	case 'q': case 'Q': case 'd': case '2': case 's': return 2;
	case '3': return 3;
	case '4': return 4;
	case '8': return 8;
	case 'G': return 16;
	default: return 1;
	}
}

/* The bits of an inline constant by the type that the instruction reads it as. */
static uint32_t inline_float(int code, char type)
{
	static const uint32_t f32[] = {0x3F000000, 0xBF000000, 0x3F800000, 0xBF800000,
				       0x40000000, 0xC0000000, 0x40800000, 0xC0800000,
				       0x3E22F983};
	static const uint32_t f16[] = {0x3800, 0xB800, 0x3C00, 0xBC00, 0x4000, 0xC000,
				       0x4400, 0xC400, 0x3118};
	static const uint32_t f64[] = {0x3FE00000, 0xBFE00000, 0x3FF00000, 0xBFF00000,
				       0x40000000, 0xC0000000, 0x40100000, 0xC0100000,
				       0x3FC45F30};
	int i = code - 240;
	return type == 'h' || type == 'p' ? f16[i] : type == 'd' ? f64[i] : f32[i];
}

static struct operand vgpr(uint32_t reg, char type)
{
	return (struct operand){.kind = KIND_VGPR, .n = (uint8_t)width(type), .type = type,
				.reg = (uint16_t)reg, .code = (uint16_t)(256 + reg)};
}

static struct operand sgpr(uint32_t reg, char type)
{
	return (struct operand){.kind = KIND_SGPR, .n = (uint8_t)width(type), .type = type,
				.reg = (uint16_t)reg, .code = (uint16_t)reg};
}

static struct operand constant(uint32_t imm, uint32_t code, char type)
{
	return (struct operand){.kind = KIND_CONSTANT, .n = 1, .type = type, .imm = imm,
				.code = (uint16_t)code};
}

struct reader {
	const uint32_t *w;
	size_t n;
	struct inst *p;
	bool has_literal;
	uint32_t literal;
	const char *why;
};

static uint32_t literal(struct reader *r)
{
	if (!r->has_literal) {
		if (r->p->size >= r->n || r->p->size >= 3) {
			r->why = "the literal is missing";
			return 0;
		}
		r->literal = r->w[r->p->size];
		r->p->words[r->p->size++] = r->literal;
		r->has_literal = true;
	}
	return r->literal;
}

/* A source of nine bits (of scalar instructions: eight). */
static struct operand source(struct reader *r, uint32_t code, char type)
{
	if (code >= 256)
		return vgpr(code - 256, type);
	if (code <= 127)
		return sgpr(code, type);
	if (code <= 192)
		return constant(code - 128, code, type);
	if (code <= 208)
		return constant(192 - code, code, type);
	if (code >= 240 && code <= 248) {
		/* Packed, 16-bit and 64-bit integers: what the hardware makes of these is
		 * not clear enough to us. */
		r->p->is_unsure |= type == 'p' || type == 'w' || type == 'q' ||
				   type == 'Q' || (type == 'd' && code == 248);
		return constant(inline_float((int)code, type), code, type);
	}
	if (code == CODE_LITERAL)
		return constant(literal(r), code, type);
	if (code == CODE_SHARED_BASE && type == 'q')
		return constant(SHARED_APERTURE, code, type);
	if (code == CODE_SCC)
		return (struct operand){.kind = KIND_SCC, .n = 1, .type = type, .code = 253};
	r->why = "a source operand that is not known";
	return (struct operand){0};
}

static void modify(struct operand *o, uint32_t neg, uint32_t abs)
{
	o->mods = (uint8_t)((neg ? MOD_NEG : 0) | (abs ? MOD_ABS : 0));
}

/* The letters: destinations, then sources. */
struct signature {
	char d[3], s[4];
	int n_d, n_s;
};

static struct signature signature_of(int op)
{
	struct signature s = {0};
	const char *p = op_rows[op].operands;
	const char *cut = strchr(p, '=');
	for (; cut && p < cut; p++)
		s.d[s.n_d++] = *p;
	for (p = cut ? cut + 1 : p; *p; p++)
		s.s[s.n_s++] = *p;
	return s;
}

/* --- encodings -------------------------------------------------------------------- */

static bool find(struct reader *r, enum encoding e, uint32_t code)
{
	uint16_t row = code < MAX_CODE ? rows[e][code] : 0;
	r->p->encoding = (uint8_t)e;
	r->p->op = (uint16_t)(row - 1);
	if (!row)
		r->why = "an opcode that is not known";
	return row != 0;
}

static void decode_scalar(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w = r->w[0];
	if (w >> 23 == 0x17F) {
		find(r, SOPP, bits(w, 16, 7));
		p->imm = (int32_t)bits(w, 0, 16);
		return;
	}
	enum encoding e = w >> 23 == 0x17D ? SOP1 : w >> 23 == 0x17E ? SOPC
			: w >> 28 == 0xB ? SOPK : SOP2;
	uint32_t code = e == SOP1 ? bits(w, 8, 8) : e == SOPC ? bits(w, 16, 7)
		      : e == SOPK ? bits(w, 23, 5) : bits(w, 23, 7);
	if (!find(r, e, code))
		return;
	struct signature s = signature_of(p->op);
	if (s.n_d) {
		p->d = sgpr(bits(w, 16, 7), s.d[0]);
	} else if (e == SOPK) {
		p->s[0] = sgpr(bits(w, 16, 7), s.s[0]);
	}
	if (e == SOPK) {
		p->imm = (int16_t)bits(w, 0, 16);
		return;
	}
	int at = 0;
	for (int i = 0; i < s.n_s; i++)
		if (s.s[i] == 'k')
			p->s[i] = constant(literal(r), CODE_LITERAL, 'f');
		else
			p->s[i] = source(r, bits(w, 8 * at++, 8), s.s[i]);
}

static void decode_smem(struct reader *r)
{
	struct inst *p = r->p;
	if (!find(r, SMEM, bits(r->w[0], 18, 8)))
		return;
	uint32_t w0 = r->w[0], w1 = r->w[1];
	p->size = 2;
	struct signature s = signature_of(p->op);
	p->d = sgpr(bits(w0, 6, 7), s.d[0]);
	p->s[0] = sgpr(bits(w0, 0, 6) * 2, 's');
	p->s[1] = sgpr(bits(w1, 25, 7), 'b');
	p->imm = (int32_t)(w1 << 11) >> 11;
	p->glc = (uint8_t)bits(w0, 14, 1);
	p->dlc = (uint8_t)bits(w0, 13, 1);
}

/* Behind a source 250: the word that says how lanes are exchanged. */
static void decode_dpp(struct reader *r, struct operand *s0, struct operand *s1, char type)
{
	struct inst *p = r->p;
	if (r->n < 2) {
		r->why = "the DPP word is missing";
		return;
	}
	uint32_t w = r->w[1];
	p->words[1] = w;
	p->size = 2;
	p->form = FORM_DPP;
	*s0 = vgpr(bits(w, 0, 8), type);
	p->dpp = (uint16_t)bits(w, 8, 9);
	p->dpp_fi = (uint8_t)bits(w, 18, 1);
	p->dpp_bound = (uint8_t)bits(w, 19, 1);
	p->dpp_banks = (uint8_t)bits(w, 24, 4);
	p->dpp_rows = (uint8_t)bits(w, 28, 4);
	modify(s0, bits(w, 20, 1), bits(w, 21, 1));
	modify(s1, bits(w, 22, 1), bits(w, 23, 1));
}

static void decode_vop_short(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w = r->w[0];
	enum encoding e = w >> 25 == 0x3F ? VOP1 : w >> 25 == 0x3E ? VOPC : VOP2;
	uint32_t code = e == VOP1 ? bits(w, 9, 8) : e == VOPC ? bits(w, 17, 8)
						     : bits(w, 25, 6);
	if (!find(r, e, code))
		return;
	struct signature s = signature_of(p->op);
	uint32_t src0 = bits(w, 0, 9);
	bool has_k = false;
	for (int i = 0, at = 0; i < s.n_s; i++) {
		if (s.s[i] == 'k') {
			has_k = true;
			continue;
		}
		if (s.s[i] == 'm')
			p->s[i] = sgpr(REG_VCC, 'm');
		else if (at++ == 0)
			p->s[i] = src0 == CODE_DPP16 ? (struct operand){0}
						     : source(r, src0, s.s[i]);
		else
			p->s[i] = vgpr(bits(w, 9, 8), s.s[i]);
	}
	for (int i = 0; has_k && i < s.n_s; i++)
		if (s.s[i] == 'k')
			p->s[i] = constant(literal(r), CODE_LITERAL, 'f');
	if (s.n_s && src0 == CODE_DPP16)
		decode_dpp(r, &p->s[0], &p->s[1], s.s[0]);
	if (e == VOPC) {
		p->d = s.n_d ? sgpr(REG_VCC, 'm') : (struct operand){0};
		return;
	}
	if (s.n_d)
		p->d = s.d[0] == 'S' ? sgpr(bits(w, 17, 8), 'S') : vgpr(bits(w, 17, 8), s.d[0]);
	if (s.n_d > 1)
		p->sd = sgpr(REG_VCC, 'm');
}

static void decode_vop3(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w0 = r->w[0], w1 = r->w[1], code = bits(w0, 16, 10);
	p->form = FORM_LONG;
	p->size = 2;
	bool is_found = code < 0x100                    ? find(r, VOPC, code)
			: code < 0x180                  ? find(r, VOP2, code - 0x100)
			: code < 0x200                  ? find(r, VOP1, code - 0x180)
							: find(r, VOP3, code);
	if (!is_found)
		return;
	struct signature s = signature_of(p->op);
	p->clamp = (uint8_t)bits(w0, 15, 1);
	p->omod = (uint8_t)bits(w1, 27, 2);
	bool has_sd = s.n_d > 1;
	uint32_t abs = has_sd ? 0 : bits(w0, 8, 3);
	for (int i = 0; i < s.n_s; i++) {
		p->s[i] = source(r, bits(w1, 9 * i, 9), s.s[i]);
		modify(&p->s[i], bits(w1, 29 + i, 1), abs >> i & 1);
	}
	if (has_sd)
		p->sd = sgpr(bits(w0, 8, 7), 'm');
	else
		p->op_sel = (uint8_t)bits(w0, 11, 4);
	if (p->encoding == VOPC)
		p->d = s.n_d ? sgpr(bits(w0, 0, 7), 'm') : (struct operand){0};
	else if (s.n_d)
		p->d = s.d[0] == 'S' ? sgpr(bits(w0, 0, 7), 'S')
				     : vgpr(bits(w0, 0, 8), s.d[0]);
}

static void decode_vop3p(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w0 = r->w[0], w1 = r->w[1];
	p->size = 2;
	if (!find(r, VOP3P, bits(w0, 16, 7)))
		return;
	struct signature s = signature_of(p->op);
	p->d = vgpr(bits(w0, 0, 8), s.d[0]);
	p->clamp = (uint8_t)bits(w0, 15, 1);
	p->neg_hi = (uint8_t)bits(w0, 8, 3);
	p->neg_lo = (uint8_t)bits(w1, 29, 3);
	p->op_sel = (uint8_t)bits(w0, 11, 3);
	p->op_sel_hi = (uint8_t)(bits(w1, 27, 2) | bits(w0, 14, 1) << 2);
	for (int i = 0; i < s.n_s; i++) {
		char type = s.s[i];
		if (type == 'x') {
			type = p->op_sel_hi >> i & 1 ? 'h' : 'f';
			p->s[i] = source(r, bits(w1, 9 * i, 9), type);
			modify(&p->s[i], p->neg_lo >> i & 1, p->neg_hi >> i & 1);
		} else {
			p->s[i] = source(r, bits(w1, 9 * i, 9), type);
		}
	}
}

static void decode_vopd(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w0 = r->w[0], w1 = r->w[1];
	p->size = 2;
	p->encoding = VOPD;
	uint16_t x = duals[bits(w0, 22, 4)], y = duals[bits(w0, 17, 5)];
	if (!x || !y) {
		r->why = "a half of VOPD that is not known";
		return;
	}
	p->op = (uint16_t)(x - 1);
	p->op_y = (uint16_t)(y - 1);
	uint32_t dx = bits(w1, 24, 8), dy = bits(w1, 17, 7) << 1 | (~dx & 1);
	struct {
		int op;
		uint32_t src0, src1, dst;
		struct operand *d, *s;
	} half[2] = {
		{p->op, bits(w0, 0, 9), bits(w0, 9, 8), dx, &p->d, p->s},
		{p->op_y, bits(w1, 0, 9), bits(w1, 9, 8), dy, &p->y_d, p->y_s},
	};
	for (int h = 0; h < 2; h++) {
		struct signature s = signature_of(half[h].op);
		*half[h].d = vgpr(half[h].dst, s.d[0]);
		for (int i = 0, at = 0; i < s.n_s; i++)
			half[h].s[i] = s.s[i] == 'm' ? sgpr(REG_VCC, 'm')
				     : s.s[i] == 'k' ? constant(literal(r), CODE_LITERAL, 'f')
				     : at++ == 0 ? source(r, half[h].src0, s.s[i])
						 : vgpr(half[h].src1, s.s[i]);
	}
}

static void decode_ds(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w0 = r->w[0], w1 = r->w[1];
	p->size = 2;
	if (!find(r, DS, bits(w0, 18, 8)))
		return;
	struct signature s = signature_of(p->op);
	p->gds = (uint8_t)bits(w0, 17, 1);
	bool is_pair = strstr(op_rows[p->op].name, "2addr") != NULL;
	p->imm = (int32_t)(is_pair ? bits(w0, 0, 8) : bits(w0, 0, 16));
	p->imm1 = (int32_t)(is_pair ? bits(w0, 8, 8) : 0);
	for (int i = 0; i < s.n_s; i++)
		p->s[i] = vgpr(bits(w1, 8 * i, 8), s.s[i]);
	if (s.n_d)
		p->d = vgpr(bits(w1, 24, 8), s.d[0]);
}

static void decode_flat(struct reader *r)
{
	struct inst *p = r->p;
	uint32_t w0 = r->w[0], w1 = r->w[1], segment = bits(w0, 16, 2);
	p->size = 2;
	if (segment == 1) {
		r->why = "scratch memory";
		return;
	}
	if (!find(r, segment ? GLOBAL : FLAT, bits(w0, 18, 7)))
		return;
	struct signature s = signature_of(p->op);
	p->imm = (int32_t)(w0 << 19) >> 19;
	p->dlc = (uint8_t)bits(w0, 13, 1);
	p->glc = (uint8_t)bits(w0, 14, 1);
	p->slc = (uint8_t)bits(w0, 15, 1);
	uint32_t saddr = bits(w1, 16, 7);
	bool has_base = segment == 2 && saddr != REG_NULL;
	p->s[0] = vgpr(bits(w1, 0, 8), has_base ? 'b' : 'q');
	if (s.n_s)
		p->s[1] = vgpr(bits(w1, 8, 8), s.s[0]);
	if (has_base)
		p->s[2] = sgpr(saddr, 's');
	bool is_atomic = strstr(op_rows[p->op].name, "atomic") != NULL;
	if (s.n_d && (!is_atomic || p->glc))
		p->d = vgpr(bits(w1, 24, 8), s.d[0]);
}

/* --- the whole -------------------------------------------------------------------- */

static int class_of(const struct inst *p)
{
	const char *name = op_rows[p->op].name;
	switch (p->encoding) {
	case SMEM: return CLASS_SMEM;
	case DS: return CLASS_LDS;
	case MUBUF: return CLASS_HINT;
	case VOPD: return CLASS_VOPD;
	case FLAT: case GLOBAL:
		return strstr(name, "atomic") ? CLASS_ATOMIC
		       : strstr(name, "load") ? CLASS_LOAD : CLASS_STORE;
	case SOP1: case SOP2: case SOPC: return CLASS_SALU;
	case SOPK: return p->op == OP_s_waitcnt_vscnt ? CLASS_WAIT : CLASS_SALU;
	case SOPP:
		return p->op == OP_s_barrier ? CLASS_BARRIER
		       : p->op == OP_s_waitcnt || p->op == OP_s_waitcnt_depctr ? CLASS_WAIT
		       : p->op == OP_s_endpgm || strstr(name, "branch") ? CLASS_BRANCH
									 : CLASS_HINT;
	default:
		return strstr(name, "wmma") ? CLASS_WMMA
		       : op_rows[p->op].flags & OP_TRANS ? CLASS_TRANS : CLASS_VALU;
	}
}

static void touch(struct inst *p, const struct operand *o)
{
	for (unsigned i = o->reg; i < (unsigned)o->reg + o->n; i++)
		if (o->kind == KIND_VGPR && i < 256)
			p->vgprs[i / 64] |= 1ull << i % 64;
		else if (o->kind == KIND_SGPR && i < 128 && i != REG_NULL)
			p->sgprs[i / 64] |= 1ull << i % 64;
}

const char *inst_decode(const uint32_t *words, size_t n, uint64_t address, struct inst *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, build);
	struct reader r = {.w = words, .n = n, .p = out};
	*out = (struct inst){.address = (uint32_t)address, .size = 1};
	if (!n)
		return "no words";
	uint32_t w = words[0], top = w >> 26;
	out->words[0] = w;
	bool is_long = top == 0x3D || top == 0x35 || top == 0x33 || top == 0x32 ||
		       top == 0x36 || top == 0x37 || top == 0x38;
	if (is_long && n < 2)
		return "the second word is missing";
	out->words[1] = is_long ? words[1] : 0;
	if (w >> 30 == 2)
		decode_scalar(&r);
	else if (top == 0x3D)
		decode_smem(&r);
	else if (top == 0x35)
		decode_vop3(&r);
	else if (w >> 24 == 0xCC)
		decode_vop3p(&r);
	else if (top == 0x32)
		decode_vopd(&r);
	else if (top == 0x36)
		decode_ds(&r);
	else if (top == 0x37)
		decode_flat(&r);
	else if (top == 0x38 && find(&r, MUBUF, bits(w, 18, 8)))
		out->size = 2;
	else if (!(w >> 31))
		decode_vop_short(&r);
	else if (!r.why)
		r.why = "an encoding that is not known";
	if (r.why)
		return r.why;
	out->class = (uint8_t)class_of(out);
	const struct operand *all[] = {&out->d, &out->sd, &out->s[0], &out->s[1], &out->s[2],
				       &out->y_d, &out->y_s[0], &out->y_s[1], &out->y_s[2]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		touch(out, all[i]);
	return NULL;
}
