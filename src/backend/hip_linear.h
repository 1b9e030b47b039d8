/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes that linear's int4 kernel is compiled in, for tests and tuning. Thread:
 * any.
 */
#pragma once
#include "backend/hip_launch.h"
#include "kernels/linear_rows.h"

int hip_linear_int4_count(void); /* rows of linear_int4.def */
const char *hip_linear_int4_name(int i);

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
/* What becomes of an output: enum linear_store. */
uint32_t hip_linear_store(const struct linear_out *o);
/* An output as kernels take it, but first_group. */
struct linear_rows_part hip_linear_part(const struct linear_out *o);
