/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of vision towers, which run on the CPU beside a GPU. There are no kernels.
 */
#include "backend/hip/hip_launch.h"

enum status hip_layer_norm(struct backend *b, const struct layer_norm_args *a)
{
	return hip_refuse(hip_of(b), "layer norms have no GPU kernel");
}

enum status hip_gelu(struct backend *b, const struct gelu_args *a)
{
	return hip_refuse(hip_of(b), "GELU without a factor has no GPU kernel");
}
