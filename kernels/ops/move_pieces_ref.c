/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/move_pieces.h"

void move_pieces_ref(const struct move_pieces_args *a)
{
	for (int32_t i = 0; i < a->n; i++)
		for (int32_t p = 0; p < a->n_pieces; p++) {
			const struct move_piece *piece = &a->piece[p];
			char *apart = a->memory + piece->first +
				      (uint64_t)a->at[i] * piece->bytes;
			char *packed = a->block + (uint64_t)i * a->block_bytes + piece->offset;
			for (uint64_t k = 0; k < piece->bytes; k++)
				*(a->is_load ? apart + k : packed + k) =
					*(a->is_load ? packed + k : apart + k);
		}
}
