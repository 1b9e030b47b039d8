/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of tensors: element types, and the formats of packed weights.
 * model/formats/blocks.h describes the bits of each format. Thread: any.
 */
#pragma once
#include <stddef.h>

enum dtype {
	DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_U8, DTYPE_I16, DTYPE_I32,
	DTYPE_I64, DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_BOOL, DTYPE_F64, DTYPE_U16,
	DTYPE_U32, DTYPE_U64, DTYPE_F8_E8M0,
	DTYPE_F4,     /* e2m1, two numbers a byte; sizes count its bytes */
	DTYPE_BLOCKS, /* bytes of blocks of a GGUF format; never in safetensors */
	DTYPE_COUNT
};
size_t dtype_bytes(enum dtype t);
const char *dtype_name(enum dtype t); /* as in "BF16" */
/* The type with this name in safetensors headers, or DTYPE_COUNT if there is none. */
enum dtype dtype_find(const char *name);

enum quant {
#define QUANT(ident, ...) QUANT_##ident,
#define QUANT_BLOCK(ident, ...) QUANT_##ident,
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
	QUANT_COUNT
};
const char *quant_name(enum quant q); /* as in "int4" */
enum quant quant_plain(enum dtype t); /* format of a plain F32, F16 or BF16 tensor */
int quant_bits(enum quant q);         /* bits of one weight, without scales */
/* Number of weights in a block that holds its own scales, and the block's bytes. 0 for a
 * format without blocks. */
int quant_block(enum quant q);
size_t quant_block_bytes(enum quant q);
