/* SPDX-License-Identifier: Apache-2.0
 *
 * A coarse model of a loop. A SIMD issues one vector instruction a cycle; a
 * transcendental one takes four cycles. Scalar instructions of other waves issue beside
 * these, one a cycle. A compute unit's LDS moves 128 bytes a cycle for two SIMDs. The
 * slowest of these is the bound. Latency is not modelled; the number of waves must hide
 * it.
 */
#include "lab/chip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

enum { SIMDS = 2 /* in a compute unit */, TRANS_CYCLES = 4 };

static const struct chip chips[] = {
#define GPU_TARGET(arch, ...) {#arch, __VA_ARGS__},
#include "backend/hip/gpu_targets.def"
#undef GPU_TARGET
};

char *chip_code_of_build(void)
{
	char *all = xstrdup("");
	for (size_t i = 0; i < ARRAY_LEN(chips); i++) {
		char *near = xasprintf("kernels/%s.hsaco", chips[i].arch);
		char *installed = xasprintf("../lib/halod/%s.hsaco", chips[i].arch);
		const char *const places[] = {near, installed};
		char *found = file_beside_program(places, ARRAY_LEN(places));
		if (found) {
			char *more = xasprintf("%s%s%s", all, *all ? "," : "", found);
			free(all);
			all = more;
		}
		free(found);
		free(near);
		free(installed);
	}
	return all;
}

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
	int regs = ROUND_UP(MAX(k->vgprs, 1), c->granule);
	int by_regs = MIN(c->max_waves, c->vgprs / regs);
	int waves = MAX(1, (n_threads + 31) / 32); /* in a workgroup */
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

double chip_cycles(const struct chip *c, const struct isa_count *l, enum chip_limit *out)
{
	double vector = l->valu - l->matrix + (TRANS_CYCLES - 1) * l->trans;
	double matrix = c->matrix_cycles * l->matrix;
	/* 32 lanes; 128 bytes a cycle shared by two SIMDs */
	double lds = l->lds_bytes * 32.0 / 128 * SIMDS;
	double most = vector;
	*out = CHIP_VALU;
	if (matrix > vector)
		*out = CHIP_MATRIX;
	most = vector + matrix; /* vector and matrix instructions share an issue port */
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
	double cycles = chip_cycles(c, l, out);
	if (cycles <= 0 || bytes <= 0)
		return 0;
	return bytes * 32.0 / cycles * c->clock_ghz * c->n_cu * SIMDS;
}
