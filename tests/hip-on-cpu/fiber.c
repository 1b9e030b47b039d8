/* SPDX-License-Identifier: Apache-2.0
 *
 * Fibers are switched where a thread waits: at a barrier, or until its wave has met.
 * So a wave's lanes are NOT in lockstep; a kernel that relies on it through LDS gets
 * 0xCD or old values here, as it might from a compiler that reorders.
 *
 * The switch is seven pushes on x86-64 and ucontext elsewhere. ASan is told of every
 * switch, TSan too. Stacks stay mapped between launches; a page below each is not accessible.
 */
#include "tests/hip-on-cpu/fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "tests/hip-on-cpu/fiber_threads.h"
#include "tests/hip-on-cpu/sanitizer.h"

#if !defined(__x86_64__) || defined(FIBER_UCONTEXT)
#define WITH_UCONTEXT 1
#include <ucontext.h>
#endif
enum {
	MAX_THREADS = 1024,
	MAX_WAVES = MAX_THREADS / FIBER_WAVE,
	MAX_LDS = 16,
	STACK = 128 << 10,
	GUARD = 4 << 10,
	COLOURS = 32,
	COLOUR = 320, /* bytes between the tops of stacks, modulo pages */
	LAST_FRAMES = COLOURS * COLOUR + (4 << 10),
	LDS_ALIGN = 128,
};

enum state { READY, IN_WAVE, IN_BARRIER, DONE };

struct fiber {
#ifdef WITH_UCONTEXT
	ucontext_t context;
#else
	void *sp;
#endif
	char *stack;
	enum state state;
	bool is_begun; /* in this workgroup: it has a stack */
	int site;
	uint32_t phase;   /* which of the wave's two buffers comes next */
	void *fake_stack; /* ASan's */
	void *tsan;
};

/* ready: bit i is set where fiber i of the wave is READY.
 * Two buffers, because a lane may come to the next exchange while another has not yet
 * read the last one; it cannot come to the one after that. */
struct wave {
	uint32_t ready, live, arrived;
	int site; /* of those that have arrived */
	uint8_t slots[2][FIBER_WAVE][FIBER_SLOT];
};

static struct {
	const struct fiber_launch *launch;
	struct fiber main, fiber[MAX_THREADS];
	struct wave wave[MAX_WAVES];
	uint32_t group_x, group_y, live, arrived, current;
	int barrier_site;
	struct {
		const void *key;
		void *p;
	} lds[MAX_LDS];
	int n_lds;
	void *dynamic;
	const void *main_stack; /* ASan's */
	size_t main_size;
} B;

static _Noreturn void die(const char *what)
{
	static const char names[] = "RWBD";
	uint32_t n = B.launch->n_threads;
	fprintf(stderr, "fiber: %s: workgroup (%u, %u), thread %u, line %d\n", what,
		B.group_x, B.group_y, B.current, B.fiber[B.current].site);
	for (uint32_t i = 0; i < n; i++)
		fprintf(stderr, "%s%u:%c%d", i % 8 ? " " : "\n ", i,
			names[B.fiber[i].state], B.fiber[i].site);
	fputc('\n', stderr);
	abort();
}

/* --- switching ------------------------------------------------------------------- */

#ifndef WITH_UCONTEXT
void fiber_switch_stack(void **save, void *to);
__asm__(".text\n.p2align 4\n.type fiber_switch_stack,@function\nfiber_switch_stack:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
	".size fiber_switch_stack,.-fiber_switch_stack\n");
#endif

static void switch_to(struct fiber *from, struct fiber *to, bool is_last)
{
#ifdef WITH_ASAN
	bool is_main = to == &B.main;
	__sanitizer_start_switch_fiber(is_last ? NULL : &from->fake_stack,
				       is_main ? B.main_stack : to->stack,
				       is_main ? B.main_size : STACK);
#endif
#ifdef WITH_TSAN
	/* A switch orders what was before it and what comes after: they are steps of one
	 * thread. So races between lanes do not show, those between threads do. */
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
#ifdef WITH_UCONTEXT
	swapcontext(&from->context, &to->context);
#else
	fiber_switch_stack(&from->sp, to->sp);
#endif
#ifdef WITH_ASAN
	__sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* The next fiber of the mask's: behind (or, reversed, before) lane `from`, else at the other
 * end. There is one. */
static uint32_t next_lane(uint32_t ready, uint32_t from)
{
	uint32_t before = ready & ((1u << from) - 1), behind = ready & ~before & ~(1u << from);
	uint32_t first = B.launch->is_reversed ? before : behind;
	uint32_t mask = first ? first : ready;
	return (uint32_t)(B.launch->is_reversed ? 31 - __builtin_clz(mask) : __builtin_ctz(mask));
}

/* The next fiber that can run, -1: none. A wave goes on while it can, so that its stacks stay
 * in the cache. */
static int32_t find_next(void)
{
	uint32_t n_waves = (B.launch->n_threads + FIBER_WAVE - 1) / FIBER_WAVE;
	uint32_t w = B.current / FIBER_WAVE, lane = B.current % FIBER_WAVE;
	for (uint32_t tried = 0; tried <= n_waves; tried++) {
		uint32_t ready = B.wave[w].ready;
		if (ready)
			return (int32_t)(w * FIBER_WAVE + next_lane(ready, lane));
		bool is_end = w == (B.launch->is_reversed ? 0 : n_waves - 1);
		if (B.launch->is_reversed)
			w = is_end ? n_waves - 1 : w - 1;
		else
			w = is_end ? 0 : w + 1;
		lane = B.launch->is_reversed ? 0 : FIBER_WAVE - 1;
	}
	if (B.live)
		die("threads wait for others that never come");
	return -1;
}

static void fiber_begin(uint32_t i);

/* Leave the current fiber for fiber `to`, -1: for the launch. */
static void leave_for(int32_t to, bool is_last)
{
	uint32_t from = B.current;
	if (to < 0) {
		switch_to(&B.fiber[from], &B.main, true);
		return;
	}
	B.current = (uint32_t)to;
	if (!B.fiber[to].is_begun)
		fiber_begin((uint32_t)to);
	if (B.current != from)
		switch_to(&B.fiber[from], &B.fiber[to], is_last);
}

static void set_state(uint32_t i, enum state state)
{
	uint32_t bit = 1u << i % FIBER_WAVE;
	struct wave *wave = &B.wave[i / FIBER_WAVE];
	B.fiber[i].state = state;
	wave->ready = state == READY ? wave->ready | bit : wave->ready & ~bit;
}

static void wake(enum state waiting, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to && i < B.launch->n_threads; i++)
		if (B.fiber[i].state == waiting)
			set_state(i, READY);
}

static void wake_wave(uint32_t w)
{
	B.wave[w].arrived = 0;
	wake(IN_WAVE, w * FIBER_WAVE, (w + 1) * FIBER_WAVE);
}

static void wake_group(void)
{
	B.arrived = 0;
	wake(IN_BARRIER, 0, MAX_THREADS);
}

/* The current fiber is done. */
static void finish(void)
{
	uint32_t w = B.current / FIBER_WAVE;
	set_state(B.current, DONE);
	B.live--;
	B.wave[w].live--;
	if (B.wave[w].live && B.wave[w].arrived == B.wave[w].live)
		wake_wave(w);
	if (B.live && B.arrived == B.live)
		wake_group();
}

/* Fiber `to`, which has not begun, goes on where the current one has ended: no switch, and a
 * stack that is in the cache. */
static void take_over(uint32_t to)
{
	struct fiber *done = &B.fiber[B.current], *f = &B.fiber[to], old = *f;
	f->stack = done->stack;
	f->tsan = done->tsan;
	f->fake_stack = done->fake_stack;
	done->stack = old.stack;
	done->tsan = old.tsan;
	done->fake_stack = old.fake_stack;
	f->is_begun = true;
	B.current = to;
}

static void fiber_main(void)
{
#ifdef WITH_ASAN
	const void *stack;
	size_t size;
	__sanitizer_finish_switch_fiber(NULL, &stack, &size);
	if (!B.main_stack) { /* the first to run came from there */
		B.main_stack = stack;
		B.main_size = size;
	}
#endif
	for (;;) {
		B.launch->entry(B.launch->arg);
		finish();
		int32_t next = find_next();
		if (next < 0 || B.fiber[next].is_begun) {
			leave_for(next, true);
			abort(); /* a fiber that is done is never resumed */
		}
		take_over((uint32_t)next);
	}
}

/* --- what kernels call ------------------------------------------------------------ */

uint32_t fiber_thread(void)
{
	return B.current;
}

uint32_t fiber_group(int axis)
{
	return axis ? B.group_y : B.group_x;
}

void fiber_barrier(int site)
{
	struct fiber *f = &B.fiber[B.current];
	f->site = site;
	if (B.arrived && B.barrier_site != site)
		die("a barrier reached from two places");
	B.barrier_site = site;
	if (++B.arrived == B.live) {
		wake_group();
		return;
	}
	set_state(B.current, IN_BARRIER);
	leave_for(find_next(), false);
}

const uint8_t *fiber_exchange(const void *value, size_t n_bytes, int site)
{
	uint32_t w = B.current / FIBER_WAVE, first = w * FIBER_WAVE;
	struct fiber *f = &B.fiber[B.current];
	struct wave *wave = &B.wave[w];
	uint8_t (*slots)[FIBER_SLOT] = wave->slots[f->phase++ & 1];
	f->site = site;
	if (n_bytes > FIBER_SLOT)
		die("more than a slot holds");
	if (wave->arrived && wave->site != site)
		die("a wave's lanes meet at two places");
	if (!wave->arrived && wave->live < FIBER_WAVE)
		memset(slots, 0xEE, sizeof wave->slots[0]);
	wave->site = site;
	memcpy(slots[B.current - first], value, n_bytes);
	if (++wave->arrived == wave->live) {
		wake_wave(w);
	} else {
		set_state(B.current, IN_WAVE);
		leave_for(find_next(), false);
	}
	return &slots[0][0];
}

static void *lds_alloc(size_t n_bytes)
{
	void *p;
	if (posix_memalign(&p, LDS_ALIGN, n_bytes ? n_bytes : 1) != 0)
		die("no memory for LDS");
	return memset(p, 0xCD, n_bytes);
}

void *fiber_lds(const void *key, size_t n_bytes)
{
	for (int i = 0; i < B.n_lds; i++)
		if (B.lds[i].key == key)
			return B.lds[i].p;
	if (B.n_lds == MAX_LDS)
		die("too many arrays in LDS");
	B.lds[B.n_lds].key = key;
	B.lds[B.n_lds].p = lds_alloc(n_bytes);
	return B.lds[B.n_lds++].p;
}

void *fiber_lds_dynamic(void)
{
	return B.dynamic;
}

/* --- launching -------------------------------------------------------------------- */

/* A stack for fiber i, which is to be switched to. */
static void fiber_begin(uint32_t i)
{
	struct fiber *f = &B.fiber[i];
	f->is_begun = true;
	if (!f->stack) {
		char *p = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED || mprotect(p, GUARD, PROT_NONE) != 0) {
			perror("fiber: stack");
			abort();
		}
		f->stack = p + GUARD;
	}
	/* The tops lie in different lines of the cache. ASan marks frames there that no
	 * function left: fiber_main's and what it calls last. The stack may be another fiber's,
	 * with another top. */
	size_t top = STACK - i % COLOURS * COLOUR;
	__asan_unpoison_memory_region(f->stack + STACK - LAST_FRAMES, LAST_FRAMES);
#ifdef WITH_TSAN
	if (!f->tsan)
		f->tsan = __tsan_create_fiber(0);
#endif
#ifdef WITH_UCONTEXT
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = top;
	f->context.uc_link = NULL;
	makecontext(&f->context, fiber_main, 0);
#else
	/* As if fiber_main had been called: a return address, then six registers. */
	void **sp = (void **)(f->stack + top) - 3;
	*sp = NULL;
	*--sp = (void *)fiber_main;
	sp -= 6;
	memset(sp, 0, 6 * sizeof *sp);
	f->sp = sp;
#endif
}

static void run_group(const struct fiber_launch *l)
{
	B.live = l->n_threads;
	B.arrived = 0;
	B.dynamic = lds_alloc(l->lds_bytes);
	for (uint32_t i = 0; i < l->n_threads; i++) {
		set_state(i, READY);
		B.fiber[i].phase = 0;
		B.fiber[i].site = 0;
		B.fiber[i].is_begun = false;
	}
	for (uint32_t w = 0; w * FIBER_WAVE < l->n_threads; w++) {
		uint32_t left = l->n_threads - w * FIBER_WAVE;
		B.wave[w].live = left < FIBER_WAVE ? left : FIBER_WAVE;
		B.wave[w].arrived = 0;
	}
	B.current = l->is_reversed ? l->n_threads - 1 : 0;
	fiber_begin(B.current);
	switch_to(&B.main, &B.fiber[B.current], false);
	free(B.dynamic);
	for (int i = 0; i < B.n_lds; i++)
		free(B.lds[i].p);
	B.n_lds = 0;
}

void fiber_run(const struct fiber_launch *l)
{
	B.launch = l;
	B.main_stack = NULL;
#ifdef WITH_TSAN
	B.main.tsan = __tsan_get_current_fiber();
#endif
	if (l->n_threads < 1 || l->n_threads > MAX_THREADS) {
		fprintf(stderr, "fiber: a workgroup of %u threads\n", l->n_threads);
		abort();
	}
	for (B.group_y = 0; B.group_y < l->grid_y; B.group_y++)
		for (B.group_x = 0; B.group_x < l->grid_x; B.group_x++)
			run_group(l);
}
