/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_experts.h"
#include "kernels/moe/moe_lora_launch.h"

_Static_assert((int)LORA_OUTS == LINEAR_MAX_OUT, "the launch has all outputs");
_Static_assert((int)MOE_LORA_GATE == MOE_GATE && (int)MOE_LORA_UP == MOE_UP &&
	       (int)MOE_LORA_DOWN == MOE_DOWN && (int)MOE_LORA_PARTS == MOE_PARTS,
	       "the kernels' parts");

enum status hip_lora_add(struct backend *b, const struct lora_add_args *a)
{
	struct lora_launch v = {.x = a->x, .adapter = a->adapter, .scale = a->scale, .low = a->low,
				.n_in = a->n_in, .n_out = a->n_out, .rank = a->rank,
				.n_heads = lora_add_heads(a), .x_pitch = a->n_in,
				.a_step = a->heads.a_step, .b_step = a->heads.b_step,
				.a_width = lora_add_columns(a)};
	int32_t n_pieces = 0, n_heads = v.n_heads;
	if (a->heads.n) {
		v.x_pitch = a->heads.x_pitch;
		v.y_pitch = a->heads.y_pitch;
	}
	v.b_more = (n_heads - 1) * v.b_step;
	v.by_fours = (v.n_in | v.x_pitch | v.a_step) % 4 == 0;
	for (int o = 0; o < a->n_out; o++) {
		v.part[o] = a->out[o].part;
		v.y[o] = a->out[o].y;
		v.n[o] = a->out[o].n;
		v.is_f32[o] = a->out[o].is_f32;
		v.is_new[o] = a->out[o].is_new;
		n_pieces += DIV_UP(a->out[o].n, LORA_THREADS);
	}
	struct hip_grid high = {n_pieces * n_heads, a->n_tok, LORA_THREADS, 0};
	if (a->n_tok <= LORA_FEW_TOK) {
		high.lds_bytes = LORA_LDS(a->rank);
		return LAUNCH(hip_of(b), PLAIN("lora_few_kernel"), high, ARG(v));
	}
	struct hip_grid low = {DIV_UP(a->rank, LORA_ROWS) * a->n_out * n_heads, a->n_tok,
			       LORA_THREADS, 0};
	enum status st = LAUNCH(hip_of(b), PLAIN("lora_low_kernel"), low, ARG(v));
	return st == OK ? LAUNCH(hip_of(b), PLAIN("lora_high_kernel"), high, ARG(v)) : st;
}

/* --- routed experts ------------------------------------------------------------------ */

static struct moe_lora_launch experts_launch(const struct moe_experts_args *a, bool is_down)
{
	const struct moe_lora *o = a->lora;
	const struct experts *ex = a->experts;
	int32_t d = ex->gate[0].k, f = ex->gate[0].n, n_in = is_down ? f : d;
	return (struct moe_lora_launch){
		.x = is_down ? a->h : a->x, .id = a->id, .adapter = o->adapter, .scale = o->scale,
		.part = o->part, .low = o->low, .high = o->high, .gate_bias = ex->gate_bias,
		.up_bias = ex->up_bias, .weight = a->weight, .y = a->y, .n_tok = a->n_tok,
		.n_used = a->n_used, .n_experts = ex->n, .rank = o->rank, .n_in = n_in,
		.x_token = is_down ? a->n_used * f : d, .x_slot = is_down ? f : 0, .dim = d,
		.ffn = f, .first = is_down ? MOE_DOWN : MOE_GATE, .n_parts = is_down ? 1 : 2,
		.by_fours = n_in % 4 == 0};
}

enum status hip_lora_up(struct hip *h, const struct moe_experts_args *a, struct moe_launch *l)
{
	struct moe_lora_launch v = experts_launch(a, false);
	struct hip_grid g = {DIV_UP(v.ffn, LORA_THREADS) * 2 * v.n_used, v.n_tok, LORA_THREADS,
			     LORA_LDS(v.rank)};
	l->of_pairs = true;
	l->gate_bias = v.high;
	l->up_bias = v.high + (size_t)v.n_tok * (size_t)v.n_used * (size_t)v.ffn;
	return LAUNCH(h, hip_kernel(KERNEL_MOE_LORA, PROFILE_GATE_UP, "moe_lora_up_kernel"), g,
		      ARG(v));
}

enum status hip_lora_down(struct hip *h, const struct moe_experts_args *a)
{
	struct moe_lora_launch v = experts_launch(a, true);
	struct hip_grid g = {DIV_UP(v.dim, MOE_LORA_COLUMNS), v.n_tok, 32 * MOE_LORA_WAVES, 0};
	return LAUNCH(h, hip_kernel(KERNEL_MOE_LORA, PROFILE_DOWN, "moe_lora_down_kernel"), g,
		      ARG(v));
}

static struct moe_lora_tiles tiles_launch(const struct hip_experts_tiles *t, bool is_down)
{
	const struct moe_launch *m = &t->l.m;
	return (struct moe_lora_tiles){
		.a = experts_launch(t->a, is_down), .pairs = t->l.pairs,
		.block_expert = t->l.block_expert, .out = t->l.out, .block_m = t->l.block_m,
		.n_slots = m->n_slots, .shared = m->shared,
		.t0 = (int32_t)((m->id - t->a->id) / m->n_used)};
}

/* Workgroups of a part: each has MOE_LORA_BLOCK pairs. */
static int32_t tiles_of(const struct hip_experts_tiles *t)
{
	return t->l.max_blocks * (t->l.block_m / MOE_LORA_BLOCK);
}

static enum status tiles_low(struct hip *h, const struct hip_experts_tiles *t,
			     struct moe_lora_tiles v)
{
	struct hip_grid low = {tiles_of(t) * v.a.n_parts, DIV_UP(v.a.rank, MOE_LORA_ROWS),
			       MOE_LORA_THREADS, 0};
	return LAUNCH(h, hip_kernel(KERNEL_PLAIN, v.a.first == MOE_DOWN ? PROFILE_DOWN
								       : PROFILE_GATE_UP,
				    "moe_lora_low_tiles_kernel"), low, ARG(v));
}

enum status hip_lora_tiles_up(struct hip *h, const struct hip_experts_tiles *t,
			      struct moe_launch *l)
{
	struct moe_lora_tiles v = tiles_launch(t, false);
	size_t row = (size_t)v.a.n_used * (size_t)v.a.ffn;
	struct hip_grid high = {tiles_of(t) * 2, DIV_UP(v.a.ffn, MOE_LORA_THREADS),
				MOE_LORA_THREADS, 0};
	enum status st = tiles_low(h, t, v);
	l->of_pairs = true;
	l->gate_bias = v.a.high + (size_t)v.t0 * row;
	l->up_bias = l->gate_bias + (size_t)v.a.n_tok * row;
	return st != OK ? st : LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_GATE_UP,
						    "moe_lora_high_up_tiles_kernel"), high, ARG(v));
}

enum status hip_lora_tiles_down(struct hip *h, const struct hip_experts_tiles *t)
{
	struct moe_lora_tiles v = tiles_launch(t, true);
	struct hip_grid high = {tiles_of(t), DIV_UP(v.a.dim, MOE_LORA_THREADS), MOE_LORA_THREADS,
				0};
	enum status st = tiles_low(h, t, v);
	return st != OK ? st : LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_DOWN,
						    "moe_lora_high_down_tiles_kernel"), high,
				      ARG(v));
}
