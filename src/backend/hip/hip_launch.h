/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel by its name:
 *
 *   LAUNCH(h, "rms_norm_kernel", ((struct hip_grid){n_tok, 1, 512, 0}),
 *          ARG(dim), ARG(eps), ARG(x), ARG(add), ARG(weight), ARG(y));
 *
 * Arguments are variables of the kernel's very types: their bytes are what the kernel
 * gets. Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"
#include "kernels/linear/fused_norm.h"
#include "kernels/weights/weight_view.h"

/* What a dispatch packet holds: threads of all workgroups along x in 32 bits, and
 * HIP's own limit along y. */
#define HIP_MAX_GRID_THREADS ((uint64_t)UINT32_MAX)
#define HIP_MAX_GRID_Y 65535

struct hip_grid {
	int32_t x, y;      /* workgroups */
	int32_t n_threads; /* of a workgroup */
	int32_t lds_bytes; /* dynamic */
};

struct hip_arg {
	const void *p;
	size_t n_bytes;
};

/* What a recorder sees. */
struct hip_launch_info {
	struct hip *h;
	const char *kernel;
	struct hip_grid grid;
	const struct hip_arg *args;
	int n_args;
};

#define ARG(variable) {&(variable), sizeof(variable)}
#define LAUNCH(h, kernel, grid, ...) \
	hip_launch(h, kernel, grid, (const struct hip_arg[]){__VA_ARGS__}, \
		   (int)(sizeof((const struct hip_arg[]){__VA_ARGS__}) / \
			 sizeof(struct hip_arg)))

/* Queues it. E_UNSUPPORTED where the code object has no such kernel, or a workgroup not so
 * much LDS, also for an empty grid, which is no launch. */
enum status hip_launch(struct hip *h, const char *kernel, struct hip_grid g,
		       const struct hip_arg *args, int n_args) MUST_USE;
/* Has the code object this kernel? */
bool hip_has_kernel(struct hip *h, const char *kernel);

/* n / each, rounded up. */
static inline int32_t hip_over(int32_t n, int32_t each)
{
	return (n + each - 1) / each;
}

static inline bool hip_is_power_of_two(int32_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

/* A weight as kernels take it. */
struct weight_view hip_view(const struct weight *w);
/* Bytes from row to row of w->q. */
size_t hip_pitch(const struct weight *w);
/* "op_format_kernel" in out (80 bytes); returns out. */
const char *hip_kernel_for(char *out, const char *op, const struct weight *w);
/* Have kernels of units (kernels/weights/weight_units.h) this format, and are w's rows, groups and
 * pitch as these need them? Their LDS for a table of the format, bytes. */
bool hip_has_units(const struct weight *w);
#define HIP_UNIT_TABLE_BYTES(quant) ((quant) == QUANT_IQ2_XXS ? 256 * 16 : 0)
/* The same of the tiles of many tokens, compiled for the formats after int4. */
bool hip_has_unit_tiles(const struct weight *w);
/* Groups of a row whose scales lie apart, 1 where it has one; log2 of a group, or 31. */
int32_t hip_groups(const struct weight *w);
int32_t hip_group_shift(const struct weight *w);
/* The norm (NULL: none) before an operation whose kernel may be `able` to do it: to *out
 * where that is so and it may; else, with out->x NULL, it is a launch of its own. */
enum status hip_fuse_norm(struct hip *h, const struct rms_norm_args *n, bool able,
			  struct fused_norm *out) MUST_USE;
