/* SPDX-License-Identifier: Apache-2.0
 *
 * From the layouts of checkpoints to panels. Numbers stay what they are: integers,
 * zero points and scales move, nothing is rounded.
 */
#include "backend/cpu_panels.h"

#include "base/alloc.h"

enum { ROWS = CPU_PANEL_ROWS };

bool cpu_panels_can(const struct weight *w)
{
	bool is_integer = w->quant == QUANT_INT4 || w->quant == QUANT_INT8 ||
			  w->quant == QUANT_AWQ4 || w->quant == QUANT_GPTQ4 ||
			  w->quant == QUANT_GPTQ8;
	return is_integer && weight_is_dense(w) && !w->pitch && w->k % 32 == 0 &&
	       w->group % 32 == 0 && w->k % w->group == 0 && !w->group_of;
}

static size_t aligned(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

void cpu_panels_plan(const struct weight *w, struct cpu_panels *out)
{
	size_t groups = (size_t)(w->k / w->group);
	*out = (struct cpu_panels){.n = w->n, .k = w->k, .group = w->group,
				   .bits = quant_bits(w->quant),
				   .scale_type = w->scale_type,
				   .has_zero = w->zero_points};
	out->at_zero = aligned(groups * ROWS * dtype_bytes(w->scale_type));
	out->at_q = out->at_zero + (out->has_zero ? aligned(groups * ROWS) : 0);
	out->panel_bytes = out->at_q +
			   (size_t)w->k * ROWS * (size_t)out->bits / 8;
}

size_t cpu_panels_bytes(const struct cpu_panels *p)
{
	return (size_t)cpu_panels_count(p) * p->panel_bytes;
}

struct fill {
	const struct weight *w;
	const struct cpu_panels *p;
};

/* --- scales and zero points ---------------------------------------------------- */

static bool is_k_major(const struct weight *w)
{
	return w->quant == QUANT_AWQ4 || w->quant == QUANT_GPTQ4 ||
	       w->quant == QUANT_GPTQ8;
}

static void fill_scales(const struct weight *w, int32_t n0, int n_rows, uint8_t *panel)
{
	size_t groups = (size_t)(w->k / w->group), size = dtype_bytes(w->scale_type);
	const char *scales = w->scales;
	for (size_t g = 0; g < groups; g++)
		for (size_t r = 0; r < (size_t)n_rows; r++) {
			size_t row = (size_t)n0 + r;
			size_t at = is_k_major(w) ? g * (size_t)w->n + row
						  : row * groups + g;
			memcpy(panel + (g * ROWS + r) * size, scales + at * size, size);
		}
}

/* Zero point of a row's group. */
static int zero_of(const struct weight *w, size_t row, size_t g)
{
	const uint32_t *zeros = w->zero_points;
	int bits = quant_bits(w->quant);
	size_t groups = (size_t)(w->k / w->group), per_word = 32 / (size_t)bits;
	if (w->quant == QUANT_AWQ4)
		return blocks_nibble(&zeros[g * ((size_t)w->n / 8) + row / 8],
				     (size_t)blocks_awq_order((int)(row % 8)));
	if (is_k_major(w)) {
		int zero = blocks_integer(&zeros[g * ((size_t)w->n / per_word) +
						 row / per_word],
					  bits, row % per_word);
		return (zero + w->zero_step) & ((1 << bits) - 1);
	}
	return blocks_integer(&zeros[row / per_word * groups + g], bits, row % per_word);
}

static void fill_zeros(const struct weight *w, int32_t n0, int n_rows, uint8_t *zeros)
{
	for (size_t g = 0; g < (size_t)(w->k / w->group); g++)
		for (int r = 0; r < n_rows; r++)
			zeros[g * ROWS + (size_t)r] =
				(uint8_t)zero_of(w, (size_t)(n0 + r), g);
}

/* --- integers ------------------------------------------------------------------ */

/* Four words are 16 bytes of a row; words of 16 rows lie 64 bytes apart. */
static void fill_rows4(const struct weight *w, int32_t n0, int n_rows, uint32_t *out)
{
	size_t n_words = (size_t)w->k / 8;
	const uint32_t *q = (const uint32_t *)w->q + (size_t)n0 * n_words;
	for (size_t j = 0; j < n_words; j += 4)
		for (size_t r = 0; r < (size_t)n_rows; r++) {
			const uint32_t *in = q + r * n_words + j;
			out[(j + 0) * ROWS + r] = in[0];
			out[(j + 1) * ROWS + r] = in[1];
			out[(j + 2) * ROWS + r] = in[2];
			out[(j + 3) * ROWS + r] = in[3];
		}
}

/* Bytes 0 .. 7 to 0 2 4 6 and 1 3 5 7. */
static void put_bytes(const uint8_t *in, uint32_t *even, uint32_t *odd)
{
	*even = in[0] | (uint32_t)in[2] << 8 | (uint32_t)in[4] << 16 |
		(uint32_t)in[6] << 24;
	*odd = in[1] | (uint32_t)in[3] << 8 | (uint32_t)in[5] << 16 |
	       (uint32_t)in[7] << 24;
}

static void fill_rows8(const struct weight *w, int32_t n0, int n_rows, uint32_t *out)
{
	for (size_t r = 0; r < (size_t)n_rows; r++) {
		const uint8_t *q = (const uint8_t *)w->q +
				   ((size_t)n0 + r) * (size_t)w->k;
		for (size_t j = 0; j < (size_t)w->k / 8; j++)
			put_bytes(q + 8 * j, &out[2 * j * ROWS + r],
				  &out[(2 * j + 1) * ROWS + r]);
	}
}

/* AWQ: a word is eight rows of one column. */
static void fill_awq4(const struct weight *w, int32_t n0, int n_rows, uint32_t *out)
{
	size_t pitch = (size_t)w->n / 8;
	const uint32_t *q = (const uint32_t *)w->q + (size_t)n0 / 8;
	for (size_t j = 0; j < (size_t)w->k / 8; j++)
		for (size_t c = 0; c < 8; c++)
			for (size_t r = 0; r < (size_t)n_rows; r++) {
				uint32_t word = q[(8 * j + c) * pitch + r / 8];
				uint32_t v = (uint32_t)blocks_nibble(
					&word, (size_t)blocks_awq_order((int)(r % 8)));
				out[j * ROWS + r] |= v << 4 * c;
			}
}

static void fill_gptq4(const struct weight *w, int32_t n0, int n_rows, uint32_t *out)
{
	const uint32_t *q = (const uint32_t *)w->q + n0;
	for (size_t j = 0; j < (size_t)w->k / 8; j++)
		memcpy(out + j * ROWS, q + j * (size_t)w->n,
		       (size_t)n_rows * sizeof *out);
}

static void fill_gptq8(const struct weight *w, int32_t n0, int n_rows, uint32_t *out)
{
	const uint32_t *q = (const uint32_t *)w->q + n0;
	size_t pitch = (size_t)w->n;
	for (size_t j = 0; j < (size_t)w->k / 8; j++)
		for (size_t r = 0; r < (size_t)n_rows; r++) {
			uint32_t two[2] = {q[2 * j * pitch + r],
					   q[(2 * j + 1) * pitch + r]};
			put_bytes((const uint8_t *)two, &out[2 * j * ROWS + r],
				  &out[(2 * j + 1) * ROWS + r]);
		}
}

static void fill_panels(void *arg, int begin, int end)
{
	const struct fill *f = arg;
	const struct weight *w = f->w;
	for (int i = begin; i < end; i++) {
		uint8_t *panel = f->p->data + (size_t)i * f->p->panel_bytes;
		int32_t n0 = i * ROWS;
		int n_rows = MIN(ROWS, w->n - n0);
		uint32_t *q = (uint32_t *)(void *)(panel + f->p->at_q);
		if (n_rows < ROWS)
			memset(panel, 0, f->p->panel_bytes);
		fill_scales(w, n0, n_rows, panel);
		if (f->p->has_zero)
			fill_zeros(w, n0, n_rows, panel + f->p->at_zero);
		switch (w->quant) {
		case QUANT_INT4: fill_rows4(w, n0, n_rows, q); break;
		case QUANT_INT8: fill_rows8(w, n0, n_rows, q); break;
		case QUANT_AWQ4:
			memset(q, 0, (size_t)w->k * ROWS / 2);
			fill_awq4(w, n0, n_rows, q);
			break;
		case QUANT_GPTQ4: fill_gptq4(w, n0, n_rows, q); break;
		default: fill_gptq8(w, n0, n_rows, q); break;
		}
	}
}

void cpu_panels_fill(struct pool *pool, const struct weight *w,
		     const struct cpu_panels *p)
{
	struct fill f = {w, p};
	int grain = 1 + (1 << 15) / (int)p->panel_bytes;
	pool_for(pool, cpu_panels_count(p), grain, fill_panels, &f);
}
