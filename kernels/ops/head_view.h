/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads that lie within wider rows, as a projection of several things at once leaves
 * them: head h of token t is the `dim` elements from t * row + h * pitch on. The heads
 * one after the other are the n_heads * dim channels of a token.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct head_view {
	const void *p;
	int32_t row, n_heads, dim, pitch;
};

/* Element that channel c of token t is. */
static inline size_t head_view_at(const struct head_view *v, int32_t t, int32_t c)
{
	return (size_t)t * (size_t)v->row + (size_t)(c / v->dim) * (size_t)v->pitch +
	       (size_t)(c % v->dim);
}
