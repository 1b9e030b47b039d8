/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file: eight bytes of header length, a JSON header, the data. Thread:
 * any.
 */
#pragma once
#include "base/arena.h"
#include "model/tensors.h"

struct safetensors {
	struct tensor *tensors; /* in the order of their data */
	size_t n;
	void *copies; /* aligned copies of misaligned tensors */
};

/* Parse the safetensors file whose bytes are `file`. Names are copied into the arena;
 * data points into `file` or into the copies. path must outlive them. E_FORMAT names the
 * file and the tensor. */
enum status safetensors_parse(struct str file, const char *path, struct arena *a,
			      struct safetensors *out,
			      struct fail *fail) MUST_USE;
/* Sort the tensors by the position of their data. E_FORMAT if two share a byte. */
enum status safetensors_check_overlap(struct safetensors *s, const char *path,
				      struct fail *fail) MUST_USE;
void safetensors_deinit(struct safetensors *s);
