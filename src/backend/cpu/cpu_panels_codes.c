/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts GGUF's block formats, e2m1 formats and FP8 to panels.
 *
 * blocks_split unpacks a block to integers. Each integer is converted to the code of the
 * panel's form, and eight codes at a time are packed into the panel's words.
 */
#include "backend/cpu/cpu_panels_fill.h"

#include <string.h>

#include "base/alloc.h"

enum { ROWS = CPU_PANEL_ROWS, BLOCK = 32 };

/* --- codes to words --------------------------------------------------------------- */

/* Pack eight codes (a byte each, below 2^bits) in pairs: the first in the low bits. */
static uint32_t pairs(const uint8_t *codes, int shift, int bits)
{
	uint64_t v;
	memcpy(&v, codes, sizeof v);
	v = v >> shift & 0x0101010101010101u * (uint64_t)((1 << bits) - 1);
	return even_bytes(v | v >> (8 - bits));
}

static void put_nibbles(const uint8_t *codes, uint32_t *out)
{
	for (int i = 0; i < 4; i++)
		out[i * ROWS] = pairs(codes + 8 * i, 0, 4);
}

static void put_two_bits(const uint8_t *codes, int shift, uint32_t *out)
{
	for (int i = 0; i < 2; i++)
		out[i * ROWS] = pairs(codes + 16 * i, shift, 2) |
				pairs(codes + 16 * i + 8, shift, 2) << 4;
}

static void put_bits(const uint8_t *codes, int shift, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++)
		*out |= pairs(codes + 8 * i, shift, 1) << 2 * i;
}

static void put_bytes(const uint8_t *codes, uint32_t *out)
{
	for (int i = 0; i < 4; i++) {
		uint64_t v;
		memcpy(&v, codes + 8 * i, sizeof v);
		out[2 * i * ROWS] = even_bytes(v);
		out[(2 * i + 1) * ROWS] = even_bytes(v >> 8);
	}
}

/* Pack 32 columns of a row; out: the row's place in the panel. */
static void put_codes(enum cpu_form f, const uint8_t *codes, uint32_t *out)
{
	switch (cpu_form_bits(f)) {
	case 8: put_bytes(codes, out); break;
	case 4: put_nibbles(codes, out); break;
	case 5:
		put_nibbles(codes, out);
		put_bits(codes, 4, out + 4 * ROWS);
		break;
	case 6:
		put_nibbles(codes, out);
		put_two_bits(codes, 4, out + 4 * ROWS);
		break;
	case 3:
		put_two_bits(codes, 0, out);
		put_bits(codes, 2, out + 2 * ROWS);
		break;
	default: put_two_bits(codes, 0, out); break;
	}
}

/* --- blocks ----------------------------------------------------------------------- */

/* Codes of fewer values than 16 have zeros at the end. */
static const int8_t *values_of(enum cpu_form f)
{
	static const int8_t iq1[16] = {-9, -7, -1, 1, 7, 9};
	static const int8_t iq2[16] = {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43};
	static const int8_t iq3_xxs[16] = {4, 12, 20, 28, 36, 44, 52, 62,
					   -4, -12, -20, -28, -36, -44, -52, -62};
	static const int8_t iq3_s[16] = {1, 3, 5, 7, 9, 11, 13, 15,
					 -1, -3, -5, -7, -9, -11, -13, -15};
	switch (f) {
	case CPU_FORM_IQ4: return blocks_iq4;
	case CPU_FORM_NF4: return blocks_nf4;
	case CPU_FORM_IQ1: return iq1;
	case CPU_FORM_IQ2: return iq2;
	case CPU_FORM_IQ3_XXS: return iq3_xxs;
	case CPU_FORM_IQ3_S: return iq3_s;
	default: return NULL;
	}
}

static bool is_e2m1(enum cpu_form f)
{
	return f == CPU_FORM_E2M1 || f == CPU_FORM_E2M1_16;
}

/* For forms with a value table: the code of each value, indexed by the value as a byte. */
static void codes_of(enum cpu_form f, uint8_t out[256])
{
	static const int8_t twice[8] = {0, 1, 2, 3, 4, 6, 8, 12};
	const int8_t *values = values_of(f);
	for (int i = 15; i >= 0 && values; i--)
		out[(uint8_t)values[i]] = (uint8_t)i;
	for (int i = 0; i < 8 && is_e2m1(f); i++) {
		out[(uint8_t)-twice[i]] = (uint8_t)(8 + i);
		out[(uint8_t)twice[i]] = (uint8_t)i;
	}
}

/* Convert 32 integers from blocks_split to codes. */
static void encode(enum cpu_form f, const uint8_t table[256], const int8_t *q,
		   uint8_t *codes)
{
	static const uint8_t zeros[CPU_FORM_COUNT] = {
		[CPU_FORM_4] = 8, [CPU_FORM_8] = 128, [CPU_FORM_5] = 16,
		[CPU_FORM_6] = 32, [CPU_FORM_3] = 4};
	uint8_t zero = zeros[f];
	if (values_of(f) || is_e2m1(f))
		for (int i = 0; i < BLOCK; i++)
			codes[i] = table[(uint8_t)q[i]];
	else
		for (int i = 0; i < BLOCK; i++)
			codes[i] = (uint8_t)((uint8_t)q[i] + zero);
}

static void put_half(uint8_t *out, size_t i, uint16_t half)
{
	memcpy(out + 2 * i, &half, sizeof half);
}

/* Store the scales of block b, which belongs to row r. */
static void put_scales(const struct cpu_panels *p, const struct block_parts *parts,
		       size_t b, size_t r, uint8_t *panel)
{
	uint8_t *lows = panel + p->at_low, *supers = panel + p->at_super;
	bool has_min = cpu_form_has_min(p->form);
	if (p->scaling == CPU_SCALING_FLOAT) {
		put_half(panel, b * ROWS + r, parts->d);
		if (has_min) /* blocks_split adds minima, panels subtract them: flip the sign */
			put_half(lows, b * ROWS + r, parts->m ^ 0x8000);
		return;
	}
	size_t n = (size_t)(parts->n / parts->n_sub), at_min = (size_t)p->k / 256 * ROWS;
	for (size_t i = 0; i < n && p->scaling == CPU_SCALING_E4M3; i++)
		panel[(b * n + i) * ROWS + r] = (uint8_t)parts->s[i];
	if (p->scaling == CPU_SCALING_E4M3)
		return;
	put_half(supers, b * ROWS + r, parts->d);
	if (has_min)
		put_half(supers, at_min + b * ROWS + r, parts->m);
	for (size_t i = 0; i < n && p->scaling != CPU_SCALING_GRID; i++) {
		size_t at = (b * n + i) * ROWS + r;
		panel[at] = (uint8_t)parts->s[i];
		if (p->scaling == CPU_SCALING_PAIR)
			panel[at] |= (uint8_t)(parts->least[i] << 4);
		else if (has_min)
			lows[at] = parts->least[i];
	}
}

/* IQ2_XXS: copy the file's words for each 32 columns. */
static void put_grid(const uint8_t *block, uint32_t *out)
{
	for (int i = 0; i < 16; i++)
		memcpy(out + i * ROWS, block + 2 + 4 * i, sizeof *out);
}

void cpu_panels_fill_blocks(struct fill *f, int32_t n0, int n_rows, uint8_t *panel)
{
	const struct weight *w = f->w;
	const struct cpu_panels *p = f->p;
	size_t n = (size_t)quant_block(w->quant), size = quant_block_bytes(w->quant);
	size_t step = weight_row_bytes(w) * (size_t)MAX(w->row_step, 1);
	size_t words = (size_t)cpu_form_bits(p->form) * ROWS; /* words for 32 columns */
	uint8_t table[256] = {0}, codes[BLOCK];
	struct block_parts parts;
	codes_of(p->form, table);
	for (size_t r = 0; r < (size_t)n_rows; r++) {
		const uint8_t *row = (const uint8_t *)w->q + ((size_t)n0 + r) * step;
		uint32_t *q = (uint32_t *)(void *)(panel + p->at_q) + r;
		for (size_t b = 0; b < (size_t)w->k / n; b++) {
			const uint8_t *block = row + b * size;
			blocks_split(w->quant, block, &parts);
			if (p->scaling == CPU_SCALING_E8M0)
				panel[b * ROWS + r] = block[0];
			else
				put_scales(p, &parts, b, r, panel);
			if (p->form == CPU_FORM_GRID)
				put_grid(block, q + b * (n / BLOCK) * words);
			for (size_t i = 0; i < n && p->form != CPU_FORM_GRID; i += BLOCK) {
				encode(p->form, table, parts.q + i, codes);
				put_codes(p->form, codes, q + (b * n + i) / BLOCK * words);
			}
		}
	}
}

/* --- e2m1 and e4m3 ---------------------------------------------------------------- */

/* A word of the weight holds eight columns of four bits, the first in the lowest bits.
 * The panel holds the same words, so they are copied. */
void cpu_panels_fill_fp4(struct fill *f, int32_t n0, int n_rows, uint8_t *panel)
{
	const struct weight *w = f->w;
	size_t groups = (size_t)(w->k / f->p->group), row_bytes = (size_t)w->k / 2;
	for (size_t r = 0; r < (size_t)n_rows; r++) {
		size_t row = ((size_t)n0 + r) * (size_t)MAX(w->row_step, 1);
		const uint8_t *q = (const uint8_t *)w->q + row * row_bytes;
		const uint8_t *scales = (const uint8_t *)w->scales + row * groups;
		uint32_t *out = (uint32_t *)(void *)(panel + f->p->at_q) + r;
		for (size_t g = 0; g < groups; g++)
			panel[g * ROWS + r] = scales[g];
		for (size_t i = 0; i < row_bytes / 4; i++)
			memcpy(out + i * ROWS, q + 4 * i, sizeof *out);
	}
}

void cpu_panels_fill_fp8(struct fill *f, int32_t n0, int n_rows, uint8_t *panel)
{
	const struct weight *w = f->w;
	size_t groups = (size_t)DIV_UP(w->k, w->group);
	size_t size = dtype_bytes(w->scale_type);
	uint32_t has_nan = 0;
	for (size_t r = 0; r < (size_t)n_rows; r++) {
		size_t row = (size_t)n0 + r;
		const uint8_t *q = (const uint8_t *)w->q + row * (size_t)w->k;
		const char *scales = (const char *)w->scales +
				     row / (size_t)w->group_n * groups * size;
		uint32_t *out = (uint32_t *)(void *)(panel + f->p->at_q) + r;
		for (size_t g = 0; g < groups; g++)
			memcpy(panel + (g * ROWS + r) * size, scales + g * size, size);
		for (size_t i = 0; i < (size_t)w->k / 4; i++) {
			uint32_t v;
			memcpy(&v, q + 4 * i, sizeof v);
			/* NaN, a byte of 0x7F without its sign, carries into the sign bit */
			has_nan |= ((v & 0x7F7F7F7Fu) + 0x01010101u) & 0x80808080u;
			out[i * ROWS] = (v & 0xFF0000FFu) | (v << 8 & 0x00FF0000u) |
					(v >> 8 & 0x0000FF00u);
		}
	}
	if (has_nan)
		atomic_store(&f->has_nan, true);
}
