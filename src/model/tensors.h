/* SPDX-License-Identifier: Apache-2.0
 *
 * Named tensors of one checkpoint: a single safetensors file or a sharded set
 * with its index, or a GGUF file or all parts of a split one. Lookup by name is O(1).
 * Thread: any once open.
 */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "model/dtype.h"

#define TENSOR_MAX_DIMS 6
struct tensor {
	const char *name;
	enum dtype dtype;
	enum quant quant; /* where dtype is DTYPE_BLOCKS */
	int n_dims;
	int64_t dim[TENSOR_MAX_DIMS]; /* in weights, outermost first */
	const void *data;
	size_t n_bytes;
	const char *file; /* path, for messages */
};

struct tensors;
struct model_opts;
struct gguf;

/* Reads model.safetensors.index.json and its shards, else model.safetensors. Every
 * entry is checked: bounds, overlap, dtype, shape times size. With mmap, truncating a
 * file while it is open ends the process with SIGBUS. */
enum status tensors_open(const char *dir, const struct model_opts *opts,
			 struct tensors **out, struct fail *fail) MUST_USE;
/* The same for the GGUF file at `path`, with the other parts where it is one of a split
 * model. `rename` gives each tensor the name it is found by, in the arena where that is
 * new, or NULL to leave it out. */
typedef const char *(*tensors_rename_fn)(const struct gguf *g, const char *name,
					 struct arena *a);
enum status tensors_open_gguf(const char *path, const struct model_opts *opts,
			      tensors_rename_fn rename, struct tensors **out,
			      struct fail *fail) MUST_USE;
/* The pairs of its (first) file; NULL: these are of safetensors. */
const struct gguf *tensors_gguf(const struct tensors *ts);
void tensors_close(struct tensors *ts);
/* Appends a line "file BYTES TIME PATH" for each of its files: TIME is file_time_ns when
 * it was opened. */
void tensors_list_files(const struct tensors *ts, struct buf *out);
const char *tensors_dir(const struct tensors *ts); /* for messages */
const struct tensor *tensors_find(const struct tensors *ts, const char *name);
size_t tensors_count(const struct tensors *ts);
const struct tensor *tensors_at(const struct tensors *ts, size_t i);
