/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a launch may take, from what a walk through it counts (walk.h) and from what is
 * published of the chip: the greatest of six times, each as if the others were none. It is
 * a prediction: nothing of it was measured with these kernels. Thread: main.
 */
#pragma once
#include "lab/chip.h"
#include "lab/walk.h"

struct hip_launch_info;

enum cost_kind {
	COST_ISSUE,   /* vector instructions, or scalar ones beside them, of each SIMD */
	COST_LDS,
	COST_LATENCY, /* a wave by itself, as often as its place is taken anew */
	COST_CACHE,   /* lines from the first cache to the lanes */
	COST_MALL,    /* lines behind the second cache */
	COST_DRAM,
	COST_KINDS
};
const char *cost_kind_name(enum cost_kind k);

/* What is known of a chip beside gpu_targets.def. Sources: launch_cost.c. */
struct cost_chip {
	const char *arch;
	double decode_ghz, prefill_ghz; /* clocks that last */
	double read_gbs;       /* of DRAM, as large reads reach it */
	double mall_gbs, mall_bytes, l2_bytes;
	double dram_ns, cache_ns, scalar_cycles, lds_cycles;
	double gap_us;         /* from a launch's end to the next one's begin */
};
const struct cost_chip *cost_chip_find(const char *arch); /* NULL: not known */

struct launch_cost {
	struct walk_count count;
	double dram_bytes;
	double us[COST_KINDS];
	double waves;        /* of a SIMD at once */
	enum cost_kind bound;
};

struct cost_model {
	const struct chip *chip;
	const struct cost_chip *more;
	const struct codeobject *code;
	const char *path;    /* of the code object */
	struct walk_cache *cache;
	walk_read read;
	void *ctx;
	bool is_prefill;     /* which clock lasts */
};

/* E_UNSUPPORTED: the code object has no such kernel; else as walk_run. */
enum status launch_cost(const struct cost_model *m, const struct hip_launch_info *l,
			struct launch_cost *out, struct fail *fail) MUST_USE;
/* "kernel": …, "grid": …, counts, times, all of an object but its braces. */
void launch_cost_json(struct buf *b, const struct hip_launch_info *l,
		      const struct launch_cost *c);
double launch_cost_us(const struct launch_cost *c); /* of its bound */
