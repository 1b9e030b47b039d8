/* SPDX-License-Identifier: Apache-2.0
 *
 * Where rows of numbers lie in LDS, for the matrix tiles. A row has PIECES pieces of eight
 * halves, 16 bytes each, and rows follow each other. Within a row the pieces change places
 * by the row's number. So eight lanes meet eight different places of 128 bytes, whether
 * they read one piece of eight rows or write whole rows. No bytes are lost to padding.
 */
#pragma once

/* Index of a row's piece, in halves. PIECES is 4 or 8. */
template <int PIECES> DEVICE uint32_t tile_place(uint32_t row, uint32_t piece)
{
	static_assert(PIECES == 4 || PIECES == 8, "128 bytes are two rows or one");
	uint32_t swizzle = row / (8 / PIECES) % PIECES;
	return row * PIECES * 8 + (piece ^ swizzle) * 8;
}
