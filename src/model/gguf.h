/* SPDX-License-Identifier: Apache-2.0
 *
 * One GGUF file: magic, counts, key-value pairs, descriptions of tensors, the data.
 * Thread: any.
 */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "model/safetensors.h"

enum gguf_type { /* the numbers of the format */
	GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL,
	GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
	GGUF_TYPE_COUNT
};

/* A value, or the elements of an array; a view of the file. */
struct gguf_value {
	enum gguf_type type; /* of an element */
	bool is_array;
	uint64_t n;          /* elements; 1 where it is no array */
	const char *p;       /* the first of them, packed */
};

struct gguf_pair {
	struct str key;
	struct gguf_value value;
};

struct gguf {
	struct gguf_pair *pairs;
	size_t n;
	struct strmap by_key;
};

/* Pairs and tensors of the file whose bytes are `file`, all checked as for safetensors:
 * bounds, overlap, types. Tensors have their names in the file and their dimensions
 * outermost first. Names go into the arena; everything else points into `file`; path
 * must outlive both. Versions 2 and 3. E_FORMAT and E_UNSUPPORTED name the file and
 * the key or tensor. */
enum status gguf_parse(struct str file, const char *path, struct arena *a,
		       struct gguf *out, struct safetensors *out_tensors,
		       struct fail *fail) MUST_USE;
void gguf_deinit(struct gguf *g);

/* NULL: there is no such key. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const char *gguf_type_name(const struct gguf_value *v); /* "array of string" */
/* Element i of a value that is no string and no array of them. False where it is
 * another type (a boolean counts as integer, an integer as number). */
bool gguf_integer(const struct gguf_value *v, uint64_t i, int64_t *out);
bool gguf_number(const struct gguf_value *v, uint64_t i, double *out);
bool gguf_string(const struct gguf_value *v, struct str *out);
/* The strings of an array in order: start with at = v->p; call v->n times. */
struct str gguf_next_string(const char **at);
