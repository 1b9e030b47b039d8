/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a weight that a checkpoint holds in one tensor with others: all experts of a layer, or
 * q, k and v, or gate and up. Thread: any.
 */
#pragma once
#include "model/model.h"
#include "model/formats/quant.h"

struct expert_place {
	char name[200]; /* of the tensor that holds the weight, without ".weight" or another
			 * suffix */
	struct quant_part part;
};

/* `name` is "X.experts.7.gate_proj" (or up_proj, down_proj), "X.mlp.gate_proj" or
 * "X.self_attn.q_proj", and has n rows. Returns false if the checkpoint has a weight of
 * exactly this name, or if no tensor of several weights holds it. */
bool experts_find(const struct model *m, const char *name, int32_t n,
		  struct expert_place *out);
