/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and states between the device and the host's memory. In host memory a page is its
 * keys and values, with the scales of both in a cache in int8, layer by layer. A state is its
 * parts layer by layer.
 *
 * A page has two or more parts in each layer, of some kilobytes. A copy over the bus for each
 * part costs more than its bytes, so pages are packed on the device and cross in blocks. Parts
 * of states are megabytes: they cross one by one.
 */
#include "engine/graph_move.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

enum { MOVE_ARRAYS = COMPRESSED_PAGES + 1 }; /* most arrays of a layer */

/* The arrays of a layer's pages or states, in out. Returns their number, including those that a
 * layer may lack. */
static int arrays_of(const struct layer *l, bool is_state,
		     struct page_array out[MOVE_ARRAYS])
{
	if (!is_state && l->compressed.n_heads) {
		return compressed_pages(l, out);
	} else if (!is_state) {
		out[0] = (struct page_array){l->k_pages, l->k_bytes};
		out[1] = (struct page_array){l->v_pages, l->v_bytes};
		out[2] = (struct page_array){(char *)l->k_scales, l->scale_bytes};
		out[3] = (struct page_array){(char *)l->v_scales, l->scale_bytes};
		out[4] = (struct page_array){l->indexer.keys, l->indexer.key_bytes};
		out[5] = (struct page_array){l->indexer.blocks, l->indexer.block_bytes};
		out[6] = (struct page_array){l->indexer.gates, l->indexer.key_bytes};
		return MOVE_ARRAYS;
	}
	out[0] = (struct page_array){(char *)l->delta.conv_state, l->delta.conv_bytes};
	out[1] = (struct page_array){(char *)l->delta.state, l->delta.state_bytes};
	out[2] = (struct page_array){(char *)l->ngram.state, l->ngram.state_bytes};
	return 3;
}

size_t graph_move_bytes(const struct graph *g, bool is_state)
{
	size_t n = 0;
	struct page_array a[MOVE_ARRAYS];
	for (int i = 0; i < graph_n_layers(g); i++) {
		int k = arrays_of(&g->layers[i], is_state, a);
		while (k-- > 0)
			n += a[k].p ? a[k].bytes : 0;
	}
	return n;
}

#define MOVE_BLOCK ((size_t)8 << 20)
enum { MOVE_MOST = 1024 }; /* pages of a block */

enum status graph_move_alloc(struct graph *g, struct fail *fail)
{
	struct mover *m = &g->mover;
	size_t n_pieces = (size_t)graph_n_layers(g) * MOVE_ARRAYS;
	const struct graph_want wanted[] = {
		{&m->piece, n_pieces * sizeof *m->piece},
		{&m->at, MOVE_MOST * sizeof *m->at},
		{&m->block, MOVE_BLOCK},
	};
	if (!g->limits.moves)
		return OK;
	return graph_take_all(g, wanted, g->b->is_far ? 3 : 1, fail);
}

/* Lists the arrays of pages in out, which has room for all. Returns their number. *low: the
 * lowest of their addresses. */
static int32_t list_pieces(const struct graph *g, struct move_piece *out, uintptr_t *low)
{
	int32_t n = 0;
	size_t offset = 0;
	struct page_array a[MOVE_ARRAYS];
	*low = UINTPTR_MAX;
	for (int i = 0; i < graph_n_layers(g); i++) {
		int n_arrays = arrays_of(&g->layers[i], false, a);
		for (int k = 0; k < n_arrays; k++) {
			if (!a[k].p)
				continue;
			uintptr_t at = (uintptr_t)a[k].p;
			out[n++] = (struct move_piece){at, a[k].bytes, offset};
			*low = MIN(*low, at);
			offset += a[k].bytes;
		}
	}
	return n;
}

enum status graph_move_begin(struct graph *g)
{
	struct mover *m = &g->mover;
	uintptr_t low;
	m->page_bytes = graph_move_bytes(g, false);
	if (!m->piece || m->page_bytes == 0 || (m->block && m->page_bytes > MOVE_BLOCK))
		return OK;
	size_t most = (size_t)graph_n_layers(g) * MOVE_ARRAYS;
	struct move_piece *host = xmalloc(most * sizeof *host);
	m->n_pieces = list_pieces(g, host, &low);
	m->memory = (char *)low;
	for (int32_t i = 0; i < m->n_pieces; i++)
		host[i].first -= low;
	enum status st = g->b->ops->upload(g->b, m->piece, host,
					   (size_t)m->n_pieces * sizeof *host);
	if (st == OK)
		st = g->b->ops->sync(g->b, NULL);
	free(host);
	return st;
}

/* Queue the copy of n bytes, in the direction of the move. */
static enum status cross(struct graph *g, const struct engine_move *m, void *device, void *host,
			 size_t n)
{
	const struct backend_ops *ops = g->b->ops;
	if (m->is_load)
		return (m->is_pinned ? ops->upload_pinned : ops->upload)(g->b, device, host, n);
	return (m->is_pinned ? ops->download_pinned : ops->download)(g->b, host, device, n);
}

/* n pages from m->at[i] on. A near backend packs them where the host wants them; else they
 * are as many as a block holds at most. */
static enum status move_pages(struct graph *g, const struct engine_move *m, int i, int n)
{
	const struct mover *v = &g->mover;
	const struct backend_ops *ops = g->b->ops;
	bool is_near = !v->block;
	char *host = (char *)m->host + (size_t)i * v->page_bytes;
	size_t n_bytes = (size_t)n * v->page_bytes;
	const struct move_pieces_args a = {
		.n = n, .n_pieces = v->n_pieces, .is_load = m->is_load, .memory = v->memory,
		.piece = v->piece, .at = is_near ? m->at + i : v->at,
		.block = is_near ? host : v->block, .block_bytes = v->page_bytes};
	if (is_near)
		return ops->move_pieces(g->b, &a);
	enum status st = ops->upload(g->b, v->at, m->at + i, (size_t)n * sizeof *m->at);
	if (st == OK && m->is_load)
		st = cross(g, m, v->block, host, n_bytes);
	if (st == OK)
		st = ops->move_pieces(g->b, &a);
	if (st == OK && !m->is_load)
		st = cross(g, m, v->block, host, n_bytes);
	return st;
}

static enum status move_one(struct graph *g, const struct engine_move *m, int32_t at,
			    char **io_host)
{
	enum status st = OK;
	struct page_array a[MOVE_ARRAYS];
	for (int i = 0; i < graph_n_layers(g); i++) {
		int n = arrays_of(&g->layers[i], m->is_state, a);
		for (int k = 0; k < n && st == OK; k++) {
			if (!a[k].p)
				continue;
			char *p = a[k].p + (size_t)at * a[k].bytes;
			st = cross(g, m, p, *io_host, a[k].bytes);
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
	const struct mover *v = &g->mover;
	bool is_packed = !m->is_state && v->n_pieces > 0;
	int most = is_packed && v->block ? (int)MIN(MOVE_BLOCK / v->page_bytes, MOVE_MOST) : m->n;
	for (int i = 0; is_packed && i < m->n && st == OK; i += most)
		st = move_pages(g, m, i, MIN(most, m->n - i));
	for (int i = 0; !is_packed && i < m->n && st == OK; i++)
		st = move_one(g, m, m->at[i], &host);
	if (m->is_load && m->is_pinned && st == OK)
		return OK;
	/* The landed bytes reach the host's memory, and the host's may be freed. */
	enum status synced = graph_move_wait(g);
	return st == OK ? synced : st;
}

enum status graph_move_wait(void *ctx)
{
	const struct graph *g = ctx;
	return g->b->ops->sync(g->b, NULL);
}

void *graph_alloc_pinned(void *ctx, size_t n_bytes)
{
	const struct graph *g = ctx;
	void *p = NULL;
	return g->b->ops->alloc_pinned(g->b, n_bytes, &p) == OK ? p : NULL;
}

void graph_free_pinned(void *ctx, void *p)
{
	const struct graph *g = ctx;
	g->b->ops->free_pinned(g->b, p);
}
