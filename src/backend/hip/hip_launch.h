/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches a kernel:
 *   LAUNCH(h, PLAIN("rms_norm_kernel"), ((struct hip_grid){n_tok, 1, 512, 0}),
 *          ARG(dim), ARG(eps), ARG(x), ARG(add), ARG(weight), ARG(y));
 * Arguments must be variables of exactly the kernel's types, because the kernel gets
 * their bytes. Thread: engine.
 */
#pragma once
#include "backend/hip/hip_weight.h"
#include "base/alloc.h"
#include "kernels/linear/fused_norm.h"
#include "kernels/weights/weight_view.h"

/* Limits of a grid: all threads along x must fit 32 bits of the dispatch packet; y has
 * HIP's own limit. */
#define HIP_MAX_GRID_THREADS ((uint64_t)UINT32_MAX)
#define HIP_MAX_GRID_Y 65535

struct hip_grid {
	int32_t x, y;      /* workgroups */
	int32_t n_threads; /* in a workgroup */
	int32_t lds_bytes; /* dynamic LDS */
};

struct hip_arg {
	const void *p;
	size_t n_bytes;
};

/* What a kernel's first argument is. KERNEL_PLAIN: whatever the kernel says. */
enum hip_kernel_kind {
	KERNEL_PLAIN,
	KERNEL_LINEAR_INT4,   /* struct linear_int4_args */
	KERNEL_LINEAR_ROWS,   /* struct linear_rows_args: scales stand apart */
	KERNEL_LINEAR_BLOCKS, /* struct linear_rows_args: scales stand in blocks */
	KERNEL_LINEAR_TILE,   /* struct linear_tile_args */
	KERNEL_MOE_FEW,       /* struct moe_launch: each pair reads its expert */
	KERNEL_MOE_GROUP,     /* struct moe_launch: MOE_GROUP pairs read an expert once */
	KERNEL_MOE_TILE,      /* struct moe_tile_launch */
	KERNEL_MOE_LORA,      /* struct moe_lora_launch */
	/* struct attention_launch, one grid each */
	KERNEL_ATTENTION_PREFILL, KERNEL_ATTENTION_SPLIT, KERNEL_ATTENTION_FUSED,
	KERNEL_ATTENTION_SINGLE, KERNEL_ATTENTION_TILE_SPLIT,
	KERNEL_KINDS
};

/* A kernel of the code object. hip_kernel makes it; nothing else reads or writes names. */
struct hip_kernel {
	enum hip_kernel_kind kind;
	enum profile_stage stage; /* of its own in a profile; PROFILE_COUNT: the operation's */
	char name[80];
};
struct hip_kernel hip_kernel(enum hip_kernel_kind kind, enum profile_stage stage,
			     const char *name, ...) PRINTF_LIKE(3, 4);
#define PLAIN(...) hip_kernel(KERNEL_PLAIN, PROFILE_COUNT, __VA_ARGS__)

/* A launch, as passed to on_launch. */
struct hip_launch_info {
	struct hip *h;
	const struct hip_kernel *kernel;
	struct hip_grid grid;
	const struct hip_arg *args;
	int n_args;
};

#define ARG(variable) {&(variable), sizeof(variable)}
#define LAUNCH(h, kernel, grid, ...) \
	hip_launch(h, kernel, grid, (const struct hip_arg[]){__VA_ARGS__}, \
		   (int)(sizeof((const struct hip_arg[]){__VA_ARGS__}) / \
			 sizeof(struct hip_arg)))

/* Queue a kernel. E_UNSUPPORTED if the code object lacks the kernel, or if a workgroup
 * cannot have that much LDS. An empty grid is checked too, but launches nothing. */
enum status hip_launch(struct hip *h, struct hip_kernel kernel, struct hip_grid g,
		       const struct hip_arg *args, int n_args) MUST_USE;

static inline bool hip_is_power_of_two(int32_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

/* A weight in the form of kernel arguments. */
struct weight_view hip_view(const struct weight *w);
/* Bytes from one row of w->q to the next. */
size_t hip_pitch(const struct weight *w);
/* LDS bytes of the format's lookup table (kernels/weights/weight_units.h). */
#define HIP_UNIT_TABLE_BYTES(quant) \
	((quant) == QUANT_IQ2_XXS || (quant) == QUANT_IQ1_S || (quant) == QUANT_IQ1_M ? 4096 \
	 : (quant) == QUANT_IQ2_S || (quant) == QUANT_IQ3_XXS || (quant) == QUANT_IQ3_S ? 2048 \
	 : (quant) == QUANT_IQ2_XS					       ? 1024 : 0)
/* Groups of a row (1: one scale a row), for formats with separate scales; log2 of a
 * group's elements, or 31 for one group a row. */
int32_t hip_groups(const struct weight *w);
int32_t hip_group_shift(const struct weight *w);
/* True if a kernel can do norm n (NULL: none) before its own work. */
bool hip_can_fuse_norm(const struct rms_norm_args *n);
/* That norm in the form of kernel arguments. */
struct fused_norm hip_fused_norm(const struct rms_norm_args *n);
/* Prepare the norm n (NULL: none) before an operation. If the kernel is `able` to do it
 * and that is allowed, *out describes it. Otherwise the norm is launched separately and
 * out->x is NULL. */
enum status hip_fuse_norm(struct hip *h, const struct rms_norm_args *n, bool able,
			  struct fused_norm *out) MUST_USE;
