/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases on the HIP backend, on the runtime of tests/hip-on-cpu; every allocation is one of
 * the runtime's, so that its ends are seen. HALOD_TEST_HIP_LIBRARY=FILE: on that runtime
 * instead (tests/hip-on-cuda, or a real one).
 */
#pragma once
#include "tests/kernel/kernel_test.h"

/* cases: ended by NULL. int4_axes, tile, moe_tile: see struct hip; -1: by the shape. With
 * a tile all tokens go there, with axes none. */
void fibers_run(const char *name, int int4_axes, int tile, int moe_tile,
		void (*const *cases)(struct kernel_test *));
