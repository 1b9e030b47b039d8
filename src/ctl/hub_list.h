/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of a model's files on a hub, and the choice of those that halod needs. Thread: any.
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"

struct hub_file {
	char *path;      /* path in the model's repository, as in
			  * "model-00001-of-00002.safetensors" */
	int64_t n_bytes;
	char *digest;    /* hexadecimal; the name of its blob in the cache */
	bool is_sha256;  /* digest is SHA-256 of the bytes; else SHA-1 of git's blob */
	bool is_wanted;
};

struct hub_list {
	char *commit;
	struct hub_file *files;
	size_t n_files;
};

/* The answer of /api/models/ORG/NAME/revision/REV?blobs=true. A path that leaves the model's
 * folder, or an invalid digest, makes the whole list E_FORMAT. */
enum status hub_list_read(struct str json, struct hub_list *out, struct fail *fail) MUST_USE;
void hub_list_deinit(struct hub_list *l);

/* Marks the files to fetch. `file` NULL: the safetensors files and the files that describe them
 * (configuration, tokenizer, template), or the only GGUF model. Else: the GGUF model that fits
 * `file` (hub_file_fits), with all its parts. E_INVAL if not exactly one model fits; the
 * message lists the models. */
enum status hub_list_choose(struct hub_list *l, const char *file, struct fail *fail) MUST_USE;
int64_t hub_list_wanted_bytes(const struct hub_list *l);
