/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of an int4 expert as linear_int4_dot.h takes them. Shared by moe_int4.hip and
 * moe_int4_group.hip.
 */
#pragma once
#include "kernels/linear/linear_int4_dot.h"
#include "kernels/weights/weight_view.h"

/* Set row y of a lane to row `row` of w, or to w's last row if that is past the end. */
template <int YTILE, bool HAS_ZERO>
DEVICE void moe_int4_row(linear_int4_rows<YTILE> *out, int y, const weight_view &w,
			 int32_t row)
{
	size_t n = (size_t)(row < w.n ? row : w.n - 1), groups = (size_t)(w.k / w.group);
	out->q[y] = (const uint32_t *)w.q + n * (size_t)(w.pitch / 4);
	out->scales[y] = (const uint16_t *)w.scales + n * groups;
	if constexpr (HAS_ZERO) {
		out->zeros[y] = w.zero_points + n / 8 * groups;
		out->zero_shift[y] = (uint32_t)n % 8 * 4;
	}
}
