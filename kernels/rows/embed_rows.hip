/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/embed_rows.h
 * LAYOUT    table (V, D) in any format, token (T), x (T, D) f32
 * GEOMETRY  workgroups of 256 threads: (D over 256, T)
 * PRECISION exact: the same operations as the reference
 * ROOFLINE  bound by launch overhead: one row a token, once a step
 * TRIED     no other form
 * SEE       kernels/weights/dequant.h, kernels/ops/embed_rows_ref.c
 */
#include "kernels/weights/dequant.h"

enum { EMBED_ROWS_THREADS = 256 };

template <int format>
DEVICE void embed_rows(weight_view table, const int32_t *token, float *x, float scale)
{
	int32_t i = (int32_t)(group_index_x() * EMBED_ROWS_THREADS + thread_index());
	size_t t = group_index_y();
	if (i < table.k)
		x[t * (size_t)table.k + (size_t)i] =
			scale * weight_at<format>(&table, (size_t)token[t], i);
}

#define EMBED_ROWS(name, format) \
	KERNEL(EMBED_ROWS_THREADS) \
	void embed_rows_##name##_kernel(weight_view table, const int32_t *token, float *x, \
					float scale) \
	{ \
		embed_rows<format>(table, token, x, scale); \
	}
EMBED_ROWS(f32, WEIGHT_F32)
EMBED_ROWS(f16, WEIGHT_F16)
EMBED_ROWS(bf16, WEIGHT_BF16)
EMBED_ROWS(int4, WEIGHT_INT4)
#define UNITS EMBED_ROWS
#define UNIT_BLOCKS EMBED_ROWS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef EMBED_ROWS
