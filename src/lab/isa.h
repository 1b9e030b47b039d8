/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the instructions of a code object's kernels, from llvm-objdump's output. Thread:
 * main.
 */
#pragma once

#include "lab/codeobject.h"

/* Counts over a range of instructions. A dual instruction (VOPD) counts as one. */
struct isa_count {
	int32_t n;          /* all except waits and hints */
	int32_t valu;       /* vector arithmetic, including trans and matrix */
	int32_t trans;      /* of these: exp, log, rcp, rsq, sqrt, sin, cos */
	int32_t matrix;     /* of these: v_wmma */
	int32_t dot2;       /* of these: v_dot2 */
	int32_t divide;     /* of these: v_div_scale, _fmas, _fixup. An exact division has
			     * nine instructions, four of them these */
	int32_t salu, lds, load, store;
	int32_t lds_bytes;  /* bytes of a lane, loads and stores */
	int32_t scratch;    /* scratch_load, scratch_store */
	int32_t barrier;
	int32_t load_bytes; /* bytes of a lane from global memory */
	int32_t nt_bytes;   /* of these: non-temporal (slc, or nt) */
	int32_t nt_narrow;  /* number of non-temporal loads of less than 16 bytes */
};

struct isa_kernel {
	struct isa_count all;
	/* The innermost loop with the most non-temporal loads; if none has any, the one
	 * with the most global loads; else the longest. n 0: there is no loop. */
	struct isa_count hot;
	int32_t n_loops; /* number of innermost loops */
	/* Divisions in any loop. */
	int32_t loop_divides;
};

/* Path of llvm-objdump, as in "/usr/bin/llvm-objdump-19", malloc'ed; NULL if not found. */
char *isa_find_objdump(void);

/* Count the instructions of c's kernels: *out (c->n), malloc'ed. Runs `objdump` on the
 * file (NULL: the first found of llvm-objdump, llvm-objdump-19 …). E_MISSING: there is
 * none. E_FORMAT: its output is not understood. */
enum status isa_read(const char *path, const struct codeobject *c, const char *objdump,
		     struct isa_kernel **out, struct fail *fail) MUST_USE;
