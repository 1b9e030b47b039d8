/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels compiled as C++, each thread a fiber.
 */
#include "tests/hip-on-cpu/device.h"
#include "tests/hip-on-cpu/fiber.h"

struct call {
	const struct kernel_entry *kernel;
	void **args;
};

static void enter(void *arg)
{
	struct call *c = arg;
	c->kernel->run(c->args);
}

const char *device_name(void)
{
	return "fibers on the CPU";
}

const char *device_arch(void)
{
	return "gfx1151";
}

bool device_run(const struct kernel_entry *k, void **args, const struct device_launch *l)
{
	struct call c = {k, args};
	struct fiber_launch f = {.grid_x = l->grid_x, .grid_y = l->grid_y,
				 .n_threads = l->n_threads, .lds_bytes = l->lds_bytes,
				 .is_reversed = l->is_reversed, .entry = enter, .arg = &c};
	fiber_run(&f);
	return true;
}

void device_memory(void *p, size_t n_bytes, enum memory_kind kind)
{
}

void *device_place(size_t n_bytes)
{
	return NULL;
}

bool device_displace(void *block)
{
	return false;
}
