/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend. Device memory is host memory; operations run at once, spread
 * over a pool of threads, and are done when they return.
 *
 * There are two ways to compute. Exact: weights and activations as they are, in
 * vectors of four floats (cpu_tile.h). Fast, the default: loops made for the
 * instruction set (cpu_isa.h), with activations rounded to 8 bits where weights are
 * integers or codes of so many, and to bf16 where weights are that or FP8 and the
 * processor multiplies it.
 *
 * Rule 4 of kernels/README.md (a row's bits do not depend on its company) holds
 * because the order of every sum of products depends on the row's own data only, and
 * because work is split between threads by output element, never inside a sum. The
 * library is compiled without contraction of a * b + c: it could differ between two
 * inlined copies of a dot.
 */
#pragma once
#include "backend/backend.h"
#include "backend/cpu/cpu_isa.h"
#include "base/arena.h"
#include "base/map.h"

struct cpu {
	struct backend base;
	struct pool *pool;
	const struct cpu_isa *isa; /* NULL: exact */
	bool pins;                 /* backend_opts.cpu_pin */
	char *scratch;             /* cpu_scratch */
	size_t scratch_bytes;
	/* --- cpu_weight.c */
	struct weight_block *weight_blocks; /* of panels and copies */
	struct arena kept;      /* what says where they are */
	const int32_t *order;   /* of the last weight that has one, of order_k */
	int32_t order_k;
	uint64_t n_loaded;      /* weights of this model */
	struct u64map kinds;    /* of those that the cache had, see find */
	struct cpu_cache *cache, *cache_all; /* while it is loaded; until the end */
	char *cache_dir;        /* NULL: none */
	bool cache_waits, small_pages; /* struct backend_opts, its checks */
};

enum status cpu_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail) MUST_USE;

/* Run fn over [0, n) on the pool. A unit is about `work` multiply-adds or elements;
 * a piece of work given to a thread is worth the handing over. */
static inline void cpu_for(struct backend *b, int n, size_t work,
			   void (*fn)(void *arg, int begin, int end), const void *arg)
{
	enum { ENOUGH = 8192 }; /* takes some 2 us; handing it over takes about 0.3 us */
	int grain = work < ENOUGH ? (int)(ENOUGH / (work + 1)) : 1;
	pool_for(((struct cpu *)b)->pool, n, grain, fn, (void *)(uintptr_t)arg);
}

enum status cpu_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail) MUST_USE;
enum status cpu_load_experts(struct backend *b, struct experts *out,
			     struct fail *fail) MUST_USE;
void cpu_load_begin(struct backend *b, const struct model *m);
void cpu_load_end(struct backend *b);
/* Weights loaded are gone then. */
void cpu_weights_free(struct cpu *c);

/* Memory for the time of one operation, aligned to 64 bytes. It grows to what the
 * largest step so far has needed and is then kept. NULL: there is none. */
void *cpu_scratch(struct backend *b, size_t n_bytes);

enum status cpu_attention_fast(struct backend *b,
			       const struct attention_args *a) MUST_USE;
/* n floats to the element `at` of a cache of the backend's kv_type. */
void cpu_kv_store(struct backend *b, void *cache, size_t at, const float *x, int32_t n);

#define OP(name, contract) \
	enum status cpu_##name(struct backend *b, const struct name##_args *a) MUST_USE;
#include "backend/ops.def"
#undef OP
