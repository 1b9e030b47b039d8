/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cpu/cpu_fast.h"

#include "base/alloc.h"

/* Weights of at most so many columns take activations rounded to twice the bits, in two
 * planes. Models with so few columns lose precision with one plane, and can afford the time. */
enum { FINE_K = 512 };

static const struct cpu_isa *isa_of(const struct backend *b)
{
	return ((const struct cpu *)b)->isa;
}

static struct cpu_way dot_way(enum cpu_number number)
{
	return (struct cpu_way){.path = CPU_PATH_DOT, .number = number, .planes = 1};
}

struct cpu_way cpu_way_of(const struct backend *b, const struct weight *w)
{
	const struct cpu_isa *isa = isa_of(b);
	if (!isa)
		return (struct cpu_way){.planes = 1};
	const struct cpu_panels *p = w->packed;
	if (p && (p->form == CPU_FORM_E4M3 || p->form == CPU_FORM_BF16))
		return (struct cpu_way){
			.path = CPU_PATH_WIDE,
			.planes = isa->has_bf16_pairs && w->k <= FINE_K ? 2 : 1};
	if (p)
		return (struct cpu_way){
			.path = CPU_PATH_PANEL, .planes = w->k <= FINE_K ? 2 : 1,
			.is_halved = cpu_form_sub(p->form) == 16, .order = p->order,
			.in_scale = w->in_scale};
	if (!weight_is_dense(w) || w->pitch)
		return (struct cpu_way){.planes = 1};
	switch (w->quant) {
	case QUANT_F32: return dot_way(CPU_F32);
	case QUANT_F16: return dot_way(CPU_F16);
	case QUANT_BF16: return dot_way(CPU_BF16);
	default: return (struct cpu_way){.planes = 1};
	}
}

size_t cpu_fast_input_bytes(const struct backend *b, struct cpu_way way, int32_t k)
{
	const struct cpu_isa *isa = isa_of(b);
	if (way.path == CPU_PATH_PANEL)
		return (size_t)(k / CPU_BLOCK) * 4 * (size_t)way.planes *
		       (size_t)(isa->q_words + (way.is_halved ? 3 : 2));
	if (way.path == CPU_PATH_WIDE)
		return cpu_pairs_of(k) * (isa->has_bf16_pairs ? 4 : 8) *
		       (size_t)way.planes;
	return isa->input_bytes(k);
}

void cpu_fast_prepare(const struct backend *b, struct cpu_way way, int32_t k,
		      const float *const *x, int n_x, void *tile)
{
	const struct cpu_isa *isa = isa_of(b);
	if (way.path == CPU_PATH_PANEL) {
		struct cpu_rounding r = {k, way.planes, way.is_halved, way.order,
					   way.in_scale};
		isa->quantize(&r, x, n_x, tile);
		return;
	}
	if (way.path == CPU_PATH_WIDE) {
		isa->spread(x, n_x, k, way.planes, tile);
		return;
	}
	for (int j = 0; j < n_x; j++)
		isa->input(x[j], k, (char *)tile + isa->input_bytes(k) * (size_t)j);
}

/* Multiply one block of rows by one tile. is_first: no earlier tile has used these rows,
 * so they come from memory, and the next rows are prefetched during the first inputs. */
static void dot_block(const struct cpu_isa *isa, enum cpu_number number,
		      const struct weight *w, int32_t n0, const char *tile, int n_x,
		      bool is_first, float (*out)[CPU_PANEL_ROWS])
{
	size_t pitch = isa->input_bytes(w->k);
	size_t row_bytes = (size_t)w->k * (number == CPU_F32 ? 4 : 2);
	int n_rows = MIN(CPU_PANEL_ROWS, w->n - n0);
	for (int r0 = 0; r0 < n_rows; r0 += CPU_DOT_ROWS) {
		const void *row[CPU_DOT_ROWS];
		int n = MIN(CPU_DOT_ROWS, n_rows - r0);
		for (int r = 0; r < n; r++)
			row[r] = (const char *)w->q + (size_t)(n0 + r0 + r) * row_bytes;
		for (int j0 = 0; j0 < n_x; j0 += CPU_DOT_TOK) {
			float sums[CPU_DOT_TOK][CPU_DOT_ROWS];
			int m = MIN(CPU_DOT_TOK, n_x - j0);
			isa->dots(number, row, n, tile + pitch * (size_t)j0, pitch, m,
				  w->k, is_first && j0 == 0, sums);
			for (int j = 0; j < m; j++)
				memcpy(&out[j0 + j][r0], sums[j], sizeof sums[j]);
		}
	}
}

/* Here the tiles count places, not inputs: an input with two planes takes two places. */
static void run_block(const struct cpu_isa *isa, struct cpu_way way,
		      const struct weight *w, int32_t i, const struct cpu_tiles *tiles,
		      float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	if (way.path != CPU_PATH_DOT) {
		isa->panel(w->packed, i, tiles, out);
		return;
	}
	const char *at = tiles->at;
	for (int t = 0; t < tiles->n; t++) {
		dot_block(isa, way.number, w, i * CPU_PANEL_ROWS, at, tiles->n_x[t],
			  t == 0, out[t]);
		at += (size_t)tiles->n_x[t] * isa->input_bytes(w->k);
	}
}

void cpu_fast_block(const struct backend *b, struct cpu_way way,
		    const struct weight *w, int32_t i, const struct cpu_tiles *tiles,
		    float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	if (way.planes == 1) {
		run_block(isa_of(b), way, w, i, tiles, out);
		return;
	}
	struct cpu_tiles both = *tiles;
	for (int t = 0; t < tiles->n; t++)
		both.n_x[t] *= 2;
	run_block(isa_of(b), way, w, i, &both, out);
	for (int t = 0; t < tiles->n; t++) /* adds the planes in place: no sum is
					    * overwritten before use */
		for (int j = 0; j < tiles->n_x[t]; j++)
			for (int r = 0; r < CPU_PANEL_ROWS; r++)
				out[t][j][r] = out[t][2 * j][r] + out[t][2 * j + 1][r];
}
