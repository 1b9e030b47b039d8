/* SPDX-License-Identifier: Apache-2.0 */
#include "base/gpumem.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* The number in a file of amdgpu, in bytes; -1 if the driver has no such file. */
static int64_t number(const char *root, const char *device, const char *name)
{
	char path[4096];
	long long v;
	snprintf(path, sizeof path, "%s%s/mem_info_%s", strcmp(root, "/") == 0 ? "" : root,
		 device, name);
	FILE *f = fopen(path, "re");
	bool is_read = f && fscanf(f, "%lld", &v) == 1;
	if (f)
		fclose(f);
	return is_read ? v : -1;
}

bool gpumem_read(const char *root, const char *device, struct gpumem *out)
{
	const struct gpumem g = {
		number(root, device, "gtt_total"), number(root, device, "gtt_used"),
		number(root, device, "vram_total"), number(root, device, "vram_used")};
	if (g.gtt < 0 || g.gtt_used < 0 || g.vram < 0 || g.vram_used < 0)
		return false;
	*out = g;
	return true;
}

bool gpumem_is_shared(const char *arch)
{
	static const char *const shared[] = {"gfx1103", "gfx1150", "gfx1151", "gfx1152",
					     "gfx1153"};
	for (size_t i = 0; i < ARRAY_LEN(shared); i++)
		if (strcmp(shared[i], arch) == 0)
			return true;
	return false;
}

void gpumem_of_apu(const struct gpumem *g, const struct sysmem *system, int64_t left,
		   struct gpumem_have *out)
{
	/* amdgpu serves an APU from the larger of the two. Without its numbers, more than the
	 * system has must be a carve-out. */
	bool is_gtt = g ? g->gtt > g->vram : left <= system->total || left == INT64_MAX;
	int64_t total = !is_gtt ? g ? g->vram : left
			: g ? MIN(g->gtt, system->total) : system->total;
	*out = (struct gpumem_have){total, MIN(left, total), is_gtt};
	if (g)
		out->free = MIN(out->free, is_gtt ? g->gtt - g->gtt_used
						  : g->vram - g->vram_used);
	if (is_gtt)
		out->free = MIN(out->free, system->available);
	out->free = MAX(out->free, 0);
}
