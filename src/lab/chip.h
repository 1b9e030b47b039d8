/* SPDX-License-Identifier: Apache-2.0
 *
 * The best a chip can do, according to its makers' documents. Thread: any.
 */
#pragma once
#include "lab/isa.h"

struct chip { /* the fields are described in gpu_targets.def */
	const char *arch, *name;
	int n_cu;           /* compute units; HIP reports half as many */
	double clock_ghz;   /* maximum clock */
	double dram_gbs;    /* peak bandwidth of memory */
	double matrix_tflops; /* peak for f16 with f32 sums */
	int vgprs, granule; /* vector registers of a SIMD in wave32; allocated in
			     * multiples of granule */
	int max_waves;      /* waves that a SIMD can hold */
	int lds_bytes;      /* of a work-group processor, which is two compute units */
	int matrix_cycles;  /* cycles of a SIMD for a 16 x 16 x 16 product */
};

/* Paths of this build's code objects, separated by commas; "" if it has none. The caller
 * frees the text. */
char *chip_code_of_build(void);
/* NULL: unknown architecture. */
const struct chip *chip_find(const char *arch);

/* Waves that a SIMD can hold, for a kernel with workgroups of n_threads and this much
 * LDS. */
double chip_waves(const struct chip *c, const struct code_kernel *k, int n_threads,
		  int dynamic_lds_bytes);

/* What limits a loop, assuming memory of unlimited speed. */
enum chip_limit { CHIP_VALU, CHIP_MATRIX, CHIP_LDS, CHIP_SCALAR };
const char *chip_limit_name(enum chip_limit l);

/* Cycles of a SIMD for one iteration of the loop by one wave. */
double chip_cycles(const struct chip *c, const struct isa_count *loop, enum chip_limit *out);
/* Loads of a loop in GB/s for the whole chip, assuming memory of unlimited speed; 0 if it
 * loads nothing. */
double chip_issue_gbs(const struct chip *c, const struct isa_count *loop,
		      enum chip_limit *out);
