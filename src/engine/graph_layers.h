/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that graph.c puts together: mixers, feed-forward parts, and what stands beside
 * them. The end of graph.h, and included by it alone. Thread: engine.
 */
#pragma once

/* What a layer does before its mlp. load: the weights of layer i. alloc: scratch memory
 * that all layers share, and their caches or states. run: x += mixer(norm(x)). */
struct mixer {
	enum status (*load)(struct graph *g, int i, struct fail *fail);
	enum status (*alloc)(struct graph *g, struct fail *fail);
	enum status (*run)(struct graph *g, const struct layer *l,
			   const struct graph_step *s, struct fail *fail);
	/* engine_graph.replay in a layer with a state; ids.first_tok and ids.states are of
	 * that one sequence. NULL: the layer's state cannot go back, so there are no guesses. */
	enum status (*replay)(struct graph *g, const struct layer *l,
			      const struct engine_replay *r, const struct graph_ids *ids,
			      struct fail *fail);
};
extern const struct mixer mixer_attention, mixer_mla, mixer_delta, mixer_conv, mixer_space,
	mixer_compress;

/* Functions of mixer_delta that mixer_space uses too. alloc: takes the memory. decay: makes
 * a->decay of the tensor `name`. skip: moves a view on by `first` elements of so many bytes. */
enum status mixer_delta_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status mixer_delta_decay(struct graph *g, int i, const char *name, struct delta_layer *a,
			      struct fail *fail) MUST_USE;
void mixer_delta_skip(struct head_view *v, int32_t first, size_t element);

/* layer_embed.c; of models with config.layer_embed. load_top: what all layers share. begin:
 * in a step, while x has the embeddings. run: the last part of a layer. */
enum status layer_embed_load_top(struct graph *g, struct fail *fail) MUST_USE;
enum status layer_embed_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status layer_embed_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status layer_embed_begin(struct graph *g, const struct graph_step *s,
			      struct fail *fail) MUST_USE;
enum status layer_embed_run(struct graph *g, const struct layer *l, int32_t t,
			    struct fail *fail) MUST_USE;

/* hyper.c; of models with config.hyper_n. begin: all streams become g->x. enter: first adds `add`
 * (T, S, D) act to the streams, if not NULL; writes what a part reads to g->n, and 0 to g->x.
 * leave: adds g->x to the streams. end: writes the mean of the streams to g->x. */
enum status hyper_load_top(struct graph *g, struct fail *fail) MUST_USE;
enum status hyper_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status hyper_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status hyper_begin(struct graph *g, int32_t t, struct fail *fail) MUST_USE;
enum status hyper_enter(struct graph *g, const struct layer *l, enum hyper_part part,
			const void *add, int32_t t, struct fail *fail) MUST_USE;
enum status hyper_leave(struct graph *g, int32_t t, struct fail *fail) MUST_USE;
enum status hyper_end(struct graph *g, int32_t t, struct fail *fail) MUST_USE;

/* mixer_compress.c; of models with config.compress_of. begin: called with the step's ropes.
 * pages: the arrays that a layer has in KV pages; p NULL: there is none. */
enum { COMPRESS_PAGES = 6 };
struct page_array {
	char *p;
	size_t bytes; /* bytes of one page */
};
enum status compress_begin(struct graph *g, const struct graph_step *s,
			   struct fail *fail) MUST_USE;
int compress_pages(const struct layer *l, struct page_array out[COMPRESS_PAGES]);
enum status compress_copy_page(struct graph *g, const struct layer *l, int32_t dst,
			       int32_t src) MUST_USE;

/* indexer.c; of models with config.index_heads. run: changes what attention sees; g->n is
 * what the layer reads, and its keys and values are in the cache. */
enum status indexer_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status indexer_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status indexer_begin(struct graph *g, const struct graph_step *s,
			  struct fail *fail) MUST_USE;
enum status indexer_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			struct attention_args *a, struct fail *fail) MUST_USE;
enum status indexer_copy_page(struct graph *g, const struct layer *l, int32_t dst,
			      int32_t src) MUST_USE;

/* ngram.c; of layers that config.ngram_of names. read: before a step, reads its rows into
 * memory that is shared with the device. run: adds to the streams, except *out_add, which
 * hyper_enter must add. */
enum status ngram_load(struct graph *g, int i, struct fail *fail) MUST_USE;
void ngram_free(struct ngram *n);
enum status ngram_alloc(struct graph *g, struct fail *fail) MUST_USE;
void ngram_read(struct graph *g, const struct engine_batch *b);
enum status ngram_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const void **out_add, struct fail *fail) MUST_USE;
enum status ngram_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail) MUST_USE;

/* Names of tensors differ: "mlp.gate" or "mlp.router"; "mlp.shared_expert(s)". */
struct mlp_names {
	const char *router, *shared;
};
enum status mlp_load(struct graph *g, int i, const struct mlp_names *names,
		     struct fail *fail) MUST_USE;
enum status mlp_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status mlp_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    struct fail *fail) MUST_USE;
/* The router of layer l's experts, if it reads the norm *norm of what the mixer has added to
 * g->x, and nothing else comes between. norm and router: where they are made. */
bool mlp_router_next(const struct graph *g, const struct layer *l, int32_t t,
		     struct rms_norm_args *norm, struct moe_router_args *router);
