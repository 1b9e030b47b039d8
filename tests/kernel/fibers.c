/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/fibers.h"

#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip.h"
#include "backend/hip/hip_linear.h"

void fibers_run(const char *name, int int4_axes, int tile, int moe_tile,
		void (*const *cases)(struct kernel_test *))
{
	bool is_shape = int4_axes >= 0 || tile >= 0 || moe_tile >= 0;
	static unsigned n_runs;
	const char *dir = getenv("HALOD_BUILDDIR");
	const char *other = getenv("HALOD_TEST_HIP_LIBRARY");
	/* Under a sanitizer few: hip-on-gfx11 watches each access of all of them. */
	enum { SHORT_EVERY = 40 };
	struct kernel_test kt = {.name = name, .is_partial = true, .n_asked = n_runs++,
				 .every = kernel_is_short() && !other ? SHORT_EVERY : 0,
				 .is_once = is_shape && kernel_is_short(),
				 .is_variant = int4_axes >= 0 ||
					       (tile >= 0 && !hip_linear_tile_is_any(tile))};
	const char *options = getenv("HALOD_GFX11");
	kt.is_cut = other && options && strstr(options, "adder=silicon");
	struct fail fail = {0};
	char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 dir ? dir : ".");
	if (other)
		snprintf(library, sizeof library, "%s", other);
	struct backend_opts o = {.name = "hip", .hip_library = library,
				 .checks = {.own_blocks = true, .few_groups = true}};
	if (backend_create(&o, &kt.b, &fail) != OK) {
		kernel_ok(false, "%s: %s", name, fail.text);
		return;
	}
	struct hip *h = hip_of(kt.b);
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
