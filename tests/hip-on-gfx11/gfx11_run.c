/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch: workgroups handed out to threads; in a workgroup waves one after the other,
 * each to the next barrier. What registers and LDS hold at first is NaN as float32, as
 * halves and as bfloat16, and different in each place.
 */
#include "tests/hip-on-gfx11/gfx11_wave.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

const char *gfx11_option(const char *name)
{
	static char value[1 << 16];
	size_t n = strlen(name);
	for (const char *p = getenv("HALOD_GFX11"); p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, name, n) != 0 || p[n] != '=')
			continue;
		snprintf(value, sizeof value, "%.*s", (int)strcspn(p + n + 1, ","), p + n + 1);
		return value;
	}
	return NULL;
}

const struct executor *executor_best(void)
{
	static const struct executor *const all[] = {&executor_avx512, &executor_avx2,
						     &executor_portable};
	const char *wanted = gfx11_option("isa");
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i]->is_there() && (!wanted || strcmp(wanted, all[i]->name) == 0))
			return all[i];
	return &executor_portable;
}

/* --- before the first launch ----------------------------------------------------------- */

/* A product of 64 bits on gfx1100 must not write what it reads (LLVM: MADIntraFwdBug).
 * Compilers keep to that but in one form: the low word of the result lies where the high
 * word of the summand was. They use it where that word has no value, and so the high word
 * of the result none: it is spoilt here, and whoever uses it computes garbage. */
static bool forwards_badly(const struct code_object *c, struct inst *p)
{
	if (strcmp(c->arch, "gfx1100") != 0 ||
	    (p->op != OP_v_mad_u64_u32 && p->op != OP_v_mad_i64_i32))
		return false;
	for (int i = 0; i < 3; i++) {
		if (p->s[i].kind != KIND_VGPR || p->s[i].reg >= p->d.reg + 2 ||
		    p->d.reg >= p->s[i].reg + p->s[i].n)
			continue;
		if (i < 2 || p->s[i].reg + 1 != p->d.reg)
			return true;
		p->spoils_high = true;
	}
	return false;
}

static const char *why_not(const struct code_object *c, struct inst *p)
{
	if (p->is_unsure)
		return "a constant whose value is not known for certain";
	if (forwards_badly(c, p))
		return "writes what it reads, which gfx1100 does wrongly";
	bool is_float = p->d.type == 'f' || (p->d.type == 'a' && p->encoding != DS);
	bool is_sum = p->op == OP_v_add_nc_u32 || p->op == OP_v_sub_nc_u32;
	if ((p->clamp && !is_float && !is_sum) || (p->omod && !is_float))
		return "a modifier of the result that is not modelled";
	if (p->op_sel & 8 && p->d.type != 'w' && p->d.type != 'h')
		return "op_sel of a result that is not 16 bits";
	if (p->form == FORM_DPP && (p->dpp_rows != 15 || p->dpp_banks != 15 || !p->inner))
		return "masks of a DPP exchange are not modelled";
	if (p->gds)
		return "global data share";
	return NULL;
}

/* A hint to the chip that does nothing here. */
static bool is_idle(const struct inst *p)
{
	return p->op == OP_s_delay_alu || p->op == OP_s_nop;
}

/* One instruction of eight is such a hint. A wave passes those behind arithmetic without a
 * step. In a clause of loads they are executed, which is a fault. */
static void pass_hints(const struct code_kernel *k, size_t i, size_t n)
{
	enum { MOST = 255 /* words that step can say */ };
	struct inst *p = &k->insts[i];
	size_t to = i + p->size;
	p->n_hints = 0;
	while (p->class <= CLASS_SALU && to < n && is_idle(&k->insts[to]) && to - i < MOST) {
		to += k->insts[to].size;
		p->n_hints++;
	}
	p->step = (uint8_t)(to - i);
}

const char *kernel_link(struct code_object *c, struct code_kernel *k)
{
	static char why[256];
	const struct executor *x = executor_best();
	const char *bad = code_decode(c, k);
	size_t n = (k->end - k->begin) / 4;
	for (size_t i = 0; !bad && i < n; i++) {
		struct inst *p = &k->insts[i];
		if (!p->size || p->run)
			continue;
		p->run = p->encoding == VOPD ? x->dual : x->run[p->op];
		if (p->form == FORM_DPP) {
			p->inner = p->run;
			p->run = x->dpp;
		}
		const char *not = why_not(c, p);
		if (not) {
			char text[128];
			inst_text(p, text, sizeof text);
			snprintf(why, sizeof why, "%s: %x: %s: %s", k->name, p->address, text,
				 not);
			bad = why;
		}
		pass_hints(k, i, n);
	}
	return bad;
}

/* --- a workgroup ----------------------------------------------------------------------- */

enum { POISONED = 16 }; /* words of LDS that are alike; it has so many beyond its end */
static uint32_t poison(struct group *g)
{
	g->random ^= g->random << 13;
	g->random ^= g->random >> 7;
	g->random ^= g->random << 17;
	return 0x7FC07FC0 | ((uint32_t)(g->random >> 20) & 0x003F003F);
}

static void wave_begin(struct group *g, uint32_t number)
{
	struct wave *w = &g->waves[number];
	const struct launch *l = g->l;
	const struct code_kernel *k = l->kernel;
	memset((char *)w + sizeof w->v, 0, sizeof *w - sizeof w->v);
	for (uint32_t i = 0; i < k->n_vgprs; i++) {
		uint32_t x = poison(g);
		for (int lane = 0; lane < LANES; lane++)
			w->v[i][lane] = x;
	}
	for (uint32_t i = 0; i <= REG_VCC; i++)
		w->s[i] = poison(g);
	w->scc = poison(g) & 1;
	w->g = g;
	w->number = number;
	w->pc = k->insts;
	uint32_t s = k->n_user_sgprs;
	if (k->properties & 8) {
		w->s[0] = (uint32_t)l->kernarg;
		w->s[1] = (uint32_t)(l->kernarg >> 32);
	}
	if (k->rsrc2 >> 7 & 1)
		w->s[s++] = g->x;
	if (k->rsrc2 >> 8 & 1)
		w->s[s++] = g->y;
	if (k->rsrc2 >> 9 & 1)
		w->s[s++] = 0;
	uint32_t left = l->n_threads - LANES * number;
	w->s[REG_EXEC] = left >= LANES ? ~0u : (1u << left) - 1;
	for (int lane = 0; lane < LANES; lane++)
		w->v[0][lane] = LANES * number + (uint32_t)lane;
}

/* A stretch between barriers begins. Where tags hold no later one, they begin anew. */
static void next_epoch(struct group *g)
{
	g->stretch++;
	if (++g->epoch < EPOCHS)
		return;
	memset(g->written, 0, sizeof g->written);
	memset(g->was_read, 0, sizeof g->was_read);
	g->stored = g->told = 0;
	g->epoch = 1;
}

/* A wave that ended does not hold up a barrier. */
static void run_group(struct group *g, uint32_t number)
{
	struct launch *l = g->l;
	g->x = number % l->grid_x;
	g->y = number / l->grid_x;
	g->random = 0x9E3779B97F4A7C15ull ^ ((uint64_t)number + 1) * 0xD1342543DE82EF95ull;
	next_epoch(g);
	caches_begin_group(g);
	g->n_waves = (l->n_threads + LANES - 1) / LANES;
	for (uint32_t i = 0; i < l->lds_bytes; i += 4 * POISONED) {
		uint32_t word = poison(g);
		for (uint32_t k = 0; k < POISONED; k++)
			memcpy(g->lds + i + 4 * k, &word, 4);
	}
	for (uint32_t i = 0; i < g->n_waves; i++)
		wave_begin(g, i);
	for (uint32_t n_live = g->n_waves; n_live && !l->has_failed; next_epoch(g)) {
		n_live = 0;
		for (uint32_t i = 0; i < g->n_waves && !l->has_failed; i++) {
			struct wave *w = &g->waves[l->is_reversed ? g->n_waves - 1 - i : i];
			if (w->state == WAVE_ENDED)
				continue;
			w->state = WAVE_RUNS;
			l->run_wave(w);
			n_live += w->state != WAVE_ENDED;
		}
	}
	for (uint32_t i = 0; i < g->n_waves; i++)
		__atomic_fetch_add(&l->n_insts, g->waves[i].n_insts, __ATOMIC_RELAXED);
}

/* --- threads --------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t is_there, is_done;
	struct launch *launch;
	uint64_t turn;         /* of the launch */
	int n_threads, n_busy; /* besides the caller */
	struct group *own;     /* the caller's */
} P = {.lock = PTHREAD_MUTEX_INITIALIZER, .is_there = PTHREAD_COND_INITIALIZER,
       .is_done = PTHREAD_COND_INITIALIZER};

static void add_counts(struct launch *l, const struct counts *from)
{
	uint64_t *to = (uint64_t *)(void *)&l->counts;
	const uint64_t *x = (const uint64_t *)(const void *)from;
	for (size_t i = 0; i < sizeof l->counts / sizeof *to; i++)
		to[i] += x[i];
}

static double thread_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(struct group *g, struct launch *l)
{
	uint32_t n = l->grid_x * l->grid_y, at;
	double begin = thread_seconds();
	g->l = l;
	memset(g->cache, 0, sizeof g->cache);
	memset(&g->counts, 0, sizeof g->counts);
	while (!l->has_failed &&
	       (at = __atomic_fetch_add(&l->next_group, 1, __ATOMIC_RELAXED)) < n)
		run_group(g, l->is_reversed ? n - 1 - at : at);
	pthread_mutex_lock(&P.lock);
	add_counts(l, &g->counts);
	l->seconds += thread_seconds() - begin;
	pthread_mutex_unlock(&P.lock);
}

static struct group *group_create(void)
{
	struct group *g = aligned_alloc(64, (sizeof *g + 63) / 64 * 64);
	if (!g) {
		fputs("hip-on-gfx11: no memory\n", stderr);
		abort();
	}
	memset(g, 0, sizeof *g);
	return g;
}

static void *thread_main(void *arg)
{
	struct group *g = group_create();
	uint64_t seen = 0;
	(void)arg;
	pthread_mutex_lock(&P.lock);
	for (;;) {
		while (P.turn == seen)
			pthread_cond_wait(&P.is_there, &P.lock);
		seen = P.turn;
		struct launch *l = P.launch;
		pthread_mutex_unlock(&P.lock);
		work(g, l);
		pthread_mutex_lock(&P.lock);
		if (--P.n_busy == 0)
			pthread_cond_signal(&P.is_done);
	}
	return NULL;
}

static void start_threads(void)
{
	const char *text = gfx11_option("threads");
	long n = text ? atol(text) : sysconf(_SC_NPROCESSORS_ONLN);
	n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
	P.own = group_create();
	for (long i = 1; i < n; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, thread_main, NULL) != 0)
			break;
		pthread_detach(t);
		P.n_threads++;
	}
}

bool launch_run(struct launch *l)
{
	l->run_wave = executor_best()->run_wave;
	caches_begin();
	if (!P.own)
		start_threads();
	bool is_shared = P.n_threads && l->grid_x * l->grid_y > 1;
	if (is_shared) {
		pthread_mutex_lock(&P.lock);
		P.launch = l;
		P.n_busy = P.n_threads;
		P.turn++;
		pthread_cond_broadcast(&P.is_there);
		pthread_mutex_unlock(&P.lock);
	}
	work(P.own, l);
	if (is_shared) {
		pthread_mutex_lock(&P.lock);
		while (P.n_busy)
			pthread_cond_wait(&P.is_done, &P.lock);
		pthread_mutex_unlock(&P.lock);
	}
	return !l->has_failed;
}
