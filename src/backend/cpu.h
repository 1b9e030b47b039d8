/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend. Device memory is host memory; operations run at once, spread
 * over a pool of threads, and are done when they return.
 *
 * Rule 3 of kernels/README.md (a row's bits do not depend on its company) holds
 * because every sum of products goes through cpu_math.h's dots, whose order depends
 * on the length only, and because work is split between threads by output element,
 * never inside a sum. The library is compiled without contraction of a * b + c: it
 * could differ between two inlined copies of a dot.
 */
#pragma once
#include "backend/backend.h"

struct cpu {
	struct backend base;
	struct pool *pool;
};

enum status cpu_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail) MUST_USE;

/* Run fn over [0, n) on the pool. A unit is about `work` multiply-adds or elements;
 * a piece of work given to a thread is worth the handing over. */
static inline void cpu_for(struct backend *b, int n, size_t work,
			   void (*fn)(void *arg, int begin, int end), const void *arg)
{
	enum { ENOUGH = 8192 }; /* some 2 us; a hand-over takes about 0.3 */
	int grain = work < ENOUGH ? (int)(ENOUGH / (work + 1)) : 1;
	pool_for(((struct cpu *)b)->pool, n, grain, fn, (void *)(uintptr_t)arg);
}

#define OP(name, contract) \
	enum status cpu_##name(struct backend *b, const struct name##_args *a) MUST_USE;
#include "backend/ops.def"
#undef OP
