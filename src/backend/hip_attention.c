/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on the KV cache: qk_norm_rope_kv, attention, kv_copy.
 */
#include "backend/hip_launch.h"

enum status hip_qk_norm_rope_kv(struct backend *b, const struct qk_norm_rope_kv_args *a)
{
	return hip_refuse(hip_of(b), "qk_norm_rope_kv has no kernel yet");
}

enum status hip_attention(struct backend *b, const struct attention_args *a)
{
	return hip_refuse(hip_of(b), "attention has no kernel yet");
}

/* A page is one run of bytes in each of the two. */
enum status hip_kv_copy(struct backend *b, const struct kv_copy_args *a)
{
	struct hip *h = hip_of(b);
	size_t n = (size_t)a->n_kv_heads * (size_t)a->kv.page_size * (size_t)a->head_dim *
		   dtype_bytes(a->kv.type);
	char *const pages[] = {a->kv.k, a->kv.v};
	enum status st = h->has_failed ? E_BACKEND : OK;
	for (int i = 0; i < 2 && st == OK; i++)
		if (pages[i])
			st = hip_check(h, h->api.hipMemcpyAsync(
					pages[i] + (size_t)a->dst * n,
					pages[i] + (size_t)a->src * n, n,
					HIP_DEVICE_TO_DEVICE, h->stream), "copying a page");
	return st;
}
