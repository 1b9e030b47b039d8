/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts memory accesses. Cache lines have 128 bytes, as on RDNA3. LDS has 32 banks of
 * four bytes. One cycle serves 32 lanes of 4 bytes, 16 of 8, or 8 of 16. It takes more
 * cycles if lanes need different words of one bank.
 */
#include "lab/walk_wave.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { LINE = 128, BANKS = 32 };

/* --- the set of lines ------------------------------------------------------------- */

struct walk_lines {
	struct slot {
		uint64_t key;  /* line number; 0: free slot */
		int32_t x, y;  /* the first group that used it; -1: several */
		int32_t group; /* the last group it was counted for */
	} *slot;
	size_t n, cap; /* cap: a power of two */
};

struct walk_lines *walk_lines_create(void)
{
	struct walk_lines *s = xcalloc(1, sizeof *s);
	s->cap = 4096;
	s->slot = xcalloc(s->cap, sizeof *s->slot);
	return s;
}

void walk_lines_destroy(struct walk_lines *s)
{
	if (s)
		free(s->slot);
	free(s);
}

static struct slot *find_slot(struct slot *slot, size_t cap, uint64_t key)
{
	size_t at = (key * 0x9E3779B97F4A7C15u) >> 20 & (cap - 1);
	while (slot[at].key && slot[at].key != key)
		at = (at + 1) & (cap - 1);
	return &slot[at];
}

static void grow(struct walk_lines *s)
{
	size_t cap = 2 * s->cap;
	struct slot *bigger = xcalloc(cap, sizeof *bigger);
	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i].key)
			*find_slot(bigger, cap, s->slot[i].key) = s->slot[i];
	free(s->slot);
	s->slot = bigger;
	s->cap = cap;
}

static void add_line(struct walk_wave *w, uint64_t line, bool known)
{
	/* If the address is a guess, assume that groups do not share the line. */
	struct walk_lines *s = w->lines;
	uint64_t key = (line + 1) | (known ? 0 : (uint64_t)(w->group + 1) << 58);
	struct slot *p = find_slot(s->slot, s->cap, key);
	bool is_new = !p->key;
	if (is_new)
		*p = (struct slot){key, w->x, w->y, w->group - 1};
	p->x = p->x == w->x ? p->x : -1;
	p->y = p->y == w->y ? p->y : -1;
	w->count->group_lines += p->group != w->group;
	p->group = w->group;
	if (is_new && ++s->n * 2 >= s->cap)
		grow(s);
}

double walk_lines_sum(const struct walk_lines *s, double by_x, double by_y, double *far)
{
	double n = 0;
	*far = 0;
	for (size_t i = 0; i < s->cap; i++) {
		const struct slot *p = &s->slot[i];
		double lines = p->key ? (p->x < 0 ? 1 : by_x) * (p->y < 0 ? 1 : by_y) : 0;
		n += lines;
		*far += p->y < 0 ? lines : 0;
	}
	return n;
}

/* --- time ------------------------------------------------------------------------- */

static void push(struct walk_queue *q, double at)
{
	if (q->n == WALK_QUEUE) {
		memmove(q->at, q->at + 1, sizeof q->at - sizeof *q->at);
		q->n--;
	}
	if (q->n > 0)
		at = MAX(at, q->at[q->n - 1]);
	q->at[q->n++] = at;
}

static void wait_until(struct walk_wave *w, struct walk_queue *q, int left)
{
	int done = q->n - left;
	if (left < 0 || done <= 0)
		return;
	w->t = MAX(w->t, q->at[done - 1]);
	memmove(q->at, q->at + done, (size_t)left * sizeof *q->at);
	q->n = left;
}

void walk_wait(struct walk_wave *w, const struct walk_inst *i)
{
	wait_until(w, &w->vm, i->wait_vm);
	wait_until(w, &w->lgkm, i->wait_lgkm);
	if (i->wait_stores)
		w->t = MAX(w->t, w->stored);
}

static void arrive(struct walk_wave *w, bool is_stream, double at)
{
	for (int k = 0; k <= is_stream; k++) {
		w->first[k] = MIN(w->first[k], at);
		w->last[k] = MAX(w->last[k], at);
	}
	push(&w->vm, at);
}

/* --- global memory ---------------------------------------------------------------- */

/* Compute 32 addresses; returns a mask of lanes whose address is known. `first`: index of
 * the operand vaddr. */
static uint32_t addresses(const struct walk_wave *w, const struct walk_inst *i, int first,
			  uint64_t *out)
{
	const struct walk_half *h = &i->half[0];
	uint32_t low[WALK_LANES], high[WALK_LANES] = {0};
	uint32_t known = walk_vector(w, &h->o[first], 0, low);
	uint64_t base = 0;
	bool base_known = true;
	const struct walk_operand *last = &h->o[h->n - 1];
	if (h->o[first].n == 2)
		known &= walk_vector(w, &h->o[first], 1, high);
	else if (last->kind == OPERAND_SGPR && last->n == 2) {
		bool k0, k1;
		base = walk_scalar(w, last, 0, &k0);
		base |= (uint64_t)walk_scalar(w, last, 1, &k1) << 32;
		base_known = k0 && k1;
	}
	for (int lane = 0; lane < WALK_LANES; lane++)
		out[lane] = base + ((uint64_t)high[lane] << 32 | low[lane]) +
			    (uint64_t)(int64_t)i->offset[0];
	return base_known ? known : 0;
}

static void count_lines(struct walk_wave *w, const struct walk_inst *i,
			const uint64_t *address, uint32_t known)
{
	bool is_kept = i->class == WALK_LOAD && !i->is_stream;
	uint64_t seen[2 * WALK_LANES];
	int n = 0;
	uint32_t exec = w->s[WALK_EXEC];
	for (int lane = 0; lane < WALK_LANES; lane++) {
		if (!(exec >> lane & 1))
			continue;
		uint64_t end = (address[lane] + i->bytes - 1) / LINE;
		for (uint64_t x = address[lane] / LINE; x <= end; x++) {
			int k = n - 1;
			while (k >= 0 && seen[k] != x)
				k--;
			if (k >= 0)
				continue;
			seen[n++] = x;
			if (is_kept)
				add_line(w, x, known >> lane & 1);
		}
	}
	w->count->lines += n;
}

/* Reads memory, or the kernel's arguments, which are always known. */
static bool read_word(const struct walk_wave *w, uint64_t at, size_t n, uint32_t *out)
{
	uint64_t begin = (uint64_t)(uintptr_t)w->l->kernarg;
	if (at < begin || at + n > begin + (uint64_t)w->l->kernel->kernarg_bytes)
		return w->l->read(w->l->ctx, at, n, out);
	memcpy(out, (const char *)w->l->kernarg + (at - begin), n);
	return true;
}

static uint32_t extend(uint32_t x, const struct walk_inst *i)
{
	if (i->type == 'i' && i->bytes < 4)
		return i->bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
	return x;
}

static void load_values(struct walk_wave *w, const struct walk_inst *i,
			const uint64_t *address, uint32_t known)
{
	const struct walk_operand *to = &i->half[0].o[0];
	uint32_t exec = w->s[WALK_EXEC];
	for (int r = 0; r < to->n; r++) {
		uint32_t good = 0;
		for (int lane = 0; lane < WALK_LANES; lane++) {
			if (!(exec >> lane & 1))
				continue;
			uint32_t x = 0;
			bool is_there = read_word(w, address[lane] + 4 * (uint64_t)r,
						  MIN(i->bytes, 4), &x);
			w->v[to->reg + r][lane] = extend(x, i);
			good |= (uint32_t)(is_there && known >> lane & 1) << lane;
		}
		if (i->type == 'x')
			good = 0;
		w->v_known[to->reg + r] = (w->v_known[to->reg + r] & ~exec) | good;
	}
}

/* An atomic addition that returns its old value counts workgroups: the last one to arrive
 * does the final work. The launch's last workgroup gets an unknown value, so that its
 * final work is counted. All others get zero, as the first to arrive. */
static void take_ticket(struct walk_wave *w, const struct walk_operand *to)
{
	uint32_t exec = w->s[WALK_EXEC];
	for (int lane = 0; lane < WALK_LANES; lane++)
		if (exec >> lane & 1)
			w->v[to->reg][lane] = 0;
	w->v_known[to->reg] = (w->v_known[to->reg] & ~exec) | (w->is_last ? 0 : exec);
	push(&w->vm, w->t + w->l->latency.cache);
}

static void global_memory(struct walk_wave *w, const struct walk_inst *i)
{
	uint64_t address[WALK_LANES];
	bool is_load = i->class == WALK_LOAD;
	const struct walk_half *h = &i->half[0];
	/* The result of an atomic that returns is its first operand, a single register.
	 * vaddr has two registers, or the last operand is the base. */
	bool returns = i->class == WALK_ATOMIC && h->n == 4;
	uint32_t known = addresses(w, i, is_load || returns, address);
	double bytes = (double)__builtin_popcount(w->s[WALK_EXEC]) * i->bytes;
	count_lines(w, i, address, known);
	if (is_load) {
		w->count->load_bytes += bytes;
		w->count->stream_bytes += i->is_stream ? bytes : 0;
		load_values(w, i, address, known);
		arrive(w, i->is_stream, w->t + (i->is_stream ? w->l->latency.dram
							     : w->l->latency.cache));
		return;
	}
	w->count->store_bytes += bytes;
	w->stored = MAX(w->stored, w->t + w->l->latency.store);
	if (returns)
		take_ticket(w, &h->o[0]);
}

void walk_scalar_load(struct walk_wave *w, const struct walk_inst *i)
{
	const struct walk_half *h = &i->half[0];
	bool k0, k1, k2 = true;
	uint64_t at = walk_scalar(w, &h->o[1], 0, &k0);
	at |= (uint64_t)walk_scalar(w, &h->o[1], 1, &k1) << 32;
	at += walk_scalar(w, &h->o[2], 0, &k2) + (uint64_t)(int64_t)i->offset[0];
	for (int r = 0; r < h->o[0].n; r++) {
		uint32_t x = 0;
		bool is_there = read_word(w, at + 4 * (uint64_t)r, 4, &x);
		walk_set_scalar(w, &h->o[0], r, x, is_there && k0 && k1 && k2);
	}
	push(&w->lgkm, w->t + (w->has_loaded_scalar ? w->l->latency.scalar
						    : w->l->latency.first_scalar));
	w->has_loaded_scalar = true;
}

/* --- LDS -------------------------------------------------------------------------- */

/* Cycles for lanes [from, to): the most different words that they need of one bank. */
static int bank_cycles(const uint32_t *address, uint32_t exec, int from, int to, int words)
{
	uint32_t word[BANKS][WALK_LANES];
	int n[BANKS] = {0}, most = 0;
	for (int lane = from; lane < to; lane++)
		for (int j = 0; exec >> lane & 1 && j < words; j++) {
			uint32_t x = address[lane] / 4 + (uint32_t)j, bank = x % BANKS;
			int k = 0;
			while (k < n[bank] && word[bank][k] != x)
				k++;
			if (k == n[bank])
				word[bank][n[bank]++] = x;
			most = MAX(most, n[bank]);
		}
	return most;
}

/* LDS address of register r of an access: word r. With two offsets, each has half of the
 * registers. */
static uint32_t place(const struct walk_inst *i, uint32_t base, int r, int n_regs)
{
	int each = i->is_2addr ? n_regs / 2 : n_regs;
	return base + (uint32_t)i->offset[r >= each] + 4 * (uint32_t)(r % each);
}

static void lds_load(struct walk_wave *w, const struct walk_inst *i, const uint32_t *base,
		     uint32_t known)
{
	const struct walk_operand *to = &i->half[0].o[0];
	uint32_t exec = w->s[WALK_EXEC];
	for (int r = 0; r < to->n; r++) {
		uint32_t good = 0;
		for (int lane = 0; lane < WALK_LANES; lane++) {
			uint32_t at = place(i, base[lane], r, to->n) / 4 % WALK_LDS_WORDS;
			if (!(exec >> lane & 1))
				continue;
			w->v[to->reg + r][lane] = w->lds->word[at];
			good |= (uint32_t)(w->lds->known[at] && known >> lane & 1) << lane;
		}
		if (i->bytes < 4)
			good = 0;
		w->v_known[to->reg + r] = (w->v_known[to->reg + r] & ~exec) | good;
	}
}

static void lds_store(struct walk_wave *w, const struct walk_inst *i, const uint32_t *base,
		      uint32_t known)
{
	const struct walk_half *h = &i->half[0];
	uint32_t x[WALK_LANES], exec = w->s[WALK_EXEC];
	int n = h->o[1].n * (i->is_2addr ? 2 : 1);
	for (int r = 0; r < n; r++) {
		const struct walk_operand *from = &h->o[1 + r / h->o[1].n];
		uint32_t good = known & walk_vector(w, from, r % h->o[1].n, x);
		for (int lane = 0; lane < WALK_LANES; lane++) {
			uint32_t at = place(i, base[lane], r, n) / 4 % WALK_LDS_WORDS;
			if (!(exec >> lane & 1))
				continue;
			w->lds->word[at] = x[lane];
			w->lds->known[at] = i->bytes >= 4 && (good >> lane & 1);
		}
	}
}

static void lds(struct walk_wave *w, const struct walk_inst *i)
{
	const struct walk_half *h = &i->half[0];
	bool is_load = i->type == 'l', is_store = i->type == 's';
	uint32_t base[WALK_LANES], at[WALK_LANES], exec = w->s[WALK_EXEC];
	uint32_t known = walk_vector(w, &h->o[is_load], 0, base);
	int words = MAX(1, i->bytes / 4);
	int lanes = words == 1 ? 32 : words == 2 ? 16 : 8, cycles = 0;
	for (int one = 0; one <= i->is_2addr; one++) {
		for (int lane = 0; lane < WALK_LANES; lane++)
			at[lane] = base[lane] + (uint32_t)i->offset[one];
		for (int from = 0; from < WALK_LANES; from += lanes)
			cycles += bank_cycles(at, exec, from, from + lanes, words);
	}
	w->count->lds_cycles += cycles;
	push(&w->lgkm, w->t + cycles + w->l->latency.lds);
	if (is_load)
		lds_load(w, i, base, known);
	else if (is_store)
		lds_store(w, i, base, known);
	else if (h->n > 2 && h->o[0].kind == OPERAND_VGPR) /* unknown result */
		w->v_known[h->o[0].reg] &= ~exec;
}

void walk_memory(struct walk_wave *w, const struct walk_inst *i)
{
	if (i->class == WALK_LDS)
		lds(w, i);
	else
		global_memory(w, i);
}
