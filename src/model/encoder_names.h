/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of tensors in the files of BERT, RoBERTa and nomic-embed. Thread: any.
 */
#pragma once
#include "base/arena.h"

/* The encoder's own name for the tensor `name`, in the arena; NULL if `name` is that already. */
const char *encoder_names_of(const char *name, struct arena *a);
