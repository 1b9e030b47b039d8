/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts weights from checkpoint layouts to panels: the choice of a panel form for each
 * format, and formats of plain integers. cpu_panels_codes.c converts the others.
 */
#include "backend/cpu/cpu_panels_fill.h"

#include <string.h>

#include "base/alloc.h"
#include "base/vec4.h"

enum { ROWS = CPU_PANEL_ROWS };

/* --- which form -------------------------------------------------------------------- */

/* Panel form and scaling of each format. Formats with a scale type of their own keep it. */
static const struct {
	enum cpu_form form; /* CPU_FORM_NONE: no panels */
	enum cpu_scaling scaling;
} table[QUANT_COUNT] = {
#define QUANT(ident, name, bits, reader, form, scaling, units) \
	[QUANT_##ident] = {CPU_FORM_##form, CPU_SCALING_##scaling},
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, form, scaling, units) \
	[QUANT_##ident] = {CPU_FORM_##form, CPU_SCALING_##scaling},
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};

/* Columns that share a scale in the panels; 0: the weight's own group. */
static int group_of(enum quant q)
{
	enum cpu_scaling s = table[q].scaling;
	bool is_own = s == CPU_SCALING_E8M0 || s == CPU_SCALING_E4M3 || quant_block(q);
	if (quant_block(q) && s == CPU_SCALING_FLOAT)
		return quant_block(q);
	return is_own ? cpu_form_sub(table[q].form) : 0;
}

/* Factor of all scales: the inverse of the factor by which a form's integers exceed the
 * format's numbers. */
static float factor_of(enum quant q)
{
	enum cpu_form f = table[q].form;
	if (f == CPU_FORM_GRID || f == CPU_FORM_IQ1 || f == CPU_FORM_IQ2)
		return 0.125f;
	if (f == CPU_FORM_IQ3_XXS)
		return 0.25f;
	if (f == CPU_FORM_NF4)
		return 0x1p-14f;
	return table[q].scaling == CPU_SCALING_E4M3 ? 0.5f : 1;
}

bool cpu_panels_can(const struct weight *w)
{
	bool is_k_dense = w->k_step == 0 && !w->pitch;
	if (table[w->quant].form == CPU_FORM_NONE || !is_k_dense)
		return false;
	if (w->quant == QUANT_BF16)
		return w->row_step <= 1 && w->k % 2 == 0;
	if (w->quant == QUANT_FP8)
		return w->row_step <= 1 && w->k % 4 == 0 && w->group % 4 == 0;
	if (group_of(w->quant))
		return w->k % MAX(32, group_of(w->quant)) == 0;
	return w->row_step <= 1 && w->k % 32 == 0 && w->group % 32 == 0 &&
	       w->k % w->group == 0;
}

static size_t aligned(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static bool has_supers(enum cpu_scaling s)
{
	return s == CPU_SCALING_SUPER || s == CPU_SCALING_PAIR || s == CPU_SCALING_GRID;
}

static size_t scale_bytes(const struct cpu_panels *p)
{
	if (p->scaling == CPU_SCALING_FLOAT)
		return dtype_bytes(p->scale_type);
	return p->scaling == CPU_SCALING_GRID || p->scaling == CPU_SCALING_NONE ? 0 : 1;
}

void cpu_panels_plan(const struct weight *w, struct cpu_panels *out)
{
	bool is_block = quant_block(w->quant);
	*out = (struct cpu_panels){
		.n = w->n, .k = w->k, .form = table[w->quant].form,
		.group = group_of(w->quant) ? group_of(w->quant) : w->group,
		.scaling = table[w->quant].scaling,
		.scale_type = is_block ? DTYPE_F16 : w->scale_type,
		.has_zero = w->zero_points, .has_nan_scale = w->quant == QUANT_MXFP4,
		.factor = factor_of(w->quant)};
	if (out->scaling == CPU_SCALING_E4M3)
		out->factor *= (float)blocks_factor(w);
	bool has_min = cpu_form_has_min(out->form) && out->scaling != CPU_SCALING_PAIR;
	size_t groups = 0, k = (size_t)w->k;
	if (out->form == CPU_FORM_BF16)
		k = 2 * cpu_pairs_of(w->k);
	else
		groups = DIV_UP(k, (size_t)out->group);
	size_t lows = out->has_zero ? 1 : has_min ? scale_bytes(out) : 0;
	size_t supers = has_supers(out->scaling) ? (size_t)w->k / 256 : 0;
	out->at_low = aligned(groups * ROWS * scale_bytes(out));
	out->at_super = out->at_low + aligned(groups * ROWS * lows);
	out->at_q = out->at_super +
		    aligned(supers * ROWS * (cpu_form_has_min(out->form) ? 4 : 2));
	out->panel_bytes = out->at_q + k * ROWS / 8 * (size_t)cpu_form_bits(out->form);
}

size_t cpu_panels_bytes(const struct cpu_panels *p)
{
	return (size_t)cpu_panels_count(p) * p->panel_bytes;
}

double cpu_panels_growth(enum quant q)
{
	static const uint32_t scales;
	struct weight w = {.quant = q, .n = 128, .k = 8192, .group = 128, .group_n = 128,
			   .scales = &scales, .scale_type = DTYPE_F16};
	struct cpu_panels p;
	if (!cpu_panels_can(&w))
		return 0;
	if (table[q].scaling == CPU_SCALING_NONE)
		w.scales = NULL;
	if (group_of(q))
		w.group = group_of(q);
	if (table[q].scaling == CPU_SCALING_E4M3 || table[q].scaling == CPU_SCALING_E8M0)
		w.scale_type = DTYPE_F8_E8M0;
	if (q != QUANT_FP8)
		w.group_n = 0;
	cpu_panels_plan(&w, &p);
	return (double)cpu_panels_bytes(&p) / (double)weight_bytes(&w);
}

/* --- scales and zero points ---------------------------------------------------- */

static bool is_k_major(const struct weight *w)
{
	return w->quant == QUANT_AWQ4 || w->quant == QUANT_GPTQ4 ||
	       w->quant == QUANT_GPTQ8;
}

/* Copy the scales of the first n_rows rows to to[(g, ROWS)]. */
#define DEFINE(type) \
	static void scales_##type(const type *from, size_t row_step, size_t group_step, \
				  size_t groups, size_t n_rows, type *to) \
	{ \
		for (size_t g = 0; g < groups; g++) \
			for (size_t r = 0; r < n_rows; r++) \
				to[g * ROWS + r] = from[g * group_step + r * row_step]; \
	}
DEFINE(uint16_t)
DEFINE(uint32_t)
#undef DEFINE

static void fill_scales(const struct weight *w, int32_t n0, int n_rows, uint8_t *panel)
{
	size_t groups = (size_t)(w->k / w->group), first = (size_t)n0;
	size_t row_step = is_k_major(w) ? 1 : groups;
	size_t group_step = is_k_major(w) ? (size_t)w->n : 1;
	if (dtype_bytes(w->scale_type) == 2)
		scales_uint16_t((const uint16_t *)w->scales + first * row_step, row_step,
				group_step, groups, (size_t)n_rows, (void *)panel);
	else
		scales_uint32_t((const uint32_t *)w->scales + first * row_step, row_step,
				group_step, groups, (size_t)n_rows, (void *)panel);
}

/* Zero point of group g in a row. */
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

/* Transpose four words of four rows. */
static void transpose_four(const uint8_t *in, size_t pitch, uint32_t *out)
{
	vec4i a, b, c, d;
	memcpy(&a, in, sizeof a);
	memcpy(&b, in + pitch, sizeof b);
	memcpy(&c, in + 2 * pitch, sizeof c);
	memcpy(&d, in + 3 * pitch, sizeof d);
	vec4i ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
	vec4i cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
	vec4i ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
	vec4i cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
	a = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
	b = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
	c = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
	d = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
	memcpy(out, &a, sizeof a);
	memcpy(out + ROWS, &b, sizeof b);
	memcpy(out + 2 * ROWS, &c, sizeof c);
	memcpy(out + 3 * ROWS, &d, sizeof d);
}

/* Copy words of rows unchanged. In a panel, successive words of a row are 64 bytes apart,
 * and 16 rows are interleaved. */
static void fill_words(const void *from, size_t n_words, int32_t n0, int n_rows,
		       uint32_t *out)
{
	size_t pitch = n_words * sizeof *out, rows = (size_t)n_rows;
	const uint8_t *q = (const uint8_t *)from + (size_t)n0 * pitch;
	for (size_t r = 0; r < rows; r += 4) {
		size_t j = 0;
		for (; r + 4 <= rows && j + 4 <= n_words; j += 4)
			transpose_four(q + r * pitch + j * sizeof *out, pitch,
				       out + j * ROWS + r);
		for (; j < n_words; j++)
			for (size_t i = r; i < MIN(r + 4, rows); i++)
				memcpy(out + j * ROWS + i,
				       q + i * pitch + j * sizeof *out, sizeof *out);
	}
}

static void fill_bf16(const struct weight *w, int32_t n0, int n_rows, uint32_t *out)
{
	size_t n_words = (size_t)w->k / 2;
	fill_words(w->q, n_words, n0, n_rows, out);
	if (n_words % 2)
		memset(out + n_words * ROWS, 0, ROWS * sizeof *out);
}

/* Divide bytes 0 .. 7 into 0 2 4 6 and 1 3 5 7. */
static void put_bytes(const void *in, uint32_t *even, uint32_t *odd)
{
	uint64_t v;
	memcpy(&v, in, sizeof v);
	*even = even_bytes(v);
	*odd = even_bytes(v >> 8);
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

/* AWQ: a word holds eight rows of one column. */
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
			put_bytes(two, &out[2 * j * ROWS + r],
				  &out[(2 * j + 1) * ROWS + r]);
		}
}

/* Columns in another order: each integer is looked up. */
static void fill_ordered(const struct weight *w, const struct cpu_panels *p, int32_t n0,
			 int n_rows, uint32_t *out)
{
	int bits = quant_bits(w->quant), per = 32 / bits;
	size_t n = (size_t)w->n, words = (size_t)(w->k / per);
	const uint32_t *q = w->q;
	uint32_t mask = (1u << bits) - 1;
	memset(out, 0, (size_t)p->k * ROWS * (size_t)bits / 8);
	for (int32_t i = 0; i < p->k; i++) {
		int32_t from = p->order[i];
		int c = i % 8, shift = from % per * bits;
		/* 8 bits: one word holds even columns, the next one odd columns */
		uint32_t *to = out + (bits == 4 ? i / 8 : i / 8 * 2 + c % 2) * ROWS;
		int at = bits == 4 ? 4 * c : c / 2 * 8;
		const uint32_t *in = is_k_major(w)
					     ? q + (size_t)(from / per) * n + n0
					     : q + (size_t)n0 * words + from / per;
		size_t step = is_k_major(w) ? 1 : words;
		for (size_t r = 0; r < (size_t)n_rows; r++)
			to[r] |= (in[r * step] >> shift & mask) << at;
	}
}

static void fill_integers(const struct fill *f, int32_t n0, int n_rows, uint8_t *panel)
{
	const struct weight *w = f->w;
	uint32_t *q = (uint32_t *)(void *)(panel + f->p->at_q);
	fill_scales(w, n0, n_rows, panel);
	if (f->p->has_zero)
		fill_zeros(w, n0, n_rows, panel + f->p->at_low);
	if (f->p->order) {
		fill_ordered(w, f->p, n0, n_rows, q);
		return;
	}
	switch (w->quant) {
	case QUANT_INT4: fill_words(w->q, (size_t)w->k / 8, n0, n_rows, q); break;
	case QUANT_INT8: fill_rows8(w, n0, n_rows, q); break;
	case QUANT_AWQ4:
		memset(q, 0, (size_t)w->k * ROWS / 2);
		fill_awq4(w, n0, n_rows, q);
		break;
	case QUANT_GPTQ4: fill_gptq4(w, n0, n_rows, q); break;
	default: fill_gptq8(w, n0, n_rows, q); break;
	}
}

/* --- a whole weight --------------------------------------------------------------- */

static void fill_panel(struct fill *f, int32_t i, uint8_t *panel)
{
	const struct weight *w = f->w;
	int32_t n0 = i * ROWS;
	int n_rows = MIN(ROWS, w->n - n0);
	if (n_rows < ROWS)
		memset(panel, 0, f->p->panel_bytes);
	if (quant_block(w->quant))
		cpu_panels_fill_blocks(f, n0, n_rows, panel);
	else if (w->quant == QUANT_NVFP4 || w->quant == QUANT_MXFP4)
		cpu_panels_fill_fp4(f, n0, n_rows, panel);
	else if (w->quant == QUANT_FP8)
		cpu_panels_fill_fp8(f, n0, n_rows, panel);
	else if (w->quant == QUANT_BF16)
		fill_bf16(w, n0, n_rows, (void *)panel);
	else
		fill_integers(f, n0, n_rows, panel);
}

static void fill_panels(void *arg, int begin, int end)
{
	struct fill *f = arg;
	for (int i = begin; i < end; i++)
		fill_panel(f, i, f->out + (size_t)i * f->p->panel_bytes);
}

bool cpu_panels_fill(struct pool *pool, const struct weight *w,
		     const struct cpu_panels *p, uint8_t *out)
{
	struct fill f = {.w = w, .p = p, .out = out};
	int grain = 1 + (1 << 15) / (int)p->panel_bytes;
	pool_for(pool, cpu_panels_count(p), grain, fill_panels, &f);
	return !atomic_load(&f.has_nan);
}

bool cpu_panels_fill_one(const struct weight *w, const struct cpu_panels *p, int32_t i,
			 uint8_t *out)
{
	struct fill f = {.w = w, .p = p};
	fill_panel(&f, i, out);
	return !atomic_load(&f.has_nan);
}
