/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      as moe_route.hip, behind a weight in rows or in GGUF's blocks
 * LAYOUT    as linear_rows_dot.h and linear_blocks.h
 * GEOMETRY  as those kernels for one token, with a workgroup for each block of rows, and as
 *           moe_route.hip
 * PRECISION as those kernels, then as moe_route.hip
 * ROOFLINE  as moe_route.hip. There are kernels for the formats that files of experts have in
 *           the product before the router
 * SEE       kernels/moe/moe_route.hip
 */
#include "kernels/linear/linear_blocks.h"
#include "kernels/linear/linear_rows_dot.h"
#include "kernels/moe/moe_route.h"

template <int format>
DEVICE void moe_route_rows(const linear_rows_args &a, const weight_view &router,
			   const moe_router_launch &r)
{
	constexpr int32_t THREADS = LINEAR_ROWS_WAVES * WAVE;
	constexpr int32_t ROWS = is_block(format) ? LINEAR_BLOCKS_ROWS(1)
						  : LINEAR_ROWS_WAVES * LINEAR_ROWS_TILE;
	LDS_DYNAMIC(u32x4, lds);
	LDS(float, x, ROWS);
	moe_route_held held;
	moe_route_hold<ROWS, THREADS>(router, r, &held);
	if constexpr (is_block(format))
		linear_blocks<1, format>(a, x);
	else
		linear_rows<1, format>(a, x);
	moe_route_end<ROWS, THREADS>(router, r, held, x, lds);
}

#define MOE_ROUTE_ROWS(name, format) \
	KERNEL(LINEAR_ROWS_WAVES * WAVE) \
	void moe_route_rows_##name##_kernel(linear_rows_args a, weight_view router, \
					    moe_router_launch r) \
	{ \
		moe_route_rows<format>(a, router, r); \
	}
MOE_ROUTE_ROWS(q4_k, WEIGHT_Q4_K)
MOE_ROUTE_ROWS(q5_k, WEIGHT_Q5_K)
MOE_ROUTE_ROWS(q6_k, WEIGHT_Q6_K)
MOE_ROUTE_ROWS(iq4_xs, WEIGHT_IQ4_XS)
MOE_ROUTE_ROWS(int8, WEIGHT_INT8)
MOE_ROUTE_ROWS(mxfp4, WEIGHT_MXFP4)
MOE_ROUTE_ROWS(nvfp4, WEIGHT_NVFP4)
MOE_ROUTE_ROWS(fp8, WEIGHT_FP8)
MOE_ROUTE_ROWS(bf16, WEIGHT_BF16)
