/* SPDX-License-Identifier: Apache-2.0
 *
 * Which turns (formats/turn.h) a checkpoint asks for: at the inputs and outputs of products,
 * in every step.
 */
#pragma once
#include "model/formats/turn.h"
#include "model/model.h"

/* True if steps turn inputs or outputs of some of the model's layers. */
bool model_turns(const struct model *m);

/* A weight whose turns are asked for. */
struct model_turned {
	int32_t n, k;        /* outputs and inputs */
	bool is_linear;      /* the layer is of class Linear, and no embedding */
	const char *why_not; /* the kind of weight, if no operation turns it; else NULL */
};
/* The turns of the weight `name`, of its inputs and of its outputs; NULL: none. They live as
 * long as m. E_MISSING, E_FORMAT, E_UNSUPPORTED. Thread: the one that loads weights. */
enum status model_weight_turns(const struct model *m, const char *name,
			       const struct model_turned *of, const struct turn_matrix **in,
			       const struct turn_matrix **out, struct fail *fail) MUST_USE;
/* E_UNSUPPORTED if something in the model's vision tower is to be turned. */
enum status model_turns_no_sight(const struct model *m, struct fail *fail) MUST_USE;
/* The most inputs and outputs of a weight that are turned; 0: none. */
void model_turn_sizes(const struct model *m, int32_t *k, int32_t *n);
