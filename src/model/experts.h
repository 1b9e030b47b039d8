/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the weight of one expert lies in checkpoints that have those of all experts
 * of a layer in one tensor. Thread: any.
 */
#pragma once
#include "model/model.h"
#include "model/formats/quant.h"

struct expert_place {
	char name[200]; /* of the tensor, without .weight and such */
	struct quant_part part;
};

/* `name` is "X.experts.7.gate_proj" (or up_proj, down_proj) of n rows. False where that
 * is a weight of its own, or no tensor of all experts is there either. */
bool experts_find(const struct model *m, const char *name, int32_t n,
		  struct expert_place *out);
