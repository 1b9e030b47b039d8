/* SPDX-License-Identifier: Apache-2.0
 *
 * One GGUF file: magic, counts, key-value pairs, tensor descriptions, data. Thread: any.
 */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "model/safetensors.h"

enum gguf_type { /* values are the format's type numbers */
	GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL,
	GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
	GGUF_TYPE_COUNT
};

/* A value, or an array's elements; a view into the file. */
struct gguf_value {
	enum gguf_type type; /* type of the value or of each element */
	bool is_array;
	uint64_t n;          /* number of elements; 1 if not an array */
	const char *p;       /* the first element; elements are packed */
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

/* Parse the GGUF file (version 2 or 3) whose bytes are `file`. Pairs and tensors are
 * checked as for safetensors: bounds, overlap, types. Tensors keep the file's names;
 * their dimensions are given outermost first. Names are copied into the arena; everything
 * else points into `file`. path must outlive both. E_FORMAT and E_UNSUPPORTED name the
 * file and the key or tensor. */
enum status gguf_parse(struct str file, const char *path, struct arena *a,
		       struct gguf *out, struct safetensors *out_tensors,
		       struct fail *fail) MUST_USE;
void gguf_deinit(struct gguf *g);

/* Returns NULL if the key does not exist. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const char *gguf_type_name(const struct gguf_value *v); /* as in "array of string" */
/* Element i of a value that is a number, or an array of numbers. Returns false for other
 * types. A boolean counts as an integer, an integer as a number. */
bool gguf_integer(const struct gguf_value *v, uint64_t i, int64_t *out);
bool gguf_number(const struct gguf_value *v, uint64_t i, double *out);
bool gguf_string(const struct gguf_value *v, struct str *out);
/* Returns the next string of an array. Start with at = v->p; call at most v->n times. */
struct str gguf_next_string(const char **at);
