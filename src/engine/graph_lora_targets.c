/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph_lora_targets.h"

#include <assert.h>
#include <stdio.h>

#include "engine/graph_calls.h"

/* What is being listed. */
struct lora_list {
	struct lora_target *t;
	int n;
};

static struct lora_target *add(struct lora_list *l, const char *name, const struct weight *w,
			       int32_t n, int32_t k)
{
	assert(l->n < LORA_TARGETS);
	struct lora_target *t = &l->t[l->n++];
	*t = (struct lora_target){.w = w, .n = n, .k = k};
	snprintf(t->name, sizeof t->name, "%s", name);
	return t;
}

/* Says that rows of t are n neighbours from `first` on in the module `whole`, of `all`. */
static void within(struct lora_target *t, const char *whole, int32_t first, int32_t all)
{
	snprintf(t->whole, sizeof t->whole, "%s", whole);
	t->all = all;
	t->n_rows = 1;
	t->rows[0] = (struct lora_rows){t->n, first, t->n, 0};
}

static void add_attention(const struct graph *g, int i, struct lora_list *out)
{
	const struct attention *a = &g->layers[i].attention;
	int32_t nq = a->n_heads * a->head_dim, nkv = a->n_kv_heads * a->head_dim;
	int32_t all = nq + 2 * nkv, d = g->dim;
	static const char whole[] = "self_attn.qkv_proj";
	bool is_own = a->kv_layer == i;
	if (!a->n_heads)
		return;
	struct lora_target *q = add(out, "self_attn.q_proj", &a->q, a->is_gated ? 2 * nq : nq, d);
	if (!a->is_gated)
		within(q, whole, 0, all);
	if (is_own)
		within(add(out, "self_attn.k_proj", &a->k, nkv, d), whole, nq, all);
	if (is_own && a->has_v)
		within(add(out, "self_attn.v_proj", &a->v, nkv, d), whole, nq + nkv, all);
	add(out, "self_attn.o_proj", &a->o, d, nq);
}

/* Each head of kv_b_proj has rows for keys, and then rows for values. mla.c multiplies queries by
 * those for keys, transposed. */
static void add_mla(const struct graph *g, const struct mla *a, const struct indexer *x,
		    struct lora_list *out)
{
	static const char whole[] = "self_attn.kv_b_proj";
	int32_t d = g->dim, both = a->nope_dim + a->v_dim, all = a->n_heads * both;
	int32_t nq = a->n_heads * (a->nope_dim + a->rope_dim);
	if (!a->n_heads)
		return;
	if (a->q_lora) {
		add(out, "self_attn.q_a_proj", &a->q_a, a->q_lora, d);
		add(out, "self_attn.q_b_proj", &a->q_b, nq, a->q_lora);
	} else {
		add(out, "self_attn.q_proj", &a->q, nq, d);
	}
	add(out, "self_attn.kv_a_proj_with_mqa", &a->kv_a, a->kv_lora + a->rope_dim, d);
	add(out, "self_attn.o_proj", &a->o, d, a->n_heads * a->v_dim);
	if (a->has_gate)
		add(out, "self_attn.g_proj", &a->gate, a->n_heads, d);
	struct lora_target *k = add(out, "", &a->k_b, a->n_heads * a->nope_dim, a->kv_lora);
	within(k, whole, 0, all);
	k->rows[0] = (struct lora_rows){k->n, 0, a->nope_dim, both};
	k->n_heads = a->n_heads;
	k->is_transposed = true;
	struct lora_target *v = add(out, "", &a->v_b, a->n_heads * a->v_dim, a->kv_lora);
	within(v, whole, 0, all);
	v->rows[0] = (struct lora_rows){v->n, a->nope_dim, a->v_dim, both};
	v->n_heads = a->n_heads;
	if (!x->n_heads || !x->q_lora)
		return;
	add(out, "self_attn.indexer.wq_b", &x->q, x->n_heads * x->dim, x->q_lora);
	add(out, "self_attn.indexer.wk", &x->k, x->dim, d);
	add(out, "self_attn.indexer.weights_proj", &x->weights, x->n_heads, d);
}

/* in_proj_qkvz has for each key head its q, its k, and v and z of its value heads; in_proj_ba has b
 * and a of its value heads. */
static void add_net(const struct graph *g, int i, struct lora_list *out)
{
	static const char whole[] = "linear_attn.in_proj_qkvz", gates[] = "linear_attn.in_proj_ba";
	const struct delta *a = &g->layers[i].delta;
	bool is_fused = graph_layer_has(g, i, whole);
	int32_t d = g->dim, hk = a->n_k_heads, hv = a->n_v_heads, nv = hv * a->v_dim;
	int32_t n = delta_channels(a), k = a->k_dim, v = nv / hk, pitch = 2 * k + 2 * v;
	struct lora_target *qkv = add(out, is_fused ? whole : "linear_attn.in_proj_qkv",
				      &a->qkv, is_fused ? n + nv : n, d);
	add(out, "linear_attn.out_proj", &a->out, d, nv);
	if (!is_fused) {
		struct lora_target *z = add(out, "linear_attn.in_proj_z", &a->z, nv, d);
		within(z, whole, 0, n + nv);
		z->rows[0] = (struct lora_rows){nv, 2 * k + v, v, pitch};
		within(qkv, whole, 0, n + nv);
		qkv->n_rows = 3;
		qkv->rows[0] = (struct lora_rows){hk * k, 0, k, pitch};
		qkv->rows[1] = (struct lora_rows){hk * k, k, k, pitch};
		qkv->rows[2] = (struct lora_rows){nv, 2 * k, v, pitch};
	}
	if (graph_layer_has(g, i, gates)) {
		add(out, gates, &a->b, 2 * hv, d);
		return;
	}
	add(out, "linear_attn.in_proj_b", &a->b, hv, d);
	add(out, "linear_attn.in_proj_a", &a->a, hv, d);
}

static void add_kda(const struct graph *g, const struct delta *a, struct lora_list *out)
{
	int32_t d = g->dim, keys = a->n_k_heads * a->k_dim, nv = a->n_v_heads * a->v_dim;
	add(out, "self_attn.q_proj", &a->qkv, keys, d);
	add(out, "self_attn.k_proj", &a->k, keys, d);
	add(out, "self_attn.v_proj", &a->v, nv, d);
	add(out, "self_attn.b_proj", &a->b, a->n_v_heads, d);
	add(out, "self_attn.o_proj", &a->out, d, nv);
	if (a->is_full) {
		add(out, "self_attn.f_proj", &a->a, delta_steps(a), d);
		add(out, "self_attn.g_proj", &a->z, nv, d);
		return;
	}
	add(out, "self_attn.f_a_proj", &a->a_low, a->k_dim, d);
	add(out, "self_attn.f_b_proj", &a->a, delta_steps(a), a->k_dim);
	add(out, "self_attn.g_a_proj", &a->z_low, a->v_dim, d);
	add(out, "self_attn.g_b_proj", &a->z, nv, a->v_dim);
}

static void add_mamba(const struct graph *g, const struct delta *a, struct lora_list *out)
{
	int32_t d = g->dim, nv = a->n_v_heads * a->v_dim, n = delta_channels(a) + nv;
	int32_t all = n + a->n_v_heads;
	static const char whole[] = "mamba.in_proj";
	within(add(out, "", &a->qkv, n, d), whole, 0, all);
	within(add(out, "", &a->a, a->n_v_heads, d), whole, n, all);
	add(out, "mamba.out_proj", &a->out, d, nv);
}

static void add_recurrent(const struct graph *g, int i, struct lora_list *out)
{
	const struct delta *a = &g->layers[i].delta;
	int32_t d = g->dim;
	switch (a->kind) {
	case DELTA_NONE: break;
	case DELTA_NET: add_net(g, i, out); break;
	case DELTA_KDA: add_kda(g, a, out); break;
	case DELTA_MAMBA: add_mamba(g, a, out); break;
	case DELTA_CONV:
		add(out, "conv.in_proj", &a->qkv, 3 * d, d);
		add(out, "conv.out_proj", &a->out, d, d);
		break;
	}
}

static void add_mlp(const struct graph *g, const struct mlp *m, struct lora_list *out)
{
	static const char *const parts[] = {"gate", "up", "down"};
	const struct weight *weights[] = {&m->gate, &m->up, &m->down};
	for (int r = m->is_ungated; r < 3 && m->dim; r++) {
		bool is_down = r == 2;
		char name[80];
		snprintf(name, sizeof name, "%.60s.%s_proj", m->name, parts[r]);
		struct lora_target *t = add(out, name, weights[r], is_down ? g->dim : m->dim,
					    is_down ? m->dim : g->dim);
		snprintf(name, sizeof name, "%.60s.gate_up_proj", m->name);
		if (!is_down && !m->is_ungated)
			within(t, name, r * m->dim, 2 * m->dim);
	}
}

int graph_lora_targets(const struct graph *g, int i, struct lora_target out[LORA_TARGETS])
{
	const struct layer *l = &g->layers[i];
	struct lora_list list = {.t = out};
	add_attention(g, i, &list);
	add_mla(g, &l->mla, &l->indexer, &list);
	add_recurrent(g, i, &list);
	add_mlp(g, &l->mlp, &list);
	if (l->experts.shared_is_apart)
		add_mlp(g, &l->experts.shared, &list);
	return list.n;
}

int32_t graph_lora_target_row(const struct lora_target *t, int32_t i)
{
	const struct lora_rows *r = t->rows;
	while (i >= r->n)
		i -= r++->n;
	return r->first + i / r->each * r->pitch + i % r->each;
}
