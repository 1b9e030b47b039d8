/* SPDX-License-Identifier: Apache-2.0
 *
 * What parts and families call: operations and parts in a step, weights and memory before.
 * Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* Queue an operation of graph g, or return from the caller with its failure. */
#define RUN(op, ...) do { \
	enum status st_ = g->b->ops->op(g->b, &(struct op##_args){__VA_ARGS__}); \
	if (st_ != OK) \
		return graph_op_failed(g, #op, t, st_, fail); \
} while (0)
enum status graph_op_failed(const struct graph *g, const char *op, int32_t n_tok,
			    enum status st, struct fail *fail);

/* Run a part with its arguments, or return from the caller with its failure. */
#define PART(part, ...) PART_OF(part, part, __VA_ARGS__)
/* The same for a part that has the arguments of another. */
#define PART_OF(part, like, ...) do { \
	enum status st_ = part(g, l, s, &(struct like){__VA_ARGS__}, fail); \
	if (st_ != OK) \
		return st_; \
} while (0)
/* Return from the caller where a step of it fails. */
#define TRY(...) do { \
	enum status st_ = (__VA_ARGS__); \
	if (st_ != OK) \
		return st_; \
} while (0)

/* Attention's keys and values of a layer, n_bytes a token, for the profile: each of the
 * step's sequences reads them once at least. Enters stage ATTENTION. */
void graph_enter_attention(struct graph *g, const struct graph_step *s, int32_t window,
			   size_t n_bytes);

/* linear of weights of layer l, with what the adapters of the step's rows add (graph_lora.h). In a
 * step without adapters it is linear. */
enum status graph_linear(struct graph *g, const struct layer *l, const struct graph_step *s,
			 const struct linear_args *a, struct fail *fail) MUST_USE;
/* The same, where `beside` (n_out 0: none) is a linear of the same x that its caller queues later.
 * What adapters add to its outputs is stored there, and the outputs are then set to add. */
enum status graph_linear_beside(struct graph *g, const struct layer *l,
				const struct graph_step *s, const struct linear_args *a,
				struct linear_args *beside, struct fail *fail) MUST_USE;
/* What these adapters add behind linear with arguments a. */
enum status graph_lora_add(struct graph *g, const struct layer *l, const struct graph_step *s,
			   const struct linear_args *a, struct fail *fail) MUST_USE;
/* The same behind head_linear: x has n_in elements of each head, and y n_out. Each head has n_out
 * rows of the target's B; is_transposed: n_in, and is multiplied by (B A)^T. */
struct graph_lora_heads {
	const struct weight *target; /* as in graph_lora_targets.h */
	int32_t n_heads, n_in, n_out;
	bool is_transposed;
	const void *x; /* (T, H, x_pitch) act */
	int32_t x_pitch;
	void *y;       /* (T, H, y_pitch) act */
	int32_t y_pitch;
};
enum status graph_lora_heads(struct graph *g, const struct layer *l, const struct graph_step *s,
			     const struct graph_lora_heads *a, struct fail *fail) MUST_USE;
/* What the adapters of the step's rows add to routed experts of layer l. False: nothing. */
bool graph_lora_experts(const struct graph *g, const struct layer *l, const struct graph_step *s,
			struct moe_lora *out);
/* Run graph_linear, or return from the caller with its failure. */
#define LINEAR(...) PART_OF(graph_linear, linear_args, __VA_ARGS__)

/* x += W in + bias. With the weights `post` of a norm, that norm of the product is added. */
struct graph_add {
	const struct weight *w;
	const float *bias; /* or NULL */
	const void *in;    /* (T, K) act */
	const float *post; /* or NULL */
	float scale;       /* with post: factor of the new x; 0: 1 */
	/* A router that reads a norm of the new x, if nothing else comes before; NULL: none. The
	 * backend may do it or a part of it. Its caller still runs it (linear.h). */
	const struct moe_router_args *next;
};
enum status graph_add(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct graph_add *a, struct fail *fail) MUST_USE;

/* The norm `which` of x, for a part of layer l to read t tokens of g->x in g->n. The layer has
 * that norm. */
struct rms_norm_args graph_norm(const struct graph *g, const struct layer *l,
				enum graph_norm which, int32_t t);

/* Zeroed memory of the device; out: where the pointer goes. */
enum status graph_alloc(struct graph *g, size_t n_bytes, void *out,
		       struct fail *fail) MUST_USE;
struct graph_want {
	void *out;
	size_t n_bytes;
};
enum status graph_take_all(struct graph *g, const struct graph_want *w, size_t n,
			   struct fail *fail) MUST_USE;
/* The output head for drafts (engine_opts.mtp_vocab): the first rows of g->head. */
struct weight graph_cut_head(const struct graph *g);
int32_t graph_best(const float *logits, int32_t n); /* the token with the highest of n logits */
/* The best token of each of n_rows rows of n logits: of `top`, where that is not NULL. Any token of
 * a row with a NaN, which has no best one. */
void graph_best_rows(const struct logits_top *top, const float *logits, int32_t n_rows, int32_t n,
		     int32_t *out);
/* Loads the tensor `name` as g->head: in int8 if the backend was asked for that and the model has
 * 16 bits or more. Otherwise a tied head is the embeddings. */
enum status graph_load_head(struct graph *g, const char *name, struct fail *fail) MUST_USE;
void graph_tell_loaded(void *graph, size_t n_bytes); /* a backend's on_stored */
/* Copies n floats of the host to the device. put_filled: n times x. */
enum status graph_put_floats(struct graph *g, const float *host, size_t n,
			     const float **out, struct fail *fail) MUST_USE;
/* The same of memory that was allocated for it, and is freed. */
enum status graph_put_own(struct graph *g, float *host, size_t n, const float **out,
			  struct fail *fail) MUST_USE;
/* Copies bytes to memory of the device, unless g->measured, and waits until `host` may go. out:
 * where the pointer goes. put_count: 0, 1, 2 … n - 1. */
enum status graph_put(struct graph *g, const void *host, size_t n_bytes, void *out,
		      struct fail *fail) MUST_USE;
enum status graph_put_count(struct graph *g, size_t n, const int32_t **out,
			    struct fail *fail) MUST_USE;
enum status graph_put_filled(struct graph *g, float x, size_t n, const float **out,
			     struct fail *fail) MUST_USE;
/* Puts a vector of n floats of layer i (-1: of the model), times `scale`, on the device. */
enum status graph_put_scaled(struct graph *g, int i, const char *name, int32_t n, float scale,
			     const float **out, struct fail *fail) MUST_USE;

/* The tensors of a layer by their names below <body>layers.<i>. */
enum graph_kind {
	GRAPH_WEIGHT, GRAPH_EXPERT, /* (rows, cols) to a struct weight; of a routed expert */
	GRAPH_ROWS,   /* the same; for moe_router and head_linear, which read rows */
	GRAPH_TABLE,  /* the same; for embed_rows alone */
	GRAPH_VECTOR, /* rows floats to a const float * */
	GRAPH_NORM,   /* the same; 1 is added where norms are stored less 1 */
	GRAPH_MATRIX, /* (rows, cols) floats */
};
struct graph_part {
	const char *name;
	enum graph_kind kind;
	int32_t rows, cols;
	void *out;
};
enum status graph_load_parts(struct graph *g, int i_layer, const struct graph_part *parts,
			     size_t n, struct fail *fail) MUST_USE;
/* "model.layers.<i>.<name>" in out (200 bytes); returns out. */
const char *graph_layer_name(const struct graph *g, int i_layer, const char *name,
			     char out[200]);
bool graph_layer_has(const struct graph *g, int i_layer, const char *name);
/* Shows g->watch what the router that was queued with arguments a has chosen, and takes over what
 * g->watch changes. */
enum status graph_watch_router(struct graph *g, int i_layer,
			       const struct moe_router_args *a,
			       struct fail *fail) MUST_USE;
/* What a layer's cache needs: n_k and n_v numbers a token (n_v 0: keys only) in n_heads heads. */
struct graph_pages_want {
	int32_t n_k, n_v, n_heads;
};
enum status graph_take_pages(struct graph *g, struct layer *l,
			     const struct graph_pages_want *w, struct fail *fail) MUST_USE;
/* Allocates g->wide_k and g->wide_v, if the backend wants them. Call it once all layers have
 * their pages. */
enum status graph_take_wide(struct graph *g, struct fail *fail) MUST_USE;
struct kv_pages graph_pages(const struct graph *g, const struct layer *l);
