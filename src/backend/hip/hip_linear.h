/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of linear have of each other, and the shapes that its kernels are
 * compiled in, for tuning. Thread: engine.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/quad_launch.h"

/* int4 of a few tokens (hip_linear_int4.c). */
int hip_linear_int4_count(void); /* rows of linear_int4.def and linear_quad.def */
const char *hip_linear_int4_name(int i);
/* A row of linear_quad.def? It sees to the norm, too, and to hip_linear_fuses. */
bool hip_linear_int4_is_quad(int i);
/* Are all weights int4 of one kind, with groups of 2^n or one a row? */
bool hip_linear_is_int4(const struct linear_args *a);
/* The row that is to serve: the measured one, or a guess; -1: none can. */
int hip_linear_int4_choose(const struct hip *h, const struct linear_args *a);
enum status hip_linear_int4(struct hip *h, const struct linear_args *a, int i);
/* What kernels of both tables are told. A workgroup takes `rows` rows at a time;
 * goes_on: and further ones; is_pair: those of gate take up along. */
struct linear_int4_args hip_linear_int4_args(const struct hip *h,
					     const struct linear_args *a, int32_t rows,
					     bool goes_on, bool is_pair);
/* On to the next m tokens. */
void hip_linear_int4_next(struct linear_int4_args *r, int32_t m);

/* Four lanes a row (hip_linear_quad.c), rows of linear_quad.def. */
int hip_linear_quad_count(void);
const struct quad_axes *hip_linear_quad_axes(int i);
bool hip_linear_quad_takes(const struct quad_axes *x, const struct linear_args *a);
/* For n outputs, where nothing was measured; -1: none can. By N and K alone. */
int hip_linear_quad_guess(const struct linear_args *a, int32_t n);
enum status hip_linear_quad(struct hip *h, const struct quad_axes *x,
			    const struct linear_args *a);

/* Tokens in tiles (hip_linear_tile.c): can linear_tile do this? Its weights are of one
 * format that it has, K and rows are aligned as it needs. */
bool hip_linear_tile_takes(const struct linear_args *a);
enum status hip_linear_tile(struct hip *h, const struct linear_args *a);
int hip_linear_tile_count(void); /* rows of linear_tile.def */
const char *hip_linear_tile_name(int i);
bool hip_linear_tile_has_units(int i); /* is it compiled for the formats after int4? */
/* The same of linear_rows and linear_blocks (hip_linear_rows.c): a few tokens at weights
 * in f16, bf16, int8, fp8, nvfp4, mxfp4 or blocks, of one format and group as
 * linear_rows.h tells. */
bool hip_linear_rows_takes(const struct linear_args *a);
enum status hip_linear_rows(struct hip *h, const struct linear_args *a);
/* linear, whose weights are of one format: hip_linear.c. What is not (hip_linear_parts.c)
 * comes as several of it. */
enum status hip_linear_alike(struct backend *b, const struct linear_args *a) MUST_USE;
/* Does a ask for an activation that kernels have fused (rows of linear_quad.def)? */
bool hip_linear_fuses(const struct linear_args *a);
/* act(gate) up behind the products of a, as a launch of its own, where a asks for it. */
enum status hip_linear_act(struct backend *b, const struct linear_args *a) MUST_USE;
/* What becomes of an output: enum linear_store. */
uint32_t hip_linear_store(const struct linear_out *o);
/* y (of n numbers a token, as `store` says) past m tokens; NULL: none. */
void *hip_linear_next(void *y, uint32_t store, int32_t m, int32_t n);
/* An output as kernels take it, but first_group. */
struct linear_rows_part hip_linear_part(const struct linear_out *o);
