/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of moe_router and moe_experts, and the list of kernel shapes for
 * tuning. Thread: engine.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "kernels/moe/moe_launch.h"
#include "kernels/moe/moe_tile.h"

int hip_experts_tile_count(void); /* rows of moe_tile.def */
const char *hip_experts_tile_name(int i);
int32_t hip_experts_tile_rows(int i); /* pairs in a block */
/* Bytes of work memory for n_tok tokens of n_slots experts each, of n experts with the shared
 * one, in any tile: outputs of `dim` numbers a pair, and lists of pairs and blocks. */
size_t hip_experts_work_bytes(size_t n_tok, size_t n_slots, size_t n, size_t dim);

/* The kernels for a step's routed experts. */
struct hip_experts_way {
	const struct hip_experts_legs *legs;
	bool is_tile; /* many tokens */
};
/* Few tokens: gate and up of all pairs, and down, as one launch each. */
enum status hip_experts_up(struct hip *h, const struct hip_experts_way *way,
			   struct moe_launch l) MUST_USE;
enum status hip_experts_down(struct hip *h, const struct hip_experts_way *way,
			     struct moe_launch l) MUST_USE;
/* What adapters add (kernels/moe/moe_lora.hip): to gate and up, by l's biases of pairs; to y,
 * behind down. */
enum status hip_lora_up(struct hip *h, const struct moe_experts_args *a,
			struct moe_launch *l) MUST_USE;
enum status hip_lora_down(struct hip *h, const struct moe_experts_args *a) MUST_USE;
struct hip_experts_tiles;
/* The same for the pairs of t; down's is added to the pairs' outputs. */
enum status hip_lora_tiles_up(struct hip *h, const struct hip_experts_tiles *t,
			      struct moe_launch *l) MUST_USE;
enum status hip_lora_tiles_down(struct hip *h, const struct hip_experts_tiles *t) MUST_USE;
/* Advance the arguments by the first n_tok tokens. */
void hip_experts_step(struct moe_launch *l);
/* Many tokens: what is common to the launches of a batch. l.pairs and l.block_expert have
 * room for l.max_blocks blocks. */
struct hip_experts_tiles {
	const struct moe_experts_args *a;
	const struct hip_experts_legs *legs;
	const struct tile_shape *shape;
	struct moe_tile_launch l;
};
/* gate, up and down of the blocks in t->l.pairs. */
enum status hip_experts_blocks(struct hip *h, const struct hip_experts_tiles *t) MUST_USE;
/* Divides the tokens into batches. For each it calls `run`, and then adds up the outputs. run
 * NULL: the device sorts the pairs. */
typedef enum status (*hip_experts_batch_fn)(void *ctx, const struct hip_experts_tiles *t);
enum status hip_experts_batches(struct hip *h, const struct moe_experts_args *a,
				const struct hip_experts_legs *x, struct moe_launch m,
				hip_experts_batch_fn run, void *ctx) MUST_USE;

/* The launch arguments of a router, except a norm that is a launch of its own. */
struct moe_router_launch hip_moe_router_launch(const struct hip *h,
					       const struct moe_router_args *a);
/* True if moe_route.hip can do router a behind the product that it reads. */
bool hip_moe_route_takes(const struct moe_router_args *a);
