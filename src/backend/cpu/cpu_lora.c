/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_add: first all rows of low = A x, then pieces of y += B low. Both ways to compute share it:
 * the matrices are small. Numbers of 16 bits are widened piece by piece, and give the bits that the
 * same numbers give in float32. What adapters add to routed experts goes the same two steps.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_moe.h"
#include "backend/cpu/cpu_tile.h"

enum { PIECE = 256 }; /* elements of y that a thread adds to at once, and of a row of A */

/* A matrix of p, (R, width), as a weight. */
static struct weight matrix_of(const struct lora_part *p, const void *q, int32_t width)
{
	static const enum quant quants[] = {
		[LORA_F32] = QUANT_F32, [LORA_F16] = QUANT_F16, [LORA_BF16] = QUANT_BF16};
	return (struct weight){.quant = quants[p->type], .k = width, .q = q};
}

/* Numbers [k0, k0 + n) of row r: in place, or widened into room. */
static const float *numbers(const struct weight *w, int32_t r, int32_t k0, int32_t n,
			    float room[PIECE])
{
	size_t at = (size_t)r * (size_t)w->k + (size_t)k0;
	if (w->quant == QUANT_F32)
		return (const float *)w->q + at;
	/* A row that begins at k0, which need not be a multiple of 8 (cpu_tile_decode). */
	const struct weight row = {.quant = w->quant, .k = n, .q = (const uint16_t *)w->q + at};
	cpu_tile_decode(&row, 0, 0, n, room);
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

/* Rows of low of a token: of each output, or of each head of the only one. */
static int lows_of(const struct lora_add_args *a)
{
	return a->n_out * lora_add_heads(a);
}

static float *low_of(const struct lora_add_args *a, int o, int t, int h)
{
	size_t row = (size_t)t * (size_t)lows_of(a) + (size_t)(a->heads.n ? h : o);
	return a->low + row * (size_t)a->rank;
}

/* Row t, head h of x or y, whose rows have `row` elements without heads. */
static size_t row_at(const struct lora_add_args *a, int t, int h, int32_t pitch, int32_t row)
{
	size_t rows = (size_t)t * (size_t)lora_add_heads(a) + (size_t)h;
	return rows * (size_t)(a->heads.n ? pitch : row);
}

/* Products of four rows of A from r on, in n columns from `at` on, and x. */
static vec4 four_rows(const struct lora_part *p, const struct weight *w, int r, int32_t at,
		      int32_t n, const float *x)
{
	float room[4][PIECE];
	const float *row[4];
	vec4 sum;
	for (int i = 0; i < 4; i++)
		row[i] = numbers(w, MIN(r + i, p->rank - 1), at, n, room[i]);
	dot_rows(row, &x, 1, n, &sum);
	return sum;
}

/* Index: fours of a row's ranks, of all rows of low of a token, of all tokens. The last four of an
 * odd rank repeat its last row. */
static void run_low(void *arg, int begin, int end)
{
	const struct lora_add_args *a = arg;
	int fours = DIV_UP(a->rank, 4), n_lows = lows_of(a);
	for (int i = begin; i < end; i++) {
		int t = i / fours / n_lows, low = i / fours % n_lows, r = i % fours * 4;
		int o = a->heads.n ? 0 : low, h = a->heads.n ? low : 0;
		const struct lora_part *p = part_of(a, o, t);
		const float *x = (const float *)a->x +
				 row_at(a, t, h, a->heads.x_pitch, a->n_in);
		vec4 sum = {0};
		if (!p || r >= p->rank)
			continue;
		const struct weight w = matrix_of(p, p->a, lora_add_columns(a));
		for (int32_t k = 0; k < a->n_in; k += PIECE)
			sum += four_rows(p, &w, r, h * a->heads.a_step + k,
					 MIN(PIECE, a->n_in - k), x + k);
		for (int k = 0; k < 4 && r + k < p->rank; k++)
			low_of(a, o, t, h)[r + k] = sum[k] * (p->scale * a->scale[t]);
	}
}

static int pieces_of(const struct lora_add_args *a)
{
	int n = 0;
	for (int o = 0; o < a->n_out; o++)
		n += DIV_UP(a->out[o].n, PIECE);
	return n * lora_add_heads(a);
}

/* n elements of B low, of which the first is row `at` of B. */
static void high_piece(const struct lora_part *p, const struct weight *w, const float *low,
		       int32_t at, int32_t n, float sum[PIECE])
{
	float room[PIECE];
	memset(sum, 0, (size_t)n * sizeof *sum);
	for (int32_t r = 0; r < p->rank; r++) {
		const float *b = numbers(w, r, at, n, room);
		int32_t i = 0;
		for (; i + 4 <= n; i += 4)
			vec4_store(sum + i, vec4_load(sum + i) +
						    vec4_all(low[r]) * vec4_load(b + i));
		for (; i < n; i++)
			sum[i] += low[r] * b[i];
	}
}

/* Adds to n elements of y. Sums over the ranks come first, so that a large y takes one rounding. */
static void add_piece(const struct lora_part *p, const struct weight *w, const float *low,
		      int32_t at, int32_t n, float *y)
{
	float sum[PIECE];
	high_piece(p, w, low, at, n, sum);
	for (int32_t i = 0; i < n; i++)
		y[i] += sum[i];
}

/* -0 keeps the bits of every number that is added to it. */
static void begin_piece(float *y, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		y[i] = -0.f;
}

static void run_high(void *arg, int begin, int end)
{
	const struct lora_add_args *a = arg;
	int n_pieces = pieces_of(a), n_heads = lora_add_heads(a);
	for (int i = begin; i < end; i++) {
		int t = i / n_pieces, h = i % n_pieces % n_heads, o = 0;
		int at = i % n_pieces / n_heads;
		while (at >= DIV_UP(a->out[o].n, PIECE))
			at -= DIV_UP(a->out[o++].n, PIECE);
		const struct lora_part *p = part_of(a, o, t);
		const struct lora_out *out = &a->out[o];
		int32_t n = MIN(PIECE, out->n - at * PIECE);
		float *y = (float *)out->y + row_at(a, t, h, a->heads.y_pitch, out->n) +
			   at * PIECE;
		if (out->is_new)
			begin_piece(y, n);
		if (!p)
			continue;
		const struct weight w = matrix_of(p, p->b, lora_add_rows(a, out));
		add_piece(p, &w, low_of(a, o, t, h), h * a->heads.b_step + at * PIECE, n, y);
	}
}

enum status cpu_lora_add(struct backend *b, const struct lora_add_args *a)
{
	cpu_for(b, a->n_tok * lows_of(a) * DIV_UP(a->rank, 4), (size_t)a->n_in * 4, run_low, a);
	cpu_for(b, a->n_tok * pieces_of(a), (size_t)a->rank * PIECE, run_high, a);
	return OK;
}

/* --- routed experts ------------------------------------------------------------------ */

struct experts_job {
	const struct moe_experts_args *a;
	const int32_t *order; /* (T*U) pair of each row of h; NULL: row i is pair i */
};

/* The adapter's matrices for a pair; NULL: they change nothing. */
static const struct lora_part *part_of_pair(const struct moe_experts_args *a, int32_t pair,
					    int which)
{
	int32_t i = a->lora->adapter[pair / a->n_used];
	if (i < 0)
		return NULL;
	size_t row = (size_t)i * (size_t)a->experts->n + (size_t)a->id[pair];
	const struct lora_part *p = a->lora->part + row * MOE_LORA_PARTS + which;
	return p->rank ? p : NULL;
}

static float *low_of_pair(const struct moe_experts_args *a, int32_t pair, int at)
{
	return a->lora->low + (2 * (size_t)pair + (size_t)at) * (size_t)a->lora->rank;
}

/* low of a pair's part: A x, with the adapter's factors. */
static void pair_low(const struct moe_experts_args *a, int32_t pair, const struct lora_part *p,
		     const float *x, int32_t n_in, float *low)
{
	const struct weight w = matrix_of(p, p->a, n_in);
	float scale = p->scale * a->lora->scale[pair / a->n_used];
	for (int32_t r = 0; r < p->rank; r += 4) {
		vec4 sum = {0};
		for (int32_t k = 0; k < n_in; k += PIECE)
			sum += four_rows(p, &w, r, k, MIN(PIECE, n_in - k), x + k);
		for (int k = 0; k < 4 && r + k < p->rank; k++)
			low[r + k] = sum[k] * scale;
	}
}

/* Index: gate and up of all pairs. */
static void run_experts_up(void *arg, int begin, int end)
{
	const struct moe_experts_args *a = arg;
	int32_t dim = a->experts->gate[0].k, ffn = a->experts->gate[0].n;
	size_t n_pairs = (size_t)a->n_tok * (size_t)a->n_used;
	for (int i = begin; i < end; i++) {
		int32_t pair = i / 2, at = i % 2;
		const struct lora_part *p = part_of_pair(a, pair, MOE_LORA_GATE + at);
		float *high = a->lora->high + ((size_t)at * n_pairs + (size_t)pair) * (size_t)ffn;
		float *low = low_of_pair(a, pair, at);
		if (!p)
			continue;
		pair_low(a, pair, p, (const float *)a->x +
					     (size_t)(pair / a->n_used) * (size_t)dim, dim, low);
		const struct weight w = matrix_of(p, p->b, ffn);
		for (int32_t f = 0; f < ffn; f += PIECE)
			high_piece(p, &w, low, f, MIN(PIECE, ffn - f), high + f);
	}
}

enum status cpu_lora_up(struct backend *b, const struct moe_experts_args *a)
{
	size_t sizes = (size_t)a->experts->gate[0].k + (size_t)a->experts->gate[0].n;
	cpu_for(b, 2 * a->n_tok * a->n_used, sizes * (size_t)a->lora->rank, run_experts_up, a);
	return OK;
}

const float *cpu_lora_high(const struct moe_experts_args *a, int32_t pair, int which)
{
	size_t n_pairs = (size_t)a->n_tok * (size_t)a->n_used;
	size_t row = (size_t)(which - MOE_LORA_GATE) * n_pairs + (size_t)pair;
	if (!a->lora || !part_of_pair(a, pair, which))
		return NULL;
	return a->lora->high + row * (size_t)a->experts->gate[0].n;
}

/* Index: rows of h. */
static void run_experts_low(void *arg, int begin, int end)
{
	const struct experts_job *j = arg;
	int32_t ffn = j->a->experts->gate[0].n;
	for (int i = begin; i < end; i++) {
		int32_t pair = j->order ? j->order[i] : i;
		const struct lora_part *p = part_of_pair(j->a, pair, MOE_LORA_DOWN);
		if (p)
			pair_low(j->a, pair, p, (const float *)j->a->h + (size_t)i * (size_t)ffn,
				 ffn, low_of_pair(j->a, pair, 0));
	}
}

/* Index: pieces of all rows of y. A token's experts are added slot by slot. */
static void run_experts_down(void *arg, int begin, int end)
{
	const struct moe_experts_args *a = arg;
	int32_t dim = a->experts->gate[0].k, n_pieces = DIV_UP(dim, PIECE);
	for (int i = begin; i < end; i++) {
		int32_t t = i / n_pieces, d = i % n_pieces * PIECE, n = MIN(PIECE, dim - d);
		float sum[PIECE], *y = a->y + (size_t)t * (size_t)dim + d;
		for (int32_t u = 0; u < a->n_used; u++) {
			int32_t pair = t * a->n_used + u;
			const struct lora_part *p = part_of_pair(a, pair, MOE_LORA_DOWN);
			if (!p)
				continue;
			const struct weight w = matrix_of(p, p->b, dim);
			high_piece(p, &w, low_of_pair(a, pair, 0), d, n, sum);
			for (int32_t k = 0; k < n; k++)
				y[k] += a->weight[pair] * sum[k];
		}
	}
}

enum status cpu_lora_down(struct backend *b, const struct moe_experts_args *a,
			  const int32_t *order)
{
	const struct experts_job job = {a, order};
	size_t rank = (size_t)a->lora->rank;
	int32_t dim = a->experts->gate[0].k, ffn = a->experts->gate[0].n;
	cpu_for(b, a->n_tok * a->n_used, (size_t)ffn * rank, run_experts_low, &job);
	cpu_for(b, a->n_tok * DIV_UP(dim, PIECE), (size_t)a->n_used * rank * PIECE,
		run_experts_down, a);
	return OK;
}
