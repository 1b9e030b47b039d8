/* SPDX-License-Identifier: Apache-2.0 */
#include "base/gpumem.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/tap.h"

#define GIB ((int64_t)1 << 30)

static char root[] = "/tmp/test_gpumem-XXXXXX";

static void put(int render, const char *name, int64_t gib)
{
	char path[300], command[800];
	snprintf(path, sizeof path, "%s/sys/class/drm/renderD%d/device", root, render);
	snprintf(command, sizeof command, "mkdir -p %s; echo %lld > %s/mem_info_%s", path,
		 (long long)(gib * GIB), path, name);
	if (system(command) != 0)
		exit(99);
}

static void put_gpu(int render)
{
	put(render, "gtt_total", 62);
	put(render, "gtt_used", 2);
	put(render, "vram_total", 1);
	put(render, "vram_used", 0);
}

static void check(const struct gpumem *g, int64_t total, int64_t left, int64_t free_gib,
		  bool is_system, const char *what)
{
	const struct sysmem system = {124 * GIB, 50 * GIB};
	struct gpumem_have have;
	gpumem_of_apu(g, &system, total * GIB, left * GIB, &have);
	is_int(have.free / GIB, free_gib, "%s: free", what);
	is_int(have.is_system, is_system, "%s: whose it is", what);
}

int main(void)
{
	struct gpumem g;
	char command[100];
	if (!mkdtemp(root))
		return 99;
	ok(!gpumem_read(root, &g), "no GPU");
	put(128, "gtt_total", 62);
	ok(!gpumem_read(root, &g), "a GPU whose driver does not tell all");
	put_gpu(128);
	ok(gpumem_read(root, &g) && g.gtt == 62 * GIB && g.gtt_used == 2 * GIB && g.vram == GIB,
	   "the numbers of the only GPU");
	put_gpu(129);
	ok(!gpumem_read(root, &g), "of two nobody knows which is meant");

	const struct gpumem gtt = {62 * GIB, 30 * GIB, GIB, 0};
	check(&gtt, 62, 60, 32, true, "what GTT has left, whatever the runtime says");
	check(&gtt, 62, 20, 20, true, "what the runtime has left");
	const struct gpumem large = {120 * GIB, 0, GIB, 0};
	check(&large, 120, 118, 50, true, "what the system has left");
	const struct gpumem carved = {31 * GIB, 0, 64 * GIB, 4 * GIB};
	check(&carved, 64, 63, 60, false, "a carve-out of half the memory is the GPU's");
	check(NULL, 100, 90, 50, true, "nothing known, no more than the system has");
	check(NULL, 200, 90, 90, false, "nothing known, more than the system has");
	snprintf(command, sizeof command, "rm -r %s", root);
	ok(system(command) == 0, "cleaned up");
	return tap_done();
}
