/* SPDX-License-Identifier: Apache-2.0
 *
 * LoRA adapters of routed experts, for graph_lora.c: which modules are theirs, and their matrices
 * on the device. A layer's are one module for each expert, or one for all of them; gate and up may
 * be one, too. Thread: engine.
 */
#pragma once
#include "engine/graph.h"
#include "kernels/ops/lora_part.h"
#include "model/lora.h"

/* E_UNSUPPORTED: both modules are for the same rows. */
enum status graph_lora_fail_twice(const struct lora *l, const struct lora_module *one,
				  const struct lora_module *other, struct fail *fail) MUST_USE;
/* Marks in is_taken (l->n_modules) the modules that are for experts of layer i. Fails where one has
 * other sizes, or two are for the same rows. */
enum status graph_lora_experts_match(const struct graph *g, int i, const struct lora *l,
				     bool *is_taken, struct fail *fail) MUST_USE;
/* Takes memory for the parts of layer i, of which graph_lora_experts_has is true, and unless
 * g->measured fills it. *out: of all adapters, as in struct moe_lora, on the device. */
enum status graph_lora_experts_fill(struct graph *g, int i, struct lora_part **out,
				    struct fail *fail) MUST_USE;
/* A module whose matrices are on the device: as in struct lora_part. */
struct lora_part graph_lora_part(const struct lora_module *o, const void *a, const void *b);
/* True if an adapter changes experts of layer i. */
bool graph_lora_experts_has(const struct graph *g, int i);
