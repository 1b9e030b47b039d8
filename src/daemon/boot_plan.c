/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>
#include <build-paths.h>

#include "daemon/boot_plan.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"
#include "model/hub.h"

/* A fresh build looks beside itself first, so it never meets an older install's model. */
char *boot_plan_default_model(void)
{
	static const char *const places[] = {
		"models/halo-tiny", "../share/" PACKAGE "/models/halo-tiny"};
	static const char installed[] = HALOD_MODELS "/halo-tiny";
	char *found = file_beside_program(places, ARRAY_LEN(places));
	return found || !file_exists(installed) ? found : xstrdup(installed);
}

/* The last part of the folder's real path, with "." and links resolved. Of a file, without
 * .gguf. */
static char *name_of_dir(const char *dir)
{
	char *real = realpath(dir, NULL);
	const char *path = real ? real : dir;
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	size_t start = n;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (n > start + 5 && strncmp(path + n - 5, ".gguf", 5) == 0)
		n -= 5;
	char *name = start < n ? xstrndup(path + start, n - start) : xstrdup("model");
	free(real);
	return name;
}

/* What clients call the model that has this path or this name. */
static char *name_of(const char *dir)
{
	char *name = NULL;
	if (!file_exists(dir) && hub_is_name(dir))
		return xstrdup(dir);
	char *real = realpath(dir, NULL);
	if (real)
		name = hub_name_of(real);
	free(real);
	return name ? name : name_of_dir(dir);
}

/* `tail` below the first folder of a variable of systemd's, which may list several, separated
 * by colons; "" where there is none. */
static char *in_dirs(const char *variable, const char *tail)
{
	const char *dirs = getenv(variable);
	return dirs ? xasprintf("%.*s%s", (int)strcspn(dirs, ":"), dirs, tail) : xstrdup("");
}

/* A folder's setting, where "auto" is `tail` below a variable's folder. */
static char *find_dir(const char *setting, const char *variable, const char *tail)
{
	return strcmp(setting, "auto") == 0 ? in_dirs(variable, tail) : xstrdup(setting);
}

struct backend_opts boot_plan_backend(const struct config *c, const struct boot_plan *plan,
				      const char *name)
{
	return (struct backend_opts){.name = name, .n_threads = (int)c->threads,
				     .exact = c->exact, .cpu_isa = c->cpu_isa,
				     .cpu_pin = c->cpu_pin,
				     .int8_head = strcmp(c->lm_head, "int8") == 0,
				     .hip_library = c->hip_library,
				     .kernel_dir = c->hip_kernels,
				     .no_graphs = !c->hip_graphs,
				     .graph_notes = plan->graph_notes};
}

static enum status plan_fetch(const struct config *c, struct boot_plan *out, struct fail *fail)
{
	if (c->image_urls.n == 0 && !*c->image_dir)
		return OK;
	return fetch_create(&(struct fetch_opts){.from = c->image_urls.items,
						 .n_from = c->image_urls.n,
						 .dir = c->image_dir,
						 .timeout_us = c->image_fetch_timeout,
						 .max_bytes = {c->max_image_bytes,
							       c->max_audio_bytes,
							       c->max_video_bytes}},
			    &out->fetch, fail);
}

/* What all models have alike. */
static enum status plan_common(const struct config *c, struct boot_plan *out, struct fail *fail)
{
	struct backend_opts bo = boot_plan_backend(c, out, c->backend);
	enum status s = backend_choose(&bo, &out->backend, out->backend_reason,
				       sizeof out->backend_reason, fail);
	out->is_first = true;
	return s == OK ? plan_fetch(c, out, fail) : s;
}

/* The same, of the first model's plan. */
static void share_plan(const struct boot_plan *first, struct boot_plan *out)
{
	out->backend = first->backend;
	memcpy(out->backend_reason, first->backend_reason, sizeof out->backend_reason);
	out->fetch = first->fetch;
}

enum status boot_plan(const struct config *c, const struct boot_plan *first,
		      struct boot_plan *out, struct fail *fail)
{
	static const char cache[] = "CACHE_DIRECTORY";
	*out = (struct boot_plan){0};
	if (!size_parse_auto(c->expert_memory, &out->expert_memory))
		return fail_at(fail, E_CONFIG, "expert_memory",
			       "expert_memory = %.60s: a size such as 512M or 4G, or auto",
			       c->expert_memory);
	enum status s = OK;
	if (first)
		share_plan(first, out);
	else
		s = plan_common(c, out, fail);
	if (s != OK)
		return s;
	out->model_dir = *c->model ? xstrdup(c->model) : boot_plan_default_model();
	if (!out->model_dir)
		return fail_set(fail, E_MISSING, "no model is named (--model DIR), "
				"and halo-tiny is neither near the program nor at "
				HALOD_MODELS "/halo-tiny");
	out->model_name = *c->model_name ? xstrdup(c->model_name) : name_of(out->model_dir);
	out->embedders[0] = *c->embedding_model ? name_of(c->embedding_model) : NULL;
	out->embedders[1] = *c->rerank_model ? name_of(c->rerank_model) : NULL;
	s = adapters_plan(c, out->model_name, &out->adapters, fail);
	if (s != OK)
		return s;
	out->weight_cache = find_dir(c->weight_cache, cache, "");
	out->expert_dir = find_dir(c->expert_dir, cache, "");
	out->kv_dir = find_dir(c->kv_dir, cache, "/kv");
	out->state_dir = find_dir(c->state_dir, "STATE_DIRECTORY", "/batches");
	/* Without a cache of a service nobody starts halod again by itself. */
	out->graph_notes = in_dirs(cache, "/graph-failures");
	return OK;
}

void boot_plan_beside(const struct boot_plan *first, const char *model, struct boot_plan *out)
{
	*out = (struct boot_plan){.model_dir = xstrdup(model), .model_name = name_of(model),
				  .weight_cache = xstrdup(first->weight_cache),
				  .expert_dir = xstrdup(""), .kv_dir = xstrdup(""),
				  .state_dir = xstrdup(""),
				  .graph_notes = xstrdup(first->graph_notes)};
	share_plan(first, out);
}

void boot_plan_deinit(struct boot_plan *p)
{
	free(p->model_dir);
	free(p->model_name);
	free(p->embedders[0]);
	free(p->embedders[1]);
	adapters_deinit(&p->adapters);
	free(p->weight_cache);
	free(p->expert_dir);
	free(p->kv_dir);
	free(p->state_dir);
	free(p->graph_notes);
	if (p->is_first)
		fetch_destroy(p->fetch);
	*p = (struct boot_plan){0};
}
