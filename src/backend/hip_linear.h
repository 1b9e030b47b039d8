/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes that linear's int4 kernel is compiled in, for tests and tuning. Thread:
 * any.
 */
#pragma once
#include "backend/hip_launch.h"
#include "kernels/linear_rows.h"
#include "kernels/quad_launch.h"

int hip_linear_int4_count(void); /* rows of linear_int4.def and linear_quad.def */
const char *hip_linear_int4_name(int i);
/* Are all weights int4 of one kind, with groups of 2^n or one a row? */
bool hip_linear_is_int4(const struct linear_args *a);

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
/* What becomes of an output: enum linear_store. */
uint32_t hip_linear_store(const struct linear_out *o);
/* An output as kernels take it, but first_group. */
struct linear_rows_part hip_linear_part(const struct linear_out *o);
