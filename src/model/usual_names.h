/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of tensors that some checkpoints spell in a way of their own. Thread: any.
 */
#pragma once
#include "base/arena.h"

/* The name that most checkpoints would have for the tensor `name`, in the arena; NULL if it
 * is that. */
const char *usual_names_of(const char *name, struct arena *a);
