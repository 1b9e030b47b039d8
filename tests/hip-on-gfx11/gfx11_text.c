/* SPDX-License-Identifier: Apache-2.0
 *
 * An instruction's text, as llvm-objdump writes it.
 */
#include "tests/hip-on-gfx11/gfx11_inst.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct out {
	char *p;
	size_t n, size;
	int n_operands;
};

__attribute__((format(printf, 2, 3))) static void put(struct out *o, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (o->n < o->size) {
		int n = vsnprintf(o->p + o->n, o->size - o->n, format, args);
		o->n += n > 0 ? (size_t)n : 0;
	}
	va_end(args);
}

static void put_comma(struct out *o)
{
	put(o, o->n_operands++ ? ", " : " ");
}

static void put_sgpr(struct out *o, int reg, int n)
{
	static const char *const special[] = {
		[0] = "vcc", [1] = "vcc_hi", [18] = "null", [19] = "m0", [20] = "exec",
		[21] = "exec_hi"};
	if (reg >= 108 && reg < 124)
		put(o, n > 1 ? "ttmp[%d:%d]" : "ttmp%d", reg - 108, reg - 108 + n - 1);
	else if (reg >= REG_VCC)
		put(o, "%s%s", special[reg - REG_VCC],
		    n == 1 && (reg == REG_VCC || reg == REG_EXEC) ? "_lo" : "");
	else if (n > 1)
		put(o, "s[%d:%d]", reg, reg + n - 1);
	else
		put(o, "s%d", reg);
}

static void put_constant(struct out *o, const struct operand *x)
{
	static const char *const floats[] = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0",
					     "4.0", "-4.0"};
	int32_t value = (int32_t)x->imm;
	if (x->code == CODE_LITERAL && (value < -16 || value > 64))
		put(o, "0x%x", x->imm);
	else if (x->code == CODE_LITERAL)
		put(o, "%d", value);
	else if (x->code == CODE_SHARED_BASE)
		put(o, "src_shared_base");
	else if (x->code == 248)
		put(o, x->type == 'd' ? "0.15915494309189532" : "0.15915494");
	else if (x->code >= 240)
		put(o, "%s", floats[x->code - 240]);
	else
		put(o, "%d", value);
}

static void put_operand(struct out *o, const struct operand *x)
{
	if (x->kind == KIND_NONE)
		return;
	put_comma(o);
	bool is_wrapped = x->mods & MOD_NEG && x->kind == KIND_CONSTANT &&
			  !(x->mods & MOD_ABS);
	put(o, "%s%s", is_wrapped ? "neg(" : x->mods & MOD_NEG ? "-" : "",
	    x->mods & MOD_ABS ? "|" : "");
	if (x->kind == KIND_VGPR)
		put(o, x->n > 1 ? "v[%d:%d]" : "v%d", x->reg, x->reg + x->n - 1);
	else if (x->kind == KIND_SGPR)
		put_sgpr(o, x->reg, x->n);
	else if (x->kind == KIND_SCC)
		put(o, "src_scc");
	else
		put_constant(o, x);
	put(o, "%s%s", x->mods & MOD_ABS ? "|" : "", is_wrapped ? ")" : "");
}

static void put_list(struct out *o, const char *name, unsigned value, int n)
{
	put(o, " %s:[", name);
	for (int i = 0; i < n; i++)
		put(o, i ? ",%u" : "%u", value >> i & 1);
	put(o, "]");
}

static int n_sources(const struct inst *p)
{
	int n = 0;
	while (n < 3 && p->s[n].kind != KIND_NONE)
		n++;
	return n;
}

/* --- one kind after the other ----------------------------------------------------- */

static void put_waitcnt(struct out *o, uint32_t x)
{
	unsigned vm = x >> 10 & 63, lgkm = x >> 4 & 63, exp = x & 7;
	bool is_all = vm == 63 && lgkm == 63 && exp == 7;
	if (vm != 63 || is_all)
		put(o, " vmcnt(%u)", vm);
	if (exp != 7 || is_all)
		put(o, " expcnt(%u)", exp);
	if (lgkm != 63 || is_all)
		put(o, " lgkmcnt(%u)", lgkm);
}

static void put_delay(struct out *o, unsigned x)
{
	static const char *const id[16] = {
		"NO_DEP", "VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4",
		"TRANS32_DEP_1", "TRANS32_DEP_2", "TRANS32_DEP_3", "FMA_ACCUM_CYCLE_1",
		"SALU_CYCLE_1", "SALU_CYCLE_2", "SALU_CYCLE_3", "?", "?", "?", "?"};
	static const char *const skip[8] = {"SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3",
					    "SKIP_4", "?", "?"};
	const char *between = " ";
	if (x & 15) {
		put(o, "%sinstid0(%s)", between, id[x & 15]);
		between = " | ";
	}
	if (x >> 4 & 7) {
		put(o, "%sinstskip(%s)", between, skip[x >> 4 & 7]);
		between = " | ";
	}
	if (x >> 7 & 15)
		put(o, "%sinstid1(%s)", between, id[x >> 7 & 15]);
}

static void put_sopp(struct out *o, const struct inst *p)
{
	unsigned x = (unsigned)p->imm & 0xFFFF;
	if (p->op == OP_s_waitcnt)
		put_waitcnt(o, x);
	else if (p->op == OP_s_delay_alu)
		put_delay(o, x);
	else if (p->op == OP_s_sendmsg && x == 3)
		put(o, " sendmsg(MSG_DEALLOC_VGPRS)");
	else if (p->op == OP_s_sendmsg)
		put(o, " sendmsg(%u)", x);
	else if (p->op == OP_s_nop || p->op == OP_s_setprio || p->target ||
		 (p->op >= OP_s_branch && p->op <= OP_s_cbranch_execnz))
		put(o, " %u", x);
	else if (p->op == OP_s_clause || p->op == OP_s_set_inst_prefetch_distance ||
		 p->op == OP_s_waitcnt_depctr)
		put(o, " 0x%x", x);
}

static void put_smem(struct out *o, const struct inst *p)
{
	put_operand(o, &p->d);
	put_operand(o, &p->s[0]);
	const char *sign = p->imm < 0 ? "-" : "";
	unsigned offset = (unsigned)(p->imm < 0 ? -p->imm : p->imm);
	if (p->s[1].reg != REG_NULL) {
		put_operand(o, &p->s[1]);
		if (p->imm)
			put(o, " offset:%s0x%x", sign, offset);
	} else if (p->imm) {
		put(o, ", %s0x%x", sign, offset);
	} else {
		put(o, ", null");
	}
	put(o, "%s%s", p->glc ? " glc" : "", p->dlc ? " dlc" : "");
}

static void put_dpp(struct out *o, const struct inst *p)
{
	unsigned c = p->dpp;
	if (c < 0x100)
		put(o, " quad_perm:[%u,%u,%u,%u]", c & 3, c >> 2 & 3, c >> 4 & 3, c >> 6 & 3);
	else if (c >= 0x101 && c <= 0x10F)
		put(o, " row_shl:%u", c & 15);
	else if (c >= 0x111 && c <= 0x11F)
		put(o, " row_shr:%u", c & 15);
	else if (c >= 0x121 && c <= 0x12F)
		put(o, " row_ror:%u", c & 15);
	else if (c == 0x140)
		put(o, " row_mirror");
	else if (c == 0x141)
		put(o, " row_half_mirror");
	else if (c >= 0x150 && c <= 0x15F)
		put(o, " row_share:%u", c & 15);
	else
		put(o, " row_xmask:%u", c & 15);
	put(o, " row_mask:0x%x bank_mask:0x%x", p->dpp_rows, p->dpp_banks);
	put(o, "%s%s", p->dpp_bound ? " bound_ctrl:1" : "", p->dpp_fi ? " fi:1" : "");
}

static void put_vector(struct out *o, const struct inst *p)
{
	put_operand(o, &p->d);
	put_operand(o, &p->sd);
	for (int i = 0; i < 3; i++)
		put_operand(o, &p->s[i]);
	if (p->encoding == VOP3P) {
		bool is_mix = strstr(op_rows[p->op].name, "_mix") != NULL;
		bool is_matrix = p->class == CLASS_WMMA;
		int n = n_sources(p);
		unsigned all = (1u << n) - 1;
		if (p->op_sel & all)
			put_list(o, "op_sel", p->op_sel, n);
		if ((p->op_sel_hi & all) != (is_mix ? 0 : all) && !is_matrix)
			put_list(o, "op_sel_hi", p->op_sel_hi, n);
		if (p->neg_lo && !is_mix)
			put_list(o, "neg_lo", p->neg_lo, n);
		if (p->neg_hi && !is_mix)
			put_list(o, "neg_hi", p->neg_hi, n);
	} else if (p->op_sel && p->op == OP_v_permlanex16_b32) {
		put_list(o, "op_sel", p->op_sel, 2);
	} else if (p->op_sel) {
		int n = n_sources(p);
		put_list(o, "op_sel", (p->op_sel & ((1u << n) - 1)) | (p->op_sel >> 3) << n,
			 n + 1);
	}
	put(o, "%s", p->clamp ? " clamp" : "");
	static const char *const omod[] = {"", " mul:2", " mul:4", " div:2"};
	put(o, "%s", omod[p->omod]);
	if (p->form == FORM_DPP)
		put_dpp(o, p);
}

static void put_memory(struct out *o, const struct inst *p)
{
	bool is_store = p->d.kind == KIND_NONE;
	if (!is_store)
		put_operand(o, &p->d);
	put_operand(o, &p->s[0]);
	put_operand(o, &p->s[1]);
	if (p->encoding == GLOBAL) {
		if (p->s[2].kind)
			put_operand(o, &p->s[2]);
		else
			put(o, ", off");
	} else if (p->encoding == DS) {
		put_operand(o, &p->s[2]);
	}
	if (p->encoding == DS && strstr(op_rows[p->op].name, "2addr")) {
		if (p->imm)
			put(o, " offset0:%d", p->imm);
		if (p->imm1)
			put(o, " offset1:%d", p->imm1);
	} else if (p->imm) {
		put(o, " offset:%d", p->imm);
	}
	put(o, "%s%s%s%s", p->gds ? " gds" : "", p->glc ? " glc" : "", p->slc ? " slc" : "",
	    p->dlc ? " dlc" : "");
}

static void put_dual(struct out *o, const struct inst *p)
{
	const struct {
		int op;
		const struct operand *d, *s;
	} half[2] = {{p->op, &p->d, p->s}, {p->op_y, &p->y_d, p->y_s}};
	for (int h = 0; h < 2; h++) {
		put(o, "%sv_dual_%s", h ? " :: " : "", op_rows[half[h].op].name + 2);
		o->n_operands = 0;
		put_operand(o, half[h].d);
		for (int i = 0; i < 3; i++)
			if (half[h].s[i].type != 'm')
				put_operand(o, &half[h].s[i]);
	}
}

void inst_text(const struct inst *p, char *text, size_t size)
{
	struct out o = {text, 0, size, 0};
	if (p->encoding == VOPD) {
		put_dual(&o, p);
		return;
	}
	const struct op_row *row = &op_rows[p->op];
	bool has_forms = p->encoding == VOP1 || p->encoding == VOP2 || p->encoding == VOPC;
	put(&o, "%s%s", row->name,
	    !has_forms ? "" : p->form == FORM_DPP ? "_dpp" : row->flags & OP_BARE ? ""
	    : p->form == FORM_LONG ? "_e64" : p->op == OP_v_nop ? "" : "_e32");
	switch (p->encoding) {
	case SOPP:
		put_sopp(&o, p);
		break;
	case SMEM:
		put_smem(&o, p);
		break;
	case SOPK:
		put_operand(&o, &p->d);
		put_operand(&o, &p->s[0]);
		put(&o, ", 0x%x", (unsigned)p->imm & 0xFFFF);
		break;
	case DS: case FLAT: case GLOBAL:
		put_memory(&o, p);
		break;
	case MUBUF:
		break;
	default:
		put_vector(&o, p);
	}
}
