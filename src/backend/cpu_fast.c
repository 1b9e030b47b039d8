/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cpu_fast.h"

#include "base/alloc.h"

/* Up to so many columns activations are rounded to twice the bits, in two planes: models
 * that narrow are upset by one, and have the time. */
enum { FINE_K = 512 };

static const struct cpu_isa *isa_of(const struct backend *b)
{
	return ((const struct cpu *)b)->isa;
}

struct cpu_way cpu_way_of(const struct backend *b, const struct weight *w,
			  bool is_precise)
{
	const struct cpu_isa *isa = isa_of(b);
	if (!isa)
		return (struct cpu_way){CPU_PATH_TILE, CPU_F32, 1};
	if (w->packed)
		return (struct cpu_way){CPU_PATH_PANEL, CPU_F32,
					w->k <= FINE_K ? 2 : 1};
	if (!weight_is_dense(w) || w->pitch)
		return (struct cpu_way){CPU_PATH_TILE, CPU_F32, 1};
	switch (w->quant) {
	case QUANT_F32: return (struct cpu_way){CPU_PATH_DOT, CPU_F32, 1};
	case QUANT_F16: return (struct cpu_way){CPU_PATH_DOT, CPU_F16, 1};
	case QUANT_BF16:
		if (isa->has_bf16_pairs && !is_precise)
			return (struct cpu_way){CPU_PATH_DOT, CPU_BF16_PAIRS,
						w->k <= FINE_K ? 2 : 1};
		return (struct cpu_way){CPU_PATH_DOT, CPU_BF16, 1};
	default: return (struct cpu_way){CPU_PATH_TILE, CPU_F32, 1};
	}
}

size_t cpu_fast_input_bytes(const struct backend *b, struct cpu_way way, int32_t k)
{
	const struct cpu_isa *isa = isa_of(b);
	if (way.path == CPU_PATH_PANEL)
		return (size_t)(k / CPU_BLOCK) * (size_t)isa->tile_words * 4 *
		       (size_t)way.planes;
	return isa->input_bytes(way.number, k) * (size_t)way.planes;
}

void cpu_fast_prepare(const struct backend *b, struct cpu_way way, int32_t k,
		      const float *const *x, int n_x, void *tile)
{
	const struct cpu_isa *isa = isa_of(b);
	if (way.path == CPU_PATH_PANEL) {
		isa->quantize(x, n_x, k, way.planes, tile);
		return;
	}
	size_t pitch = isa->input_bytes(way.number, k);
	char *out = tile;
	for (int j = 0; j < n_x; j++)
		for (int plane = 0; plane < way.planes; plane++, out += pitch)
			isa->input(way.number, plane, x[j], k, out);
}

static void dot_block(const struct cpu_isa *isa, enum cpu_number number,
		      const struct weight *w, int32_t n0, const char *tile, int n_x,
		      float (*out)[CPU_PANEL_ROWS])
{
	size_t pitch = isa->input_bytes(number, w->k);
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
				  w->k, sums);
			for (int j = 0; j < m; j++)
				memcpy(&out[j0 + j][r0], sums[j], sizeof sums[j]);
		}
	}
}

static void run_block(const struct cpu_isa *isa, struct cpu_way way,
		      const struct weight *w, int32_t i, const void *tile, int n_x,
		      float (*out)[CPU_PANEL_ROWS])
{
	if (way.path == CPU_PATH_PANEL)
		isa->panel(w->packed, i, tile, n_x, out);
	else
		dot_block(isa, way.number, w, i * CPU_PANEL_ROWS, tile, n_x, out);
}

void cpu_fast_block(const struct backend *b, struct cpu_way way,
		    const struct weight *w, int32_t i, const void *tile, int n_x,
		    float (*out)[CPU_PANEL_ROWS])
{
	if (way.planes == 1) {
		run_block(isa_of(b), way, w, i, tile, n_x, out);
		return;
	}
	float planes[CPU_TOK][CPU_PANEL_ROWS];
	run_block(isa_of(b), way, w, i, tile, 2 * n_x, planes);
	for (int j = 0; j < n_x; j++)
		for (int r = 0; r < CPU_PANEL_ROWS; r++)
			out[j][r] = planes[2 * j][r] + planes[2 * j + 1][r];
}
