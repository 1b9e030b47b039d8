/* SPDX-License-Identifier: Apache-2.0 */
#include "model/dtype.h"

#include <string.h>

static const struct {
	const char *name;
	size_t n_bytes;
} types[DTYPE_COUNT] = {
	[DTYPE_F32] = {"F32", 4},         [DTYPE_F16] = {"F16", 2},
	[DTYPE_BF16] = {"BF16", 2},       [DTYPE_I8] = {"I8", 1},
	[DTYPE_U8] = {"U8", 1},           [DTYPE_I16] = {"I16", 2},
	[DTYPE_I32] = {"I32", 4},         [DTYPE_I64] = {"I64", 8},
	[DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [DTYPE_F8_E5M2] = {"F8_E5M2", 1},
	[DTYPE_BOOL] = {"BOOL", 1},       [DTYPE_F64] = {"F64", 8},
	[DTYPE_U16] = {"U16", 2},         [DTYPE_U32] = {"U32", 4},
	[DTYPE_U64] = {"U64", 8},         [DTYPE_F8_E8M0] = {"F8_E8M0", 1},
	[DTYPE_F4] = {"F4", 1},           [DTYPE_BLOCKS] = {"blocks", 1},
};

size_t dtype_bytes(enum dtype t)
{
	return types[t].n_bytes;
}

const char *dtype_name(enum dtype t)
{
	return t < DTYPE_COUNT ? types[t].name : "?";
}

enum dtype dtype_find(const char *name)
{
	for (enum dtype t = 0; t < DTYPE_COUNT; t++)
		if (strcmp(types[t].name, name) == 0)
			return t;
	return DTYPE_COUNT;
}

static const struct {
	const char *name;
	int bits, block, bytes;
} quants[QUANT_COUNT] = {
#define QUANT(ident, name, bits, ...) [QUANT_##ident] = {#name, bits, 0, 0},
#define QUANT_BLOCK(ident, name, bits, block, bytes, ...) \
	[QUANT_##ident] = {#name, bits, block, bytes},
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};

const char *quant_name(enum quant q)
{
	return q < QUANT_COUNT ? quants[q].name : "?";
}

int quant_bits(enum quant q)
{
	return quants[q].bits;
}

enum quant quant_plain(enum dtype t)
{
	return t == DTYPE_F32 ? QUANT_F32 : t == DTYPE_F16 ? QUANT_F16 : QUANT_BF16;
}

int quant_block(enum quant q)
{
	return quants[q].block;
}

size_t quant_block_bytes(enum quant q)
{
	return (size_t)quants[q].bytes;
}
