/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings and images in a step of a graph: rows in their place, what is added after the first
 * layers, and the axes of rope. Without limits.image_rules there are no images. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* True if tokens of an image see each other, so that steps have last_seen. */
bool graph_images_is_bidirectional(const struct graph *g);
/* Sets a->last_seen, if step s has images whose tokens see each other in a layer
 * with a->window. */
void graph_images_see(const struct graph *g, const struct graph_step *s,
		     struct attention_args *a);
/* True if positions have three axes. */
bool graph_images_has_axes(const struct graph *g);
/* Allocates the memory of struct images_scratch. */
enum status graph_images_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* Fill in the axes of rope, once the memory is there. */
enum status graph_images_begin(struct graph *g) MUST_USE;
/* x (T, D): the embeddings of the step's tokens, and the rows of images in their place. A head that
 * drafts (limits.target) keeps embeddings if its width is not the model's. */
enum status graph_images_embed(struct graph *g, const struct graph_step *s, float *x,
			       struct fail *fail) MUST_USE;
/* In a step, after layer i: adds the images' rows for that layer. */
enum status graph_images_add(struct graph *g, const struct graph_step *s, int i,
			    struct fail *fail) MUST_USE;
