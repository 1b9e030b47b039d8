/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts weights of bitsandbytes and HQQ to formats that halod has, when the checkpoint is
 * opened; quant_made_codes.c converts those of other methods. A layer X has N outputs and K
 * inputs.
 *
 *   nf4, fp4 X.weight U8 (N K/2, 1), or the same bytes as numbers of another type: two indices
 *            a byte, the first in the high bits; and with X.weight in front:
 *              .quant_map F32 (16)   the value of each index
 *              .absmax F32 (N K/B)   the factor of each block of B weights, or U8
 *              .nested_quant_map F32 (256), .nested_absmax F32: with absmax in U8, factor i
 *                   is map[absmax[i]] * nested_absmax[i / nested_blocksize] + nested_offset
 *              .quant_state.bitsandbytes__nf4 U8: JSON with shape, blocksize and the like
 *            nf4 becomes NF4: values and factors are rounded to float16. fp4 becomes bf16, and
 *            so does nf4 if K is no multiple of 32.
 *   HQQ      X.W_q   U8: the numbers of (N K/G, G), or of (G, N K/G) with X.axis 0. With four
 *                    bits the first half of the rows is in the high bits, with two the first
 *                    quarter, with one the first eighth. With three W_q is I32: ten numbers a
 *                    word, the first tenth of the rows in the highest bits
 *            X.scale, X.zero  float (N K/G, 1) or (1, N K/G); the weight is (q - zero) scale
 *            X.shape, X.nbits, X.axis  integers (2), (1), (1)
 *            with up to 4 bits becomes Q4_1, whose scale and minimum are float16. With 8 bits,
 *            with axis 0, or with groups that are no multiple of 32, it becomes bf16.
 *
 * Where this rounds, the exact path reads the checkpoint's own numbers instead (struct
 * weight_source).
 *
 * Sources: the packages bitsandbytes 0.50 and hqq 0.2.8 for Python.
 */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "json/jsonfile.h"
#include "model/formats/quant_made.h"

enum { BLOCK = 32 }; /* weights in a block of NF4 and of Q4_1 */

static const char state_nf4[] = "weight.quant_state.bitsandbytes__nf4";
static const char state_fp4[] = "weight.quant_state.bitsandbytes__fp4";

/* The checkpoint's numbers of a layer that is converted. They lie in the mapped files, which
 * stay open. */
struct weight_source {
	const uint8_t *q;
	int64_t n, k, group; /* group: elements that share a factor, counted along (N, K) */
	int bits;
	int64_t part;          /* HQQ: numbers that have the same bits of their bytes or words,
			        * code_at; 0: one number a byte */
	int64_t columns;       /* HQQ with axis 0: number i has factor i % columns; else 0 */
	const float *values;   /* bitsandbytes: the value of each index (16); NULL: HQQ */
	const struct tensor *scale, *zero; /* HQQ; bitsandbytes: scale alone */
	const uint8_t *nested; /* bitsandbytes: the index of each factor in `map`, or NULL */
	const float *map, *outer;
	int64_t outer_group;
	float offset;
	uint8_t *out; /* the converted weight; row_bytes: bytes of one of its rows */
	size_t row_bytes;
};

static void put_f16(uint8_t *out, float f)
{
	_Float16 h = (_Float16)f;
	memcpy(out, &h, sizeof h);
}

enum status made_find(const struct made *m, const char *suffix, int64_t count,
		      const enum dtype *types, const struct tensor **out)
{
	char name[256];
	snprintf(name, sizeof name, "%s.%s", m->name, suffix);
	const struct tensor *t = *out = tensors_find(m->ts, name);
	if (!t)
		return fail_set(m->fail, E_MISSING, "%s: tensor %s is missing",
				tensors_dir(m->ts), name);
	if (!dtype_is_one_of(t->dtype, types))
		return fail_set(m->fail, E_FORMAT, "%s: tensor %s is %s, not %s", t->file, name,
				dtype_name(t->dtype), dtype_name(types[0]));
	int64_t has = (int64_t)(t->n_bytes / dtype_bytes(t->dtype));
	if (count && has != count)
		return fail_set(m->fail, E_FORMAT, "%s: tensor %s has %lld numbers, its layer "
				"needs %lld", t->file, name, (long long)has, (long long)count);
	return OK;
}

enum status made_bad_shape(const struct made *m, int64_t n, int64_t k)
{
	return fail_set(m->fail, E_UNSUPPORTED, "%s: %s: its shape (%lld, %lld) and its "
			"groups cannot be read; save the checkpoint in 16 bits",
			tensors_dir(m->ts), m->name, (long long)n, (long long)k);
}

bool made_is_shape(int64_t n, int64_t k, int64_t multiple)
{
	return n > 0 && k > 0 && n < 1 << 28 && k < 1 << 28 && k % multiple == 0;
}

/* Like made_replace, and sets `source`: the numbers before rounding. */
static void quant_made_put(const struct made *m, size_t i, const char *suffix, enum dtype dtype,
			   enum quant quant, int64_t n, int64_t k, const void *data, size_t n_bytes,
			   const struct weight_source *source)
{
	char name[256];
	snprintf(name, sizeof name, "%s.%s", m->name, suffix);
	const struct tensor t = {.name = name, .dtype = dtype, .quant = quant, .n_dims = 2,
				 .dim = {n, k}, .data = data, .n_bytes = n_bytes,
				 .source = source, .is_made = true,
				 .file = tensors_at(m->ts, i)->file};
	tensors_replace(m->ts, i, &t);
}

void made_replace(const struct made *m, const struct tensor *old, const char *suffix,
		  enum dtype dtype, int64_t n, int64_t k, const void *data, size_t n_bytes)
{
	size_t i = 0;
	while (tensors_at(m->ts, i) != old)
		i++;
	quant_made_put(m, i, suffix, dtype, 0, n, k, data, n_bytes, NULL);
}

/* --- one number --------------------------------------------------------------------- */

static int code_at(const struct weight_source *x, int64_t i)
{
	if (x->values)
		return x->q[i / 2] >> (i % 2 ? 0 : 4) & 15;
	if (!x->part)
		return x->q[i];
	int many = (int)(i / x->part);
	i %= x->part;
	if (x->bits == 3)
		return (int)(((const uint32_t *)(const void *)x->q)[i] >> 3 * (9 - many) & 7);
	return x->q[i] >> (8 - x->bits * (many + 1)) & ((1 << x->bits) - 1);
}

static size_t factor_of(const struct weight_source *x, int64_t i)
{
	return (size_t)(x->columns ? i % x->columns : i / x->group);
}

static float scale_at(const struct weight_source *x, size_t g)
{
	if (!x->nested)
		return blocks_float(x->scale->data, x->scale->dtype, g);
	float scaled = x->map[x->nested[g]] * x->outer[(int64_t)g / x->outer_group];
	return scaled + x->offset;
}

/* Decode n elements that share a factor, the first being element `first`. */
static void decode(const struct weight_source *x, int64_t first, int n, float *out)
{
	size_t g = factor_of(x, first);
	float scale = scale_at(x, g);
	float zero = x->values ? 0 : blocks_float(x->zero->data, x->zero->dtype, g);
	for (int i = 0; i < n; i++) {
		int code = code_at(x, first + i);
		out[i] = (x->values ? x->values[code] : (float)code - zero) * scale;
	}
}

int32_t quant_made_row(const struct tensor *t)
{
	const struct weight_source *x = t->source;
	return x ? (int32_t)(((const uint8_t *)t->data - x->out) / (int64_t)x->row_bytes) : 0;
}

void quant_made_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		       float *out)
{
	const struct weight_source *x = w->source;
	int64_t first = ((int64_t)w->source_row + row) * x->k, at = first + k0, end = first + k1;
	for (int n; at < end; at += n, out += n) {
		n = (int)(MIN((at / x->group + 1) * x->group, end) - at);
		decode(x, at, n, out);
	}
}

/* --- rows of a layer ---------------------------------------------------------------- */

/* NF4 and Q4_1 have the same nibbles after their factors: index i in the low bits, index i + 16
 * above. */
static void put_block(const struct weight_source *x, int64_t b, bool has_min)
{
	size_t g = (size_t)(b * BLOCK / x->group);
	uint8_t *out = x->out + b * ((has_min ? 4 : 2) + BLOCK / 2);
	float scale = scale_at(x, g);
	put_f16(out, scale);
	out += 2;
	if (has_min) {
		put_f16(out, -scale * blocks_float(x->zero->data, x->zero->dtype, g));
		out += 2;
	}
	for (int i = 0; i < BLOCK / 2; i++)
		out[i] = (uint8_t)(code_at(x, b * BLOCK + i) |
				   code_at(x, b * BLOCK + i + BLOCK / 2) << 4);
}

static void block_rows(void *arg, int begin, int end)
{
	const struct weight_source *x = arg;
	for (int64_t b = begin * x->k / BLOCK; b < end * x->k / BLOCK; b++)
		put_block(x, b, !x->values);
}

static void bf16_rows(void *arg, int begin, int end)
{
	const struct weight_source *x = arg;
	for (int64_t i = begin * x->k; i < end * x->k; i++) {
		uint32_t bits;
		float f;
		decode(x, i, 1, &f);
		memcpy(&bits, &f, sizeof bits);
		bits += 0x7FFF + (bits >> 16 & 1); /* to the nearest, halves to even */
		uint16_t h = (uint16_t)(bits >> 16);
		memcpy(x->out + 2 * i, &h, sizeof h);
	}
}

static bool fits_blocks(const struct weight_source *x)
{
	return x->bits <= 4 && x->k % BLOCK == 0 && x->group % BLOCK == 0;
}

/* Convert the layer *x to blocks of a format, or to bf16, and put it in the place of tensor i. */
static void quant_made_make(const struct made *m, size_t i, const struct weight_source *x,
			    bool is_blocks, enum quant quant)
{
	struct weight_source *kept = tensors_alloc(m->ts, sizeof *kept);
	*kept = *x;
	kept->row_bytes = (size_t)x->k * 2;
	if (is_blocks)
		kept->row_bytes = (size_t)x->k / BLOCK * quant_block_bytes(quant);
	size_t n_bytes = (size_t)x->n * kept->row_bytes;
	kept->out = tensors_alloc(m->ts, n_bytes);
	pool_for(m->pool, (int)x->n, 16, is_blocks ? block_rows : bf16_rows, kept);
	quant_made_put(m, i, "weight", is_blocks ? DTYPE_BLOCKS : DTYPE_BF16, quant, x->n, x->k,
		kept->out, n_bytes, kept);
}

/* --- nf4 and fp4 ------------------------------------------------------------------- */

static bool is_nf4(const float *values)
{
	for (int i = 0; i < 16; i++)
		if (!(fabsf(values[i] * 0x1p14f - (float)(blocks_nf4[i] * 256 + blocks_nf4_low[i]))
		      <= 4))
			return false;
	return true;
}

static int64_t integer_of(const json_t *object, const char *key)
{
	return json_integer_value(jsonfile_get(object, key));
}

/* Find the factors of the blocks, of which there are n_blocks. */
static enum status find_factors(const struct made *m, const json_t *state, int64_t n_blocks,
				struct weight_source *x)
{
	static const enum dtype floats[] = {DTYPE_F32, DTYPE_COUNT};
	static const enum dtype either[] = {DTYPE_F32, DTYPE_U8, DTYPE_COUNT};
	const struct tensor *map, *outer;
	enum status st = made_find(m, "weight.absmax", n_blocks, either, &x->scale);
	if (st != OK || x->scale->dtype == DTYPE_F32)
		return st;
	x->nested = x->scale->data;
	x->outer_group = integer_of(state, "nested_blocksize");
	x->offset = (float)json_number_value(jsonfile_get(state, "nested_offset"));
	if (x->outer_group < 1)
		return fail_set(m->fail, E_FORMAT, "%s: %s: its quant_state has no "
				"nested_blocksize", tensors_dir(m->ts), m->name);
	st = made_find(m, "weight.nested_quant_map", 256, floats, &map);
	if (st == OK)
		st = made_find(m, "weight.nested_absmax",
			  DIV_UP(n_blocks, x->outer_group), floats, &outer);
	if (st != OK)
		return st;
	x->map = map->data;
	x->outer = outer->data;
	return OK;
}

static enum status make_4bit_of(const struct made *m, size_t i, const json_t *state)
{
	static const enum dtype floats[] = {DTYPE_F32, DTYPE_COUNT};
	const json_t *shape = jsonfile_get(state, "shape");
	const struct tensor *t = tensors_at(m->ts, i), *values;
	struct weight_source x = {.n = json_integer_value(json_array_get(shape, 0)),
				  .k = json_integer_value(json_array_get(shape, 1)),
				  .group = integer_of(state, "blocksize"), .bits = 4};
	if (json_array_size(shape) != 2 || !made_is_shape(x.n, x.k, 2) || x.group < 1)
		return made_bad_shape(m, x.n, x.k);
	int64_t all = x.n * x.k;
	if (t->n_bytes != (size_t)all / 2)
		return made_bad_shape(m, x.n, x.k);
	enum status st = made_find(m, "weight.quant_map", 16, floats, &values);
	if (st == OK)
		st = find_factors(m, state, DIV_UP(all, x.group), &x);
	if (st != OK)
		return st;
	x.q = t->data;
	x.values = values->data;
	quant_made_make(m, i, &x, fits_blocks(&x) && is_nf4(x.values), QUANT_NF4);
	return OK;
}

static enum status make_4bit(const struct made *m, size_t i, const char *state_name)
{
	static const enum dtype bytes[] = {DTYPE_U8, DTYPE_COUNT};
	const struct tensor *t;
	json_t *state = NULL;
	enum status st = made_find(m, state_name, 0, bytes, &t);
	if (st == OK)
		st = jsonfile_parse((struct str){t->data, t->n_bytes}, t->name,
				    JSON_TEXT_PYTHON, &state, m->fail);
	if (st == OK)
		st = make_4bit_of(m, i, state);
	json_decref(state);
	return st;
}

/* --- HQQ --------------------------------------------------------------------------- */

/* The integer X.suffix, or `usual` where there is none. */
static enum status read_integer(const struct made *m, const char *suffix, int usual, int *out)
{
	static const enum dtype integers[] = {DTYPE_I32, DTYPE_I64, DTYPE_COUNT};
	const struct tensor *t;
	*out = usual;
	if (!quant_has(m->ts, m->name, suffix))
		return OK;
	enum status st = made_find(m, suffix, 1, integers, &t);
	if (st == OK)
		*out = t->dtype == DTYPE_I32 ? ((const int32_t *)t->data)[0]
					     : (int)((const int64_t *)t->data)[0];
	return st;
}

/* Find which numbers of W_q share bytes or words, from the shape and the bits. */
static enum status place_hqq(const struct made *m, int axis, struct weight_source *x)
{
	static const enum dtype bytes[] = {DTYPE_U8, DTYPE_COUNT};
	static const enum dtype words[] = {DTYPE_I32, DTYPE_COUNT};
	const struct tensor *t;
	int64_t all = x->n * x->k, groups = all / x->group, each = x->bits == 3 ? 10 : 8 / x->bits;
	int64_t rows = axis ? groups : x->group, width = all / rows;
	if (x->bits != 8 && (x->bits == 3 || rows % each == 0))
		x->part = DIV_UP(rows, each) * width;
	else if (x->bits != 8)
		return made_bad_shape(m, x->n, x->k);
	if (!axis) {
		x->columns = groups;
		x->group = 1;
	}
	return made_find(m, "W_q", x->bits == 8 ? all : x->part, x->bits == 3 ? words : bytes,
			 &t);
}

static enum status make_hqq(const struct made *m, size_t i)
{
	static const enum dtype integers[] = {DTYPE_I32, DTYPE_I64, DTYPE_COUNT};
	const struct tensor *q = tensors_at(m->ts, i), *shape;
	struct weight_source x = {.q = q->data};
	int axis;
	enum status st = made_find(m, "shape", 2, integers, &shape);
	if (st == OK)
		st = made_find(m, "scale", 0, quant_floats, &x.scale);
	if (st != OK)
		return st;
	bool is_32 = shape->dtype == DTYPE_I32;
	x.n = is_32 ? ((const int32_t *)shape->data)[0] : ((const int64_t *)shape->data)[0];
	x.k = is_32 ? ((const int32_t *)shape->data)[1] : ((const int64_t *)shape->data)[1];
	int64_t groups = (int64_t)(x.scale->n_bytes / dtype_bytes(x.scale->dtype));
	int64_t all = x.n * x.k;
	if (!made_is_shape(x.n, x.k, 2) || groups == 0 || all % groups)
		return made_bad_shape(m, x.n, x.k);
	x.group = all / groups;
	st = read_integer(m, "nbits", (int64_t)q->n_bytes == all ? 8 : 4, &x.bits);
	if (st == OK)
		st = read_integer(m, "axis", 1, &axis);
	if (st == OK)
		st = made_find(m, "zero", groups, quant_floats, &x.zero);
	if (st == OK && (x.bits < 1 || (x.bits > 4 && x.bits != 8)))
		st = made_bad_shape(m, x.n, x.k);
	if (st == OK)
		st = place_hqq(m, axis, &x);
	if (st == OK)
		quant_made_make(m, i, &x, fits_blocks(&x), QUANT_Q4_1);
	return st;
}

/* --- all --------------------------------------------------------------------------- */

/* True if tensor i is X.suffix; then X becomes the layer's name. */
static bool is_of(struct made *m, size_t i, const char *suffix)
{
	const char *name = tensors_at(m->ts, i)->name;
	size_t n = strlen(name), tail = strlen(suffix);
	if (n <= tail || n - tail >= sizeof m->name || strcmp(name + n - tail, suffix) != 0)
		return false;
	snprintf(m->name, sizeof m->name, "%.*s", (int)(n - tail), name);
	return true;
}

/* The suffix of bitsandbytes' quant_state of this layer, which has all its settings; NULL: it
 * has none. */
static const char *state_of(const struct made *m)
{
	return quant_has(m->ts, m->name, state_fp4)   ? state_fp4
	       : quant_has(m->ts, m->name, state_nf4) ? state_nf4
						      : NULL;
}

/* Convert the layer whose numbers are in tensor i, if it needs conversion. */
static enum status make_one(struct made *m, size_t i)
{
	const struct tensor *t = tensors_at(m->ts, i);
	struct quant_choice c = {.is_packed = true, .quant = QUANT_INT8, .stored = STORED_BYTES};
	if (is_of(m, i, ".W_q"))
		return make_hqq(m, i);
	bool is_weight = is_of(m, i, ".weight");
	if (is_weight && state_of(m))
		return make_4bit(m, i, state_of(m));
	if (is_weight && t->dtype == DTYPE_F8_E4M3)
		return made_powers(m);
	if (!is_weight && !is_of(m, i, ".weight_packed") && !is_of(m, i, ".qweight"))
		return OK;
	enum status st = m->scheme ? quant_scheme_find(m->scheme, m->name, &c, m->fail) : OK;
	if (st == OK && !c.is_packed && is_weight && t->dtype == DTYPE_U8)
		return make_4bit(m, i, state_nf4); /* fails, and names the missing tensor */
	return st == OK && c.is_packed ? made_codes(m, t, &c) : st;
}

enum status quant_made_all(struct tensors *ts, const struct quant_scheme *s, struct fail *fail)
{
	struct made m = {.ts = ts, .scheme = s, .pool = pool_create(0), .fail = fail};
	enum status st = OK;
	for (size_t i = 0; st == OK && i < tensors_count(ts); i++)
		if (!tensors_at(ts, i)->is_made)
			st = make_one(&m, i);
	pool_destroy(m.pool);
	return st;
}
