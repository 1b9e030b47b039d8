/* SPDX-License-Identifier: Apache-2.0
 *
 * What moe_router.hip is told beside its weight and tensors. C for the host, C++ for the
 * kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* As in struct moe_router_args, with device addresses. */
struct moe_router_rule {
	const float *logit_bias;         /* (E), or NULL */
	const float *bias;               /* (E); this and what follows: is_sigmoid */
	int32_t n_groups, n_groups_used;
	float scale;
	uint32_t is_sigmoid;
};
