/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of moe_router and moe_experts, and the list of kernel shapes for
 * tuning. Thread: engine.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "kernels/moe/moe_launch.h"

int hip_experts_tile_count(void); /* rows of moe_tile.def */
const char *hip_experts_tile_name(int i);

struct moe_router_rule hip_moe_rule(const struct moe_router_args *a);
/* moe_router. leaves_choice: compute only the norm (if given) and the logits. */
enum status hip_moe_logits(struct hip *h, const struct moe_router_args *a,
			   bool leaves_choice);

/* int4 experts for few tokens, with four lanes a row (hip_moe_quad.c). l: all arguments
 * but those for choosing experts, which hip_moe_quad fills in. */
int hip_moe_quad_up_count(void); /* rows of moe_quad.def */
const char *hip_moe_quad_up_name(int i);
int hip_moe_quad_down_count(void);
const char *hip_moe_quad_down_name(int i);
/* True if the chip prefers these kernels, or the tune file has rows for this shape. */
bool hip_moe_quad_is_wanted(const struct hip *h, const struct moe_launch *l);
bool hip_moe_quad_takes(const struct hip *h, const struct moe_experts_args *a,
			const struct moe_launch *l);
enum status hip_moe_quad(struct hip *h, const struct moe_experts_args *a,
			 struct moe_launch l);
