/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a struct turn_matrix of a stored matrix. Thread: any.
 */
#pragma once
#include <stdbool.h>

#include "model/formats/turn.h"
#include "model/tensors.h"

struct turn_source {
	int32_t n;
	const struct tensor *weight; /* (n, n); NULL: Sylvester's matrix, n a power of two */
	const struct tensor *perm;   /* (n): rows and columns in this order; or NULL */
	bool is_transposed;
	bool is_scaled;              /* by 1 / sqrt(n) */
};
bool turn_source_is_same(const struct turn_source *a, const struct turn_source *b);
/* E_FORMAT: types or shapes. */
enum status turn_check(const struct turn_source *s, struct fail *fail) MUST_USE;
/* Finds out whether a fast transform does it. turn_free gives the memory back. */
void turn_make(const struct turn_source *s, struct turn_matrix *out);
void turn_free(struct turn_matrix *t);
