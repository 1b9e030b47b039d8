/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and states between the device and the host's memory. In host memory a page is its
 * keys and values, with the scales of both in a cache in int8, layer by layer. A state is its
 * parts layer by layer.
 */
#include "base/alloc.h"
#include "engine/graph.h"

enum { MOVE_ARRAYS = COMPRESS_PAGES }; /* of a layer at most */

/* Returns how many of a layer there may be. */
static int arrays_of(const struct graph *g, const struct layer *l, bool is_state,
		     struct page_array out[MOVE_ARRAYS])
{
	const struct model_config *c = g->c;
	size_t n_v = (size_t)c->delta_v_heads * (size_t)c->delta_v_dim;
	if (!is_state && c->compress_of) {
		return compress_pages(l, out);
	} else if (!is_state) {
		out[0] = (struct page_array){l->k_pages, l->k_bytes};
		out[1] = (struct page_array){l->v_pages, l->v_bytes};
		out[2] = (struct page_array){(char *)l->k_scales, l->scale_bytes};
		out[3] = (struct page_array){(char *)l->v_scales, l->scale_bytes};
		out[4] = (struct page_array){l->indexer.keys, l->indexer.key_bytes};
		out[5] = (struct page_array){l->indexer.blocks, l->indexer.block_bytes};
		return MOVE_ARRAYS;
	} else {
		const struct delta_layer *a = &l->delta;
		size_t n_channels = a->conv_state ? (size_t)model_delta_channels(c) : 0;
		size_t width = (size_t)c->conv_width;
		out[0] = (struct page_array){(char *)a->conv_state,
					n_channels * (width - 1) * sizeof(float)};
		out[1] = (struct page_array){(char *)a->state,
					n_v * (size_t)c->delta_k_dim * sizeof(float)};
		out[2] = (struct page_array){(char *)l->ngram.state, l->ngram.state_bytes};
	}
	return 3;
}

size_t graph_move_bytes(const struct graph *g, bool is_state)
{
	size_t n = 0;
	struct page_array a[MOVE_ARRAYS];
	for (int i = 0; i < graph_n_layers(g); i++) {
		int k = arrays_of(g, &g->layers[i], is_state, a);
		while (k-- > 0)
			n += a[k].p ? a[k].bytes : 0;
	}
	return n;
}

static enum status move_one(struct graph *g, const struct engine_move *m, int32_t at,
			    char **io_host)
{
	enum status st = OK;
	struct page_array a[MOVE_ARRAYS];
	for (int i = 0; i < graph_n_layers(g); i++) {
		int n = arrays_of(g, &g->layers[i], m->is_state, a);
		for (int k = 0; k < n && st == OK; k++) {
			if (!a[k].p)
				continue;
			char *p = a[k].p + (size_t)at * a[k].bytes;
			st = m->is_load ? g->b->ops->upload(g->b, p, *io_host, a[k].bytes)
					: g->b->ops->download(g->b, *io_host, p, a[k].bytes);
			*io_host += a[k].bytes;
		}
	}
	return st;
}

enum status graph_move(void *ctx, const struct engine_move *m)
{
	struct graph *g = ctx;
	char *host = m->host;
	enum status st = OK;
	for (int i = 0; i < m->n && st == OK; i++)
		st = move_one(g, m, m->at[i], &host);
	/* The landed bytes reach the host's memory, and the host's may be freed. */
	enum status synced = g->b->ops->sync(g->b, NULL);
	return st == OK ? synced : st;
}
