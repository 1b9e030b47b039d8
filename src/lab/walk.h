/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch counted without running it. Some of its workgroups are walked through: the
 * instructions that decide where a wave goes next (integers, comparisons, masks of lanes)
 * are computed, lane by lane; of all others it is only known that their results are not
 * known. What a launch does is then the mean of the walked workgroups times their number.
 *
 * A value that is not known has a guess all the same, so that the walk goes on: what was
 * never uploaded is zero, a comparison holds. A branch that depends on one is not taken:
 * what it would skip is done, and a loop ends. Loads find what the host has uploaded
 * (walk_read), so tables of experts, positions and pages are known.
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

/* Of a launch, all its waves. A double: means of samples are multiplied. */
struct walk_count {
	double issued[WALK_CLASSES]; /* waves' instructions */
	double load_bytes;   /* of lanes, from global memory */
	double stream_bytes; /* of these: not to be kept in caches */
	double store_bytes;
	double lines;        /* of 128 bytes, touched by each load and store, summed */
	double group_lines;  /* that are loaded and no stream: once each workgroup */
	double kept_lines;   /* … and once each launch */
	double far_lines;    /* of these: of workgroups in several rows of the grid */
	double lds_cycles;   /* of an LDS, with conflicts of banks */
	double unknown;      /* branches that depended on what is not known */
	double wave_cycles;  /* mean time of a wave by itself, see struct walk_latency */
	double last_cycles;  /* the same of the launch's last workgroup */
	double waves;
};

/* Cycles from an instruction to its result, for the time of a wave that has the machine
 * for itself. An instruction else takes one, of the transcendental unit four. */
struct walk_latency {
	double dram, cache, scalar, lds, matrix;
};

/* Memory at a device address, as the host left it. False: not known; *out (n) is then the
 * best guess. */
typedef bool (*walk_read)(void *ctx, uint64_t at, size_t n, void *out);

struct walk_launch {
	const struct code_kernel *kernel;
	const char *code;    /* the code object's path */
	const char *arch;
	const void *kernarg; /* (kernel->kernarg_bytes) */
	int32_t x, y, n_threads;
	struct walk_latency latency;
	walk_read read;
	void *ctx;
};

struct walk_cache; /* decoded kernels */
struct walk_cache *walk_cache_create(const char *objdump);
void walk_cache_destroy(struct walk_cache *c);

/* E_MISSING: no llvm-objdump; E_FORMAT: a kernel that cannot be walked, with the reason. */
enum status walk_run(struct walk_cache *c, const struct walk_launch *l,
		     struct walk_count *out, struct fail *fail) MUST_USE;
