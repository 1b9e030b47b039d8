/* SPDX-License-Identifier: Apache-2.0 */
#include "base/gpumem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_RENDER = 128, LAST_RENDER = 191 }; /* minor numbers of render nodes */

/* The number in a file of amdgpu, in bytes; -1 if the driver has no such file. */
static int64_t number(const char *root, int render, const char *name)
{
	char path[4096];
	long long v;
	snprintf(path, sizeof path, "%s/sys/class/drm/renderD%d/device/mem_info_%s",
		 strcmp(root, "/") == 0 ? "" : root, render, name);
	FILE *f = fopen(path, "re");
	bool is_read = f && fscanf(f, "%lld", &v) == 1;
	if (f)
		fclose(f);
	return is_read ? v : -1;
}

bool gpumem_read(const char *root, struct gpumem *out)
{
	int found = 0;
	for (int i = FIRST_RENDER; i <= LAST_RENDER; i++) {
		const struct gpumem g = {
			number(root, i, "gtt_total"), number(root, i, "gtt_used"),
			number(root, i, "vram_total"), number(root, i, "vram_used")};
		if (g.gtt < 0 || g.gtt_used < 0 || g.vram < 0 || g.vram_used < 0)
			continue;
		*out = g;
		found++;
	}
	return found == 1;
}

void gpumem_of_apu(const struct gpumem *g, const struct sysmem *system, int64_t total,
		   int64_t left, struct gpumem_have *out)
{
	/* `total` is about the size of GTT or of the carve-out (vram): the nearer one is in
	 * use. Without numbers of the driver, a total above the system's memory must be a
	 * carve-out. */
	bool is_gtt = g ? llabs(total - g->gtt) < llabs(total - g->vram)
			: total <= system->total;
	*out = (struct gpumem_have){total, left, is_gtt};
	if (g)
		out->free = MIN(left, is_gtt ? g->gtt - g->gtt_used : g->vram - g->vram_used);
	if (is_gtt)
		out->free = MIN(out->free, system->available);
	out->free = MAX(out->free, 0);
}
