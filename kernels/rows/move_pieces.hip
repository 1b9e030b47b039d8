/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/move_pieces.h
 * LAYOUT    arrays of parts anywhere behind `memory`; the block (n, block_bytes)
 * GEOMETRY  workgroups of 256 threads: (parts, things); 16 bytes a thread and iteration, or single
 *           bytes if a number is not a multiple of 16
 * PRECISION copies bytes
 * ROOFLINE  reads and writes the block once: 8 MiB, which is a small part of the copy to or
 *           from the host beside it
 * TRIED     a copy command for each part: 96 of 16 KB for a page of Qwen3-30B-A3B. On an
 *           NVIDIA H100 a page takes 0.55 ms in this way, and its bytes 0.03 ms
 * SEE       kernels/ops/move_pieces_ref.c
 */
#include "kernels/device/dialect.h"
#include "kernels/ops/move_piece.h"

enum { MOVE_PIECES_THREADS = 256 };

KERNEL(MOVE_PIECES_THREADS)
void move_pieces_kernel(const struct move_piece *piece, const int32_t *at, char *memory,
			char *block, uint64_t block_bytes, int32_t is_load)
{
	struct move_piece p = piece[group_index_x()];
	uint32_t i = group_index_y();
	char *apart = memory + p.first + (uint64_t)at[i] * p.bytes;
	char *packed = block + (uint64_t)i * block_bytes + p.offset;
	const char *from = is_load ? packed : apart;
	char *to = is_load ? apart : packed;
	if (((p.first | p.bytes | p.offset | block_bytes) & 15) == 0) {
		for (uint64_t k = thread_index() * 16; k < p.bytes; k += MOVE_PIECES_THREADS * 16)
			*(u32x4 *)(to + k) = *(const u32x4 *)(from + k);
		return;
	}
	for (uint64_t k = thread_index(); k < p.bytes; k += MOVE_PIECES_THREADS)
		to[k] = from[k];
}
