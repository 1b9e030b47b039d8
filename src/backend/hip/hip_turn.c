/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation turn_blocks. The .hip file describes the grid.
 */
#include "backend/hip/hip_launch.h"
#include "base/alloc.h"
#include "kernels/rows/turn_blocks_launch.h"

enum status hip_turn_blocks(struct backend *b, const struct turn_blocks_args *a)
{
	const struct turn_matrix *r = a->turn;
	int32_t line = r->n / r->order;
	struct turn_launch l = {
		.base = r->base, .before = r->before, .after = r->after, .x = a->x, .y = a->y,
		.dim = a->dim, .n = r->n, .order = r->order,
		.line = line, .line_shift = __builtin_ctz((unsigned)line),
		.span = MAX(line, TURN_THREADS),
		.scale = r->scale, .x_is_f32 = a->x_is_f32,
		.store = a->adds ? TURN_ADD_F32 : a->is_f32 ? TURN_TO_F32 : TURN_TO_F16};
	struct hip_grid g = {DIV_UP(a->dim, l.span), a->n_tok, TURN_THREADS,
			     l.span * (int32_t)sizeof(float)};
	if (!hip_is_power_of_two(line) || line > TURN_MAX_LINE)
		return hip_refuse(hip_of(b), "a fast transform of %d numbers", (int)line);
	return LAUNCH(hip_of(b), PLAIN("turn_blocks_kernel"), g, ARG(l));
}
