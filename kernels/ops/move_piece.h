/* SPDX-License-Identifier: Apache-2.0
 *
 * An array of which each thing of move_pieces.h has a part. All numbers are bytes.
 */
#pragma once
#include <stdint.h>

struct move_piece {
	uint64_t first;  /* of the array, behind args.memory */
	uint64_t bytes;  /* of one thing in it */
	uint64_t offset; /* in a thing's part of the block */
};
