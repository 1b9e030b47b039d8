/* SPDX-License-Identifier: Apache-2.0
 *
 * Named tensors of one checkpoint: a single safetensors file or a sharded set
 * with its index. Lookup by name is O(1). Thread: any once open.
 */
#pragma once
#include "base/file.h"
#include "model/blocks.h"

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
 * entry is checked: bounds, overlap, dtype, shape times size. With mmap, truncating a
 * file while it is open ends the process with SIGBUS. */
enum status tensors_open(const char *dir, const struct model_opts *opts,
			 struct tensors **out, struct fail *fail) MUST_USE;
void tensors_close(struct tensors *ts);
const char *tensors_dir(const struct tensors *ts); /* for messages */
const struct tensor *tensors_find(const struct tensors *ts, const char *name);
size_t tensors_count(const struct tensors *ts);
const struct tensor *tensors_at(const struct tensors *ts, size_t i);
