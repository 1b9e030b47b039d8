/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs things whose parts lie in several arrays into a block, or puts them back. Such a thing
 * is a page of the KV cache: each layer has an array of keys and one of values. One copy to or
 * from the host then moves many of them; a copy for each part would cost more than its bytes.
 *
 *   part p of thing i: piece[p].bytes bytes, at memory + piece[p].first + at[i] piece[p].bytes
 *   and in the block at i block_bytes + piece[p].offset
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/move_piece.h"

struct move_pieces_args {
	int32_t n, n_pieces;
	bool is_load;                   /* from the block to the arrays */
	char *memory;                   /* device address; no array begins before it */
	const struct move_piece *piece; /* (n_pieces) */
	const int32_t *at;              /* (n) numbers of the things, all different */
	char *block;                    /* (n, block_bytes) */
	uint64_t block_bytes;
};

/* Addresses of part p of thing i: in its own array, and in the block. */
static inline char *move_pieces_apart(const struct move_pieces_args *a, int32_t p, int32_t i)
{
	return a->memory + a->piece[p].first + (uint64_t)a->at[i] * a->piece[p].bytes;
}
static inline char *move_pieces_packed(const struct move_pieces_args *a, int32_t p, int32_t i)
{
	return a->block + (uint64_t)i * a->block_bytes + a->piece[p].offset;
}

void move_pieces_ref(const struct move_pieces_args *a);
