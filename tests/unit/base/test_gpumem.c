/* SPDX-License-Identifier: Apache-2.0 */
#include "base/gpumem.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/tap.h"

#define GIB ((int64_t)1 << 30)

static char root[] = "/tmp/test_gpumem-XXXXXX";

#define FOLDER "/sys/class/drm/renderD128/device"

static void put(const char *name, int64_t gib)
{
	char command[800];
	snprintf(command, sizeof command, "mkdir -p %s%s; echo %lld > %s%s/mem_info_%s", root,
		 FOLDER, (long long)(gib * GIB), root, FOLDER, name);
	if (system(command) != 0)
		exit(99);
}

static void test_read(void)
{
	struct gpumem g;
	char command[100];
	if (!mkdtemp(root))
		exit(99);
	ok(!gpumem_read(root, FOLDER, &g), "no GPU");
	put("gtt_total", 62);
	ok(!gpumem_read(root, FOLDER, &g), "a GPU whose driver does not tell all");
	put("gtt_used", 2);
	put("vram_total", 1);
	put("vram_used", 0);
	ok(gpumem_read(root, FOLDER, &g) && g.gtt == 62 * GIB && g.gtt_used == 2 * GIB &&
	   g.vram == GIB && g.vram_used == 0, "the numbers of the driver");
	snprintf(command, sizeof command, "rm -r %s", root);
	ok(system(command) == 0, "cleaned up");
}

/* GiB; left < 0: the runtime was not asked. */
struct apu {
	double gtt, gtt_used, vram, vram_used, left, free;
	bool is_system;
	const char *what;
};

static void check(const struct sysmem *system, const struct apu *a)
{
	struct gpumem g = {(int64_t)(a->gtt * GIB), (int64_t)(a->gtt_used * GIB),
			   (int64_t)(a->vram * GIB), (int64_t)(a->vram_used * GIB)};
	int64_t left = a->left < 0 ? INT64_MAX : (int64_t)(a->left * GIB);
	struct gpumem_have have;
	gpumem_of_apu(a->gtt > 0 ? &g : NULL, system, left, &have);
	is_near((double)have.free / GIB, a->free, 1e-6, "%s: free", a->what);
	is_int(have.is_system, a->is_system, "%s: whose it is", a->what);
	ok(have.free <= have.total && (!have.is_system || have.total <= system->total),
	   "%s: no more than there is", a->what);
}

/* What owners of a Strix Halo with 128 GB report. Their runtimes call 62.47, 62.58, 128, 96 and
 * 96 GiB the total. */
static void test_owners(void)
{
	static const struct apu owners[] = {
		{128, 0, 0.5, 0.2, 120, 118, true, "GTT 128, half of the memory as total"},
		{124, 0, 0.5, 0.2, 120, 118, true, "GTT 124, half of the memory as total"},
		{124, 0, 1, 0.2, 120, 118, true, "GTT 124 beside 1 GiB"},
		{128, 0, 0.5, 0.2, 126, 118, true, "GTT 128, an older runtime"},
		{15.5, 0, 96, 0.2, 95, 95, false, "a carve-out of 96"},
		{32, 0, 64, 0.2, 94, 63.8, false, "a carve-out of 64, the runtime sums both"},
	};
	const struct sysmem system = {(int64_t)(124.92 * GIB), 118 * GIB};
	for (size_t i = 0; i < ARRAY_LEN(owners); i++)
		check(&system, &owners[i]);
}

static void test_bounds(void)
{
	static const struct apu rows[] = {
		{62, 30, 1, 0, 60, 32, true, "what GTT has left, whatever the runtime says"},
		{62, 30, 1, 0, 20, 20, true, "what the runtime has left"},
		{120, 0, 1, 0, 118, 50, true, "what the system has left"},
		{120, 0, 1, 0, -1, 50, true, "nobody asked the runtime"},
		{31, 0, 64, 4, 63, 60, false, "a carve-out of half the memory is the GPU's"},
		{31, 0, 64, 4, -1, 60, false, "the same, nobody asked the runtime"},
		{31, 0, 64, 64, 63, 0, false, "a full carve-out"},
		{0, 0, 0, 0, 90, 50, true, "nothing known, no more than the system has"},
		{0, 0, 0, 0, 190, 190, false, "nothing known, more than the system has"},
		{0, 0, 0, 0, -1, 50, true, "nothing known at all"},
	};
	const struct sysmem system = {124 * GIB, 50 * GIB};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&system, &rows[i]);
}

int main(void)
{
	test_read();
	test_owners();
	test_bounds();
	ok(gpumem_is_shared("gfx1151") && !gpumem_is_shared("gfx1100"), "APUs are known");
	return tap_done();
}
