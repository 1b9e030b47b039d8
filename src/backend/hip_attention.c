/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on the KV cache: qk_norm_rope_kv, attention, kv_copy.
 */
#include "backend/hip_launch.h"
#include "kernels/qk_norm_rope_kv_launch.h"

enum status hip_qk_norm_rope_kv(struct backend *b, const struct qk_norm_rope_kv_args *a)
{
	struct qk_norm_rope_kv_launch l = {
		.q = a->q, .k = a->k, .v = a->v, .q_norm = a->q_norm,
		.k_norm = a->k_norm, .rope = a->rope, .slot = a->slot,
		.k_pages = a->kv.k, .v_pages = a->kv.v, .n_heads = a->n_heads,
		.n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim,
		.n_freq = a->n_freq, .page_size = a->kv.page_size, .eps = a->eps,
		.q_from = a->q_from, .q_pitch = a->q_pitch};
	struct hip_grid g = {
		hip_over(a->n_heads + 2 * a->n_kv_heads, QK_NORM_ROPE_KV_WAVES), a->n_tok,
		QK_NORM_ROPE_KV_WAVES * 32, 0};
	return LAUNCH(hip_of(b), "qk_norm_rope_kv_kernel", g, ARG(l));
}

enum status hip_attention(struct backend *b, const struct attention_args *a)
{
	return hip_refuse(hip_of(b), "attention has no kernel yet");
}

enum status hip_kv_copy(struct backend *b, const struct kv_copy_args *a)
{
	enum { THREADS = 256, EACH = 16 };
	struct kv_pages kv = a->kv;
	uint64_t n = (uint64_t)a->n_kv_heads * (uint64_t)kv.page_size *
		     (uint64_t)a->head_dim * dtype_bytes(kv.type);
	uint64_t dst = (uint64_t)a->dst * n, src = (uint64_t)a->src * n;
	struct hip_grid g = {hip_over((int32_t)n, EACH * THREADS), kv.v ? 2 : 1, THREADS, 0};
	return LAUNCH(hip_of(b), "kv_copy_kernel", g, ARG(kv.k), ARG(kv.v), ARG(dst),
		      ARG(src), ARG(n));
}
