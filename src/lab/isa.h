/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions of a code object's kernels, counted, as llvm-objdump prints them.
 * Thread: main.
 */
#pragma once
#include <stdio.h>

#include "lab/codeobject.h"

/* Of a stretch of instructions. A dual instruction (VOPD) counts as one. */
struct isa_count {
	int32_t n;          /* all but waits and hints */
	int32_t valu;       /* vector arithmetic, trans and matrix included */
	int32_t trans;      /* of these: exp, log, rcp, rsq, sqrt, sin, cos */
	int32_t matrix;     /* of these: v_wmma */
	int32_t dot2;       /* of these: v_dot2 */
	int32_t divide;     /* of these: v_div_scale, _fmas, _fixup: an exact division
			     * is nine instructions, of which these are four */
	int32_t salu, lds, load, store;
	int32_t lds_bytes;  /* of a lane, both ways */
	int32_t scratch;    /* scratch_load, scratch_store */
	int32_t barrier;
	int32_t load_bytes; /* of a lane, from global memory */
	int32_t nt_bytes;   /* of these: not to be kept in caches (slc, or nt) */
	int32_t nt_narrow;  /* such loads of less than 16 bytes */
};

struct isa_kernel {
	struct isa_count all;
	/* Of its innermost loops the one that loads most that is read once; else most
	 * from global memory; else the longest. n 0: no loop. */
	struct isa_count hot;
	int32_t n_loops; /* innermost ones */
	/* Divisions in loops, innermost or not. */
	int32_t loop_divides;
};

/* "/usr/bin/llvm-objdump-19", malloc'ed; NULL: there is none. */
char *isa_find_objdump(void);

/* One for each kernel of c, malloc'ed: *out (c->n). Runs `objdump` (NULL: the first of
 * llvm-objdump, llvm-objdump-19 … that there is) on the file. E_MISSING where there is
 * none, E_FORMAT where it prints what is not understood. */
enum status isa_read(const char *path, const struct codeobject *c, const char *objdump,
		     struct isa_kernel **out, struct fail *fail) MUST_USE;
/* The same of its printed text. */
enum status isa_parse(FILE *text, const struct codeobject *c, struct isa_kernel *out,
		      struct fail *fail) MUST_USE;
