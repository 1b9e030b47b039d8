/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/adapters.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

/* Splits NAME=PATH. The name of a path alone is its last part, without .gguf. A path may have
 * '=', and a name no '/'. */
static void split(const char *item, char **name, char **path)
{
	const char *eq = item + strcspn(item, "=/");
	eq = *eq == '=' ? eq : NULL;
	struct str n = {item, eq ? (size_t)(eq - item) : 0};
	char *bare = file_without_slashes(eq ? eq + 1 : item);
	if (!eq) {
		const char *slash = strrchr(bare, '/');
		n = str_of(slash ? slash + 1 : bare);
		if (str_ends(n, STR(".gguf")))
			n.n -= strlen(".gguf");
	}
	n = str_trim(n);
	*name = xstrndup(n.p, n.n);
	struct str p = str_trim(str_of(bare));
	*path = xstrndup(p.p, p.n);
	free(bare);
}

static bool is_taken(const struct adapters *a, const char *model_name, const char *name)
{
	bool is = strcmp(model_name, name) == 0;
	for (int i = 0; i < a->n_all; i++)
		is |= strcmp(a->all[i], name) == 0;
	return is;
}

enum status adapters_plan(const struct config *c, const char *model_name, struct adapters *out,
			  struct fail *fail)
{
	int n = c->lora.n, n_aliases = c->aliases.n;
	*out = (struct adapters){.n_all = n_aliases};
	out->names = xcalloc((size_t)n + 1, sizeof *out->names);
	out->paths = xcalloc((size_t)n + 1, sizeof *out->paths);
	out->all = xcalloc((size_t)(n + n_aliases) + 1, sizeof *out->all);
	for (int i = 0; i < n_aliases; i++)
		out->all[i] = c->aliases.items[i];
	for (int i = 0; i < n; i++) {
		split(c->lora.items[i], &out->names[i], &out->paths[i]);
		const char *name = out->names[i];
		out->n++;
		if (!*name || !*out->paths[i])
			return fail_at(fail, E_CONFIG, "lora", "lora has %.200s: an adapter is "
				       "NAME=PATH, or a path", c->lora.items[i]);
		if (is_taken(out, model_name, name))
			return fail_at(fail, E_CONFIG, "lora", "lora: the name %.200s is taken: "
				       "each adapter needs one of its own, as NAME=PATH", name);
		out->all[out->n_all++] = name;
	}
	return OK;
}

void adapters_deinit(struct adapters *a)
{
	for (int i = 0; i < a->n; i++) {
		free(a->names[i]);
		free(a->paths[i]);
	}
	free(a->names);
	free(a->paths);
	free(a->all);
	*a = (struct adapters){0};
}

void adapters_name(const struct adapters *a, struct adapters_open *out)
{
	*out = (struct adapters_open){.n = a->n};
	out->names = xcalloc((size_t)a->n + 1, sizeof *out->names);
	for (int i = 0; i < a->n; i++)
		out->names[i].name = a->names[i];
}

enum status adapters_open(const struct adapters *a, const struct model *m, bool looks,
			  struct adapters_open *out, struct fail *fail)
{
	enum status st = OK;
	adapters_name(a, out);
	out->loras = xcalloc((size_t)a->n + 1, sizeof *out->loras);
	for (int i = 0; i < a->n && st == OK; i++) {
		st = lora_open(a->paths[i], m, looks, &out->loras[i], fail);
		if (st == OK)
			out->names[i].hash = out->loras[i]->hash;
	}
	return st == OK ? OK : fail_within(fail, st, "lora");
}

void adapters_drop(struct adapters_open *o)
{
	for (int i = 0; o->loras && i < o->n; i++)
		lora_close(o->loras[i]);
	free(o->loras);
	o->loras = NULL;
}

void adapters_close(struct adapters_open *o)
{
	adapters_drop(o);
	free(o->names);
	*o = (struct adapters_open){0};
}
