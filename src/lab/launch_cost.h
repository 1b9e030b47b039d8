/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the time of a launch from the counts of a walk through it (walk.h) and from published
 * figures of the chip. A launch is its node in the graph, a ramp, a stream and a tail, one behind
 * the other. In the stream waves queue for SIMD, LDS, caches and DRAM, and hide each other's
 * latency as far as they are in flight at once. Nothing was measured with these kernels.
 * calibration.def has what the same figures are held to: published kernels. Thread: main.
 */
#pragma once
#include "lab/chip.h"
#include "lab/walk.h"

struct hip_launch_info;

enum cost_kind {
	COST_ISSUE,   /* a SIMD's vector instructions, or its scalar ones if they take longer */
	COST_LDS,
	COST_LATENCY, /* what no other wave hides */
	COST_CACHE,   /* cache lines from the L0 cache to the lanes */
	COST_MALL,    /* cache lines that miss L2 */
	COST_DRAM,
	COST_KINDS
};
const char *cost_kind_name(enum cost_kind k);

/* What a prediction is of, for its bar: one launch that reads weights, of 20 MB and more or less;
 * in a step, launches without matrix products, with them, and attention with them. */
enum cost_part { COST_BIG, COST_SMALL, COST_STEP, COST_PRODUCT, COST_ATTENTION, COST_PARTS };

/* A bar: a time may be so many times as long as predicted. */
struct cost_bar {
	double low, high;
};

/* Share of the chip's peak of matrix products that published kernels reach (calibration.def). */
#define COST_MATRIX_SHARE 0.505

/* Figures of a chip beside gpu_targets.def. Sources: launch_cost.c. */
struct cost_chip {
	const char *arch;
	double decode_ghz, prefill_ghz; /* sustained clocks */
	double read_gbs, write_gbs;     /* DRAM, as large launches reach it */
	double mall_gbs, mall_bytes, l2_bytes;
	double dram_ns, cache_ns, first_scalar_ns;
	double node_us;  /* a node of a graph with few workgroups, which do nothing */
	double group_ns; /* starting a workgroup */
	/* Fitted (calibration.def): what a launch needs before its stream beside the walked chain
	 * of loads, and what it needs at most until the last of the compute units has its bytes. */
	double start_us, drain_us;
	struct cost_bar bar[COST_PARTS]; /* calibration.def's TEST rows lie within */
};
const struct cost_chip *cost_chip_find(const char *arch); /* NULL: unknown chip */

struct launch_cost {
	struct walk_count count;
	double dram_bytes;   /* that DRAM must supply */
	double share;        /* of the workgroups: those that have work */
	double us[COST_KINDS]; /* as if each were the only limit */
	double node, ramp, stream, tail; /* us; the launch takes their sum */
	double waves;        /* waves on a SIMD at once */
	enum cost_kind bound; /* the greatest of us */
	enum cost_part part;  /* COST_STEP, COST_PRODUCT or COST_ATTENTION */
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
double launch_cost_us(const struct launch_cost *c);
/* The bar of this launch by itself. */
struct cost_bar launch_cost_bar(const struct cost_model *m, const struct launch_cost *c);

/* What a launch that streams `us` of DRAM needs beside, until the last compute unit is done. */
double cost_drain_us(const struct cost_chip *c, double us);
/* Ramp of a launch that loads arguments, a vector and then a stream, for kernels that cannot be
 * walked. */
double cost_plain_ramp_us(const struct cost_chip *c);
