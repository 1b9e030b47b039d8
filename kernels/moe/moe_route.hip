/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for one token: one int4 weight adds to x. Then
 *           kernels/ops/moe_router.h with its norm of x.
 * LAYOUT    as linear_quad_sum.h or linear_int4_dot.h. The router is (E, D) of f16 or bf16.
 *           `sums` is (E), zero before and after
 * GEOMETRY  as those kernels, with a workgroup for each block of rows. A workgroup of ROWS rows
 *           has the router's columns of these rows, E ROWS numbers. It loads them before the
 *           product, and adds its share of each logit to `sums`. The workgroup that
 *           finishes last normalises x, makes the logits and chooses. With four lanes a row
 *           (quad.h) no workgroup waits: the experts' kernels normalise x, scale the sums and
 *           choose (moe_quad.hip). LDS: the product's or MOE_ROUTE_LDS, whichever is more
 * PRECISION as those kernels, then moe_sum.h; the norm and the choice have the bits of
 *           moe_router.hip
 * ROOFLINE  a launch less a layer. The last workgroup's work takes a chain of memory accesses:
 *           its shares, its arrival, then x and the sums
 * TRIED     (on an NVIDIA H200, Qwen3-30B-A3B, 12 layers; milliseconds of a token) the last
 *           workgroup makes the logits, and experts choose: 0.578. Experts' kernels scale the
 *           sums: 0.544. A launch for the router: 0.586. Registers for two workgroups of
 *           quad16: 124 bytes spilled
 * SEE       kernels/moe/moe_router.hip for more tokens and other weights
 */
#include "kernels/linear/linear_int4_dot.h"
#include "kernels/linear/linear_quad_sum.h"
#include "kernels/moe/moe_route.h"

template <int SPLIT, int SETS, int UNR, int KIND>
DEVICE void moe_route_quad(const linear_int4_args &a, const weight_view &router,
			   const moe_router_launch &r)
{
	constexpr int32_t ROWS = SETS * QUAD_ROWS, THREADS = SPLIT * SETS * WAVE;
	LDS_DYNAMIC(u32x4, lds);
	LDS(float, x, ROWS);
	moe_route_held held;
	moe_route_hold<ROWS, THREADS>(router, r, &held);
	linear_quad<1, SPLIT, SETS, UNR, KIND>(a, x);
	moe_route_end<ROWS, THREADS, false>(router, r, held, x, lds);
}

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
	moe_route_end<ROWS, THREADS, true>(router, r, held, x, lds);
}

#define QUAD_KIND(name, split, rows, unr, room, kind, word) \
	KERNEL_OF_MANY(split * rows * WAVE, (room > 1 ? room - 1 : 1)) \
	void moe_route_##name##word##_kernel(linear_int4_args a, weight_view router, \
					     moe_router_launch r) \
	{ \
		moe_route_quad<split, rows, unr, kind>(a, router, r); \
	}
#define QUAD(name, split, rows, unr, room, is_lean) QUAD_##is_lean(name, split, rows, unr, room)
#define QUAD_true(...)
#define QUAD_false(name, split, rows, unr, room) \
	QUAD_KIND(name, split, rows, unr, room, QUAD_G32, ) \
	QUAD_KIND(name, split, rows, unr, room, QUAD_ANY, _any) \
	QUAD_KIND(name, split, rows, unr, room, QUAD_ZERO, _zero)
#include "kernels/linear/linear_quad.def"
#undef QUAD
#undef QUAD_true
#undef QUAD_false
#undef QUAD_KIND

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
#include "kernels/linear/linear_int4.def"
#undef AXES_TO_4
#undef AXES
#undef AXES_KIND
