/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define qk_norm_rope_kv_ref qk_norm_rope_kv_plain
#include "kernels/ops/qk_norm_rope_kv_ref.c"
#undef qk_norm_rope_kv_ref
#include "tests/kernel/plain_end.h"

enum { N_PAGES = 5 };

struct shape {
	int32_t t, h, g, k, n_freq, p;
	bool has_norms;
	int32_t q_pitch; /* 0: queries in place */
	bool is_scaled;  /* queries, each token's by another number */
	bool is_late;    /* norm_after_rope */
};

static const struct shape cases[] = {
	{1, 8, 2, 64, 32, 16, true, 0, false, false},
	{9, 4, 4, 128, 64, 16, true, 0, false, false},
	{7, 6, 1, 30, 9, 3, true, 0, true, false},
	{13, 2, 2, 256, 128, 4, false, 0, false, false},
	{3, 4, 2, 64, 0, 8, false, 0, true, false},
	{5, 3, 1, 128, 32, 4, true, 0, false, false},
	{9, 4, 2, 64, 8, 16, true, 128, true, false},
	{1, 2, 1, 256, 32, 16, false, 512, false, false},
	{9, 4, 4, 128, 64, 16, true, 0, false, true},
	{7, 6, 1, 30, 9, 3, true, 0, true, true},
};

struct kv {
	float *q, *k_pages, *v_pages;
};

static struct qk_norm_rope_kv_args args(const struct shape *s, struct kv kv)
{
	return (struct qk_norm_rope_kv_args){
		.n_tok = s->t, .n_heads = s->h, .n_kv_heads = s->g, .head_dim = s->k,
		.n_freq = s->n_freq, .eps = 1e-6f, .q = kv.q, .q_pitch = s->q_pitch,
		.norm_after_rope = s->is_late,
		.kv = {.k = kv.k_pages, .v = kv.v_pages, .type = DTYPE_F32, .page_size = s->p}};
}

static void one_case(struct kernel_test *kt, const struct shape *s)
{
	size_t q_pitch = (size_t)(s->q_pitch ? s->q_pitch : s->k);
	size_t nq = (size_t)(s->t * s->h * s->k), n_from = (size_t)(s->t * s->h) * q_pitch;
	size_t nkv = (size_t)(s->t * s->g * s->k);
	size_t n_pages = (size_t)(N_PAGES * s->p * s->g * s->k), dim = (size_t)s->k;
	float *q = kernel_rows(kt, (size_t)(s->t * s->h), q_pitch, 1);
	float *k = kernel_rows(kt, (size_t)(s->t * s->g), dim, 1);
	float *v = kernel_rows(kt, (size_t)(s->t * s->g), dim, 1);
	kernel_act_round(kt, q, n_from, 4e4f); /* turned, it stays below 65504 */
	kernel_act_round(kt, k, nkv, 4e4f);
	kernel_kv_round(kt, k, nkv, 4e4f);
	kernel_act_round(kt, v, nkv, 6e4f);
	kernel_kv_round(kt, v, nkv, 6e4f);
	float *norms = kernel_rows(kt, 1, 2 * dim, 1);
	size_t n_rope = (size_t)(s->t * s->n_freq * 2);
	float *rope = kernel_zeros(kt, n_rope + 1);
	int32_t *slot = kernel_ints(kt, (size_t)s->t);
	float *q_scale = kernel_zeros(kt, (size_t)s->t);
	for (int32_t t = 0; t < s->t; t++) {
		q_scale[t] = 1 + 0.03125f * (float)t;
		slot[t] = (t * 7 + 3) % (N_PAGES * s->p); /* no two alike */
		for (int32_t i = 0; i < s->n_freq; i++) {
			double angle = t * pow(1e4, -i / (double)s->n_freq);
			rope[(t * s->n_freq + i) * 2] = (float)cos(angle);
			rope[(t * s->n_freq + i) * 2 + 1] = (float)sin(angle);
		}
	}
	struct kv sets[2];
	for (int i = 0; i < 2; i++) {
		sets[i] = (struct kv){kernel_zeros(kt, nq), kernel_zeros(kt, n_pages),
				      kernel_zeros(kt, n_pages)};
		if (!s->q_pitch)
			memcpy(sets[i].q, q, nq * sizeof *q);
		struct qk_norm_rope_kv_args a = args(s, sets[i]);
		a.q_from = s->q_pitch ? q : NULL;
		a.q_scale = s->is_scaled ? q_scale : NULL;
		a.k = k, a.v = v, a.rope = rope, a.slot = slot;
		a.q_norm = s->has_norms ? norms : NULL;
		a.k_norm = s->has_norms ? norms + dim : NULL;
		i == 0 ? qk_norm_rope_kv_ref(&a) : qk_norm_rope_kv_plain(&a);
	}
	float *zeros = kernel_zeros(kt, n_pages);
	struct kv on = {kernel_act_upload(kt, q, nq), kernel_kv_upload(kt, zeros, n_pages),
			kernel_kv_upload(kt, zeros, n_pages)};
	struct qk_norm_rope_kv_args a = args(s, on);
	if (s->q_pitch)
		a.q_from = kernel_act_upload(kt, q, n_from);
	a.q_scale = s->is_scaled ? UPLOAD(kt, q_scale, (size_t)s->t) : NULL;
	a.kv.type = kt->b->kv_type;
	a.k = kernel_act_upload(kt, k, nkv), a.v = kernel_act_upload(kt, v, nkv);
	a.rope = UPLOAD(kt, rope, n_rope + 1), a.slot = UPLOAD(kt, slot, (size_t)s->t);
	a.q_norm = s->has_norms ? UPLOAD(kt, norms, dim) : NULL;
	a.k_norm = s->has_norms ? UPLOAD(kt, norms + dim, dim) : NULL;
	kernel_ran(kt, kt->b->ops->qk_norm_rope_kv(kt->b, &a), "qk_norm_rope_kv");
	char what[100];
	snprintf(what, sizeof what, "qk_norm_rope_kv T=%d H=%d G=%d K=%d pitch %d q",
		 s->t, s->h, s->g, s->k, s->q_pitch);
	kernel_act_compare(kt, kernel_act_download(kt, on.q, nq), sets[0].q, sets[1].q,
		       (size_t)(s->t * s->h), dim, 1e-12, what);
	what[strlen(what) - 1] = 'k';
	kernel_kv_compare(kt, kernel_kv_download(kt, on.k_pages, n_pages), sets[0].k_pages,
		       sets[1].k_pages, (size_t)(N_PAGES * s->p * s->g), dim, 1e-12,
		       what);
	kernel_ok(memcmp(kernel_kv_download(kt, on.v_pages, n_pages), sets[0].v_pages,
		  n_pages * sizeof *v) == 0,
	   "%s: %s: values are where they belong", kt->name, what);
}

void case_qk_norm_rope_kv(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		one_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
}
