/* SPDX-License-Identifier: Apache-2.0
 *
 * An architecture says which parts a layer has and how its tensors are called; graph.c does
 * the rest. Rows of arch.def name one. Thread: as engine_create.
 */
#pragma once
#include "engine/graph.h"

struct arch {
	const struct part *mixer;        /* of tokens with those before them */
	const struct part *linear_mixer; /* of the layers that config.is_linear marks */
	struct mlp_names mlp;
};

#define ARCH(model_type, ident) extern const struct arch arch_##ident;
#include "engine/arch.def"
#undef ARCH
