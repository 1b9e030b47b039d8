/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources. Compute units, clocks, memory: AMD's product pages of Ryzen AI Max+ 395
 * (Radeon 8060S: 40 CUs, 2.9 GHz, 256-bit LPDDR5X-8000) and Radeon PRO W7900 (96 CUs,
 * 2.495 GHz boost, 384-bit GDDR6 at 18 Gb/s). SIMDs, waves, rates: "RDNA3" Instruction
 * Set Architecture reference guide and LLVM's AMDGPU backend (1,536 registers a SIMD on
 * these two chips, 16 waves). Matrix rate: 512 operations a cycle and compute unit
 * (RDNA3 matrix cores, AMD GPUOpen), so 32 cycles of a SIMD for a 16x16x16 product.
 *
 * The model of a loop is the coarsest that says something: a SIMD issues one vector
 * instruction a cycle, four cycles one of the transcendental unit; beside it, from
 * other waves, one scalar instruction; a compute unit's LDS moves 128 bytes a cycle for
 * two SIMDs. The largest of these is the bound; latency is left to the number of waves.
 */
#include "lab/chip.h"

#include <math.h>

#include "base/alloc.h"

enum { SIMDS = 2 /* of a compute unit */, MATRIX_CYCLES = 32, TRANS_CYCLES = 4 };

static const struct chip chips[] = {
	{"gfx1151", "Strix Halo, Radeon 8060S", 40, 2.9, 256, 59.4, 1536, 24, 16, 131072},
	{"gfx1100", "Radeon PRO W7900", 96, 2.495, 864, 122.6, 1536, 24, 16, 131072},
};

const struct chip *chip_find(const char *arch)
{
	for (size_t i = 0; i < ARRAY_LEN(chips); i++)
		if (strcmp(chips[i].arch, arch) == 0)
			return &chips[i];
	return NULL;
}

double chip_waves(const struct chip *c, const struct code_kernel *k, int n_threads,
		  int dynamic_lds_bytes)
{
	int regs = (MAX(k->vgprs, 1) + c->granule - 1) / c->granule * c->granule;
	int by_regs = MIN(c->max_waves, c->vgprs / regs);
	int waves = MAX(1, (n_threads + 31) / 32); /* of a workgroup */
	int lds = k->lds_bytes + dynamic_lds_bytes;
	int groups = by_regs * 2 * SIMDS / waves;
	if (lds > 0)
		groups = MIN(groups, c->lds_bytes / lds);
	return fmin((double)groups * waves / (2 * SIMDS), c->max_waves);
}

const char *chip_limit_name(enum chip_limit l)
{
	static const char *const names[] = {"vector", "matrix", "LDS", "scalar"};
	return names[l];
}

double chip_cycles(const struct isa_count *l, enum chip_limit *out)
{
	double vector = l->valu - l->matrix + (TRANS_CYCLES - 1) * l->trans;
	double matrix = MATRIX_CYCLES * l->matrix;
	/* 32 lanes, 128 bytes a cycle, for one of two SIMDs */
	double lds = l->lds_bytes * 32.0 / 128 * SIMDS;
	double most = vector;
	*out = CHIP_VALU;
	if (matrix > vector)
		*out = CHIP_MATRIX;
	most = vector + matrix; /* one port */
	if (lds > most) {
		most = lds;
		*out = CHIP_LDS;
	}
	if (l->salu > most) {
		most = l->salu;
		*out = CHIP_SCALAR;
	}
	return most;
}

double chip_issue_gbs(const struct chip *c, const struct isa_count *l,
		      enum chip_limit *out)
{
	int bytes = l->nt_bytes ? l->nt_bytes : l->load_bytes;
	double cycles = chip_cycles(l, out);
	if (cycles <= 0 || bytes <= 0)
		return 0;
	return bytes * 32.0 / cycles * c->clock_ghz * c->n_cu * SIMDS;
}
