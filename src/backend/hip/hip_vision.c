/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that vision towers have, and few language models: layer_norm, gelu, clip.
 */
#include "backend/hip/hip_launch.h"

enum { LAYER_NORM_THREADS = 256, GELU_THREADS = 256, GELU_EACH = 8 };
enum { CLIP_THREADS = 256, CLIP_EACH = 8 };

enum status hip_layer_norm(struct backend *b, const struct layer_norm_args *a)
{
	struct layer_norm_args v = *a;
	struct hip_grid g = {v.n_tok, 1, LAYER_NORM_THREADS, 0};
	v.n_weights = MAX(v.n_weights, 1);
	return LAUNCH(hip_of(b), PLAIN("layer_norm_kernel"), g, ARG(v.dim), ARG(v.eps), ARG(v.x),
		      ARG(v.weight), ARG(v.bias), ARG(v.y), ARG(v.n_weights));
}

enum status hip_gelu(struct backend *b, const struct gelu_args *a)
{
	struct gelu_args v = *a;
	uint64_t n = (uint64_t)v.n_tok * (uint64_t)v.dim, each = GELU_THREADS * GELU_EACH;
	struct hip_grid g = {(int32_t)DIV_UP(n, each), 1, GELU_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("gelu_%s_kernel", v.is_tanh ? "tanh" : "erf"), g, ARG(n),
		      ARG(v.x));
}

enum status hip_clip(struct backend *b, const struct clip_args *a)
{
	struct clip_args v = *a;
	uint64_t n = (uint64_t)v.n_tok * (uint64_t)v.dim;
	uint64_t each = CLIP_THREADS * (v.is_f32 ? 1 : CLIP_EACH);
	struct hip_grid g = {(int32_t)DIV_UP(n, each), 1, CLIP_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("clip%s_kernel", v.is_f32 ? "_f32" : ""), g, ARG(n),
		      ARG(v.low), ARG(v.high), ARG(v.x), ARG(v.y));
}
