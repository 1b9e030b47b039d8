/* SPDX-License-Identifier: Apache-2.0
 *
 * As in safetensors.c, nothing in the file is trusted. Each count and length is compared
 * with the bytes left in the file before use, so the file's size bounds the memory. Each
 * tensor's type, shape and offset are checked against each other and against the data.
 *
 *   0      4          8            16       24
 *   | GGUF | u32 = 3 | u64 tensors | u64 kv | pairs | tensors | pad | data
 *
 *   pair    string key, u32 type, value      string  u64 length, bytes
 *   tensor  string name, u32 n, u64 dim[n], u32 type, u64 offset
 *   array   u32 type, u64 n, values
 *
 * Dimensions are innermost first. Offsets count from the start of the data and are
 * multiples of general.alignment. Source: docs/gguf.md of ggml.
 */
#include "model/gguf.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_PAIRS (1u << 16)
#define MAX_TENSORS (1u << 20)
#define MAX_NAME 200
#define MAX_DEPTH 4 /* nesting of arrays; no known file uses it */
#define DEFAULT_ALIGNMENT 32

struct gguf_reader {
	const char *p, *end; /* the bytes not read yet */
	const char *begin;
	const char *path;
	struct arena *arena;
	struct fail *fail;
};

static const struct {
	const char *name;
	uint8_t n_bytes;
} types[GGUF_TYPE_COUNT] = {
	[GGUF_U8] = {"u8", 1},         [GGUF_I8] = {"i8", 1},
	[GGUF_U16] = {"u16", 2},       [GGUF_I16] = {"i16", 2},
	[GGUF_U32] = {"u32", 4},       [GGUF_I32] = {"i32", 4},
	[GGUF_F32] = {"f32", 4},       [GGUF_BOOL] = {"bool", 1},
	[GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0},
	[GGUF_U64] = {"u64", 8},       [GGUF_I64] = {"i64", 8},
	[GGUF_F64] = {"f64", 8},
};

/* Tensor types, indexed by their numbers in the format. */
static const struct {
	const char *name;
	enum dtype dtype;
	enum quant quant;
} tensor_types[] = {
	[0] = {"F32", DTYPE_F32, 0},   [1] = {"F16", DTYPE_F16, 0},
	[30] = {"BF16", DTYPE_BF16, 0}, [24] = {"I8", DTYPE_I8, 0},
	[25] = {"I16", DTYPE_I16, 0},  [26] = {"I32", DTYPE_I32, 0},
	[27] = {"I64", DTYPE_I64, 0},  [28] = {"F64", DTYPE_F64, 0},
#define QUANT(...)
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, ...) \
	[gguf] = {#ident, DTYPE_BLOCKS, QUANT_##ident},
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};

enum { TYPE_OF_NO_FILE = 63 }; /* see quant.def: the number of formats that no GGUF file has */

/* Names of tensor types that we do not support, for the message. */
static const struct {
	uint32_t type;
	const char *name;
} other_types[] = {
	{4, "Q4_2"}, {5, "Q4_3"}, {9, "Q8_1"}, {15, "Q8_K"},
	{31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"},
	{36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
};

/* --- reading ---------------------------------------------------------------- */

static size_t left(const struct gguf_reader *r)
{
	return (size_t)(r->end - r->p);
}

static enum status truncated(const struct gguf_reader *r, const char *where)
{
	return fail_set(r->fail, E_FORMAT, "%s: the file ends within %s", r->path,
			where);
}

/* Read n <= 8 bytes as a little-endian integer. */
static bool read_bytes(struct gguf_reader *r, size_t n, uint64_t *out)
{
	if (left(r) < n)
		return false;
	*out = 0;
	memcpy(out, r->p, n);
	r->p += n;
	return true;
}

static bool read_string(struct gguf_reader *r, struct str *out)
{
	uint64_t n;
	if (!read_bytes(r, 8, &n) || n > left(r))
		return false;
	*out = (struct str){r->p, (size_t)n};
	r->p += n;
	return true;
}

/* Skip n elements of a type. E_FORMAT without a message: the file is too short. */
static enum status skip_values(struct gguf_reader *r, uint64_t type, uint64_t n, int depth)
{
	if (type != GGUF_STRING && type != GGUF_ARRAY) {
		if (n > left(r) / types[type].n_bytes)
			return E_FORMAT;
		r->p += n * types[type].n_bytes;
		return OK;
	}
	for (uint64_t i = 0; i < n; i++) {
		struct str s;
		uint64_t inner, count;
		if (type == GGUF_STRING) {
			if (!read_string(r, &s))
				return E_FORMAT;
			continue;
		}
		if (depth == MAX_DEPTH || !read_bytes(r, 4, &inner) || !read_bytes(r, 8, &count) ||
		    inner >= GGUF_TYPE_COUNT ||
		    skip_values(r, inner, count, depth + 1) != OK)
			return E_FORMAT;
	}
	return OK;
}

static enum status read_value(struct gguf_reader *r, const char *key,
			      struct gguf_value *out)
{
	uint64_t type, n = 1;
	char where[MAX_NAME + 20];
	snprintf(where, sizeof where, "the value of %s", key);
	if (!read_bytes(r, 4, &type))
		return truncated(r, where);
	out->is_array = type == GGUF_ARRAY;
	if (out->is_array && (!read_bytes(r, 4, &type) || !read_bytes(r, 8, &n)))
		return truncated(r, where);
	if (type >= GGUF_TYPE_COUNT)
		return fail_at(r->fail, E_FORMAT, key, "%s: %s has the unknown type %u",
			       r->path, key, (unsigned)type);
	out->type = (enum gguf_type)type;
	out->n = n;
	out->p = r->p;
	return skip_values(r, type, n, 0) == OK
		       ? OK
		       : fail_at(r->fail, E_FORMAT, key, "%s: %s goes on behind the file's end, "
				 "or has arrays in arrays below %d levels", r->path, where,
				 MAX_DEPTH);
}

/* Read a name into the arena, ended by NUL. It must be UTF-8 and not too long. */
static enum status read_name(struct gguf_reader *r, const char *what, size_t i,
			     const char **out)
{
	struct str s;
	char where[60];
	snprintf(where, sizeof where, "the name of %s %zu", what, i);
	if (!read_string(r, &s))
		return truncated(r, where);
	if (s.n == 0 || s.n > MAX_NAME || memchr(s.p, 0, s.n) || utf8_check(s) >= 0)
		return fail_set(r->fail, E_FORMAT, "%s: %s is empty, longer than %d "
				"bytes, or no UTF-8", r->path, where, MAX_NAME);
	*out = arena_str(r->arena, s).p;
	return OK;
}

static enum status read_pairs(struct gguf_reader *r, uint64_t n, struct gguf *g)
{
	/* The shortest pair: 8 bytes of length, 4 of type, 1 of value. */
	if (n > MAX_PAIRS || n > left(r) / 13)
		return fail_set(r->fail, E_FORMAT, "%s: the header says there are %llu "
				"keys: no GGUF file, or truncated", r->path,
				(unsigned long long)n);
	g->pairs = calloc(n + 1, sizeof *g->pairs);
	if (!g->pairs)
		return fail_set(r->fail, E_NOMEM, "%s: no memory for its keys", r->path);
	strmap_init(&g->by_key, n);
	for (size_t i = 0; i < n; i++) {
		const char *key;
		enum status st = read_name(r, "key", i, &key);
		if (st == OK)
			st = read_value(r, key, &g->pairs[i].value);
		if (st != OK)
			return st;
		g->pairs[i].key = str_of(key);
		g->n++;
		if (strmap_put(&g->by_key, str_of(key), (uint32_t)i))
			return fail_at(r->fail, E_FORMAT, key, "%s: %s is there twice",
				       r->path, key);
	}
	return OK;
}

/* --- tensors ------------------------------------------------------------------ */

static enum status gguf_bad(const struct gguf_reader *r, const char *tensor, const char *what)
{
	return fail_set(r->fail, E_FORMAT, "%s: tensor %s %s", r->path, tensor, what);
}

static enum status read_shape(struct gguf_reader *r, struct tensor *t)
{
	uint64_t n, dim;
	if (!read_bytes(r, 4, &n))
		return truncated(r, t->name);
	if (n > TENSOR_MAX_DIMS)
		return gguf_bad(r, t->name, "has too many dimensions");
	t->n_dims = (int)n;
	for (int i = t->n_dims - 1; i >= 0; i--) {
		if (!read_bytes(r, 8, &dim))
			return truncated(r, t->name);
		if (dim > INT64_MAX)
			return gguf_bad(r, t->name, "has an impossible shape");
		t->dim[i] = (int64_t)dim;
	}
	return OK;
}

static enum status unsupported_type(struct gguf_reader *r, const struct tensor *t, uint32_t type)
{
	for (size_t i = 0; i < ARRAY_LEN(other_types); i++)
		if (other_types[i].type == type)
			return fail_set(r->fail, E_UNSUPPORTED, "%s: tensor %s is %s, which "
					"is not supported", r->path, t->name,
					other_types[i].name);
	return fail_set(r->fail, E_UNSUPPORTED, "%s: tensor %s has the unknown type %u",
			r->path, t->name, (unsigned)type);
}

/* Read the type, and compute the bytes from type and shape. */
static enum status read_type(struct gguf_reader *r, struct tensor *t)
{
	uint64_t type;
	if (!read_bytes(r, 4, &type))
		return truncated(r, t->name);
	if (type >= ARRAY_LEN(tensor_types) || !tensor_types[type].name ||
	    type == TYPE_OF_NO_FILE)
		return unsupported_type(r, t, (uint32_t)type);
	t->dtype = tensor_types[type].dtype;
	t->quant = tensor_types[type].quant;
	size_t block = 1, n = dtype_bytes(t->dtype);
	if (t->dtype == DTYPE_BLOCKS) {
		block = (size_t)quant_block(t->quant);
		n = quant_block_bytes(t->quant);
	}
	size_t inner = t->n_dims ? (size_t)t->dim[t->n_dims - 1] : 1;
	if (inner % block)
		return fail_set(r->fail, E_FORMAT, "%s: tensor %s has rows of %zu, no "
				"multiple of the %zu of a block of %s", r->path, t->name,
				inner, block, tensor_types[type].name);
	bool overflows = __builtin_mul_overflow(n, inner / block, &n);
	for (int i = 0; i < t->n_dims - 1; i++)
		overflows |= __builtin_mul_overflow(n, (size_t)t->dim[i], &n);
	t->n_bytes = n;
	return overflows ? gguf_bad(r, t->name, "has an impossible shape") : OK;
}

/* Read one tensor's description. *offset counts from the data, whose start is known only
 * after the last description. */
static enum status read_tensor(struct gguf_reader *r, size_t i, struct tensor *t,
			       uint64_t *offset)
{
	*t = (struct tensor){.file = r->path};
	enum status st = read_name(r, "tensor", i, &t->name);
	if (st == OK)
		st = read_shape(r, t);
	if (st == OK)
		st = read_type(r, t);
	if (st == OK && !read_bytes(r, 8, offset))
		st = truncated(r, t->name);
	return st;
}

static enum status gguf_place(struct gguf_reader *r, struct str data, size_t alignment,
			      struct tensor *t, uint64_t offset)
{
	if (offset % alignment)
		return gguf_bad(r, t->name, "does not begin at a multiple of the alignment");
	if (offset > data.n || t->n_bytes > data.n - offset)
		return fail_set(r->fail, E_FORMAT, "%s: tensor %s of %zu bytes from %llu "
				"on is not within the %zu there are: the file is "
				"truncated", r->path, t->name, t->n_bytes,
				(unsigned long long)offset, data.n);
	t->data = data.p + offset;
	return OK;
}

static enum status find_data(struct gguf_reader *r, const struct gguf *g, size_t *alignment,
			     struct str *out)
{
	static const char key[] = "general.alignment";
	const struct gguf_value *v = gguf_find(g, key);
	int64_t a = DEFAULT_ALIGNMENT;
	if (v && (v->is_array || !gguf_integer(v, 0, &a) || a < 8 || a > 1 << 20 ||
		  (a & (a - 1))))
		return fail_at(r->fail, E_FORMAT, key, "%s: %s is not a power of two from "
			       "8 to 1048576", r->path, key);
	*alignment = (size_t)a;
	size_t at = ((size_t)(r->p - r->begin) + *alignment - 1) & ~(*alignment - 1);
	size_t n = (size_t)(r->end - r->begin);
	*out = at < n ? (struct str){r->begin + at, n - at} : (struct str){r->begin, 0};
	return OK;
}

static enum status read_tensors(struct gguf_reader *r, uint64_t n, const struct gguf *g,
				struct safetensors *out)
{
	/* The shortest description: 8 bytes of name length, 4 of dimensions, 4 of type, 8
	 * of offset. */
	if (n > MAX_TENSORS || n > left(r) / 24)
		return fail_set(r->fail, E_FORMAT, "%s: the header says there are %llu "
				"tensors: no GGUF file, or truncated", r->path,
				(unsigned long long)n);
	out->tensors = calloc(n + 1, sizeof *out->tensors);
	uint64_t *offsets = calloc(n + 1, sizeof *offsets);
	enum status st = OK;
	struct str data = {0};
	size_t alignment = 1;
	if (!out->tensors || !offsets)
		st = fail_set(r->fail, E_NOMEM, "%s: no memory for its tensors",
			      r->path);
	for (size_t i = 0; i < n && st == OK; i++)
		st = read_tensor(r, i, &out->tensors[out->n++], &offsets[i]);
	if (st == OK)
		st = find_data(r, g, &alignment, &data);
	for (size_t i = 0; i < n && st == OK; i++)
		st = gguf_place(r, data, alignment, &out->tensors[i], offsets[i]);
	free(offsets);
	return st == OK ? safetensors_check_overlap(out, r->path, r->fail) : st;
}

static enum status read_head(struct gguf_reader *r, uint64_t *n_tensors, uint64_t *n_pairs)
{
	uint64_t magic, version;
	if (!read_bytes(r, 4, &magic) || magic != 0x46554747)
		return fail_set(r->fail, E_FORMAT, "%s: not a GGUF file", r->path);
	if (!read_bytes(r, 4, &version) || !read_bytes(r, 8, n_tensors) ||
	    !read_bytes(r, 8, n_pairs))
		return truncated(r, "its header");
	if (version != 2 && version != 3)
		return fail_set(r->fail, E_UNSUPPORTED, "%s: version %u of GGUF%s is not "
				"supported, only 2 and 3", r->path, (unsigned)version,
				version > 0xFFFF ? " (big-endian)" : "");
	return OK;
}

enum status gguf_parse(struct str file, const char *path, struct arena *a,
		       struct gguf *out, struct safetensors *out_tensors,
		       struct fail *fail)
{
	struct gguf_reader r = {file.p, file.p + file.n, file.p, path, a, fail};
	struct gguf g = {0};
	struct safetensors s = {0};
	uint64_t n_tensors = 0, n_pairs = 0;
	enum status st = read_head(&r, &n_tensors, &n_pairs);
	if (st == OK)
		st = read_pairs(&r, n_pairs, &g);
	if (st == OK)
		st = read_tensors(&r, n_tensors, &g, &s);
	if (st != OK) {
		safetensors_deinit(&s);
		gguf_deinit(&g);
		return st;
	}
	*out = g;
	*out_tensors = s;
	return OK;
}

void gguf_deinit(struct gguf *g)
{
	free(g->pairs);
	strmap_deinit(&g->by_key);
	*g = (struct gguf){0};
}

/* --- values ------------------------------------------------------------------- */

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	uint32_t i;
	return strmap_get(&g->by_key, str_of(key), &i) ? &g->pairs[i].value : NULL;
}

const char *gguf_type_name(const struct gguf_value *v)
{
	static const char *const arrays[GGUF_TYPE_COUNT] = {
		[GGUF_STRING] = "an array of string", [GGUF_ARRAY] = "an array of array"};
	if (!v->is_array)
		return types[v->type].name;
	return arrays[v->type] ? arrays[v->type] : "an array of numbers";
}

bool gguf_integer(const struct gguf_value *v, uint64_t i, int64_t *out)
{
	static const bool is_signed[GGUF_TYPE_COUNT] = {
		[GGUF_I8] = true, [GGUF_I16] = true, [GGUF_I32] = true, [GGUF_I64] = true};
	size_t n = types[v->type].n_bytes;
	uint64_t u = 0;
	if (n == 0 || v->type == GGUF_F32 || v->type == GGUF_F64 || i >= v->n)
		return false;
	memcpy(&u, v->p + i * n, n);
	if (is_signed[v->type]) {
		unsigned shift = 64 - 8 * (unsigned)n;
		*out = (int64_t)(u << shift) >> shift;
		return true;
	}
	if (u > INT64_MAX)
		return false;
	*out = (int64_t)u;
	return true;
}

bool gguf_number(const struct gguf_value *v, uint64_t i, double *out)
{
	int64_t n;
	float f;
	if (gguf_integer(v, i, &n)) {
		*out = (double)n;
		return true;
	}
	if (i >= v->n || (v->type != GGUF_F32 && v->type != GGUF_F64))
		return false;
	if (v->type == GGUF_F64) {
		memcpy(out, v->p + i * sizeof *out, sizeof *out);
		return true;
	}
	memcpy(&f, v->p + i * sizeof f, sizeof f);
	*out = (double)f;
	return true;
}

struct str gguf_next_string(const char **at)
{
	uint64_t n;
	memcpy(&n, *at, sizeof n);
	struct str s = {*at + sizeof n, (size_t)n};
	*at += sizeof n + n;
	return s;
}

bool gguf_string(const struct gguf_value *v, struct str *out)
{
	const char *at = v->p;
	if (v->type != GGUF_STRING || v->is_array)
		return false;
	*out = gguf_next_string(&at);
	return true;
}
