/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend's memory and its table of operations.
 */
#include "backend/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu_moe.h"
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

/* --- weights ------------------------------------------------------------------- */

/* Memory for weights comes in large pieces, in huge pages where the kernel has them:
 * a token reads all of it. */
struct cpu_room {
	struct cpu_room *next;
	char *p;
	size_t n, n_used, n_touched;
};

enum { HUGE_PAGE = 2 << 20, ROOM = 64 << 20, TOUCH_PAGES = 8 };

static void touch_pages(void *arg, int begin, int end)
{
	for (int i = begin; i < end; i++) {
		volatile char *p = (char *)arg + (size_t)i * HUGE_PAGE;
		for (size_t at = 0; at < HUGE_PAGE; at += 4096)
			p[at] = 0;
	}
}

/* The kernel clears a page when it is first written. Two threads that fill one huge page
 * would both clear one, and one of them for nothing: so each is first at its own, some
 * pages ahead of what is filled. */
static void room_touch(struct cpu *c, struct cpu_room *r)
{
	if (r->n_used <= r->n_touched)
		return;
	size_t n = (r->n_used - r->n_touched + HUGE_PAGE - 1) / HUGE_PAGE;
	n = MIN(MAX(n, TOUCH_PAGES), (r->n - r->n_touched) / HUGE_PAGE);
	pool_for(c->pool, (int)n, 1, touch_pages, r->p + r->n_touched);
	r->n_touched += n * HUGE_PAGE;
}

static char *room_take(struct cpu *c, size_t n_bytes)
{
	n_bytes = (n_bytes + 63) & ~(size_t)63;
	struct cpu_room *r = c->rooms;
	if (!r || r->n - r->n_used < n_bytes) {
		size_t n = MAX(ROOM, (n_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
		/* Aligned to a huge page; the ends are never touched. */
		char *p = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		r = xcalloc(1, sizeof *r);
		*r = (struct cpu_room){.next = c->rooms, .p = p, .n = n + HUGE_PAGE};
		r->n_touched = r->n_used = (size_t)(-(uintptr_t)p % HUGE_PAGE);
		madvise(p + r->n_used, n, MADV_HUGEPAGE); /* only advice */
		c->rooms = r;
	}
	char *p = r->p + r->n_used;
	r->n_used += n_bytes;
	room_touch(c, r);
	return p;
}

/* The file's pages have been read for the last time: the kernel keeps them in its
 * cache, but they no longer count as ours. */
static void give_back(const void *p, size_t n_bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = ((uintptr_t)p + page - 1) / page * page;
	uintptr_t last = ((uintptr_t)p + n_bytes) / page * page;
	if (first < last)
		madvise((char *)p + (first - (uintptr_t)p), last - first, MADV_DONTNEED);
}

/* The order of w's columns, or the last weight's, where it is the same: those that share
 * inputs often are of one order, and share prepared inputs then. NULL: groups of unequal
 * sizes, which have no panels, or no memory. */
static const int32_t *order_of(struct cpu *c, const struct weight *w)
{
	size_t n_bytes = (size_t)w->k * sizeof(int32_t);
	int32_t *order = xmalloc(n_bytes);
	const int32_t *found = NULL;
	if (cpu_panels_order(w, order)) {
		if (c->order_k == w->k && memcmp(c->order, order, n_bytes) == 0) {
			found = c->order;
		} else {
			int32_t *kept = (void *)room_take(c, n_bytes);
			if (kept)
				memcpy(kept, order, n_bytes);
			c->order = found = kept;
			c->order_k = kept ? w->k : 0;
		}
	}
	free(order);
	return found;
}

/* What a weight was packed from. Blocks hold their scales, and those of a part of a
 * tensor (row_step) lie among others': what is few is left. */
static void give_back_source(const struct weight *w)
{
	give_back(w->q, (size_t)MAX(w->row_step, 1) * (size_t)w->n * weight_row_bytes(w));
	if (quant_block(w->quant) || w->row_step > 1 || w->group == 0)
		return;
	size_t n_groups = (size_t)w->n * (size_t)(w->k / w->group);
	if (w->scales && w->quant != QUANT_FP8)
		give_back(w->scales, n_groups * dtype_bytes(w->scale_type));
	if (w->zero_points)
		give_back(w->zero_points, n_groups * (size_t)quant_bits(w->quant) / 8);
}

/* Does it leave the machine an eighth of its memory? */
static bool has_memory_for(size_t n_bytes)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	unsigned long long kib, total = 0, available = 0;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemTotal: %llu", &kib) == 1)
			total = kib;
		else if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			available = kib;
	if (f)
		fclose(f);
	return available > total / 8 + n_bytes / 1024;
}

struct copy {
	char *to;
	const char *from;
	size_t n_bytes;
};

enum { COPY_PIECE = 1 << 20 };

static void copy_pieces(void *arg, int begin, int end)
{
	const struct copy *c = arg;
	size_t at = (size_t)begin * COPY_PIECE, last = (size_t)end * COPY_PIECE;
	memcpy(c->to + at, c->from + at, MIN(last, c->n_bytes) - at);
}

/* Weights that are read as they lie and lie as floats in a mapped file: that is a quarter
 * to a third slower there than in huge pages, which the page cache of common file systems
 * does not have. Without memory for a copy they stay where they are. */
static void move_floats(struct cpu *c, const struct weight *host, struct weight *out)
{
	struct copy copy = {.from = host->q,
			    .n_bytes = (size_t)host->n * weight_row_bytes(host)};
	if (quant_bits(host->quant) < 16 || !host->is_mapped || !weight_is_dense(host) ||
	    host->pitch || copy.n_bytes < COPY_PIECE || !has_memory_for(copy.n_bytes))
		return;
	copy.to = room_take(c, copy.n_bytes);
	if (!copy.to)
		return;
	int n = (int)((copy.n_bytes + COPY_PIECE - 1) / COPY_PIECE);
	pool_for(c->pool, n, 1, copy_pieces, &copy);
	out->q = copy.to;
	give_back(host->q, copy.n_bytes);
}

/* Floats become panels where there are instructions for pairs, and memory. */
static bool becomes_panels(const struct cpu *c, const struct weight *host)
{
	size_t n_bytes = (size_t)host->n * weight_row_bytes(host);
	if (host->keeps_rows || !cpu_panels_can(host))
		return false;
	if (host->quant != QUANT_BF16)
		return true;
	return c->isa->has_bf16_pairs &&
	       (n_bytes < COPY_PIECE || has_memory_for(n_bytes));
}

static enum status cpu_load_weight(struct backend *b, const struct weight *host,
				   struct weight *out, struct fail *fail)
{
	struct cpu *c = (struct cpu *)b;
	*out = *host;
	if (!c->isa || host->is_table)
		return OK;
	if (!becomes_panels(c, host)) {
		move_floats(c, host, out);
		return OK;
	}
	struct cpu_panels plan, *p;
	cpu_panels_plan(host, &plan);
	if (host->group_of) {
		plan.order = order_of(c, host);
		if (!plan.order)
			return OK;
	}
	p = (void *)room_take(c, sizeof *p);
	plan.data = p ? (void *)room_take(c, cpu_panels_bytes(&plan)) : NULL;
	if (!plan.data)
		return fail_set(fail, E_NOMEM, "no memory for %s", host->name);
	*p = plan;
	if (!cpu_panels_fill(c->pool, host, p))
		return OK; /* computed as it lies in the file */
	out->packed = p;
	if (host->is_mapped)
		give_back_source(host);
	return OK;
}

/* device: any address says that they go the fast way. */
static enum status cpu_load_experts(struct backend *b, struct experts *out,
				    struct fail *fail)
{
	out->device = cpu_moe_fast_can(b, out) ? out->gate : NULL;
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

static enum status cpu_step_begin(struct backend *b, uint64_t key, bool *out_run)
{
	struct cpu *c = (struct cpu *)b;
	*out_run = true;
	/* No longer than the step: a pool or a thread that it makes afterwards is to have
	 * all CPUs. */
	if (c->pins)
		pool_pin_caller(c->pool);
	return OK;
}

static enum status cpu_step_end(struct backend *b)
{
	struct cpu *c = (struct cpu *)b;
	if (c->pins)
		pool_unpin_caller(c->pool);
	return OK;
}

static void cpu_destroy(struct backend *b)
{
	struct cpu *c = (struct cpu *)b;
	pool_destroy(c->pool);
	free(c->scratch);
	while (c->rooms) {
		struct cpu_room *r = c->rooms;
		c->rooms = r->next;
		munmap(r->p, r->n);
		free(r);
	}
	free(c);
}

static const struct backend_ops cpu_ops = {
#define OP(name, contract) .name = cpu_##name,
#include "backend/ops.def"
#undef OP
	.alloc = cpu_alloc,
	.free = cpu_free,
	.alloc_shared = cpu_alloc,
	.free_shared = cpu_free,
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
	const struct cpu_isa *isa;
	enum status st = cpu_isa_find(o->cpu_isa, &isa, fail);
	if (st != OK)
		return st;
	struct cpu *c = xcalloc(1, sizeof *c);
	c->isa = o->exact ? NULL : isa;
	c->pool = pool_create(o->n_threads);
	c->pins = o->cpu_pin;
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
