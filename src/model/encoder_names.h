/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of tensors in the files of BERT, RoBERTa and nomic-embed. Thread: any.
 */
#pragma once
#include "base/arena.h"

/* The name that the encoder reads the tensor `name` by, in the arena; NULL if it is that. */
const char *encoder_names_of(const char *name, struct arena *a);
