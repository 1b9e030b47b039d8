/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/fibers.h"

#include "backend/hip.h"
#include "backend/hip_linear.h"

static void run(const char *name, int int4_axes, int tile, int moe_tile, bool quads,
		void (*const *cases)(struct kernel_test *))
{
	struct kernel_test kt = {.name = name, .is_partial = true,
				 .is_variant = int4_axes >= 0 ||
					       (tile >= 0 && !hip_linear_tile_has_units(tile))};
	struct fail fail = {0};
	const char *dir = getenv("HALOD_BUILDDIR");
	const char *other = getenv("HALOD_TEST_HIP_LIBRARY");
	char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 dir ? dir : ".");
	if (other)
		snprintf(library, sizeof library, "%s", other);
	struct backend_opts o = {.name = "hip", .hip_library = library, .own_blocks = true};
	if (backend_create(&o, &kt.b, &fail) != OK) {
		kernel_ok(false, "%s: %s", name, fail.text);
		return;
	}
	struct hip *h = hip_of(kt.b);
	h->few_groups = true;
	h->prefers_quads = quads || h->prefers_quads;
	h->int4_axes = int4_axes;
	h->tile = tile;
	h->moe_tile = moe_tile;
	h->moe_tile_from = moe_tile >= 0 ? 1 : h->moe_tile_from;
	h->tile_from = tile >= 0 ? 1 : int4_axes >= 0 ? INT32_MAX : h->tile_from;
	kt.tile_from = moe_tile >= 0 ? 1 : h->tile_from;
	for (; *cases; cases++) {
		kernel_test_reset(&kt);
		(*cases)(&kt);
	}
	kernel_test_reset(&kt);
	arena_deinit(&kt.arena);
	backend_destroy(kt.b);
}

void fibers_run(const char *name, int int4_axes, int tile, int moe_tile,
		void (*const *cases)(struct kernel_test *))
{
	run(name, int4_axes, tile, moe_tile, false, cases);
}

void fibers_run_quads(const char *name, void (*const *cases)(struct kernel_test *))
{
	run(name, -1, -1, -1, true, cases);
}
