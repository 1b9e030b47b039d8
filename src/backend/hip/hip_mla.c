/* SPDX-License-Identifier: Apache-2.0
 *
 * MLA: the operations head_linear and mla_rope_kv.
 */
#include "backend/hip/hip_launch.h"
#include "kernels/attention/mla_launch.h"

enum status hip_head_linear(struct backend *b, const struct head_linear_args *a)
{
	struct weight_view w = hip_view(a->w);
	struct head_linear_launch l = {
		.n_tok = a->n_tok, .n_heads = a->n_heads, .pitch = a->pitch,
		.first = a->first, .n = a->n, .x_pitch = a->x_pitch,
		.y_pitch = a->y_pitch, .x = a->x, .y = a->y};
	struct hip_grid plain = {DIV_UP(a->n, HEAD_LINEAR_WAVES) * a->n_heads, a->n_tok,
				 HEAD_LINEAR_WAVES * 32, 0};
	struct hip_grid across = {DIV_UP(w.k, HEAD_LINEAR_THREADS) * a->n_heads,
				  DIV_UP(a->n_tok, HEAD_LINEAR_TOK), HEAD_LINEAR_THREADS,
				  0};
	return LAUNCH(hip_of(b), PLAIN("head_linear_%s%s_kernel", a->is_transposed ? "t_" : "",
				       quant_name(a->w->quant)),
		      a->is_transposed ? across : plain, ARG(w), ARG(l));
}

enum status hip_mla_rope_kv(struct backend *b, const struct mla_rope_kv_args *a)
{
	struct mla_rope_kv_launch l = {
		.n_heads = a->n_heads, .c_dim = a->c_dim, .rope_dim = a->rope_dim,
		.q_pitch = a->q_pitch, .page_size = a->kv.page_size,
		.is_interleaved = a->is_interleaved, .eps = a->eps, .q_scale = a->q_scale,
		.q_from = a->q_from, .q = a->q, .kv_from = a->kv_from, .norm = a->norm,
		.rope = a->rope, .slot = a->slot, .k_pages = a->kv.k};
	struct hip_grid g = {a->n_heads + 1, a->n_tok, MLA_ROPE_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("mla_rope_kv_kernel"), g, ARG(l));
}
