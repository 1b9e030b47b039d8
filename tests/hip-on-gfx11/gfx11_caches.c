/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stores of its launch a load can see. The interpreter has one memory, so nothing is stale
 * there. On the chip a load may find what its caches have kept:
 *
 * - Another wave of the workgroup may be on the other compute unit, which has an L0 of its own.
 *   So the storing wave waits for its stores (vscnt), then comes a barrier, and then the reader
 *   invalidates its L0 (buffer_gl0_inv).
 * - Another workgroup may be behind another L1 as well. So the reader's workgroup takes a ticket:
 *   an atomic that returns, by which it knows that the other one is done. Behind it the reader
 *   invalidates L1 (buffer_gl1_inv) and then L0, which else might be filled from a stale L1.
 *   Whether the other one had waited for its stores is seen at its own ticket (gfx11_check.c).
 * - The cache of scalar loads cannot be invalidated by these.
 * - A load under way when a cache is invalidated may bring a stale line behind that.
 *
 * Sources: "User Guide for AMDGPU Backend" of LLVM, memory model of gfx10 and gfx11; the order of
 * the two is that of its acquire. Here all that the launch has stored counts, whether its
 * line was in a cache or not. Each launch begins with all caches invalidated.
 *
 * A load of what another wave stores with no barrier between, or another workgroup with no ticket,
 * brings the old number or the new one. A kernel may do that if it does not use the number. So the
 * load brings POISON, which is NaN as float32, as halves and as bfloat16.
 *
 * A tag for each two bytes that a kernel has stored lies in pages, found by the address. A
 * table of marks says where there is no tag of this launch, since most loads are of such memory.
 */
#include "tests/hip-on-gfx11/gfx11_wave.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAGE_SHIFT = 12,
	UNIT = 2, /* bytes that have one tag: rows of halves end within a word */
	PAGE_UNITS = (1 << PAGE_SHIFT) / UNIT,
	SLOTS = 1 << 16, MOST_PAGES = SLOTS / 2, KEPT_PAGES = 1 << 13,
	LAST_TURN = 0xFFFF,
	POISON = 0x7FC17FC1,
};

/* Who stored a unit last: turn of the launch 16, workgroup 22, stretch between barriers 21,
 * wave 5. */
typedef uint64_t unit_tag;
static uint32_t tag_turn(unit_tag t) { return (uint32_t)(t >> 48); }
static uint32_t tag_group(unit_tag t) { return (uint32_t)(t >> 26) & 0x3FFFFF; }
static uint32_t tag_stretch(unit_tag t) { return (uint32_t)(t >> 5) & 0x1FFFFF; }
static uint32_t tag_wave(unit_tag t) { return (uint32_t)t & 31; }

static struct {
	pthread_mutex_t lock; /* of new pages, and of what is said */
	struct {
		uint64_t number; /* atomic; 0: none */
		unit_tag *tags;
	} page[SLOTS];
	uint32_t n_pages, turn;
} C = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint8_t caches_mark[CACHES_MARKS];

static void forget_all(void)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		free(C.page[i].tags);
		C.page[i].number = 0;
		C.page[i].tags = NULL;
	}
	C.n_pages = C.turn = 0;
}

void caches_begin(void)
{
	if (C.turn == LAST_TURN || C.n_pages > KEPT_PAGES)
		forget_all();
	C.turn++;
	memset(caches_mark, 0, sizeof caches_mark);
}

void caches_begin_group(struct group *g)
{
	g->stretch = 1;
	g->ticket = 0;
	g->tag_page = 0;
}

/* The tags of a page of memory, or NULL: nothing was ever stored there. */
static unit_tag *find(uint64_t number)
{
	for (uint32_t i = caches_hash(number);; i = (i + 1) % SLOTS) {
		uint64_t n = __atomic_load_n(&C.page[i].number, __ATOMIC_ACQUIRE);
		if (n == number || !n)
			return n ? C.page[i].tags : NULL;
	}
}

static unit_tag *take(uint64_t number)
{
	unit_tag *tags = find(number);
	if (tags)
		return tags;
	pthread_mutex_lock(&C.lock);
	uint32_t i = caches_hash(number);
	while (C.page[i].number && C.page[i].number != number)
		i = (i + 1) % SLOTS;
	if (!C.page[i].number) {
		C.page[i].tags = calloc(PAGE_UNITS, sizeof *tags);
		if (!C.page[i].tags || ++C.n_pages > MOST_PAGES) {
			fputs("hip-on-gfx11: a launch stores too much\n", stderr);
			abort();
		}
		__atomic_store_n(&C.page[i].number, number, __ATOMIC_RELEASE);
	}
	tags = C.page[i].tags;
	pthread_mutex_unlock(&C.lock);
	return tags;
}

static uint32_t group_number(const struct group *g)
{
	return (g->y * g->l->grid_x + g->x) & 0x3FFFFF;
}

void caches_store(struct wave *w, const uint64_t *a, uint32_t exec, uint32_t n)
{
	struct group *g = w->g;
	unit_tag tag = (unit_tag)C.turn << 48 | (unit_tag)group_number(g) << 26 |
		       (unit_tag)(g->stretch & 0x1FFFFF) << 5 | w->number;
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		for (uint64_t at = a[i] & -(uint64_t)UNIT; at < a[i] + n; at += UNIT) {
			uint64_t page = at >> PAGE_SHIFT;
			if (page != g->tag_page) {
				g->tags = take(page);
				g->tag_page = page;
			}
			__atomic_store_n(&caches_mark[caches_hash(at >> CACHES_SHIFT)], 1,
					 __ATOMIC_RELAXED);
			__atomic_store_n(&g->tags[at / UNIT % PAGE_UNITS], tag, __ATOMIC_RELAXED);
		}
	}
}

/* The tag of a unit that this launch has stored, or 0. */
static unit_tag tag_of(uint64_t at)
{
	const unit_tag *tags = caches_is_marked(at) ? find(at >> PAGE_SHIFT) : NULL;
	unit_tag t = tags ? __atomic_load_n(&tags[at / UNIT % PAGE_UNITS], __ATOMIC_RELAXED) : 0;
	return tag_turn(t) == C.turn ? t : 0;
}

enum sight { SEEN, RACED, STALE };

/* What a load finds of another wave of the workgroup. */
static enum sight sight_of_wave(const struct wave *w, unit_tag t, bool passes_l0,
				const char **why)
{
	const struct group *g = w->g;
	if (tag_wave(t) == w->number)
		return SEEN;
	const struct wave *other = &g->waves[tag_wave(t)];
	uint32_t clean = other->clean < g->stretch ? other->clean : other->clean_before;
	if (tag_stretch(t) >= g->stretch)
		return RACED;
	*why = clean < tag_stretch(t) ? "which had not waited for it (vscnt) before the barrier"
				      : "and L0 was not invalidated behind the barrier";
	bool is_there = passes_l0 ? clean >= tag_stretch(t)
				  : w->seen[tag_wave(t)] >= tag_stretch(t);
	return is_there ? SEEN : STALE;
}

static enum sight sight_of_group(const struct wave *w, bool passes_l0, const char **why)
{
	const struct group *g = w->g;
	if (!g->ticket)
		return RACED;
	/* The wave that took the ticket needs no barrier. */
	uint32_t least = g->ticket + (w->number != g->ticket_wave);
	bool has_l1 = w->l1_stretch >= least;
	*why = has_l1 ? "and L0 was not invalidated behind the ticket and L1"
		      : "and L1 was not invalidated behind the ticket";
	return has_l1 && (passes_l0 || w->l0_l1_stretch >= least) ? SEEN : STALE;
}

/* Once for each kernel: the first instruction that does so. */
static void say_raced(const struct wave *w, const struct inst *p)
{
	const struct code_kernel *k = w->g->l->kernel;
	static const struct code_kernel *said[64];
	static int n_said;
	char text[128];
	pthread_mutex_lock(&C.lock);
	int i = 0;
	while (i < n_said && said[i] != k)
		i++;
	if (i == n_said && n_said < (int)(sizeof said / sizeof *said)) {
		said[n_said++] = k;
		inst_text(p, text, sizeof text);
		fprintf(stderr, "# gfx11: %s+0x%x: %s: loads what another wave stores meanwhile, "
			"and gets NaN\n", k->name, p->address - k->begin, text);
	}
	pthread_mutex_unlock(&C.lock);
}

/* One lane's bytes. False: stale. */
static bool look_at_lane(struct wave *w, const struct inst *p, uint64_t a, uint32_t n,
			 bool *has_raced)
{
	const struct group *g = w->g;
	for (uint64_t at = a & -(uint64_t)UNIT; at < a + n; at += UNIT) {
		const char *why = "";
		unit_tag t = tag_of(at);
		if (!t)
			continue;
		bool is_own = tag_group(t) == group_number(g);
		enum sight s = is_own ? sight_of_wave(w, t, p->glc, &why)
				      : sight_of_group(w, p->glc, &why);
		if (s == STALE) {
			wave_fault(w, p, "it may be stale: %s %u stored %llx, %s",
				   is_own ? "wave" : "workgroup",
				   is_own ? tag_wave(t) : tag_group(t),
				   (unsigned long long)at, why);
			return false;
		}
		*has_raced |= s == RACED;
	}
	return true;
}

void caches_load(struct wave *w, const struct inst *p, const uint64_t *a, uint32_t exec,
		 uint32_t n)
{
	bool has_raced = false;
	for (int i = 0; i < LANES; i++) {
		bool has = false;
		if (!(exec >> i & 1))
			continue;
		if (!look_at_lane(w, p, a[i], n, &has))
			return;
		for (uint32_t j = 0; has && j < (n + 3) / 4; j++)
			w->v[p->d.reg + j][i] = POISON;
		has_raced |= has;
	}
	if (has_raced)
		say_raced(w, p);
}

void caches_load_scalar(struct wave *w, const struct inst *p, uint64_t a, uint32_t n)
{
	for (uint64_t at = a; at < a + n; at += UNIT)
		if (tag_of(at)) {
			wave_fault(w, p, "it may be stale: this launch has stored %llx, and the "
				   "cache of scalar loads keeps what it has",
				   (unsigned long long)at);
			return;
		}
}

void caches_ticket(struct wave *w)
{
	w->g->ticket = w->g->stretch;
	w->g->ticket_wave = w->number;
	w->l1_stretch = w->l0_l1_stretch = 0;
}

void caches_barrier(struct wave *w)
{
	if (w->n_stores)
		return;
	w->clean_before = w->clean;
	w->clean = w->g->stretch;
}

static void check_invalidation(struct wave *w, const struct inst *p)
{
	if (w->vm.n)
		wave_fault(w, p, "a load is under way, without vmcnt(0)");
}

void caches_invalidate_l1(struct wave *w, const struct inst *p)
{
	check_invalidation(w, p);
	w->l1_stretch = w->g->stretch;
}

void caches_invalidate_l0(struct wave *w, const struct inst *p)
{
	struct group *g = w->g;
	check_invalidation(w, p);
	w->l0_l1_stretch = w->l1_stretch;
	for (uint32_t i = 0; i < g->n_waves; i++)
		w->seen[i] = g->waves[i].clean < g->stretch ? g->waves[i].clean
							    : g->waves[i].clean_before;
}
