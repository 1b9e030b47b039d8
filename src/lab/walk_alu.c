/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of the operations in walk_ops.def: "RDNA3" Instruction Set Architecture,
 * chapter 16. Compiled integer divisions use v_rcp_f32 and then correct the quotient, so
 * the last bit of a reciprocal does not matter.
 */
#include "lab/walk_inst.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

static float as_float(uint32_t x)
{
	float f;
	memcpy(&f, &x, sizeof f);
	return f;
}

static uint32_t as_bits(float f)
{
	uint32_t x;
	memcpy(&x, &f, sizeof x);
	return x;
}

static uint32_t to_unsigned(float f)
{
	return f >= 4294967296.0f ? UINT32_MAX : f > 0 ? (uint32_t)f : 0;
}

static int32_t signed24(uint32_t x)
{
	return (int32_t)((x & 0xFFFFFF) ^ 0x800000) - 0x800000;
}

static int32_t median(int32_t a, int32_t b, int32_t c)
{
	return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

static uint32_t field(uint32_t a, uint32_t at, uint32_t n, bool is_signed)
{
	if (n == 0)
		return 0;
	uint32_t x = at < 32 ? a >> at : 0;
	uint32_t mask = n < 32 ? (1u << n) - 1 : UINT32_MAX;
	uint32_t sign = is_signed && n < 32 ? 1u << (n - 1) : 0;
	return ((x & mask) ^ sign) - sign;
}

static uint32_t float_alu(enum walk_op op, uint32_t a, uint32_t b, uint32_t c)
{
	float x = as_float(a), y = as_float(b), z = as_float(c);
	switch ((int)op) {
	case WALK_OP_F_OF_U: return as_bits((float)a);
	case WALK_OP_F_OF_I: return as_bits((float)(int32_t)a);
	case WALK_OP_U_OF_F: return to_unsigned(x);
	case WALK_OP_RCP: return as_bits(1 / x);
	case WALK_OP_TRUNC: return as_bits(truncf(x));
	case WALK_OP_F_MUL: return as_bits(x * y);
	case WALK_OP_F_ADD: return as_bits(x + y);
	case WALK_OP_F_SUB: return as_bits(x - y);
	case WALK_OP_F_MAX: return as_bits(fmaxf(x, y));
	default: return as_bits(fmaf(x, y, z));
	}
}

static uint32_t three_alu(enum walk_op op, uint32_t a, uint32_t b, uint32_t c)
{
	switch ((int)op) {
	case WALK_OP_MAD24_U: return (a & 0xFFFFFF) * (b & 0xFFFFFF) + c;
	case WALK_OP_MAD24_I:
		return (uint32_t)signed24(a) * (uint32_t)signed24(b) + c;
	case WALK_OP_MED_I: return (uint32_t)median((int32_t)a, (int32_t)b, (int32_t)c);
	case WALK_OP_BFI: return (a & b) | (~a & c);
	case WALK_OP_AND_OR: return (a & b) | c;
	case WALK_OP_OR3: return a | b | c;
	case WALK_OP_ADD3: return a + b + c;
	case WALK_OP_SHL_ADD: return (a << (b & 31)) + c;
	case WALK_OP_SHL_OR: return (a << (b & 31)) | c;
	case WALK_OP_ADD_SHL: return (a + b) << (c & 31);
	case WALK_OP_XOR_ADD: return (a ^ b) + c;
	case WALK_OP_ALIGN:
		return (uint32_t)(((uint64_t)a << 32 | b) >> (c & 31));
	case WALK_OP_SHL16_REV: return (b << (a & 15)) & 0xFFFF;
	case WALK_OP_SHR16_REV: return (b & 0xFFFF) >> (a & 15);
	case WALK_OP_SAR16_REV: return (uint32_t)((int16_t)b >> (a & 15)) & 0xFFFF;
	case WALK_OP_ADD16: return (a + b) & 0xFFFF;
	case WALK_OP_SUB16: return (a - b) & 0xFFFF;
	case WALK_OP_MUL16: return (a & 0xFFFF) * (b & 0xFFFF) & 0xFFFF;
	default: return float_alu(op, a, b, c);
	}
}

static uint32_t with_carry(enum walk_op op, uint32_t a, uint32_t b, bool *carry)
{
	uint64_t in = *carry && (op == WALK_OP_ADDC || op == WALK_OP_SUBB);
	bool is_sum = op == WALK_OP_ADD || op == WALK_OP_ADDC;
	uint64_t x = is_sum ? (uint64_t)a + b + in : (uint64_t)a - b - in;
	*carry = x >> 32 != 0;
	return (uint32_t)x;
}

uint32_t walk_alu(enum walk_op op, uint32_t a, uint32_t b, uint32_t c, bool *carry)
{
	int32_t i = (int32_t)a, j = (int32_t)b;
	switch ((int)op) {
	case WALK_OP_MOV: return a;
	case WALK_OP_ADD:
	case WALK_OP_ADDC:
	case WALK_OP_SUB:
	case WALK_OP_SUBB: return with_carry(op, a, b, carry);
	case WALK_OP_SUBREV: return b - a;
	case WALK_OP_AND: return a & b;
	case WALK_OP_OR: return a | b;
	case WALK_OP_XOR: return a ^ b;
	case WALK_OP_NOT: return ~a;
	case WALK_OP_AND_NOT: return a & ~b;
	case WALK_OP_OR_NOT: return a | ~b;
	case WALK_OP_SHL: return a << (b & 31);
	case WALK_OP_SHR: return a >> (b & 31);
	case WALK_OP_SAR: return (uint32_t)(i >> (b & 31));
	case WALK_OP_SHL_REV: return b << (a & 31);
	case WALK_OP_SHR_REV: return b >> (a & 31);
	case WALK_OP_SAR_REV: return (uint32_t)(j >> (a & 31));
	case WALK_OP_MUL: return a * b;
	case WALK_OP_MUL_HI_U: return (uint32_t)((uint64_t)a * b >> 32);
	case WALK_OP_MUL_HI_I: return (uint32_t)((int64_t)i * j >> 32);
	case WALK_OP_MUL24_U: return (a & 0xFFFFFF) * (b & 0xFFFFFF);
	case WALK_OP_MUL24_I: return (uint32_t)signed24(a) * (uint32_t)signed24(b);
	case WALK_OP_MUL24_HI_U:
		return (uint32_t)((uint64_t)(a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32);
	case WALK_OP_MIN_I: *carry = i < j; return (uint32_t)MIN(i, j);
	case WALK_OP_MAX_I: *carry = i > j; return (uint32_t)MAX(i, j);
	case WALK_OP_MIN_U: *carry = a < b; return MIN(a, b);
	case WALK_OP_MAX_U: *carry = a > b; return MAX(a, b);
	case WALK_OP_ABS: return i < 0 ? 0 - a : a;
	case WALK_OP_BFE_U: return field(a, b & 31, c & 31, false);
	case WALK_OP_BFE_I: return field(a, b & 31, c & 31, true);
	case WALK_OP_BITS: return (uint32_t)__builtin_popcount(a) + b;
	case WALK_OP_BITS_ONE: return (uint32_t)__builtin_popcount(a);
	default: return three_alu(op, a, b, c);
	}
}

uint64_t walk_alu64(enum walk_op op, uint64_t a, uint64_t b, uint64_t c)
{
	switch ((int)op) {
	case WALK_OP_SHL64: return a << (b & 63);
	case WALK_OP_SHR64: return a >> (b & 63);
	case WALK_OP_SHL64_REV: return b << (a & 63);
	case WALK_OP_SHR64_REV: return b >> (a & 63);
	case WALK_OP_MAD64_U: return (uint64_t)(uint32_t)a * (uint32_t)b + c;
	case WALK_OP_MAD64_I:
		return (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + c;
	default: return a;
	}
}

static bool by_order(enum walk_cmp how, int order)
{
	switch (how) {
	case CMP_LT: return order < 0;
	case CMP_EQ: return order == 0;
	case CMP_LE: return order <= 0;
	case CMP_GT: return order > 0;
	case CMP_LG: return order != 0;
	case CMP_GE: return order >= 0;
	case CMP_O: return true;
	default: return false;
	}
}

bool walk_compare(enum walk_cmp how, char type, uint64_t a, uint64_t b, int n_bytes)
{
	if (type == 'f') {
		float x = as_float((uint32_t)a), y = as_float((uint32_t)b);
		return by_order(how, x < y ? -1 : x > y);
	}
	if (type == 'i') {
		int64_t x = n_bytes == 8 ? (int64_t)a : n_bytes == 2 ? (int16_t)a : (int32_t)a;
		int64_t y = n_bytes == 8 ? (int64_t)b : n_bytes == 2 ? (int16_t)b : (int32_t)b;
		return by_order(how, x < y ? -1 : x > y);
	}
	uint64_t mask = n_bytes == 2 ? 0xFFFF : UINT64_MAX;
	return by_order(how, (a & mask) < (b & mask) ? -1 : (a & mask) > (b & mask));
}
