/* SPDX-License-Identifier: Apache-2.0
 *
 * A view of heads within wider rows, as a projection with several outputs leaves them.
 * Head h of token t is the `dim` elements from t * row + h * pitch on. A token's channels
 * are the elements of all its heads in order: n_heads * dim.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct head_view {
	const void *p;
	int32_t row, n_heads, dim, pitch;
};

/* Index of the element of channel c of token t. */
static inline size_t head_view_at(const struct head_view *v, int32_t t, int32_t c)
{
	return (size_t)t * (size_t)v->row + (size_t)(c / v->dim) * (size_t)v->pitch +
	       (size_t)(c % v->dim);
}
