/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_add: first all rows of low = A x, then pieces of y += B low. Both ways to compute share it:
 * the matrices are small. Numbers of 16 bits are widened piece by piece, and give the bits that the
 * same numbers give in float32.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_tile.h"

enum { PIECE = 256 }; /* elements of y that a thread adds to at once, and of a row of A */

/* A matrix of p, (R, width), as a weight. */
static struct weight matrix_of(const struct lora_part *p, const void *q, int32_t width)
{
	static const enum quant quants[] = {
		[LORA_F32] = QUANT_F32, [LORA_F16] = QUANT_F16, [LORA_BF16] = QUANT_BF16};
	return (struct weight){.quant = quants[p->type], .k = width, .q = q};
}

/* Numbers [k0, k0 + n) of row r: in place, or widened into room. k0: as cpu_tile_decode's. */
static const float *numbers(const struct weight *w, int32_t r, int32_t k0, int32_t n,
			    float room[PIECE])
{
	if (w->quant == QUANT_F32)
		return (const float *)w->q + (size_t)r * (size_t)w->k + (size_t)k0;
	cpu_tile_decode(w, r, k0, k0 + n, room);
	return room;
}

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

/* Products of four rows of A from r on, and x, over a piece of them from k on. */
static vec4 four_rows(const struct lora_part *p, int r, int32_t n_in, int32_t k, const float *x)
{
	float room[4][PIECE];
	const float *row[4];
	const struct weight w = matrix_of(p, p->a, n_in);
	int32_t n = MIN(PIECE, n_in - k);
	vec4 sum;
	for (int i = 0; i < 4; i++)
		row[i] = numbers(&w, MIN(r + i, p->rank - 1), k, n, room[i]);
	dot_rows(row, &x, 1, n, &sum);
	return sum;
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
		const float *x = (const float *)a->x + (size_t)t * (size_t)a->n_in;
		vec4 sum = {0};
		if (!p || r >= p->rank)
			continue;
		for (int32_t k = 0; k < a->n_in; k += PIECE)
			sum += four_rows(p, r, a->n_in, k, x + k);
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
	float sum[PIECE] = {0}, room[PIECE];
	const struct weight w = matrix_of(p, p->b, o->n);
	int32_t n = MIN(PIECE, o->n - n0);
	for (int32_t r = 0; r < p->rank; r++) {
		const float *b = numbers(&w, r, n0, n, room);
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
