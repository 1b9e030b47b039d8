/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation turn_blocks. Both ways to compute share it. A unit of work is a span of a
 * row: one line of the fast transform, or more where lines are short.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_kv.h"
#include "base/alloc.h"

enum { SPAN = 256 };

struct turn_job {
	const struct turn_blocks_args *a;
	int32_t line, span, n_spans; /* of a row */
};

static float input(const struct turn_matrix *r, const float *block, int32_t i)
{
	return r->before ? block[i] * r->before[i] : block[i];
}

/* z (n) = numbers [to, to + n) of a block behind the small matrix: of one line, or of lines
 * of one number. */
static void small(const struct turn_job *j, const float *block, int32_t to, int32_t n, float *z)
{
	const struct turn_matrix *r = j->a->turn;
	int32_t in = to % j->line;
	for (int32_t e = 0; e < n; e++)
		z[e] = r->base ? 0 : input(r, block, to + e);
	for (int32_t k = 0; r->base && k < r->order; k++, in += j->line) {
		const float *w = r->base + (size_t)k * (size_t)r->order + to / j->line;
		if (j->line == 1) {
			float x = input(r, block, k);
			for (int32_t e = 0; e < n; e++)
				z[e] += x * w[e];
			continue;
		}
		for (int32_t e = 0; e < n; e++)
			z[e] += input(r, block, in + e) * *w;
	}
}

void cpu_sylvester(float *z, int32_t n, int32_t block)
{
	for (int32_t half = 1; half < block; half *= 2)
		for (int32_t i = 0; i < n; i += 2 * half)
			for (int32_t e = i; e < i + half; e++) {
				float u = z[e], v = z[e + half];
				z[e] = u + v;
				z[e + half] = u - v;
			}
}

/* Numbers [at, at + n) of a row, which are in one block. */
static void turn_part(const struct turn_job *j, size_t row, int32_t at, int32_t n)
{
	const struct turn_blocks_args *a = j->a;
	const struct turn_matrix *r = a->turn;
	float z[TURN_MAX_LINE];
	int32_t to = at % r->n;
	float *y = (float *)a->y + row + at;
	small(j, (const float *)a->x + row + (at - to), to, n, z);
	cpu_sylvester(z, j->line, j->line);
	for (int32_t e = 0; e < n; e++) {
		float v = z[e] * r->scale;
		v = r->after ? v * r->after[to + e] : v;
		y[e] = a->adds ? y[e] + v : v;
	}
}

static void run(void *arg, int begin, int end)
{
	const struct turn_job *j = arg;
	int32_t dim = j->a->dim, n = j->a->turn->n;
	for (int i = begin; i < end; i++) {
		size_t row = (size_t)(i / j->n_spans) * (size_t)dim;
		int32_t at = i % j->n_spans * j->span, last = MIN(at + j->span, dim);
		for (int32_t size; at < last; at += size) {
			size = j->line > 1 ? j->line : MIN(last - at, n - at % n);
			turn_part(j, row, at, size);
		}
	}
}

enum status cpu_turn_blocks(struct backend *b, const struct turn_blocks_args *a)
{
	struct turn_job j = {.a = a, .line = a->turn->n / a->turn->order};
	j.span = MAX(j.line, SPAN);
	j.n_spans = (a->dim + j.span - 1) / j.span;
	size_t work = (size_t)j.span * (size_t)(a->turn->order + 16);
	cpu_for(b, a->n_tok * j.n_spans, work, run, &j);
	return OK;
}
