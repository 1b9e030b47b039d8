/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chip could do at best, from its makers' papers. Thread: any.
 */
#pragma once
#include "lab/isa.h"

struct chip { /* fields as gpu_targets.def tells */
	const char *arch, *name;
	int n_cu;           /* compute units; HIP reports half of them */
	double clock_ghz;   /* at best */
	double dram_gbs;    /* peak */
	double matrix_tflops; /* f16, sums in f32 */
	int vgprs, granule; /* of a SIMD in wave32; given in so many */
	int max_waves;      /* of a SIMD */
	int lds_bytes;      /* of a work-group processor: two compute units */
	int matrix_cycles;  /* of a SIMD for a 16 x 16 x 16 product */
};

/* Paths of the code objects of this build, with commas between them; "": it has none. The
 * caller frees it. */
char *chip_code_of_build(void);
/* NULL: not known. */
const struct chip *chip_find(const char *arch);

/* Waves a SIMD can hold of a kernel with workgroups of n_threads and so much LDS. */
double chip_waves(const struct chip *c, const struct code_kernel *k, int n_threads,
		  int dynamic_lds_bytes);

/* What ends a loop's step, were memory without end. */
enum chip_limit { CHIP_VALU, CHIP_MATRIX, CHIP_LDS, CHIP_SCALAR };
const char *chip_limit_name(enum chip_limit l);

/* Cycles of a SIMD for one step of the loop by one wave. */
double chip_cycles(const struct chip *c, const struct isa_count *loop, enum chip_limit *out);
/* GB/s that loads of such a loop come to on the whole chip, were memory without end;
 * 0: it loads nothing. */
double chip_issue_gbs(const struct chip *c, const struct isa_count *loop,
		      enum chip_limit *out);
