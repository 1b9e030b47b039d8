/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for one token: one int4 weight adds to x. Then
 *           kernels/ops/moe_router.h with its norm of x.
 * LAYOUT    as linear_int4_dot.h. The router is (E, D) of f16 or bf16.
 *           `sums` is (E), zero before and after
 * GEOMETRY  as those kernels, with a workgroup for each block of rows. A workgroup of ROWS rows
 *           has the router's columns of these rows, E ROWS numbers. It loads them before the
 *           product, and adds its share of each logit to `sums`. The workgroup that
 *           finishes last normalises x, makes the logits and chooses. LDS: the product's or
 *           MOE_ROUTE_LDS, whichever is more
 * PRECISION as those kernels, then moe_sum.h; the norm and the choice have the bits of
 *           moe_router.hip
 * ROOFLINE  a launch less a layer. The last workgroup's work takes a chain of memory accesses:
 *           its shares, its arrival, then x and the sums
 * SEE       kernels/moe/moe_router.hip for more tokens and other weights
 */
#include "kernels/linear/linear_int4_dot.h"
#include "kernels/moe/moe_route.h"

template <int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_route_int4(const linear_int4_args &a, const weight_view &router,
			   const moe_router_launch &r)
{
	constexpr int32_t ROWS = LINEAR_INT4_ROWS(THRDS, YTILE, WAVES), THREADS = WAVES * WAVE;
	LDS_DYNAMIC(u32x4, lds);
	LDS(float, x, ROWS);
	moe_route_held held;
	moe_route_hold<ROWS, THREADS>(router, r, &held);
	linear_int4<1, THRDS, YTILE, WAVES, CHUNK, UNR, HAS_ZERO>(a, x);
	moe_route_end<ROWS, THREADS>(router, r, held, x, lds);
}

#define AXES_KIND(name, word, thrds, ytile, waves, chunk, unr, has_zero) \
	KERNEL(waves * WAVE) \
	void moe_route_##name##word##_kernel(linear_int4_args a, weight_view router, \
					     moe_router_launch r) \
	{ \
		moe_route_int4<thrds, ytile, waves, chunk, unr, has_zero>(a, router, r); \
	}
#define AXES(name, thrds, ytile, waves, chunk, unr) \
	AXES_KIND(name, , thrds, ytile, waves, chunk, unr, false) \
	AXES_KIND(name, _zero, thrds, ytile, waves, chunk, unr, true)
#define AXES_TO_4 AXES
#define AXES_TO_1 AXES
#include "kernels/linear/linear_int4.def"
#undef AXES_TO_1
#undef AXES_TO_4
#undef AXES
#undef AXES_KIND
