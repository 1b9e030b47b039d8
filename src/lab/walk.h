/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts a launch's work without running it. Some of its workgroups are walked
 * instruction by instruction. Instructions that can decide where a wave goes next
 * (integers, comparisons, lane masks) are computed for each lane. All others give unknown
 * results. The launch's counts are the mean of the walked workgroups times the number of
 * workgroups.
 *
 * An unknown value still has a guess, so that the walk can go on: memory that was never
 * uploaded is zero, and a comparison is true. A branch on an unknown value is not taken.
 * So code that the branch might skip is counted, and a loop ends. Loads read what the
 * host has uploaded (walk_read), so tables of experts, positions and pages are known.
 *
 * Thread: main.
 */
#pragma once
#include "lab/codeobject.h"

enum walk_class {
	WALK_VALU, WALK_TRANS, WALK_MATRIX, WALK_DUAL, WALK_SALU, WALK_SMEM, WALK_LOAD,
	WALK_STORE, WALK_ATOMIC, WALK_LDS, WALK_BRANCH, WALK_WAIT, WALK_BARRIER, WALK_HINT,
	WALK_CLASSES
};
const char *walk_class_name(enum walk_class c);

/* Counts of a launch, over all waves. They are doubles, because means of samples are
 * scaled. */
struct walk_count {
	double issued[WALK_CLASSES]; /* instructions of waves */
	double load_bytes;   /* bytes that lanes load from global memory */
	double stream_bytes; /* of these: non-temporal */
	double store_bytes;
	double lines;        /* cache lines of 128 bytes, summed over all loads and stores */
	double group_lines;  /* different lines that a workgroup loads, without
			      * non-temporal ones, summed */
	double kept_lines;   /* different lines that the whole launch loads */
	double far_lines;    /* of these: used by several rows of the grid */
	double lds_cycles;   /* cycles of an LDS, including bank conflicts */
	double unknown;      /* branches on unknown values */
	double wave_cycles;  /* mean time of one wave alone: see struct walk_latency */
	double ramp_cycles;  /* of it: until the first of its bulk loads is there. Bulk loads are
			      * the non-temporal ones; if it has none, all loads */
	double tail_cycles;  /* of it: behind the last of these */
	double last_cycles;  /* wave_cycles of the launch's last workgroup */
	double waves;
};

/* Cycles from an instruction to its result, for a wave alone on the machine. An instruction waits
 * for the registers it reads. Issuing one takes a cycle; a transcendental one takes four, and a
 * matrix product `matrix`. */
struct walk_latency {
	double dram, cache, lds, matrix;
	double first_scalar, scalar; /* loads of a wave: the first, which misses; others */
	double vector;    /* a vector result, to the next instruction that computes */
	double to_memory; /* a vector result, to an instruction of memory or LDS */
	double barrier;
	double store;     /* a store, until it is done; a wave ends only then */
};

/* Read memory at a device address, as the host left it. False: unknown; *out (n bytes) is
 * then a guess. */
typedef bool (*walk_read)(void *ctx, uint64_t at, size_t n, void *out);

struct walk_launch {
	const struct code_kernel *kernel;
	const char *code;    /* path of the code object */
	const char *arch;
	const void *kernarg; /* (kernel->kernarg_bytes) */
	int32_t x, y, n_threads;
	struct walk_latency latency;
	walk_read read;
	void *ctx;
};

struct walk_cache; /* kernels decoded so far */
struct walk_cache *walk_cache_create(const char *objdump);
void walk_cache_destroy(struct walk_cache *c);

/* E_MISSING: no llvm-objdump. E_FORMAT: the kernel cannot be walked; the message says
 * why. */
enum status walk_run(struct walk_cache *c, const struct walk_launch *l,
		     struct walk_count *out, struct fail *fail) MUST_USE;
