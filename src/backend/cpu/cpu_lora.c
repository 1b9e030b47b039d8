/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_add: first all rows of low = A x, then pieces of y += B low. Both ways to compute share it:
 * the matrices are small, and in float32.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

enum { PIECE = 256 }; /* elements of y that a thread adds to at once */

/* The adapter's matrices for output o and token t; NULL: it changes nothing. */
static const struct lora_part *part_of(const struct lora_add_args *a, int o, int t)
{
	const struct lora_part *p = a->out[o].part;
	if (!p || a->adapter[t] < 0 || p[a->adapter[t]].rank == 0)
		return NULL;
	return &p[a->adapter[t]];
}

static float *low_of(const struct lora_add_args *a, int o, int t)
{
	return a->low + ((size_t)t * (size_t)a->n_out + (size_t)o) * (size_t)a->rank;
}

/* Index: fours of a row's ranks, of all outputs, of all tokens. The last four of an odd rank
 * repeat its last row. */
static void run_low(void *arg, int begin, int end)
{
	const struct lora_add_args *a = arg;
	int fours = DIV_UP(a->rank, 4);
	for (int i = begin; i < end; i++) {
		int t = i / fours / a->n_out, o = i / fours % a->n_out, r = i % fours * 4;
		const struct lora_part *p = part_of(a, o, t);
		const float *row[4], *x = (const float *)a->x + (size_t)t * (size_t)a->n_in;
		vec4 sum;
		if (!p || r >= p->rank)
			continue;
		for (int k = 0; k < 4; k++)
			row[k] = p->a + (size_t)MIN(r + k, p->rank - 1) * (size_t)a->n_in;
		dot_rows(row, &x, 1, a->n_in, &sum);
		for (int k = 0; k < 4 && r + k < p->rank; k++)
			low_of(a, o, t)[r + k] = sum[k] * (p->scale * a->scale[t]);
	}
}

static int pieces_of(const struct lora_add_args *a)
{
	int n = 0;
	for (int o = 0; o < a->n_out; o++)
		n += DIV_UP(a->out[o].n, PIECE);
	return n;
}

/* Adds to y (n) of output o from element n0 on. Sums over the ranks come first, so that a large y
 * takes one rounding. */
static void add_piece(const struct lora_part *p, const struct lora_out *o, const float *low,
		      int32_t n0, float *y)
{
	float sum[PIECE] = {0};
	int32_t n = MIN(PIECE, o->n - n0);
	for (int32_t r = 0; r < p->rank; r++) {
		const float *b = p->b + (size_t)r * (size_t)o->n + n0;
		int32_t i = 0;
		for (; i + 4 <= n; i += 4)
			vec4_store(sum + i, vec4_load(sum + i) +
						    vec4_all(low[r]) * vec4_load(b + i));
		for (; i < n; i++)
			sum[i] += low[r] * b[i];
	}
	for (int32_t i = 0; i < n; i++)
		y[i] += sum[i];
}

static void run_high(void *arg, int begin, int end)
{
	const struct lora_add_args *a = arg;
	int n_pieces = pieces_of(a);
	for (int i = begin; i < end; i++) {
		int t = i / n_pieces, at = i % n_pieces, o = 0;
		while (at >= DIV_UP(a->out[o].n, PIECE))
			at -= DIV_UP(a->out[o++].n, PIECE);
		const struct lora_part *p = part_of(a, o, t);
		float *y = (float *)a->out[o].y + (size_t)t * (size_t)a->out[o].n;
		if (p)
			add_piece(p, &a->out[o], low_of(a, o, t), at * PIECE, y + at * PIECE);
	}
}

enum status cpu_lora_add(struct backend *b, const struct lora_add_args *a)
{
	cpu_for(b, a->n_tok * a->n_out * DIV_UP(a->rank, 4), (size_t)a->n_in * 4, run_low, a);
	cpu_for(b, a->n_tok * pieces_of(a), (size_t)a->rank * PIECE, run_high, a);
	return OK;
}
