/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file: eight bytes of header length, a JSON header, the data.
 * Thread: any.
 */
#pragma once
#include "base/arena.h"
#include "model/tensors.h"

struct safetensors {
	struct tensor *tensors; /* sorted by where their data lies */
	size_t n;
	void *copies; /* of data that was not aligned to its element */
};

/* Entries of the file whose bytes are `file`. Names are copied into the arena; data
 * points into `file` or the copies. path must outlive them. E_FORMAT names file and
 * tensor. */
enum status safetensors_parse(struct str file, const char *path, struct arena *a,
			      struct safetensors *out,
			      struct fail *fail) MUST_USE;
/* Sorts the tensors by where their data lies; no two may share a byte. */
enum status safetensors_check_overlap(struct safetensors *s, const char *path,
				      struct fail *fail) MUST_USE;
void safetensors_deinit(struct safetensors *s);
