/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hip-on-cpu/kernels.h"

#include <string.h>

static struct kernel_unit *units;

void kernels_add(struct kernel_unit *unit)
{
	unit->next = units;
	units = unit;
}

const kernel_entry *kernels_find(const char *name)
{
	for (const kernel_unit *u = units; u; u = u->next)
		for (size_t i = 0; i < u->n_kernels; i++)
			if (strcmp(u->kernel[i].name, name) == 0)
				return &u->kernel[i];
	return NULL;
}
