/* SPDX-License-Identifier: Apache-2.0
 *
 * transform_config of compressed-tensors: which layers turn their inputs and outputs in a
 * step, and by which matrices. What was folded into weights needs nothing. Thread: the one
 * that opens the model, and later the one that loads its weights.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "model/formats/turn.h"
#include "model/tensors.h"

struct turns;
/* `config` is transform_config, or NULL. *out NULL: a step turns nothing. E_UNSUPPORTED, with
 * the key in fail->param. */
enum status turns_read(const json_t *config, struct turns **out, struct fail *fail) MUST_USE;
void turns_destroy(struct turns *t); /* also what turns_find has given */
/* Which sides of the layer `name` turn. is_linear: its class is Linear. */
struct turn_sides {
	bool in, out;
};
enum status turns_of(const struct turns *t, const char *name, bool is_linear,
		     struct turn_sides *out, struct fail *fail) MUST_USE;
/* The turns of the layer `name`, which has n outputs and k inputs, by the matrices in ts:
 * *in and *out, NULL: none. They live as long as t. E_MISSING, E_FORMAT, E_UNSUPPORTED. */
enum status turns_find(struct turns *t, const struct tensors *ts, const char *name,
		       bool is_linear, int32_t n, int32_t k, const struct turn_matrix **in,
		       const struct turn_matrix **out, struct fail *fail) MUST_USE;
