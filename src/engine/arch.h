/* SPDX-License-Identifier: Apache-2.0
 *
 * An architecture says which parts a layer has and how its tensors are called; graph.c does
 * the rest. Rows of model/archs.def name one. Thread: as engine_create.
 */
#pragma once
#include "engine/graph.h"

/* The two norms that most architectures have. */
#define TWO_NORMS \
	[NORM_MIXER] = "input_layernorm", [NORM_MLP] = "post_attention_layernorm"

struct arch {
	const struct mixer *mixer;        /* mixes a token with those before it */
	const struct mixer *linear_mixer; /* of the layers that config.is_linear marks */
	const char *norms[GRAPH_NORMS];  /* names by enum graph_norm; NULL: layers lack that norm */
	struct mlp_names mlp;
};

#define ARCH(model_type, ident, ...) extern const struct arch arch_##ident;
#include "model/archs.def"
#undef ARCH
