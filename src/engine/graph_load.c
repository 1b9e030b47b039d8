/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "model/formats/weight_int8.h"

/* Rows that kernels take at once: a cut at a multiple of them leaves no incomplete tile. */
#define HEAD_TILE 256

enum status graph_alloc(struct graph *g, size_t n_bytes, void *out, struct fail *fail)
{
	void *p;
	if (g->measured) {
		*g->measured += (int64_t)n_bytes;
		return OK;
	}
	enum status st = g->b->ops->alloc(g->b, n_bytes, &p);
	if (st != OK)
		return fail_set(fail, st, "%s has no %.2f GiB for the model's memory",
				g->b->device, (double)n_bytes / (1 << 30));
	g->blocks = xrealloc(g->blocks, (g->n_blocks + 1) * sizeof *g->blocks);
	g->blocks[g->n_blocks++] = p;
	memcpy(out, &p, sizeof p);
	return OK;
}

enum status graph_take_all(struct graph *g, const struct graph_want *w, size_t n,
			   struct fail *fail)
{
	enum status st = OK;
	for (size_t i = 0; i < n && st == OK; i++)
		st = graph_alloc(g, w[i].n_bytes, w[i].out, fail);
	return st;
}

enum status graph_put_floats(struct graph *g, const float *host, size_t n,
			     const float **out, struct fail *fail)
{
	void *p;
	enum status st = graph_alloc(g, n * sizeof *host, &p, fail);
	if (st == OK)
		st = g->b->ops->upload(g->b, p, host, n * sizeof *host);
	if (st == OK)
		*out = p;
	return st;
}

enum status graph_put_own(struct graph *g, float *host, size_t n, const float **out,
			  struct fail *fail)
{
	enum status st = graph_put_floats(g, host, n, out, fail);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	free(host);
	return st;
}

enum status graph_put_filled(struct graph *g, float x, size_t n, const float **out,
			     struct fail *fail)
{
	if (g->measured)
		return graph_alloc(g, n * sizeof **out, out, fail);
	float *all = xmalloc(n * sizeof *all);
	for (size_t i = 0; i < n; i++)
		all[i] = x;
	return graph_put_own(g, all, n, out, fail);
}

enum status graph_put_scaled(struct graph *g, int i, const char *name, int32_t n, float scale,
			     const float **out, struct fail *fail)
{
	char full[200];
	const float *host;
	enum status st = model_vector(g->m, graph_layer_name(g, i, name, full), n, &host, fail);
	if (st != OK)
		return st;
	float *scaled = xmalloc((size_t)n * sizeof *scaled);
	for (int32_t k = 0; k < n; k++)
		scaled[k] = host[k] * scale;
	return graph_put_own(g, scaled, (size_t)n, out, fail);
}

enum status graph_put(struct graph *g, const void *host, size_t n_bytes, void *out,
		      struct fail *fail)
{
	void *on;
	enum status st = graph_alloc(g, n_bytes, &on, fail);
	if (st != OK || g->measured)
		return st;
	st = g->b->ops->upload(g->b, on, host, n_bytes);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	if (st == OK)
		memcpy(out, &on, sizeof on);
	return st;
}

enum status graph_put_count(struct graph *g, size_t n, const int32_t **out,
			    struct fail *fail)
{
	int32_t *host = xmalloc(n * sizeof *host);
	for (size_t i = 0; i < n; i++)
		host[i] = (int32_t)i;
	enum status st = graph_put(g, host, n * sizeof *host, out, fail);
	free(host);
	return st;
}

/* A weight of n_bytes has been loaded. A format may add to a tensor's bytes, so the sum is kept
 * within the total. */
void graph_tell_loaded(void *graph, size_t n_bytes)
{
	struct graph *g = graph;
	const struct load_watch *w = &g->limits.load;
	g->n_loaded = MIN(g->n_loaded + (int64_t)n_bytes, g->n_to_load);
	if (w->fn)
		w->fn(w->ctx, g->n_loaded, g->n_to_load);
}

static enum status load_weight(struct graph *g, const char *name,
			       const struct graph_part *p, struct fail *fail)
{
	struct weight host;
	enum status st = model_weight(g->m, name, p->rows, p->cols, &host, fail);
	host.is_table = p->kind == GRAPH_TABLE ||
			(p->out == &g->embed && !g->c->tied_embeddings);
	host.keeps_rows = p->kind == GRAPH_ROWS;
	host.is_expert = p->kind == GRAPH_EXPERT;
	if (st == OK)
		st = g->b->ops->load_weight(g->b, &host, p->out, fail);
	bool is_stored_later = host.is_expert && g->b->expert_bytes;
	if (st == OK && !is_stored_later)
		graph_tell_loaded(g, weight_bytes(&host));
	return st;
}

enum status graph_load_head(struct graph *g, const char *name, struct fail *fail)
{
	struct weight host, small;
	const struct model_config *c = g->c;
	int32_t n = c->eagle.is_head ? c->eagle.vocab : c->n_classes ? c->n_classes : c->n_vocab;
	enum status st = model_weight(g->m, name, n, c->d_model, &host, fail);
	if (st != OK)
		return st;
	if (!c->tied_embeddings)
		graph_tell_loaded(g, weight_bytes(&host));
	if (!g->b->int8_head || quant_bits(host.quant) < 16)
		return c->tied_embeddings
			       ? OK
			       : g->b->ops->load_weight(g->b, &host, &g->head, fail);
	st = weight_to_int8(&host, &small, &g->head_memory);
	if (st != OK)
		return fail_set(fail, st, "%s: no memory for it in int8", name);
	st = g->b->ops->load_weight(g->b, &small, &g->head, fail);
	/* If the device has a copy, the host's is not needed. */
	if (st == OK && g->head.q != small.q && g->head.scales != small.scales) {
		free(g->head_memory);
		g->head_memory = NULL;
	}
	return st;
}

static enum status load_floats(struct graph *g, const char *name,
			       const struct graph_part *p, struct fail *fail)
{
	const float *host;
	size_t n = (size_t)p->rows;
	enum status st;
	if (p->kind == GRAPH_MATRIX) {
		st = model_matrix(g->m, name, p->rows, p->cols, &host, fail);
		n *= (size_t)p->cols;
	} else {
		st = model_vector(g->m, name, p->rows, &host, fail);
	}
	if (st != OK)
		return st;
	/* The last norm's weights scale the logits too. */
	float scale = p->out == &g->out_norm ? g->c->logit_scale : 1;
	bool adds_one = g->c->norm_plus_one &&
			!(p->out == &g->out_norm && g->c->last_norm_whole);
	if (p->kind != GRAPH_NORM || (!adds_one && scale == 1))
		return graph_put_floats(g, host, n, p->out, fail);
	float *whole = xmalloc(n * sizeof *whole);
	for (size_t i = 0; i < n; i++)
		whole[i] = scale * (host[i] + (adds_one ? 1 : 0));
	return graph_put_own(g, whole, n, p->out, fail);
}

/* The name in MTP_APART of the tensor that MTP_LAYER calls `name`. */
static void name_apart(const char *name, char out[200])
{
	static const char *const others[][2] = {
		{"eh_proj", "mtp.fc"},
		{"enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
		{"hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
		{"shared_head.norm.weight", "mtp.norm.weight"},
		{"fc_embedding", "mtp.fc_embedding"},
		{"fc_hidden", "mtp.fc_hidden"},
	};
	static const char mixer[] = "hyper_connection_mixer.";
	bool is_mixer = strncmp(name, mixer, sizeof mixer - 1) == 0;
	snprintf(out, 200, "mtp.%s%s", is_mixer ? "" : "layers.0.", name);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(others[i][0], name) == 0)
			snprintf(out, 200, "%s", others[i][1]);
}

const char *graph_layer_name(const struct graph *g, int i_layer, const char *name,
			     char out[200])
{
	if (i_layer == g->c->n_layers && g->c->mtp == MTP_APART)
		name_apart(name, out);
	else if (i_layer < 0)
		snprintf(out, 200, "%s%s%s", g->c->prefix, g->c->body, name);
	else
		snprintf(out, 200, "%s%slayers.%d.%s", g->c->prefix, g->c->body, i_layer,
			 name);
	return out;
}

bool graph_layer_has(const struct graph *g, int i_layer, const char *name)
{
	char full[200];
	return model_has(g->m, graph_layer_name(g, i_layer, name, full));
}

static enum status probe(const struct graph *g, const char *name)
{
	if (model_has(g->m, name))
		return OK;
	snprintf(g->probed, 200, "%s", name);
	return E_CONFIG;
}

enum status graph_load_parts(struct graph *g, int i_layer, const struct graph_part *parts,
			     size_t n, struct fail *fail)
{
	enum status st = OK;
	for (size_t i = 0; i < n && st == OK; i++) {
		char name[200];
		const struct graph_part *p = &parts[i];
		graph_layer_name(g, i_layer, p->name, name);
		if (g->probed)
			st = probe(g, name);
		else if (p->kind == GRAPH_WEIGHT || p->kind == GRAPH_ROWS ||
			 p->kind == GRAPH_EXPERT || p->kind == GRAPH_TABLE)
			st = load_weight(g, name, p, fail);
		else
			st = load_floats(g, name, p, fail);
	}
	return st;
}

enum status graph_take_pages(struct graph *g, struct layer *l,
			     const struct graph_pages_want *w, struct fail *fail)
{
	size_t n = (size_t)g->limits.n_pages, page = (size_t)g->limits.page_size;
	size_t size = dtype_bytes(g->limits.kv_type);
	l->k_bytes = page * (size_t)w->n_k * size;
	l->v_bytes = page * (size_t)w->n_v * size;
	l->page_heads = w->n_heads;
	l->page_dim = w->n_k / w->n_heads;
	l->scale_bytes = page * (size_t)w->n_heads * sizeof *l->k_scales;
	enum status st = graph_alloc(g, n * l->k_bytes, &l->k_pages, fail);
	if (st == OK && w->n_v)
		st = graph_alloc(g, n * l->v_bytes, &l->v_pages, fail);
	if (st == OK && g->limits.kv_type == DTYPE_I8)
		st = graph_alloc(g, n * l->scale_bytes, &l->k_scales, fail);
	if (st == OK && g->limits.kv_type == DTYPE_I8)
		st = graph_alloc(g, n * l->scale_bytes, &l->v_scales, fail);
	return st;
}

enum status graph_take_wide(struct graph *g, struct fail *fail)
{
	size_t most = 0;
	for (int i = 0; i < graph_n_layers(g); i++)
		most = MAX(most, g->layers[i].k_bytes);
	if (g->limits.kv_type != DTYPE_I8 || !g->b->widens_kv)
		return OK;
	most *= (size_t)g->limits.n_pages * dtype_bytes(DTYPE_F16);
	const struct graph_want wanted[] = {{&g->wide_k, most}, {&g->wide_v, most}};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

struct kv_pages graph_pages(const struct graph *g, const struct layer *l)
{
	return (struct kv_pages){.k = l->k_pages, .v = l->v_pages, .type = g->limits.kv_type,
				 .page_size = g->limits.page_size, .k_scale = l->k_scales,
				 .v_scale = l->v_scales, .wide_k = g->wide_k,
				 .wide_v = g->wide_v};
}

/* The draft token is verified, so it need not be the best of all tokens. Tokenizers number tokens
 * by how frequent they are, and the head's rows are in that order. Formats that store columns or
 * groups of rows together cannot be cut. */
struct weight graph_cut_head(const struct graph *g)
{
	struct weight w = g->head;
	bool has_rows = w.quant != QUANT_AWQ4 && w.quant != QUANT_GPTQ4 &&
			w.quant != QUANT_GPTQ8 && weight_is_dense(&w);
	int32_t n = ROUND_UP(g->limits.mtp_vocab, HEAD_TILE);
	if (has_rows && n > 0 && n < w.n)
		w.n = n;
	return w;
}
