/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of linear, and the list of kernel shapes for tuning. Thread:
 * engine.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/linear/linear_rows.h"

/* int4 at few tokens (hip_linear_int4.c). */
int hip_linear_int4_count(void); /* rows of linear_int4.def */
const char *hip_linear_int4_name(int i);
/* The row to use: from the tune file, or the default. -1 if no row fits. */
int hip_linear_int4_choose(const struct hip *h, const struct linear_args *a);
/* How a kernel is launched for one token: the parts of its name, the rows and threads of a
 * workgroup, and its bytes of LDS. */
struct hip_linear_shape {
	const char *name, *kind;
	int32_t rows, n_threads, lds_bytes;
};
struct hip_linear_shape hip_linear_int4_shape(const struct linear_args *a, int i);
/* True if one launch can do a and a's next router (hip_route.c). i: as hip_linear_int4_choose
 * says. */
bool hip_route_takes(const struct hip *h, const struct linear_args *a, int i);
enum status hip_route(struct hip *h, const struct linear_args *a, int i) MUST_USE;
/* Row i's kernel does all of a, its norm too. */
enum status hip_linear_int4(struct hip *h, const struct linear_args *a, int i);
/* A workgroup sums `rows` rows at once; goes_on: then goes on to further rows. */
struct linear_int4_args hip_linear_int4_args(const struct hip *h,
					     const struct linear_args *a, int32_t rows,
					     bool goes_on);

/* Tiles for many tokens (hip_linear_tile.c). True if all weights have one format that
 * linear_tile has, and K and rows are aligned as it needs. */
bool hip_linear_tile_takes(const struct linear_args *a);
/* a's products and activation. A norm is done before. */
enum status hip_linear_tile(struct hip *h, const struct linear_args *a);
int hip_linear_tile_count(void); /* rows of linear_tile.def */
const char *hip_linear_tile_name(int i);
bool hip_linear_tile_is_any(int i); /* compiled for every format, else for int4 alone */
/* linear_rows and linear_blocks (hip_linear_rows.c): few tokens, with weights of f16,
 * bf16, int8, fp8, nvfp4, mxfp4 or blocks. True if all weights have one format and group
 * that linear_rows.h supports. */
bool hip_linear_rows_takes(const struct linear_args *a);
/* True if hip_linear_rows does a in one launch, though its weights have two formats. */
bool hip_linear_pair_takes(const struct linear_args *a);
enum status hip_linear_rows(struct hip *h, const struct linear_args *a);
/* The launch of a, one output at one token, with a workgroup for each block of rows. */
struct hip_linear_shape hip_linear_rows_shape(const struct hip *h, const struct linear_args *a,
					      struct linear_rows_args *out);
/* True if another kernel can do `a` beside its own work by linear_rows<1, WEIGHT_BF16>:
 * *out are its arguments, *lds_bytes what it needs. */
bool hip_linear_rows_beside(const struct hip *h, const struct linear_args *a,
			    struct linear_rows_args *out, int32_t *lds_bytes);
/* linear for weights of one format (hip_linear.c). hip_linear_parts.c divides mixed
 * weights into several such calls. */
enum status hip_linear_alike(struct backend *b, const struct linear_args *a) MUST_USE;
/* Launch a's activation, act(gate) up, separately after the products; nothing if a has
 * none. */
enum status hip_linear_act(struct backend *b, const struct linear_args *a) MUST_USE;
/* How kernels store an output: enum linear_store. */
uint32_t hip_linear_store(const struct linear_out *o);
/* y advanced by m tokens of n numbers each, typed as `store` says. NULL stays NULL. */
void *hip_linear_next(void *y, uint32_t store, int32_t m, int32_t n);
/* An output in the form of kernel arguments, except first_group. */
struct linear_rows_part hip_linear_part(const struct linear_out *o);
