/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend's memory and its table of operations.
 */
#include "backend/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define ALIGN 256

/* The block that malloc knows is noted in front of the aligned one. calloc takes
 * large blocks from the kernel, which zeroes pages when they are first touched:
 * the part of a KV cache that is not used takes no memory. */
static enum status cpu_alloc(struct backend *b, size_t n_bytes, void **out)
{
	if (n_bytes > SIZE_MAX - ALIGN - sizeof(void *))
		return E_NOMEM;
	char *block = calloc(1, n_bytes + ALIGN + sizeof(void *));
	if (!block)
		return E_NOMEM;
	uintptr_t p = (uintptr_t)block + sizeof(void *) + ALIGN - 1;
	char *aligned = block + (p / ALIGN * ALIGN - (uintptr_t)block);
	memcpy(aligned - sizeof(void *), &block, sizeof block);
	*out = aligned;
	return OK;
}

static void cpu_free(struct backend *b, void *p)
{
	if (!p)
		return;
	void *block;
	memcpy(&block, (char *)p - sizeof(void *), sizeof block);
	free(block);
}

static enum status cpu_load_weight(struct backend *b, const struct weight *host,
				   struct weight *out, struct fail *fail)
{
	*out = *host;
	return OK;
}

static enum status cpu_load_experts(struct backend *b, struct experts *out,
				    struct fail *fail)
{
	out->device = NULL;
	return OK;
}

static enum status cpu_copy(struct backend *b, void *dst, const void *src,
			    size_t n_bytes)
{
	if (n_bytes)
		memcpy(dst, src, n_bytes);
	return OK;
}

static enum status cpu_sync(struct backend *b, struct fail *fail)
{
	return OK;
}

static enum status cpu_step_begin(struct backend *b, uint64_t key, bool *out_run)
{
	*out_run = true;
	return OK;
}

static enum status cpu_step_end(struct backend *b)
{
	return OK;
}

static void cpu_destroy(struct backend *b)
{
	pool_destroy(((struct cpu *)b)->pool);
	free(b);
}

static const struct backend_ops cpu_ops = {
#define OP(name, contract) .name = cpu_##name,
#include "backend/ops.def"
#undef OP
	.alloc = cpu_alloc,
	.free = cpu_free,
	.load_weight = cpu_load_weight,
	.load_experts = cpu_load_experts,
	.upload = cpu_copy,
	.download = cpu_copy,
	.sync = cpu_sync,
	.step_begin = cpu_step_begin,
	.step_end = cpu_step_end,
	.destroy = cpu_destroy,
};

/* The processor's name as /proc/cpuinfo has it; "CPU" where it has none. */
static void name_processor(char *out, size_t size)
{
	snprintf(out, size, "CPU");
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " "));
		break;
	}
	if (f)
		fclose(f);
}

enum status cpu_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail)
{
	if (o->n_threads < 0 || o->n_threads > 1024)
		return fail_at(fail, E_CONFIG, "threads",
			       "%d threads: 0 to 1024 are possible", o->n_threads);
	struct cpu *c = xcalloc(1, sizeof *c);
	c->pool = pool_create(o->n_threads);
	c->base = (struct backend){.ops = &cpu_ops, .name = "cpu",
				   .act_type = DTYPE_F32, .kv_type = DTYPE_F32};
	char processor[80];
	name_processor(processor, sizeof processor);
	int n = pool_threads(c->pool);
	snprintf(c->base.device, sizeof c->base.device, "%s, %d thread%s", processor,
		 n, n == 1 ? "" : "s");
	*out = &c->base;
	return OK;
}
