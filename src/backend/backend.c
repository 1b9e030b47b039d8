/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <string.h>

#include "backend/cpu.h"
#include "base/alloc.h"

static const struct {
	const char *name;
	enum status (*create)(const struct backend_opts *o, struct backend **out,
			      struct fail *fail);
} kinds[] = {
	{"cpu", cpu_create},
};

enum status backend_create(const struct backend_opts *o, struct backend **out,
			   struct fail *fail)
{
	const char *name = o->name ? o->name : "cpu";
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].create(o, out, fail);
	return fail_at(fail, E_CONFIG, "backend",
		       "there is no backend called %.60s; known: cpu", name);
}

void backend_destroy(struct backend *b)
{
	if (b)
		b->ops->destroy(b);
}
