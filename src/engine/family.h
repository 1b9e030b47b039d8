/* SPDX-License-Identifier: Apache-2.0
 *
 * A family of architectures: what a layer of its models is, from top to bottom. Rows of
 * model/archs.def name one. Each has a file in families/. Thread: as engine_create.
 */
#pragma once
#include "engine/graph_calls.h"

/* The two norms that most architectures have. */
#define TWO_NORMS \
	[NORM_MIXER] = "input_layernorm", [NORM_MLP] = "post_attention_layernorm"

struct family {
	/* Names by enum graph_norm; NULL: layers lack that norm. */
	const char *norms[GRAPH_NORMS];
	bool has_layer_norms; /* norms subtract the mean, the last one too */

	/* From the model's settings, before anything is loaded. model: what all layers share, or
	 * NULL. layer: the parts of layer i, and their sizes. */
	void (*model)(struct graph *g);
	void (*layer)(const struct graph *g, int i, struct layer *l);
	/* Weights and memory of the family alone, beside those of the parts; or NULL. */
	enum status (*load)(struct graph *g, int i, struct fail *fail);
	enum status (*alloc)(struct graph *g, struct fail *fail);

	/* A step. begin: while x has the embeddings; or NULL. run: layer l; NULL: mix, then feed.
	 * end: before the last norm; or NULL. */
	enum status (*begin)(struct graph *g, const struct graph_step *s, struct fail *fail);
	enum status (*run)(struct graph *g, const struct layer *l, const struct graph_step *s,
			   struct fail *fail);
	enum status (*end)(struct graph *g, const struct graph_step *s, struct fail *fail);
	/* The two halves of a layer, where models have one that drafts (mtp.c); else NULL. */
	enum status (*mix)(struct graph *g, const struct layer *l, const struct graph_step *s,
			   struct fail *fail);
	enum status (*feed)(struct graph *g, const struct layer *l, const struct graph_step *s,
			    struct fail *fail);
	/* engine_graph.replay in layer l. NULL: there is no state, or none that can go back. */
	enum status (*replay)(struct graph *g, const struct layer *l,
			      const struct engine_replay *r, const struct graph_ids *ids,
			      struct fail *fail);

	/* Why keys and values cannot be in 8 bits: "it has attention sinks". NULL: they can. */
	const char *no_int8_kv;
};

/* --- for the files of families ------------------------------------------------------ */

/* Attention of layer i as the settings have it: heads, windows, rope, biases. */
struct attention family_attention(const struct graph *g, int i);
/* A dense part as wide as the settings say; its tensors are below "mlp". */
struct mlp family_mlp(const struct graph *g);
/* The gated delta net, or the state space of Mamba-2, that the settings have. */
struct delta family_delta(const struct graph *g, enum delta_kind kind);
/* Experts as the settings have them, with a router called "mlp.gate" and no shared one. n 0: layer
 * i is dense. */
struct moe family_experts(const struct graph *g, int i);
/* The same with a shared expert below `name`, of the width that the settings say. */
struct moe family_experts_and(const struct graph *g, int i, const char *name);
/* SiLU with the limit that layer i has. limits: of each layer, 0: none; or NULL. */
struct activation family_limited(const float *limits, int i);
/* family_experts_and, with the limits that the settings have for layer i. */
struct moe family_limited_experts(const struct graph *g, int i, const char *name);

/* The second half of a layer with one norm: x += the chosen experts by their weights, and the
 * shared one, in proportion to its gate where it has one; or a dense part. */
enum status family_feed(struct graph *g, const struct layer *l, const struct graph_step *s,
			struct fail *fail) MUST_USE;

#define ARCH(model_type, ident, ...) extern const struct family family_##ident;
#include "model/archs.def"
#undef ARCH
