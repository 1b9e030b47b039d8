/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/move_pieces.h"

void move_pieces_ref(const struct move_pieces_args *a)
{
	for (int32_t i = 0; i < a->n; i++)
		for (int32_t p = 0; p < a->n_pieces; p++) {
			char *apart = move_pieces_apart(a, p, i);
			char *packed = move_pieces_packed(a, p, i);
			for (uint64_t k = 0; k < a->piece[p].bytes; k++)
				*(a->is_load ? apart + k : packed + k) =
					*(a->is_load ? packed + k : apart + k);
		}
}
