/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "embed/encoder_private.h"
#include "engine/rope.h"

struct encoder_loader {
	struct encoder *e;
	struct fail *fail;
	enum status st; /* the first failure, after which nothing is loaded */
};

static const char *name_of(const struct encoder_loader *l, const char *part, char out[200])
{
	snprintf(out, 200, "%s%s%s", l->e->c->prefix, l->e->c->body, part);
	return out;
}

/* Copies n_bytes to the device. */
static const void *encoder_load_put(struct encoder_loader *l, const void *host, size_t n_bytes)
{
	struct encoder *e = l->e;
	void *p = NULL;
	if (l->st == OK)
		l->st = e->b->ops->alloc(e->b, n_bytes, &p);
	if (l->st != OK)
		return NULL;
	e->blocks = xrealloc(e->blocks, (e->n_blocks + 1) * sizeof *e->blocks);
	e->blocks[e->n_blocks++] = p;
	l->st = e->b->ops->upload(e->b, p, host, n_bytes);
	if (l->st == OK) /* the upload may still be reading `host` */
		l->st = e->b->ops->sync(e->b, l->fail);
	return p;
}

static const float *load_vector(struct encoder_loader *l, const char *part, int32_t n, float plus)
{
	char name[200];
	const float *host;
	if (l->st == OK)
		l->st = model_vector(l->e->m, name_of(l, part, name), n, &host, l->fail);
	if (l->st != OK)
		return NULL;
	float *v = xmalloc((size_t)n * sizeof *v);
	for (int32_t i = 0; i < n; i++)
		v[i] = host[i] + plus;
	const float *p = encoder_load_put(l, v, (size_t)n * sizeof *v);
	free(v);
	return p;
}

static void load_weight(struct encoder_loader *l, const char *part, int32_t n, int32_t k,
			bool is_table, struct weight *out)
{
	char name[200];
	struct weight host;
	if (l->st == OK)
		l->st = model_weight(l->e->m, name_of(l, part, name), n, k, &host, l->fail);
	if (l->st != OK)
		return;
	host.is_table = is_table;
	l->st = l->e->b->ops->load_weight(l->e->b, &host, out, l->fail);
}

static void load_norm(struct encoder_loader *l, const char *part, int32_t n,
		      struct encoder_norm *out)
{
	const struct model_config *c = l->e->c;
	char name[200];
	snprintf(name, sizeof name, "%s.weight", part);
	out->weight = load_vector(l, name, n, c->norm_plus_one ? 1 : 0);
	snprintf(name, sizeof name, "%s.bias", part);
	if (c->encoder.is_bert)
		out->bias = load_vector(l, name, n, 0);
}

static void load_linear(struct encoder_loader *l, const char *part, int32_t n, int32_t k,
			bool has_bias, struct encoder_linear *out)
{
	char name[200];
	load_weight(l, part, n, k, false, &out->w);
	snprintf(name, sizeof name, "%s.bias", part);
	if (has_bias)
		out->bias = load_vector(l, name, n, 0);
}

static void load_layer(struct encoder_loader *l, int i)
{
	const struct model_config *c = l->e->c;
	struct encoder_layer *to = &l->e->layers[i];
	int32_t d = c->d_model, k = c->head_dim, nq = c->n_heads * k, nkv = c->n_kv_heads * k;
	struct encoder_norm norm = {0};
	bool is_bert = c->encoder.is_bert, has_bias = c->o_bias && is_bert;
	char name[100];
#define NAME(rest) (snprintf(name, sizeof name, "layers.%d." rest, i), name)
	load_linear(l, NAME("self_attn.q_proj"), nq, d, c->qkv_bias, &to->q);
	load_linear(l, NAME("self_attn.k_proj"), nkv, d, c->qkv_bias, &to->k);
	load_linear(l, NAME("self_attn.v_proj"), nkv, d, c->qkv_bias, &to->v);
	load_linear(l, NAME("self_attn.o_proj"), d, nq, c->o_bias, &to->out);
	load_linear(l, NAME("mlp.up_proj"), c->ffn_dim, d, has_bias, &to->up);
	load_linear(l, NAME("mlp.down_proj"), d, c->ffn_dim, has_bias, &to->down);
	if (!c->encoder.is_ungated)
		load_linear(l, NAME("mlp.gate_proj"), c->ffn_dim, d, false, &to->gate);
	load_norm(l, NAME("post_attention_layernorm"), d, &to->mixer_post);
	load_norm(l, is_bert ? NAME("post_mlp_layernorm") : NAME("post_feedforward_layernorm"),
		  d, &to->mlp_post);
	if (!is_bert) {
		load_norm(l, NAME("input_layernorm"), d, &to->mixer);
		load_norm(l, NAME("pre_feedforward_layernorm"), d, &to->mlp);
	}
	if (!c->encoder.is_bert) {
		load_norm(l, NAME("self_attn.q_norm"), k, &norm);
		to->q_norm = norm.weight;
		load_norm(l, NAME("self_attn.k_norm"), k, &norm);
		to->k_norm = norm.weight;
	}
#undef NAME
	to->window = model_has_window(c, i) ? c->window : 0;
	to->rope = c->n_ropes == 0 ? -1 : c->rope_of ? c->rope_of[i] : 0;
}

/* Loads a table of n rows that the host adds to the embeddings. */
static void load_rows(struct encoder_loader *l, const char *part, int32_t n, const float **out)
{
	char name[200];
	if (n > 0 && l->st == OK)
		l->st = model_matrix(l->e->m, name_of(l, part, name), n, l->e->c->d_model, out,
				     l->fail);
}

static void load_ropes(struct encoder_loader *l)
{
	const struct model_config *c = l->e->c;
	for (int32_t r = 0; r < c->n_ropes; r++) {
		int32_t n = model_n_rot(c, r) / 2;
		double *freq = xmalloc((size_t)n * sizeof *freq);
		l->e->rope_scale[r] = rope_frequencies(&c->ropes[r], c->max_ctx, n, freq);
		l->e->inv_freq[r] = encoder_load_put(l, freq, (size_t)n * sizeof *freq);
		free(freq);
	}
}

enum status encoder_load(struct encoder *e, struct fail *fail)
{
	struct encoder_loader l = {e, fail, OK};
	const struct model_config *c = e->c;
	load_weight(&l, "embed_tokens", c->n_vocab, c->d_model, true, &e->embed);
	load_rows(&l, "places.weight", c->encoder.n_places, &e->places);
	load_rows(&l, "types.weight", c->encoder.n_types, &e->types);
	if (c->encoder.is_bert)
		load_norm(&l, "embed_norm", c->d_model, &e->embed_norm);
	else
		load_norm(&l, "norm", c->d_model, &e->out_norm);
	for (int i = 0; i < c->n_layers && l.st == OK; i++)
		load_layer(&l, i);
	if (l.st == OK)
		load_ropes(&l);
	return l.st == OK ? OK : fail_default(fail, l.st);
}
