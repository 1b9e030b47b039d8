/* SPDX-License-Identifier: Apache-2.0
 *
 * One instruction of gfx11 (RDNA3), decoded from its words, and its text as
 * llvm-objdump writes it. Wave32 only. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum encoding {
	SOP1, SOP2, SOPC, SOPK, SOPP, SMEM, VOP1, VOP2, VOPC, VOP3, VOP3P, VOPD, DS, FLAT,
	GLOBAL, MUBUF, N_ENCODINGS
};

/* A row of gfx11_ops.def. */
enum op {
#define OP(enc, code, name, sig, flags) OP_##name,
#include "tests/hip-on-gfx11/gfx11_ops.def"
	N_OPS
};

enum op_flag { OP_TRANS = 1, OP_BARE = 2 };

struct op_row {
	const char *name, *operands;
	uint16_t code;
	uint8_t encoding, flags;
};
extern const struct op_row op_rows[N_OPS];

/* What an instruction costs and is counted as. */
enum inst_class {
	CLASS_VALU, CLASS_TRANS, CLASS_WMMA, CLASS_VOPD, CLASS_SALU, CLASS_SMEM, CLASS_LOAD,
	CLASS_STORE, CLASS_ATOMIC, CLASS_LDS, CLASS_BRANCH, CLASS_WAIT, CLASS_BARRIER,
	CLASS_HINT, N_CLASSES
};
extern const char *const class_names[N_CLASSES];

enum {
	REG_VCC = 106, REG_NULL = 124, REG_M0 = 125, REG_EXEC = 126,
	CODE_LITERAL = 255, CODE_DPP16 = 250, CODE_SCC = 253, CODE_SHARED_BASE = 235,
	SHARED_APERTURE = 0x10000, /* high word of a FLAT address in LDS; ours to choose */
};

enum operand_kind { KIND_NONE, KIND_VGPR, KIND_SGPR, KIND_CONSTANT, KIND_SCC };
enum { MOD_NEG = 1, MOD_ABS = 2 };

struct operand {
	uint8_t kind, n;    /* n: registers */
	uint8_t mods;
	char type;          /* the letter in gfx11_ops.def */
	uint16_t reg, code; /* code: as encoded */
	uint32_t imm;       /* of a constant: the low word, or of type d the high one */
};

struct wave;
struct inst;
typedef void inst_run(struct wave *w, const struct inst *p);

enum form { FORM_SHORT, FORM_LONG, FORM_DPP };

/* What each step of a wave looks at lies in the first line of the cache, and what most
 * instructions read in the second. */
struct inst {
	_Alignas(64) inst_run *run; /* set by who executes */
	uint64_t vgprs[4];         /* a bit a VGPR that is read or written */
	uint64_t sgprs[2];
	uint32_t address;          /* of its first word, in the code object */
	uint8_t size;              /* words */
	uint8_t class;
	uint8_t step, n_hints;     /* set by who executes: words to the next instruction that
				    * does something, and how many hints lie between */
	struct operand d, s[3];
	int32_t imm, imm1;         /* offsets, SOPP's and SOPK's field */
	uint8_t op_sel, op_sel_hi, neg_lo, neg_hi, clamp, omod;
	uint8_t glc, slc;
	struct operand y_d, y_s[3]; /* VOPD's second half */
	inst_run *inner;           /* of DPP: what follows the exchange */
	const struct inst *target; /* of a branch */
	struct operand sd;         /* the second destination, a lane mask */
	uint32_t words[3];
	uint16_t op, op_y;
	uint16_t dpp;              /* control field */
	uint8_t encoding, form;
	uint8_t dlc, gds;
	uint8_t dpp_banks, dpp_rows, dpp_bound, dpp_fi;
	bool spoils_high; /* the high word of the result is not to be relied on: gfx11_run.c */
	bool is_unsure; /* holds a constant whose value we do not know for certain */
};

/* Decodes the instruction that n words begin with. Returns NULL, or why it cannot. */
const char *inst_decode(const uint32_t *words, size_t n, uint64_t address,
			struct inst *out);
/* Writes at most `size` bytes, ended by 0. */
void inst_text(const struct inst *p, char *out, size_t size);

static inline bool inst_is_vector_alu(const struct inst *p)
{
	return p->class <= CLASS_VOPD;
}
