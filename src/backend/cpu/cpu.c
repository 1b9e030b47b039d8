/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend's memory and its table of operations.
 */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_experts.h"
#include "base/alloc.h"
#include "base/sysmem.h"

#define ALIGN 256

/* The address that malloc gave is stored in front of the aligned block. calloc maps large
 * blocks from the kernel, which zeroes pages at first touch. So the unused part of a KV
 * cache takes no memory. */
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

void *cpu_scratch(struct backend *b, size_t n_bytes)
{
	struct cpu *c = (struct cpu *)b;
	if (n_bytes <= c->scratch_bytes && c->scratch)
		return c->scratch;
	free(c->scratch);
	c->scratch_bytes = (MAX(n_bytes, 1) + n_bytes / 4 + 4095) & ~(size_t)4095;
	c->scratch = aligned_alloc(64, c->scratch_bytes);
	if (!c->scratch)
		c->scratch_bytes = 0;
	return c->scratch;
}

static void cpu_memory(struct backend *b, struct backend_memory *out)
{
	struct sysmem m;
	sysmem_read("/", &m);
	*out = (struct backend_memory){m.total, m.available, true};
}

static enum status cpu_step_begin(struct backend *b, uint64_t key, bool *out_run)
{
	struct cpu *c = (struct cpu *)b;
	*out_run = true;
	c->n_steps++;
	/* Pin only during the step: threads created later inherit the mask, and must get
	 * all CPUs. */
	if (c->pins)
		pool_pin_caller(c->pool);
	return OK;
}

static enum status cpu_step_end(struct backend *b, bool *out_again)
{
	struct cpu *c = (struct cpu *)b;
	*out_again = false;
	if (c->pins)
		pool_unpin_caller(c->pool);
	return OK;
}

static void cpu_destroy(struct backend *b)
{
	struct cpu *c = (struct cpu *)b;
	pool_destroy(c->pool);
	free(c->scratch);
	cpu_experts_free(c);
	cpu_weights_free(c);
	free(c->expert_dir);
	free(c->cache_dir);
	free(c);
}

static const struct backend_ops cpu_ops = {
#define OP(name, contract) .name = cpu_##name,
#include "backend/ops.def"
#undef OP
	.memory = cpu_memory,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.alloc_shared = cpu_alloc,
	.free_shared = cpu_free,
	.load_weight = cpu_load_weight,
	.load_experts = cpu_load_experts,
	.load_begin = cpu_load_begin,
	.load_end = cpu_load_end,
	.upload = cpu_copy,
	.download = cpu_copy,
	.sync = cpu_sync,
	.step_begin = cpu_step_begin,
	.step_end = cpu_step_end,
	.destroy = cpu_destroy,
};

/* The processor's name from /proc/cpuinfo; "CPU" if it has none. */
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
	const struct cpu_isa *isa;
	enum status st = cpu_isa_find(o->cpu_isa, &isa, fail);
	if (st != OK)
		return st;
	if (o->exact && o->expert_memory)
		return fail_at(fail, E_CONFIG, "expert_memory",
			       "with exact, weights are read where they are in the model's "
			       "files: leave expert_memory out");
	struct cpu *c = xcalloc(1, sizeof *c);
	c->isa = o->exact ? NULL : isa;
	c->pool = pool_create(o->n_threads);
	c->pins = o->cpu_pin;
	c->cache_dir = o->weight_cache && *o->weight_cache ? xstrdup(o->weight_cache) : NULL;
	c->expert_dir = o->expert_dir && *o->expert_dir ? xstrdup(o->expert_dir) : NULL;
	c->cache_waits = o->cache_waits;
	c->small_pages = o->checks.small_pages;
	arena_init(&c->kept);
	if (c->pins)
		pool_pin(c->pool);
	c->base = (struct backend){.ops = &cpu_ops, .name = "cpu",
				   .act_type = DTYPE_F32, .kv_type = DTYPE_F32};
	if (c->isa)
		c->base.kv_type = c->isa->kv_type;
	char processor[80];
	name_processor(processor, sizeof processor);
	int n = pool_threads(c->pool);
	snprintf(c->base.device, sizeof c->base.device, "%s, %d thread%s, %s", processor,
		 n, n == 1 ? "" : "s", c->isa ? c->isa->name : "exact");
	*out = &c->base;
	return OK;
}
