/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the time of a launch from the counts of a walk through it (walk.h) and from
 * published figures of the chip. The prediction is the largest of six times, each
 * computed as if it were the only limit. Nothing was measured with these kernels. Thread:
 * main.
 */
#pragma once
#include "lab/chip.h"
#include "lab/walk.h"

struct hip_launch_info;

enum cost_kind {
	COST_ISSUE,   /* a SIMD's vector instructions, or its scalar ones if they take longer */
	COST_LDS,
	COST_LATENCY, /* time of one wave alone, times the rounds of waves */
	COST_CACHE,   /* cache lines from the L0 cache to the lanes */
	COST_MALL,    /* cache lines that miss L2 */
	COST_DRAM,
	COST_KINDS
};
const char *cost_kind_name(enum cost_kind k);

/* Figures of a chip beside gpu_targets.def. Sources: launch_cost.c. */
struct cost_chip {
	const char *arch;
	double decode_ghz, prefill_ghz; /* sustained clocks */
	double read_gbs;       /* DRAM bandwidth that large reads reach */
	double mall_gbs, mall_bytes, l2_bytes;
	double dram_ns, cache_ns, scalar_cycles, lds_cycles;
	double gap_us;         /* from the end of a launch to the start of the next */
};
const struct cost_chip *cost_chip_find(const char *arch); /* NULL: unknown chip */

struct launch_cost {
	struct walk_count count;
	double dram_bytes;   /* that DRAM must supply */
	double share;        /* of the workgroups: those that have work */
	double us[COST_KINDS];
	double waves;        /* waves on a SIMD at once */
	enum cost_kind bound;
};

struct cost_model {
	const struct chip *chip;
	const struct cost_chip *more;
	const struct codeobject *code;
	const char *path;    /* path of the code object */
	struct walk_cache *cache;
	walk_read read;
	void *ctx;
	bool is_prefill;     /* selects the sustained clock */
};

/* Estimate one launch. E_UNSUPPORTED: the code object lacks the kernel; other errors as
 * of walk_run. */
enum status launch_cost(const struct cost_model *m, const struct hip_launch_info *l,
			struct launch_cost *out, struct fail *fail) MUST_USE;
/* Append the launch as members of a JSON object, without braces: "kernel": …, "grid": …,
 * counts, times. */
void launch_cost_json(struct buf *b, const struct hip_launch_info *l,
		      const struct launch_cost *c);
double launch_cost_us(const struct launch_cost *c); /* the largest of the six times */
