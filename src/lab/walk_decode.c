/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes lines of llvm-objdump -d (see isa.c) with their operands:
 *   v_add_co_u32 v1, vcc_lo, s3, v2
 *   global_load_b128 v[0:3], v[4:5], off offset:16 slc
 *   v_dual_mov_b32 v8, v7 :: v_dual_mov_b32 v9, v64
 */
#include "lab/walk_inst.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lab/isa.h"

enum { LINE = 1024, NAME = 64 };

static const char *const names[WALK_OP_COUNT][8] = {
#define OP(ident, kind, ...) {__VA_ARGS__},
#include "lab/walk_ops.def"
#undef OP
};

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* --- names ------------------------------------------------------------------------ */

static uint16_t find_op(const char *name)
{
	for (uint16_t i = 1; i < WALK_OP_COUNT; i++)
		for (int j = 0; j < 8 && names[i][j]; j++)
			if (strcmp(names[i][j], name) == 0)
				return i;
	return WALK_OP_NONE;
}

/* Find comparison and type in names such as "v_cmpx_gt_i32_e64", "s_cmpk_lg_u32". */
static void read_comparison(const char *name, struct walk_inst *i)
{
	static const struct {
		const char *name;
		uint8_t how;
	} hows[] = {{"lt_", CMP_LT}, {"eq_", CMP_EQ}, {"le_", CMP_LE}, {"gt_", CMP_GT},
		    {"lg_", CMP_LG}, {"ne_", CMP_LG}, {"ge_", CMP_GE}, {"o_", CMP_O},
		    {"nlt_", CMP_GE}, {"ngt_", CMP_LE}, {"neq_", CMP_LG}, {"nle_", CMP_GT},
		    {"nge_", CMP_LT}};
	const char *how = strchr(name + 2, '_') + 1;
	i->half[0].op = WALK_OP_CMP;
	i->is_x = begins(name, "v_cmpx");
	i->type = 'x';
	for (size_t h = 0; h < ARRAY_LEN(hows); h++) {
		const char *type = how + strlen(hows[h].name);
		if (!begins(how, hows[h].name))
			continue;
		i->cmp = hows[h].how;
		if (begins(type + 1, "32") || *type != 'f')
			i->type = *type == 'b' ? 'u' : *type;
		i->bytes = begins(type + 1, "64") ? 8 : begins(type + 1, "16") ? 2 : 4;
	}
}

static uint8_t vector_class(const char *name)
{
	static const char *const trans[] = {"v_exp_", "v_log_", "v_rcp_", "v_rsq_",
					    "v_sqrt_", "v_sin_", "v_cos_"};
	for (size_t i = 0; i < ARRAY_LEN(trans); i++)
		if (begins(name, trans[i]))
			return WALK_TRANS;
	return begins(name, "v_wmma") ? WALK_MATRIX
	       : begins(name, "v_dual") ? WALK_DUAL : WALK_VALU;
}

static uint8_t scalar_class(const char *name)
{
	static const struct {
		const char *name;
		uint8_t class;
	} rows[] = {{"s_load", WALK_SMEM}, {"s_branch", WALK_BRANCH},
		    {"s_cbranch", WALK_BRANCH}, {"s_waitcnt", WALK_WAIT},
		    {"s_barrier", WALK_BARRIER}, {"s_delay_alu", WALK_HINT},
		    {"s_nop", WALK_HINT}, {"s_clause", WALK_HINT}, {"s_set_inst", WALK_HINT},
		    {"s_code_end", WALK_HINT}, {"s_sendmsg", WALK_HINT},
		    {"s_endpgm", WALK_BRANCH}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (begins(name, rows[i].name))
			return rows[i].class;
	return WALK_SALU;
}

static uint8_t class_of(const char *name)
{
	if (name[0] == 'v')
		return vector_class(name);
	if (begins(name, "ds_"))
		return WALK_LDS;
	if (begins(name, "global_load") || begins(name, "flat_load"))
		return WALK_LOAD;
	if (begins(name, "global_store") || begins(name, "flat_store"))
		return WALK_STORE;
	if (begins(name, "global_atomic") || begins(name, "flat_atomic"))
		return WALK_ATOMIC;
	return name[0] == 's' ? scalar_class(name) : WALK_HINT;
}

/* Bytes that a memory instruction moves, by the end of its name. */
static uint8_t bytes_of(const char *name)
{
	static const struct {
		const char *end;
		uint8_t bytes;
	} ends[] = {{"_b512", 64}, {"_b256", 32}, {"_b128", 16}, {"_b96", 12}, {"_b64", 8},
		    {"_b32", 4}, {"_u32", 4}, {"_u16", 2}, {"_i16", 2}, {"_b16", 2},
		    {"_u8", 1}, {"_i8", 1}, {"_b8", 1}};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (strstr(name, ends[i].end))
			return ends[i].bytes;
	return 4;
}

static uint16_t op_of(const char *name)
{
	char bare[NAME];
	if (strstr(name, "_dpp") || (name[0] != 'v' && name[0] != 's'))
		return WALK_OP_NONE;
	snprintf(bare, sizeof bare, "%s", name + (begins(name, "v_dual_") ? 7 : 2));
	size_t n = strlen(bare);
	if (n > 4 && (strcmp(bare + n - 4, "_e32") == 0 || strcmp(bare + n - 4, "_e64") == 0))
		bare[n - 4] = '\0';
	return find_op(bare);
}

/* --- operands --------------------------------------------------------------------- */

static bool read_named(const char *s, struct walk_operand *o)
{
	static const struct {
		const char *name;
		int16_t reg;
		uint8_t n;
	} rows[] = {{"vcc_lo", WALK_VCC, 1}, {"vcc_hi", WALK_VCC + 1, 1}, {"vcc", WALK_VCC, 2},
		    {"exec_lo", WALK_EXEC, 1}, {"exec_hi", WALK_EXEC + 1, 1},
		    {"exec", WALK_EXEC, 2}, {"m0", 125, 1}, {"null", WALK_NULL, 1}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(s, rows[i].name) == 0) {
			o->kind = OPERAND_SGPR;
			o->reg = rows[i].reg;
			o->n = rows[i].n;
			return true;
		}
	return false;
}

/* Parse an operand such as "v[4:7]", "-|s2|", "0x10", "1.0", "off". */
static void read_operand(char *s, struct walk_operand *o)
{
	*o = (struct walk_operand){0};
	char *end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	if (s[0] == '-' && !isdigit((unsigned char)s[1])) {
		o->is_negative = true;
		s++;
	}
	if (s[0] == '|' && end[-1] == '|') {
		o->is_absolute = true;
		end[-1] = '\0';
		s++;
	}
	int from = 0, to = 0;
	char file = 0;
	if (sscanf(s, "%c[%d:%d]", &file, &from, &to) == 3 ||
	    (sscanf(s, "%c%d", &file, &from) == 2 && (file == 'v' || file == 's'))) {
		o->kind = file == 'v' ? OPERAND_VGPR : OPERAND_SGPR;
		o->reg = (int16_t)from;
		o->n = (uint8_t)(to > from ? to - from + 1 : 1);
		return;
	}
	if (read_named(s, o) || strcmp(s, "off") == 0)
		return;
	if (!isdigit((unsigned char)*s) && *s != '-')
		return;
	o->kind = OPERAND_LITERAL;
	o->n = 1;
	if (strchr(s, '.')) {
		float f = strtof(s, NULL);
		memcpy(&o->literal, &f, sizeof f);
	} else {
		o->literal = (uint32_t)strtoll(s, NULL, 0);
	}
}

/* Parse modifiers: offset:16, offset0:1 offset1:3, slc, vmcnt(0). */
static void read_modifiers(const char *s, struct walk_inst *i)
{
	const char *at = strstr(s, " offset:");
	if (at)
		i->offset[0] = (int32_t)strtol(at + 8, NULL, 0);
	if ((at = strstr(s, " offset0:")))
		i->offset[0] = (int32_t)strtol(at + 9, NULL, 0);
	if ((at = strstr(s, " offset1:")))
		i->offset[1] = (int32_t)strtol(at + 9, NULL, 0);
	i->is_stream = strstr(s, " slc") || strstr(s, " th:TH_LOAD_NT");
	i->wait_vm = i->wait_lgkm = -1;
	if ((at = strstr(s, "vmcnt(")))
		i->wait_vm = (int8_t)atoi(at + 6);
	if ((at = strstr(s, "lgkmcnt(")))
		i->wait_lgkm = (int8_t)atoi(at + 8);
}

/* Parse "a, b, c modifiers"; changes s. */
static void read_operands(char *s, struct walk_half *h)
{
	while (*s && h->n < WALK_OPERANDS) {
		while (isspace((unsigned char)*s))
			s++;
		char *end = s;
		while (*end && *end != ',' && !isspace((unsigned char)*end))
			end++;
		bool is_last = *end != ',';
		char keep = *end;
		*end = '\0';
		if (*s)
			read_operand(s, &h->o[h->n++]);
		if (is_last || !keep)
			return;
		s = end + 1;
	}
}

/* Sign-extend 16-bit literals: s_addk_i32 s0, 0xffff means s0 = s0 + -1. */
static void read_short_literal(const char *name, struct walk_half *h)
{
	bool is_signed = strstr(name, "i32") != NULL;
	struct walk_operand *last = &h->o[1];
	if (is_signed)
		last->literal = (uint32_t)(int32_t)(int16_t)last->literal;
	if (begins(name, "s_addk") || begins(name, "s_mulk")) {
		h->o[2] = *last;
		h->o[1] = h->o[0];
		h->n = 3;
	}
}

static void read_text(char *s, struct walk_inst *i)
{
	char name[NAME];
	char *second = strstr(s, " :: ");
	if (second) {
		*second = '\0';
		second += 4;
	}
	int used = 0;
	if (sscanf(s, " %63s%n", name, &used) != 1)
		return;
	i->class = class_of(name);
	i->n_halves = 1;
	i->bytes = bytes_of(name);
	i->half[0].op = op_of(name);
	if (begins(name, "v_cmp") || begins(name, "s_cmp"))
		read_comparison(name, i);
	i->is_2addr = strstr(name, "_2addr_") != NULL;
	if (begins(name, "s_waitcnt_"))
		i->class = WALK_WAIT;
	i->wait_stores = begins(name, "s_waitcnt_vscnt");
	read_modifiers(s + used, i);
	if (i->is_2addr) {
		int32_t scale = i->bytes * (strstr(name, "stride64") ? 64 : 1);
		i->offset[0] *= scale;
		i->offset[1] *= scale;
	}
	if (i->class == WALK_LOAD || i->class == WALK_SMEM)
		i->type = strstr(name, "_i8") || strstr(name, "_i16") ? 'i'
			  : strstr(name, "d16") ? 'x' : 'u';
	else if (i->class == WALK_SALU && i->half[0].op != WALK_OP_CMP)
		i->type = strstr(name, "_i32") ? 'i' : 'u';
	else if (i->class == WALK_LDS)
		i->type = strstr(name, "store") ? 's' : strstr(name, "load") ? 'l' : 'x';
	read_operands(s + used, &i->half[0]);
	if (begins(name, "s_addk") || begins(name, "s_mulk") || begins(name, "s_movk") ||
	    begins(name, "s_cmpk"))
		read_short_literal(name, &i->half[0]);
	if (second && sscanf(second, " %63s%n", name, &used) == 1) {
		i->half[1].op = op_of(name);
		i->n_halves = 2;
		read_operands(second + used, &i->half[1]);
	}
}

/* --- a kernel --------------------------------------------------------------------- */

static void add_line(struct walk_code *code, const struct walk_launch *l, char *raw)
{
	char *comment = strstr(raw, "//");
	struct walk_inst i = {.target = -1};
	if (raw[0] != '\t' || !comment || sscanf(comment, "// %lx", &i.at) != 1 ||
	    i.at >= l->kernel->end)
		return;
	*comment = '\0';
	char *plus = strstr(comment + 2, "+0x");
	read_text(raw, &i);
	if (i.class == WALK_BRANCH)
		i.to = l->kernel->begin + (plus ? strtoull(plus + 3, NULL, 16) : 0);
	if (code->n == code->cap) {
		code->cap = code->cap ? 2 * code->cap : 1024;
		code->inst = xrealloc(code->inst, code->cap * sizeof i);
	}
	code->inst[code->n++] = i;
}

static void find_targets(struct walk_code *code)
{
	for (size_t i = 0; i < code->n; i++) {
		struct walk_inst *p = &code->inst[i];
		if (p->class != WALK_BRANCH)
			continue;
		size_t lo = 0, hi = code->n;
		while (lo < hi) {
			size_t mid = (lo + hi) / 2;
			if (code->inst[mid].at < p->to)
				lo = mid + 1;
			else
				hi = mid;
		}
		p->target = lo < code->n && code->inst[lo].at == p->to ? (int32_t)lo : -1;
	}
}

enum status walk_decode(const struct walk_launch *l, const char *objdump,
			struct walk_code *code, struct fail *fail)
{
	char raw[LINE];
	*code = (struct walk_code){0};
	if (strchr(l->code, '\'') || strchr(l->kernel->name, '\''))
		return fail_set(fail, E_IO, "%s: a quote in its name", l->code);
	char *tool = objdump ? xstrdup(objdump) : isa_find_objdump();
	if (!tool)
		return fail_set(fail, E_MISSING, "llvm-objdump was not found");
	char *command = xasprintf("'%s' -d --mcpu=%s --disassemble-symbols='%s' '%s' "
				  "2>/dev/null", tool, l->arch, l->kernel->name, l->code);
	free(tool);
	FILE *f = popen(command, "r");
	free(command);
	if (!f)
		return fail_set(fail, E_IO, "cannot run llvm-objdump");
	while (fgets(raw, sizeof raw, f))
		add_line(code, l, raw);
	bool is_good = pclose(f) == 0 && code->n > 0;
	find_targets(code);
	if (!is_good)
		return fail_set(fail, E_FORMAT, "llvm-objdump shows no instructions of %s",
				l->kernel->name);
	return OK;
}
