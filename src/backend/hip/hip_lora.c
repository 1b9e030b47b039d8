/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_launch.h"
#include "kernels/rows/lora_launch.h"

_Static_assert((int)LORA_OUTS == LINEAR_MAX_OUT, "the launch has all outputs");

enum status hip_lora_add(struct backend *b, const struct lora_add_args *a)
{
	struct lora_launch v = {.x = a->x, .adapter = a->adapter, .scale = a->scale, .low = a->low,
				.n_in = a->n_in, .n_out = a->n_out, .rank = a->rank};
	int32_t n_pieces = 0;
	for (int o = 0; o < a->n_out; o++) {
		v.part[o] = a->out[o].part;
		v.y[o] = a->out[o].y;
		v.n[o] = a->out[o].n;
		v.is_f32[o] = a->out[o].is_f32;
		n_pieces += DIV_UP(a->out[o].n, LORA_THREADS);
	}
	struct hip_grid low = {a->rank * a->n_out, a->n_tok, LORA_THREADS, 0};
	struct hip_grid high = {n_pieces, a->n_tok, LORA_THREADS, 0};
	enum status st = LAUNCH(hip_of(b), PLAIN("lora_low_kernel"), low, ARG(v));
	return st == OK ? LAUNCH(hip_of(b), PLAIN("lora_high_kernel"), high, ARG(v)) : st;
}
