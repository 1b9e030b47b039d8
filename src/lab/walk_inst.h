/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions as walk.c executes them; walk_decode.c makes them from llvm-objdump's
 * text. Thread: main.
 */
#pragma once
#include "lab/walk.h"

enum { WALK_LANES = 32, WALK_OPERANDS = 5, WALK_VCC = 106, WALK_NULL = 124,
       WALK_EXEC = 126, WALK_SGPRS = 128, WALK_VGPRS = 256 };

enum walk_op {
#define OP(ident, ...) WALK_OP_##ident,
#include "lab/walk_ops.def"
#undef OP
	WALK_OP_COUNT
};

enum walk_kind { OPERAND_NONE, OPERAND_SGPR, OPERAND_VGPR, OPERAND_LITERAL };

struct walk_operand {
	uint8_t kind, n; /* n: number of registers */
	bool is_negative, is_absolute;
	int16_t reg;
	uint32_t literal;
};

struct walk_half { /* an instruction; a dual one has two halves */
	uint16_t op;
	uint8_t n;
	struct walk_operand o[WALK_OPERANDS];
};

struct walk_inst {
	struct walk_half half[2];
	uint8_t n_halves, class;
	uint8_t bytes;     /* bytes for each lane; for scalar loads, in total */
	bool is_stream, is_2addr;
	bool is_x;         /* v_cmpx: writes the exec mask */
	uint8_t cmp;       /* enum walk_cmp, for comparisons */
	char type;         /* u, i or f, for comparisons and scalar arithmetic */
	int32_t offset[2]; /* byte offsets of the access */
	int8_t wait_vm, wait_lgkm; /* s_waitcnt: counts to wait for; -1: no wait */
	bool wait_stores;  /* s_waitcnt_vscnt */
	int32_t target;    /* branch: index of the target instruction; -1: outside */
	uint64_t at, to;   /* address of the instruction, and of a branch's target */
};

enum walk_cmp { CMP_F, CMP_LT, CMP_EQ, CMP_LE, CMP_GT, CMP_LG, CMP_GE, CMP_O, CMP_U };

struct walk_code {
	struct walk_inst *inst;
	size_t n, cap;
};

/* Decode a kernel. E_IO, E_MISSING, E_FORMAT. code->inst is malloc'ed. */
enum status walk_decode(const struct walk_launch *l, const char *objdump,
			struct walk_code *code, struct fail *fail) MUST_USE;

/* Result of a 32-bit operation, and below of 64 bits and comparisons (walk_alu.c). For
 * scalar operations *carry is SCC. */
uint32_t walk_alu(enum walk_op op, uint32_t a, uint32_t b, uint32_t c, bool *carry);
uint64_t walk_alu64(enum walk_op op, uint64_t a, uint64_t b, uint64_t c);
bool walk_compare(enum walk_cmp how, char type, uint64_t a, uint64_t b, int n_bytes);
