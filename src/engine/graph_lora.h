/* SPDX-License-Identifier: Apache-2.0
 *
 * LoRA adapters of a graph: which linear layers take them, and their matrices on the device. All
 * of limits.loras are there at once; each row of a step has one of them, or none. Thread: engine.
 *
 * They are for what graph_lora_targets lists, which runs by graph_linear, or has graph_lora_add
 * behind it, and for routed experts. An adapter of another module is refused.
 */
#pragma once
#include "engine/graph.h"

/* Fails unless the model takes every module of limits.loras: E_UNSUPPORTED or E_CONFIG, with the
 * module's name and the reason. */
enum status graph_lora_match(const struct graph *g, struct fail *fail) MUST_USE;
/* Takes memory, and fills it unless g->measured. */
enum status graph_lora_alloc(struct graph *g, struct fail *fail) MUST_USE;
void graph_lora_free(struct graph *g);
