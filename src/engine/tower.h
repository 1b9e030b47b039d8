/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the weights of a tower: what makes rows of images or of sound, beside a text model and
 * on a backend of its own. Weights have 16 or 32 bits, or a matrix is in blocks of GGUF. A GPU's
 * kernels for many tokens take no float32, so there float32 becomes float16. Thread: one at a
 * time.
 */
#pragma once
#include "backend/backend.h"
#include "model/tensors.h"

/* What a tower's weights lie in. */
struct tower_memory {
	void **blocks; /* device memory */
	size_t n_blocks;
	void **hosts;  /* host memory that weights point into */
	size_t n_hosts;
};
void tower_free(struct tower_memory *m, struct backend *b);

struct tower_loader {
	struct backend *b;
	const struct tensors *tensors;
	const char *whose; /* "the vision tower's", for error texts */
	struct tower_memory *memory;
	struct fail *fail;
	enum status st; /* the first failure, after which nothing is loaded */
};

/* Fails: l->st = st, with a text that names the tensor. */
void tower_stop(struct tower_loader *l, enum status st, const char *name, const char *what);
/* Finds a tensor of n numbers, in any shape; NULL: l->st says why. */
const struct tensor *tower_find(struct tower_loader *l, const char *name, int64_t n);
/* A matrix of n rows of k numbers, as the file stores it: in 16 or 32 bits, or in blocks within
 * rows. */
const struct tensor *tower_matrix(struct tower_loader *l, const char *name, int32_t n, int32_t k,
				  struct weight *out);
/* Sends a matrix to the device. pitch: numbers of a row there, at least k; on a GPU zeros fill a
 * row, on the CPU a row keeps its k. */
void tower_send(struct tower_loader *l, const struct weight *host, size_t pitch,
		struct weight *out);
/* tower_matrix and tower_send in one. */
void tower_load(struct tower_loader *l, const char *name, int32_t n, int32_t k,
		struct weight *out);
/* Sends a matrix whose host->q is malloc'ed, and frees it as soon as no weight points into it. */
void tower_send_own(struct tower_loader *l, const struct weight *host, size_t pitch,
		    struct weight *out);
/* The tower owns p, malloc'ed, from now on, because a weight points into it. */
void tower_keep(struct tower_loader *l, void *p);
/* Copies n floats to the device. */
const float *tower_put(struct tower_loader *l, const float *host, int64_t n);
/* Loads n of a tensor's n_all floats, from element `first` on, to the device; tower_sums: with
 * `plus` added to each. */
const float *tower_floats(struct tower_loader *l, const char *name, int64_t n_all, int64_t first,
			  int64_t n);
const float *tower_sums(struct tower_loader *l, const char *name, int64_t n_all, int64_t first,
			int64_t n, float plus);
/* Bytes of those tensors whose names begin with one of n prefixes. */
int64_t tower_weight_bytes(const struct tensors *tensors, const char *const *prefixes, size_t n);
