/* SPDX-License-Identifier: Apache-2.0
 *
 * The named tensors of one checkpoint: a safetensors file, a set of shards with an index,
 * or a GGUF file with all its parts. Lookup by name is O(1). Thread: any once open.
 */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "model/dtype.h"

#define TENSOR_MAX_DIMS 6
struct tensor {
	const char *name;
	enum dtype dtype;
	enum quant quant; /* block format, if dtype is DTYPE_BLOCKS */
	int n_dims;
	int64_t dim[TENSOR_MAX_DIMS]; /* counted in weights, outermost first */
	const void *data;
	size_t n_bytes;
	const char *file; /* path, for messages */
	bool is_made;     /* quant_made.c made it, so `data` does not lie in a file */
	const struct weight_source *source; /* as in struct weight, or NULL */
};

struct tensors;
struct model_opts;
struct gguf;

/* Read model.safetensors.index.json and its shards, else model.safetensors. Each entry's
 * bounds, overlap, dtype and size are checked. With mmap, truncating an open file ends
 * the process with SIGBUS. */
enum status tensors_open(const char *dir, const struct model_opts *opts,
			 struct tensors **out, struct fail *fail) MUST_USE;
/* Like tensors_open for the GGUF file at `path`; of a split model all parts are opened.
 * `rename` returns the name of each tensor for lookups (a new name is in the arena), or
 * NULL to leave the tensor out. */
typedef const char *(*tensors_rename_fn)(const struct gguf *g, const char *name,
					 struct arena *a);
enum status tensors_open_gguf(const char *path, const struct model_opts *opts,
			      tensors_rename_fn rename, struct tensors **out,
			      struct fail *fail) MUST_USE;
/* Adds the tensors of `beside`, which ts owns from here on, also after a failure. Tensors that were
 * found before move: keep none of them. E_FORMAT if both have a name. */
enum status tensors_join(struct tensors *ts, struct tensors *beside, struct fail *fail) MUST_USE;
/* Lets tensors_find find a tensor also by the name that `other` returns for it, if not NULL. */
void tensors_name_too(struct tensors *ts,
		      const char *(*other)(const char *name, struct arena *a));
/* Memory that tensors_close frees, zeroed, aligned to 16 bytes. */
void *tensors_alloc(struct tensors *ts, size_t n);
/* Puts *t in the place of tensor i and lets tensors_find find it by its name, which is
 * copied. The old name finds it too. t->data lives as long as ts. */
void tensors_replace(struct tensors *ts, size_t i, const struct tensor *t);
/* The key-value pairs of the (first) GGUF file, or NULL for safetensors. */
const struct gguf *tensors_gguf(const struct tensors *ts);
void tensors_close(struct tensors *ts);
/* Append a line "file BYTES TIME PATH" for each file. TIME is file_time_ns from when it
 * was opened. */
void tensors_list_files(const struct tensors *ts, struct buf *out);
const char *tensors_dir(const struct tensors *ts); /* path of the model, for messages */
const struct tensor *tensors_find(const struct tensors *ts, const char *name);
/* Is there such a tensor? Asking does not count as reading it. */
bool tensors_has(const struct tensors *ts, const char *name);
/* True if tensors_find has returned tensor i. */
bool tensors_is_asked(const struct tensors *ts, size_t i);
size_t tensors_count(const struct tensors *ts);
const struct tensor *tensors_at(const struct tensors *ts, size_t i);
