/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/fibers.h"

#include <dlfcn.h>
#include <string.h>

#include "backend/hip/hip.h"
#include "backend/hip/hip_linear.h"
#include "kernels/moe/moe_launch.h"

/* Were experts found as q says? A block of the arena may end among some, and two alone
 * are at an even distance wherever they are. */
static void check_spans(const struct kernel_test *kt, const struct hip *h,
			const struct fibers_quads *q)
{
	int n_even = 0, n_split = 0, n_table = 0;
	/* Linear alone has none; blocks of another runtime may lie evenly by themselves. */
	if (!h->experts || (!q->has_arena && getenv("HALOD_TEST_HIP_LIBRARY")))
		return;
	for (const struct hip_experts *x = h->experts; x; x = x->next)
		for (int part = 0; part < MOE_PARTS && !x->routed.up.has_zero; part++) {
			const struct moe_run *r = &x->span[part].q;
			n_table += !r->p[0];
			n_even += r->p[0] && r->p[0] == r->p[1];
			n_split += r->p[0] && r->p[0] != r->p[1];
		}
	int n_meant = !q->has_arena || q->gaps > 1 ? n_table : q->gaps ? n_split : n_even;
	kernel_ok(2 * n_meant > n_even + n_split + n_table,
		  "%s: experts' parts: %d one behind the other, %d but for a gap, %d by the "
		  "table", kt->name, n_even, n_split, n_table);
}

/* hip_cpu_lines of a library that is loaded; NULL: it has none. */
static size_t (*lines_of(const char *library))(const void *const **out)
{
	size_t (*f)(const void *const **) = NULL;
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	void *p = handle ? dlsym(handle, "hip_cpu_lines") : NULL;
	memcpy(&f, &p, sizeof f);
	if (handle)
		dlclose(handle);
	return f;
}

static void run(const char *name, int int4_axes, int tile, int moe_tile,
		const struct fibers_quads *quads, void (*const *cases)(struct kernel_test *))
{
	bool is_shape = quads || int4_axes >= 0 || tile >= 0 || moe_tile >= 0;
	static unsigned n_runs;
	const char *dir = getenv("HALOD_BUILDDIR");
	const char *other = getenv("HALOD_TEST_HIP_LIBRARY");
	/* Of shapes under a sanitizer few: hip-on-gfx11 watches each access of all of them. */
	enum { SHORT_EVERY = 20 };
	struct kernel_test kt = {.name = name, .is_partial = true, .n_asked = n_runs++,
				 .is_quad = quads != NULL,
				 .every = is_shape && kernel_is_short() && !other ? SHORT_EVERY : 0,
				 .is_once = is_shape && kernel_is_short(),
				 .is_variant = int4_axes >= 0 ||
					       (tile >= 0 && !hip_linear_tile_is_any(tile))};
	struct fail fail = {0};
	char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 dir ? dir : ".");
	if (other)
		snprintf(library, sizeof library, "%s", other);
	struct backend_opts o = {.name = "hip", .hip_library = library,
				 .checks = {.own_blocks = !quads || !quads->has_arena,
					    .few_groups = true}};
	if (backend_create(&o, &kt.b, &fail) != OK) {
		kernel_ok(false, "%s: %s", name, fail.text);
		return;
	}
	struct hip *h = hip_of(kt.b);
	kt.lines = lines_of(library);
	h->prefers_quads = quads || h->prefers_quads;
	if (quads) {
		h->moe_up = quads->up;
		h->moe_down = quads->down;
		kt.gaps = quads->gaps;
	}
	h->int4_axes = int4_axes;
	h->tile = tile;
	h->moe_tile = moe_tile;
	h->moe_tile_from = moe_tile >= 0 ? 1 : h->moe_tile_from;
	h->tile_from = tile >= 0 ? 1 : int4_axes >= 0 ? INT32_MAX : h->tile_from;
	kt.tile_from = moe_tile >= 0 ? 1 : h->tile_from;
	kt.truncates = strncmp(h->device.arch, "gfxsm", 5) == 0;
	for (; *cases; cases++) {
		kernel_test_reset(&kt);
		(*cases)(&kt);
	}
	if (quads && h->experts)
		check_spans(&kt, h, quads);
	kernel_test_reset(&kt);
	arena_deinit(&kt.arena);
	backend_destroy(kt.b);
}

void fibers_run(const char *name, int int4_axes, int tile, int moe_tile,
		void (*const *cases)(struct kernel_test *))
{
	run(name, int4_axes, tile, moe_tile, NULL, cases);
}

void fibers_run_quads(const char *name, const struct fibers_quads *q,
		      void (*const *cases)(struct kernel_test *))
{
	run(name, -1, -1, -1, q, cases);
}
