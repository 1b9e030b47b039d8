/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend. Device memory is host memory. Operations run immediately on a pool of
 * threads, and are complete when they return.
 *
 * There are two ways to compute. The exact way uses weights and activations without
 * rounding, in vectors of four floats (cpu_tile.h). The fast way is the default and uses
 * loops made for the instruction set (cpu_isa.h). It rounds activations to 8 bits where
 * weights have at most 8 bits per number. Where weights are bf16 or FP8 and the processor
 * multiplies bf16, it rounds activations to bf16.
 *
 * Rule 4 of kernels/README.md (a row's bits do not depend on the rest of the batch) holds
 * for two reasons. The order of each sum depends on the row's own data only. And threads
 * divide work by output element, never within a sum. The library is compiled without
 * contraction of a * b + c, which could differ between two inlined copies of a dot
 * product.
 */
#pragma once
#include "backend/backend.h"
#include "backend/cpu/cpu_isa.h"
#include "base/arena.h"
#include "base/map.h"

struct cpu {
	struct backend base;
	struct pool *pool;
	const struct cpu_isa *isa; /* NULL: exact way */
	bool pins;                 /* pin threads: backend_opts.cpu_pin */
	char *scratch;             /* memory of cpu_scratch */
	size_t scratch_bytes;
	/* --- state of cpu_weight.c */
	struct weight_block *weight_blocks; /* memory of panels and copies of weights */
	struct arena kept;      /* descriptions of packed weights */
	const int32_t *order; /* column order of the last weight that has one; order_k columns */
	int32_t order_k;
	uint64_t n_loaded;      /* weights loaded so far of this model */
	struct u64map kinds;    /* kinds of weights found in the cache; see find in cpu_weight.c */
	struct cpu_cache *cache, *cache_all; /* cache: while loading; cache_all: until the
					      * backend ends */
	/* experts of the model loaded now; `next`: of those loaded before */
	struct cpu_experts *experts;
	char *expert_dir;       /* NULL: beside the model */
	uint64_t n_steps;
	char *cache_dir;        /* NULL: no cache */
	bool cache_waits, small_pages; /* as in struct backend_opts and backend_checks */
};

enum status cpu_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail) MUST_USE;

/* Run fn over [0, n) on the pool. One index costs about `work` multiply-adds or elements.
 * Indices are grouped so that each piece is worth the cost of handing it to a thread. */
static inline void cpu_for(struct backend *b, int n, size_t work,
			   void (*fn)(void *arg, int begin, int end), const void *arg)
{
	enum { ENOUGH = 8192 }; /* about 2 us of work; handing over costs about 0.3 us */
	int grain = work < ENOUGH ? (int)(ENOUGH / (work + 1)) : 1;
	pool_for(((struct cpu *)b)->pool, n, grain, fn, (void *)(uintptr_t)arg);
}

enum status cpu_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail) MUST_USE;
enum status cpu_load_experts(struct backend *b, struct experts *out,
			     struct fail *fail) MUST_USE;
void cpu_load_begin(struct backend *b, const struct model *m);
enum status cpu_load_end(struct backend *b, struct fail *fail) MUST_USE;
/* Sets up out->packed for w, without its data. False: w does not become panels. */
bool cpu_weight_plan(struct cpu *c, const struct weight *w, struct weight *out);
/* Frees the memory of all loaded weights. */
void cpu_weights_free(struct cpu *c);

/* Memory for the duration of one operation, 64-byte aligned. It grows to the largest size
 * needed so far and is then kept. NULL: out of memory. */
void *cpu_scratch(struct backend *b, size_t n_bytes);

enum status cpu_attention_fast(struct backend *b,
			       const struct attention_args *a) MUST_USE;
/* Store n floats in the cache, from element `at` on, in the backend's kv_type. */
void cpu_kv_store(struct backend *b, void *cache, size_t at, const float *x, int32_t n);

#define OP(name, contract) \
	enum status cpu_##name(struct backend *b, const struct name##_args *a) MUST_USE;
#include "backend/ops.def"
#undef OP
