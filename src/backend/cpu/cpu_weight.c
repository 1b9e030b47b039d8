/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares a checkpoint's weights for computing: as panels, as copies of floats in huge
 * pages, or directly in the file. If there is a cache (cpu_cache.h), they come from it.
 */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/cpu_cache.h"
#include "backend/cpu/cpu_experts.h"
#include "backend/cpu/cpu_moe.h"
#include "base/alloc.h"
#include "model/formats/weight_pages.h"

/* --- memory ---------------------------------------------------------------------- */

/* Memory for weights is allocated in large blocks, of huge pages if the kernel has them,
 * because each token reads all weights. */
struct weight_block {
	struct weight_block *next;
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

/* Touch pages before they are filled, each by one thread. The kernel zeroes a page at its
 * first write. Two threads that fill the same huge page would both zero one, and one of
 * these would be wasted. */
static void block_touch(struct cpu *c, struct weight_block *r)
{
	if (r->n_used <= r->n_touched)
		return;
	size_t n = DIV_UP(r->n_used - r->n_touched, HUGE_PAGE);
	n = MIN(MAX(n, TOUCH_PAGES), (r->n - r->n_touched) / HUGE_PAGE);
	pool_for(c->pool, (int)n, 1, touch_pages, r->p + r->n_touched);
	r->n_touched += n * HUGE_PAGE;
}

static char *block_alloc(struct cpu *c, size_t n_bytes)
{
	n_bytes = (n_bytes + 63) & ~(size_t)63;
	struct weight_block *r = c->weight_blocks;
	if (!r || r->n - r->n_used < n_bytes) {
		size_t n = MAX(ROOM, ROUND_UP(n_bytes, HUGE_PAGE));
		/* One huge page more, to align the start; the ends are never touched. */
		char *p = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		r = xcalloc(1, sizeof *r);
		*r = (struct weight_block){.next = c->weight_blocks, .p = p, .n = n + HUGE_PAGE};
		r->n_touched = r->n_used = (size_t)(-(uintptr_t)p % HUGE_PAGE);
		madvise(p + r->n_used, n, MADV_HUGEPAGE); /* best effort */
		c->weight_blocks = r;
	}
	char *p = r->p + r->n_used;
	r->n_used += n_bytes;
	block_touch(c, r);
	return p;
}

/* The column order of w. If the last weight had the same order, its array is returned:
 * weights with a common input often share the order, and can then share prepared inputs.
 * NULL: groups of unequal sizes, which have no panels. */
static const int32_t *order_of(struct cpu *c, const struct weight *w)
{
	size_t n_bytes = (size_t)w->k * sizeof(int32_t);
	int32_t *order = xmalloc(n_bytes);
	const int32_t *found = NULL;
	if (weight_order(w, order)) {
		if (c->order_k == w->k && memcmp(c->order, order, n_bytes) == 0) {
			found = c->order;
		} else {
			int32_t *kept = arena_alloc(&c->kept, n_bytes);
			memcpy(kept, order, n_bytes);
			c->order = found = kept;
			c->order_k = w->k;
		}
	}
	free(order);
	return found;
}

/* True if an eighth of the machine's memory stays free after taking n_bytes. */
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

/* --- the cache -------------------------------------------------------------------- */

/* A lookup in the cache. `kind` is a hash of all that decides the packing, except the
 * model's files. */
struct wanted {
	struct cpu_cache_id id;
	uint64_t kind;
};

static struct wanted wanted(const struct cpu *c, const struct weight *w, const char *how,
			    size_t unit_bytes, size_t n_bytes)
{
	struct buf b = {0};
	buf_addf(&b, "%s, %d of %d and %d, group %d, units of %zu", how, w->quant, w->n, w->k,
		 w->group, unit_bytes);
	uint64_t kind = cpu_cache_sum(NULL, b.p, b.n);
	buf_addf(&b, ": %s", w->name ? w->name : "");
	struct cpu_cache_id id = {.i = c->n_loaded, .n_bytes = n_bytes,
				  .what = cpu_cache_sum(NULL, b.p, b.n)};
	buf_deinit(&b);
	return (struct wanted){id, kind};
}

/* Look up a weight. *out_compare: this is the first weight of its kind, so the caller
 * must compare some bytes with newly packed ones, because the packing code may have
 * changed. Comparing each weight would read pages all over the model's files, which after
 * a boot are on disk. */
static const void *cpu_weight_find(struct cpu *c, const struct wanted *w, bool *out_compare)
{
	const void *found = c->cache ? cpu_cache_find(c->cache, w->id) : NULL;
	*out_compare = found && !u64map_put(&c->kinds, w->kind, 0);
	return found;
}

/* True if packing panel i now would give the bytes at `data`. */
static bool is_panel(const struct weight *w, const struct cpu_panels *p, int32_t i)
{
	uint8_t *made = xcalloc(1, p->panel_bytes); /* zeroed, for the gaps between its arrays */
	bool is_same = cpu_panels_fill_one(w, p, i, made) &&
		       memcmp(made, cpu_panels_at(p, i), p->panel_bytes) == 0;
	free(made);
	return is_same;
}

/* Fill in *p from the cache; false if it is not there. */
static bool find_panels(struct cpu *c, const struct weight *w, struct cpu_panels *p,
			const struct wanted *what)
{
	bool compare;
	p->data = cpu_weight_find(c, what, &compare);
	return p->data && (!compare || (is_panel(w, p, 0) &&
					is_panel(w, p, cpu_panels_count(p) - 1)));
}

/* --- floats ------------------------------------------------------------------------ */

struct panel_copy {
	char *to;
	const char *from;
	size_t n_bytes;
};

enum { COPY_PIECE = 1 << 20 };

static void copy_pieces(void *arg, int begin, int end)
{
	const struct panel_copy *c = arg;
	size_t at = (size_t)begin * COPY_PIECE, last = (size_t)end * COPY_PIECE;
	memcpy(c->to + at, c->from + at, MIN(last, c->n_bytes) - at);
}

static const void *find_copy(struct cpu *c, const void *q, const struct wanted *what)
{
	enum { SOME = 4096 };
	bool compare;
	const char *found = cpu_weight_find(c, what, &compare);
	size_t last = what->id.n_bytes - SOME;
	if (compare && (memcmp(found, q, SOME) != 0 ||
			memcmp(found + last, (const char *)q + last, SOME) != 0))
		return NULL;
	return found;
}

/* Copy weights of floats that are used in the file's layout and lie in a mapped file.
 * Reading them there is a quarter to a third slower than in huge pages, which the page
 * cache of most file systems lacks. Without memory for a copy they stay in the file. */
static void move_floats(struct cpu *c, const struct weight *host, struct weight *out)
{
	struct panel_copy copy = {.from = host->q,
			    .n_bytes = (size_t)host->n * weight_row_bytes(host)};
	if (quant_bits(host->quant) < 16 || !host->is_mapped || !weight_is_dense(host) ||
	    host->pitch || copy.n_bytes < COPY_PIECE)
		return;
	struct wanted what = wanted(c, host, "rows", weight_row_bytes(host), copy.n_bytes);
	const void *found = find_copy(c, host->q, &what);
	if (!found && has_memory_for(copy.n_bytes))
		copy.to = block_alloc(c, copy.n_bytes);
	if (copy.to) {
		int n = (int)DIV_UP(copy.n_bytes, COPY_PIECE);
		pool_for(c->pool, n, 1, copy_pieces, &copy);
		found = copy.to;
		if (c->cache)
			cpu_cache_add(c->cache, what.id, found);
	}
	if (!found)
		return;
	out->q = found;
	weight_pages_drop(host->q, copy.n_bytes);
}

/* --- panels ------------------------------------------------------------------------ */

/* True if the weight is to be packed. bf16 is packed only if the instruction set has such
 * panels. How much memory is free must not matter: panels and rows sum in other orders, and the
 * bits of an answer must be the same in every run. */
static bool becomes_panels(const struct cpu *c, const struct weight *host)
{
	return !host->keeps_rows && cpu_panels_can(host) &&
	       (host->quant != QUANT_BF16 || c->isa->packs_bf16);
}

/* Fill in *p with w's panels, from the cache or newly packed. OK with p->data NULL: w has
 * numbers that panels cannot represent. */
static enum status take_panels(struct cpu *c, const struct weight *w,
			       struct cpu_panels *p, struct fail *fail)
{
	size_t n_bytes = cpu_panels_bytes(p);
	struct wanted what = wanted(c, w, "panels", p->panel_bytes, n_bytes);
	if (find_panels(c, w, p, &what))
		return OK;
	uint8_t *data = (void *)block_alloc(c, n_bytes);
	if (!data)
		return fail_set(fail, E_NOMEM, "no memory for %s", w->name);
	p->data = data;
	if (!cpu_panels_fill(c->pool, w, p, data))
		p->data = NULL;
	else if (c->cache)
		cpu_cache_add(c->cache, what.id, data);
	return OK;
}

static enum status load_weight(struct cpu *c, const struct weight *host,
			       struct weight *out, struct fail *fail)
{
	if (!becomes_panels(c, host)) {
		move_floats(c, host, out);
		return OK;
	}
	struct cpu_panels plan;
	cpu_panels_plan(host, &plan);
	if (host->group_of) {
		plan.order = order_of(c, host);
		if (!plan.order)
			return OK;
	}
	enum status st = take_panels(c, host, &plan, fail);
	if (st != OK || !plan.data)
		return st; /* no panels: the exact path reads w in the file */
	struct cpu_panels *p = arena_alloc(&c->kept, sizeof *p);
	*p = plan;
	out->packed = p;
	weight_pages_give_back(host);
	return OK;
}

enum status cpu_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail)
{
	struct cpu *c = (struct cpu *)b;
	*out = *host;
	if (!c->isa || host->is_table)
		return OK;
	if (host->is_expert && b->expert_bytes)
		return cpu_experts_weight(c, host, out, fail);
	enum status st = load_weight(c, host, out, fail);
	c->n_loaded++;
	return st;
}

bool cpu_weight_plan(struct cpu *c, const struct weight *w, struct weight *out)
{
	struct cpu_panels plan;
	bool is_wide = w->quant == QUANT_BF16 && !c->isa->packs_bf16;
	if (w->keeps_rows || is_wide || !cpu_panels_can(w))
		return false;
	cpu_panels_plan(w, &plan);
	if (w->group_of && !(plan.order = order_of(c, w)))
		return false;
	struct cpu_panels *p = arena_alloc(&c->kept, sizeof *p);
	*p = plan;
	out->packed = p;
	return true;
}

/* out->device says that the fast way is possible. For experts in slots it is their
 * cpu_expert_layer, else any address will do. */
enum status cpu_load_experts(struct backend *b, struct experts *out, struct fail *fail)
{
	if (b->expert_bytes)
		return cpu_experts_layer((struct cpu *)b, out, fail);
	out->device = cpu_moe_fast_can(b, out) ? out->gate : NULL;
	return OK;
}

/* --- begin and end of a load ---------------------------------------------------------- */

/* The cache belongs to the first model. A second one, which drafts for it, is packed anew at each
 * start. */
void cpu_load_begin(struct backend *b, const struct model *m)
{
	struct cpu *c = (struct cpu *)b;
	if (b->expert_bytes)
		cpu_experts_begin(c, m);
	if (!c->isa || !c->cache_dir || c->cache_all)
		return;
	c->cache = c->cache_all = cpu_cache_open(&(struct cpu_cache_opts){
		.dir = c->cache_dir, .isa = c->isa->name, .model = m, .pool = c->pool,
		.small_pages = c->small_pages, .waits = c->cache_waits});
	c->n_loaded = 0;
}

enum status cpu_load_end(struct backend *b, struct fail *fail)
{
	struct cpu *c = (struct cpu *)b;
	if (c->cache) {
		cpu_cache_keep(c->cache);
		snprintf(b->weights_note, sizeof b->weights_note, "%s",
			 cpu_cache_note(c->cache));
		c->cache = NULL;
	}
	return b->expert_bytes ? cpu_experts_end(c, fail) : OK;
}

void cpu_weights_free(struct cpu *c)
{
	cpu_cache_close(c->cache_all); /* waits for its writer, which reads the blocks */
	while (c->weight_blocks) {
		struct weight_block *r = c->weight_blocks;
		c->weight_blocks = r->next;
		munmap(r->p, r->n);
		free(r);
	}
	u64map_deinit(&c->kinds);
	arena_deinit(&c->kept);
}
