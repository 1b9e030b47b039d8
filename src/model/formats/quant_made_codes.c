/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts integers and small floats that no format of ours can read in place to a format of
 * ours, exactly, when the checkpoint is opened. A layer X has N outputs and K inputs.
 *
 *   LLM.int8 X.weight I8 (N, K), X.SCB F32 (N); the weight is q SCB / 127.
 *   bytes    of compressed-tensors ("int-quantized") and Quark: X.weight I8 (N, K),
 *            X.weight_scale: one number, N, (N, K/G), or one for R rows by G columns;
 *            X.weight_zero_point I8, as many as scales, if asymmetric.
 *            Up to 4 bits become INT4, more become INT8.
 *   stream   of compressed-tensors, B = 2, 3, 5, 6 or 7 bits: X.weight_packed I32 (N, K B/32),
 *            bit k B of a row and the next ones hold v + 2^(B-1); X.weight_zero_point I32
 *            (N B/32, K/G), the same along the rows. Becomes INT4 or INT8.
 *   GPTQ     of 2, 3, 5, 6 or 7 bits: X.qweight I32 (K B/32, N), X.qzeros I32 (K/G, N B/32),
 *            both without gaps. Becomes GPTQ4 or GPTQ8.
 *   Quark    4 bits: X.weight I32 (K, N/8), eight outputs a word, in AWQ's order or in their
 *            own; X.weight_scale (K/G, N); X.weight_zero_point I32 (K/G, N/8). int4 is two's
 *            complement, uint4 is not. Becomes AWQ4.
 *   ModelOpt W4A16_AWQ, W4A8_AWQ: X.weight U8 (N/2, K), output 2i in the low bits and 2i + 1 above,
 *            in two's complement; X.weight_scale (N, K/G); X.pre_quant_scale (K): a factor of each
 *            input, where the norm in front is not multiplied by it. Becomes INT4.
 *   MXFP6    X.weight_packed or X.weight U8 (N, 3K/4), six bits a number, the first in the
 *            lowest; X.weight_scale U8 (N, K/32). Every such number is one of e4m3, so this
 *            becomes FP8 with groups of 32.
 *   MXFP8    X.weight F8_E4M3 (N, K), X.weight_scale U8 or F8_E8M0: powers of two, which become
 *            numbers in bfloat16.
 *
 * Sources: the packages compressed-tensors 0.20, amd-quark 0.13, auto-round 0.16 and
 * nvidia-modelopt 0.47 for Python.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "model/formats/quant_made.h"

static const enum dtype words[] = {DTYPE_I32, DTYPE_COUNT};

/* A layer's integers: where they are read and where they are written. */
struct codes {
	const void *from;
	uint32_t *to;
	int64_t n, k;
	int bits, to_bits; /* bits of a number in the file, and as written */
	int32_t add;       /* added to each number: the format stores it without a sign */
	atomic_bool is_wrong;
};

/* Integer i of `bits` bits that lie without gaps in words, which are `step` apart. */
static uint32_t stream_at(const uint32_t *q, size_t step, int bits, int64_t i)
{
	int64_t bit = i * bits, word = bit / 32;
	int shift = (int)(bit % 32);
	uint64_t v = q[(size_t)word * step];
	if (shift + bits > 32)
		v |= (uint64_t)q[(size_t)(word + 1) * step] << 32;
	return (uint32_t)(v >> shift) & ((1u << bits) - 1);
}

static void put_code(uint32_t *to, int bits, int64_t i, uint32_t v)
{
	int64_t each = 32 / bits;
	to[i / each] |= v << i % each * bits;
}

/* --- bytes ------------------------------------------------------------------------- */

static void byte_rows(void *arg, int begin, int end)
{
	struct codes *x = arg;
	const int8_t *q = x->from;
	int32_t most = (1 << x->to_bits) - 1;
	for (int64_t row = begin; row < end; row++)
		for (int64_t k = 0; k < x->k; k++) {
			int32_t v = q[row * x->k + k] + x->add;
			if (v < 0 || v > most)
				x->is_wrong = true;
			put_code(x->to, x->to_bits, row * x->k + k, (uint32_t)(v & most));
		}
}

/* Index of the scale or zero point of row r and group g. `has`: how many the layer has; 1 is
 * for all rows. */
static size_t place_of(const struct quant_choice *c, int64_t has, int64_t groups, int64_t r,
		       int64_t g)
{
	return has == 1 ? 0 : (size_t)(r / MAX(c->group_n, 1) * groups + g);
}

static enum status need_count(const struct made *m, const struct tensor *t, int64_t has,
			      int64_t want)
{
	if (has == 1 || has == want)
		return OK;
	return fail_set(m->fail, E_FORMAT, "%s: tensor %s has %lld numbers, its layer needs 1 or "
			"%lld", t->file, t->name, (long long)has, (long long)want);
}

/* Replace the layer's scales by one for each row and group. */
static enum status byte_scales(const struct made *m, const struct quant_choice *c, int64_t n,
			       int64_t groups)
{
	static const enum dtype f32[] = {DTYPE_F32, DTYPE_COUNT};
	const char *suffix = "SCB";
	const struct tensor *t;
	if (quant_has(m->ts, m->name, "weight_scale_inv"))
		suffix = "weight_scale_inv";
	else if (quant_has(m->ts, m->name, "weight_scale"))
		suffix = "weight_scale";
	bool is_scb = suffix[0] == 'S';
	enum status st = made_find(m, suffix, is_scb ? n : 0, is_scb ? f32 : quant_floats, &t);
	if (st != OK)
		return st;
	int64_t has = (int64_t)(t->n_bytes / dtype_bytes(t->dtype));
	st = need_count(m, t, has, DIV_UP(n, MAX(c->group_n, 1)) * groups);
	if (st != OK)
		return st;
	float *out = tensors_alloc(m->ts, (size_t)(n * groups) * sizeof *out);
	for (int64_t r = 0; r < n; r++)
		for (int64_t g = 0; g < groups; g++) {
			size_t at = place_of(c, has, groups, r, g);
			float f = blocks_float(t->data, t->dtype, at);
			out[r * groups + g] = is_scb ? f / 127 : f;
		}
	made_replace(m, t, "weight_scale", DTYPE_F32, n, groups, out,
		     (size_t)(n * groups) * sizeof *out);
	return OK;
}

/* Convert the zero points of bytes to words of INT4 or INT8. Symmetric formats may store zero
 * points too, which must be 0. */
static enum status byte_zeros(const struct made *m, const struct quant_choice *c, int64_t n,
			      int64_t groups, int to_bits)
{
	static const enum dtype bytes[] = {DTYPE_I8, DTYPE_COUNT};
	const struct tensor *t;
	bool has_any = false;
	if (!c->is_asymmetric && !quant_has(m->ts, m->name, "weight_zero_point"))
		return OK;
	enum status st = made_find(m, "weight_zero_point", 0, bytes, &t);
	if (st == OK)
		st = need_count(m, t, (int64_t)t->n_bytes, DIV_UP(n, MAX(c->group_n, 1)) * groups);
	if (st != OK)
		return st;
	const int8_t *z = t->data;
	for (size_t i = 0; i < t->n_bytes; i++)
		has_any |= z[i] != 0;
	if (has_any && !c->is_asymmetric)
		return fail_set(m->fail, E_UNSUPPORTED, "%s: tensor %s: zero points in a format "
				"that is symmetric", t->file, t->name);
	if (!c->is_asymmetric)
		return OK;
	int64_t each = 32 / to_bits, n_words = DIV_UP(n, each) * groups;
	uint32_t *out = tensors_alloc(m->ts, (size_t)n_words * sizeof *out);
	for (int64_t r = 0; r < n; r++)
		for (int64_t g = 0; g < groups; g++) {
			size_t at = place_of(c, (int64_t)t->n_bytes, groups, r, g);
			uint32_t v = (uint32_t)(z[at] + (1 << (to_bits - 1)));
			out[r / each * groups + g] |= (v & ((1u << to_bits) - 1))
						      << r % each * to_bits;
		}
	made_replace(m, t, "weight_zero_point", DTYPE_I32, DIV_UP(n, each), groups, out,
		     (size_t)n_words * sizeof *out);
	return OK;
}

static enum status make_bytes(const struct made *m, const struct tensor *t,
			      const struct quant_choice *c)
{
	int to_bits = quant_bits(c->quant);
	struct codes x = {.from = t->data, .n = t->dim[0], .k = t->dim[1], .to_bits = to_bits,
			  .add = 1 << (to_bits - 1)};
	int32_t group = c->group ? c->group : 8;
	if (t->n_dims != 2 || !made_is_shape(x.n, x.k, 8) || x.k % group)
		return made_bad_shape(m, x.n, x.k);
	int64_t groups = c->group ? x.k / c->group : 1;
	size_t n_bytes = (size_t)(x.n * x.k) * (size_t)to_bits / 8;
	enum status st = byte_zeros(m, c, x.n, groups, to_bits);
	if (st == OK)
		st = byte_scales(m, c, x.n, groups);
	if (st != OK)
		return st;
	x.to = tensors_alloc(m->ts, DIV_UP((int64_t)n_bytes, 4) * 4);
	pool_for(m->pool, (int)x.n, 16, byte_rows, &x);
	if (x.is_wrong)
		return fail_set(m->fail, E_FORMAT, "%s: tensor %s has numbers of more than %d "
				"bits", t->file, t->name, to_bits);
	made_replace(m, t, "weight_packed", DTYPE_I32, x.n, x.k * to_bits / 32, x.to, n_bytes);
	return OK;
}

/* --- streams ----------------------------------------------------------------------- */

static void stream_rows(void *arg, int begin, int end)
{
	struct codes *x = arg;
	int64_t pitch = DIV_UP(x->k * x->bits, 32);
	for (int64_t row = begin; row < end; row++) {
		const uint32_t *q = (const uint32_t *)x->from + row * pitch;
		for (int64_t k = 0; k < x->k; k++)
			put_code(x->to, x->to_bits, row * x->k + k,
				 stream_at(q, 1, x->bits, k) + (uint32_t)x->add);
	}
}

/* Zero points along the rows: (N B/32, G) becomes (N to_bits/32, G). */
static enum status stream_zeros(const struct made *m, const struct codes *x, int64_t groups)
{
	const struct tensor *t;
	int64_t each = 32 / x->to_bits, n_words = DIV_UP(x->n, each) * groups;
	enum status st = made_find(m, "weight_zero_point", DIV_UP(x->n * x->bits, 32) * groups,
				   words, &t);
	if (st != OK)
		return st;
	uint32_t *out = tensors_alloc(m->ts, (size_t)n_words * sizeof *out);
	for (int64_t r = 0; r < x->n; r++)
		for (int64_t g = 0; g < groups; g++) {
			uint32_t v = stream_at((const uint32_t *)t->data + g, (size_t)groups,
					       x->bits, r) + (uint32_t)x->add;
			out[r / each * groups + g] |= v << r % each * x->to_bits;
		}
	made_replace(m, t, "weight_zero_point", DTYPE_I32, DIV_UP(x->n, each), groups, out,
		     (size_t)n_words * sizeof *out);
	return OK;
}

static enum status make_stream(const struct made *m, const struct tensor *t,
			       const struct quant_choice *c)
{
	static const enum dtype integers[] = {DTYPE_I64, DTYPE_I32, DTYPE_COUNT};
	const struct tensor *shape, *same;
	int to_bits = quant_bits(c->quant);
	enum status st = made_find(m, "weight_shape", 2, integers, &shape);
	if (st != OK)
		return st;
	bool is_32 = shape->dtype == DTYPE_I32;
	struct codes x = {.from = t->data, .bits = c->bits, .to_bits = to_bits,
			  .add = (1 << (to_bits - 1)) - (1 << (c->bits - 1)),
			  .n = is_32 ? ((const int32_t *)shape->data)[0]
				     : ((const int64_t *)shape->data)[0],
			  .k = is_32 ? ((const int32_t *)shape->data)[1]
				     : ((const int64_t *)shape->data)[1]};
	int32_t group = c->group ? c->group : 8;
	if (!made_is_shape(x.n, x.k, 8) || x.k % group)
		return made_bad_shape(m, x.n, x.k);
	int64_t groups = c->group ? x.k / c->group : 1;
	size_t n_bytes = (size_t)(x.n * x.k) * (size_t)to_bits / 8;
	st = made_find(m, "weight_packed", x.n * DIV_UP(x.k * x.bits, 32), words, &same);
	if (st == OK && c->is_asymmetric)
		st = stream_zeros(m, &x, groups);
	if (st != OK)
		return st;
	x.to = tensors_alloc(m->ts, n_bytes);
	pool_for(m->pool, (int)x.n, 16, stream_rows, &x);
	made_replace(m, t, "weight_packed", DTYPE_I32, x.n, x.k * to_bits / 32, x.to, n_bytes);
	return OK;
}

/* --- GPTQ --------------------------------------------------------------------------- */

/* Rows [begin, end) of words. A row of words holds as many inputs as fit in one word. */
static void gptq_rows(void *arg, int begin, int end)
{
	struct codes *x = arg;
	int64_t each = 32 / x->to_bits;
	for (int64_t row = begin; row < end; row++)
		for (int64_t n = 0; n < x->n; n++)
			for (int64_t i = 0; i < each; i++)
				x->to[row * x->n + n] |=
					stream_at((const uint32_t *)x->from + n, (size_t)x->n,
						  x->bits, row * each + i) << x->to_bits * i;
}

static enum status make_gptq(const struct made *m, const struct tensor *t,
			     const struct quant_choice *c)
{
	int to_bits = quant_bits(c->quant);
	struct codes x = {.from = t->data, .bits = c->bits, .to_bits = to_bits,
			  .n = t->dim[1], .k = t->dim[0] * 32 / c->bits};
	const struct tensor *zeros, *same;
	if (t->n_dims != 2 || !made_is_shape(x.n, x.k, 8) || x.n % 8 ||
	    (c->group && x.k % c->group))
		return made_bad_shape(m, x.n, x.k);
	int64_t groups = c->group ? x.k / c->group : 1;
	enum status st = made_find(m, "qweight", DIV_UP(x.k * x.bits, 32) * x.n, words, &same);
	if (st == OK)
		st = made_find(m, "qzeros", groups * DIV_UP(x.n * x.bits, 32), words, &zeros);
	if (st != OK)
		return st;
	int64_t each = 32 / to_bits;
	size_t n_bytes = (size_t)(x.k * x.n / each) * 4;
	size_t n_zeros = (size_t)(groups * x.n / each) * 4;
	uint32_t *z = tensors_alloc(m->ts, n_zeros), mask = (1u << x.bits) - 1;
	for (int64_t g = 0; g < groups; g++)
		for (int64_t n = 0; n < x.n; n++) {
			const uint32_t *from = (const uint32_t *)zeros->data +
					       g * DIV_UP(x.n * x.bits, 32);
			uint32_t step = (uint32_t)c->zero_step; /* decoding adds it again */
			uint32_t v = (stream_at(from, 1, x.bits, n) + step) & mask;
			put_code(z + g * x.n / each, to_bits, n,
				 (v - step) & ((1u << to_bits) - 1));
		}
	x.to = tensors_alloc(m->ts, n_bytes);
	pool_for(m->pool, (int)(x.k / each), 4, gptq_rows, &x);
	made_replace(m, t, "qweight", DTYPE_I32, x.k / each, x.n, x.to, n_bytes);
	made_replace(m, zeros, "qzeros", DTYPE_I32, groups, x.n / each, z, n_zeros);
	return OK;
}

/* --- Quark's words ----------------------------------------------------------------- */

/* Convert n words of t to AWQ's order and unsigned nibbles. */
static uint32_t *make_words(const struct made *m, const struct quant_choice *c,
			    const struct tensor *t, size_t n)
{
	const uint32_t *from = t->data;
	uint32_t *to = tensors_alloc(m->ts, n * sizeof *to);
	for (size_t i = 0; i < n; i++) {
		uint32_t w = from[i], in_order = 0;
		for (int k = 0; c->is_in_order && k < 8; k++)
			in_order |= (w >> 4 * k & 15) << 4 * blocks_awq_order(k);
		to[i] = (c->is_in_order ? in_order : w) ^ (c->is_signed ? 0x88888888 : 0);
	}
	return to;
}

static enum status make_quark(const struct made *m, const struct tensor *t,
			      const struct quant_choice *c)
{
	const struct tensor *scale, *zero;
	int64_t k = t->dim[0], n = t->dim[1] * 8, groups = c->group ? k / c->group : 1;
	if (t->n_dims != 2 || !made_is_shape(n, k, c->group ? c->group : 1))
		return made_bad_shape(m, n, k);
	enum status st = made_find(m, "weight_scale", groups * n, quant_floats, &scale);
	if (st == OK)
		st = made_find(m, "weight_zero_point", groups * n / 8, words, &zero);
	if (st != OK)
		return st;
	size_t n_words = (size_t)(k * n / 8), n_zeros = (size_t)(groups * n / 8);
	const uint32_t *q = make_words(m, c, t, n_words);
	const uint32_t *z = make_words(m, c, zero, n_zeros);
	made_replace(m, t, "qweight", DTYPE_I32, k, n / 8, q, n_words * sizeof *q);
	made_replace(m, scale, "scales", scale->dtype, groups, n, scale->data, scale->n_bytes);
	made_replace(m, zero, "qzeros", DTYPE_I32, groups, n / 8, z, n_zeros * sizeof *z);
	return OK;
}

/* --- ModelOpt's pairs ---------------------------------------------------------------- */

/* Rows [begin, end) of bytes, each of two outputs. */
static void pair_rows(void *arg, int begin, int end)
{
	struct codes *x = arg;
	const uint8_t *q = x->from;
	for (int64_t row = begin; row < end; row++)
		for (int64_t k = 0; k < x->k; k++) {
			uint32_t two = q[row * x->k + k] ^ 0x88u;
			put_code(x->to, 4, 2 * row * x->k + k, two & 15);
			put_code(x->to, 4, (2 * row + 1) * x->k + k, two >> 4);
		}
}

/* Make the factors of the inputs float32, as products read them. */
static enum status pair_inputs(const struct made *m, int64_t k)
{
	static const char suffix[] = "pre_quant_scale";
	const struct tensor *t;
	if (!quant_has(m->ts, m->name, suffix))
		return OK;
	enum status st = made_find(m, suffix, k, quant_floats, &t);
	if (st != OK)
		return st;
	float *to = tensors_alloc(m->ts, (size_t)k * sizeof *to);
	for (int64_t i = 0; i < k; i++) {
		to[i] = blocks_float(t->data, t->dtype, (size_t)i);
		if (!(to[i] > 0) || !isfinite(to[i]))
			return fail_set(m->fail, E_FORMAT, "%s: tensor %s has the factor %g at "
					"%lld, and factors of inputs are above 0: quantize the "
					"model again", t->file, t->name, (double)to[i],
					(long long)i);
	}
	made_replace(m, t, suffix, DTYPE_F32, 1, k, to, (size_t)k * sizeof *to);
	return OK;
}

static enum status make_pairs(const struct made *m, const struct tensor *t,
			      const struct quant_choice *c)
{
	struct codes x = {.from = t->data, .n = 2 * t->dim[0], .k = t->dim[1], .to_bits = 4};
	const struct tensor *scale;
	if (t->n_dims != 2 || !made_is_shape(x.n, x.k, 8))
		return made_bad_shape(m, x.n, x.k);
	int64_t groups = c->group ? x.k / c->group : 0;
	enum status st = made_find(m, "weight_scale", groups * x.n, quant_floats, &scale);
	if (st == OK)
		st = pair_inputs(m, x.k);
	if (st != OK)
		return st;
	/* W4A8 has a factor for rounding inputs and weights to FP8, which are not rounded here. */
	(void)quant_has(m->ts, m->name, "weight_scale_2");
	size_t n_bytes = (size_t)(x.n * x.k / 2);
	x.to = tensors_alloc(m->ts, n_bytes);
	pool_for(m->pool, (int)t->dim[0], 16, pair_rows, &x);
	made_replace(m, t, "weight_packed", DTYPE_I32, x.n, x.k / 8, x.to, n_bytes);
	return OK;
}

/* --- microscaling ------------------------------------------------------------------- */

/* The e4m3 byte of a six-bit number with `fraction` bits of fraction: exact for both of MXFP6's
 * formats. */
static uint8_t e4m3_of(uint32_t code, int fraction)
{
	int magnitude = (int)(code & 31), one = 1 << fraction, bias = fraction == 3 ? 1 : 3;
	int exponent = magnitude >> fraction, part = magnitude & (one - 1);
	uint8_t sign = code & 32 ? 0x80 : 0;
	if (magnitude == 0)
		return sign;
	if (exponent == 0) { /* a subnormal number of six bits is a normal number of e4m3 */
		exponent = 1;
		while (part < one) {
			part <<= 1;
			exponent--;
		}
		part -= one;
	}
	return (uint8_t)(sign | (exponent + 7 - bias) << 3 | part << (3 - fraction));
}

struct sixes {
	const uint8_t *from;
	uint8_t *to, table[64];
	int64_t k;
};

static void six_rows(void *arg, int begin, int end)
{
	const struct sixes *x = arg;
	for (int64_t i = begin * x->k / 4; i < end * x->k / 4; i++) {
		const uint8_t *p = x->from + 3 * i;
		uint32_t v = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
		for (int j = 0; j < 4; j++)
			x->to[4 * i + j] = x->table[v >> 6 * j & 63];
	}
}

static enum status make_sixes(const struct made *m, const struct tensor *t,
			      const struct quant_choice *c)
{
	int64_t n = t->dim[0], k = t->dim[1] / 3 * 4;
	if (t->n_dims != 2 || t->dim[1] % 3 || !made_is_shape(n, k, 32))
		return made_bad_shape(m, n, k);
	enum status st = made_powers(m);
	if (st != OK)
		return st;
	struct sixes x = {.from = t->data, .k = k, .to = tensors_alloc(m->ts, (size_t)(n * k))};
	for (uint32_t i = 0; i < 64; i++)
		x.table[i] = e4m3_of(i, c->stored == STORED_E2M3 ? 3 : 2);
	pool_for(m->pool, (int)n, 16, six_rows, &x);
	made_replace(m, t, "weight", DTYPE_F8_E4M3, n, k, x.to, (size_t)(n * k));
	return OK;
}

enum status made_powers(const struct made *m)
{
	static const enum dtype powers[] = {DTYPE_U8, DTYPE_F8_E8M0, DTYPE_COUNT};
	const char *suffix = quant_has(m->ts, m->name, "weight_scale_inv") ? "weight_scale_inv"
									  : "weight_scale";
	char name[256];
	snprintf(name, sizeof name, "%s.%s", m->name, suffix);
	const struct tensor *t = tensors_find(m->ts, name);
	if (!t || !dtype_is_one_of(t->dtype, powers) || t->n_dims < 1 || t->n_dims > 2)
		return OK; /* opening the layer reports the fault */
	const uint8_t *from = t->data;
	uint16_t *to = tensors_alloc(m->ts, t->n_bytes * sizeof *to);
	for (size_t i = 0; i < t->n_bytes; i++) /* 0 is 2^-127, a subnormal; 255: NaN */
		to[i] = (uint16_t)(from[i] == 255 ? 0x7FC0 : from[i] ? from[i] << 7 : 0x40);
	made_replace(m, t, suffix, DTYPE_BF16, t->dim[0], t->n_dims == 2 ? t->dim[1] : 1, to,
		     t->n_bytes * sizeof *to);
	return OK;
}

/* --- all --------------------------------------------------------------------------- */

enum status made_codes(const struct made *m, const struct tensor *t,
		       const struct quant_choice *c)
{
	switch (c->stored) {
	case STORED_BYTES: return t->dtype == DTYPE_I8 ? make_bytes(m, t, c) : OK;
	case STORED_STREAM: return t->dtype == DTYPE_I32 ? make_stream(m, t, c) : OK;
	case STORED_GPTQ: return t->dtype == DTYPE_I32 ? make_gptq(m, t, c) : OK;
	case STORED_WORDS: return t->dtype == DTYPE_I32 ? make_quark(m, t, c) : OK;
	case STORED_PAIRS: return t->dtype == DTYPE_U8 ? make_pairs(m, t, c) : OK;
	case STORED_E2M3:
	case STORED_E3M2: return t->dtype == DTYPE_U8 ? make_sixes(m, t, c) : OK;
	case STORED_SO: break;
	}
	return OK;
}
