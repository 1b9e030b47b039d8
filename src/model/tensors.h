/* SPDX-License-Identifier: Apache-2.0
 *
 * Named tensors of one checkpoint: a single safetensors file or a sharded set
 * with its index. Lookup by name is O(1). Thread: any once open.
 */
#pragma once
#include "base/file.h"

enum dtype {
	DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_U8, DTYPE_I16, DTYPE_I32,
	DTYPE_I64, DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_BOOL, DTYPE_F64, DTYPE_U16,
	DTYPE_U32, DTYPE_U64, DTYPE_F8_E8M0,
	DTYPE_COUNT
};
size_t dtype_bytes(enum dtype t);
const char *dtype_name(enum dtype t); /* "BF16" */

#define TENSOR_MAX_DIMS 6
struct tensor {
	const char *name;
	enum dtype dtype;
	int n_dims;
	int64_t dim[TENSOR_MAX_DIMS]; /* outermost first, as in the file */
	const void *data;
	size_t n_bytes;
	const char *file; /* path, for messages */
};

struct tensors;
struct model_opts;

/* Reads model.safetensors.index.json and its shards, else model.safetensors. Every
 * entry is checked: bounds, overlap, dtype, shape times size. */
enum status tensors_open(const char *dir, const struct model_opts *opts,
			 struct tensors **out, struct fail *fail) MUST_USE;
void tensors_close(struct tensors *ts);
const struct tensor *tensors_find(const struct tensors *ts, const char *name);
size_t tensors_count(const struct tensors *ts);
const struct tensor *tensors_at(const struct tensors *ts, size_t i);
