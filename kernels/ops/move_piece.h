/* SPDX-License-Identifier: Apache-2.0
 *
 * One of the arrays in which each thing of move_pieces.h has a part. All numbers are bytes.
 */
#pragma once
#include <stdint.h>

struct move_piece {
	uint64_t first;  /* offset of the array from args.memory */
	uint64_t bytes;  /* of one thing's part in the array */
	uint64_t offset; /* offset of the part among a thing's bytes in the block */
};
