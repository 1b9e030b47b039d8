/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of tensors that some checkpoints spell in a way of their own. Thread: any.
 */
#pragma once
#include "base/arena.h"

/* The name that most checkpoints use for the tensor `name`, in the arena; NULL if `name` is
 * that already. */
const char *usual_names_of(const char *name, struct arena *a);
