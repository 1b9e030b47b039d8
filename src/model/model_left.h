/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that nobody has read. Thread: the one that loads weights.
 */
#pragma once
#include "model/model.h"

/* Call it when all of a model that writes is loaded. E_UNSUPPORTED names a tensor that has an
 * effect that is not known. */
enum status model_left_check(const struct model *m, struct fail *fail) MUST_USE;
