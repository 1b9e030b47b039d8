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

/* Which files of a list are wanted. Each is a part of a GGUF file's name (hub_file_fits), or
 * NULL. */
struct hub_choice {
	const char *file;   /* the model; NULL: the safetensors files, or the only GGUF model */
	const char *mmproj; /* its tower; NULL: one of 16 bits, or else the first; "none": none */
	const char *mtp;    /* its MTP layer; NULL: the one that halod finds; "none": none */
};

/* Marks the files to fetch: the safetensors files and the files that describe them (configuration,
 * tokenizer, template), or one GGUF model with all its parts. With that come its tower and its MTP
 * layer, from its folder or one above. A `file` that names such a file means it alone. E_INVAL if
 * not exactly one model fits, or one file for a part that was named; the message lists the
 * files. */
enum status hub_list_choose(struct hub_list *l, const struct hub_choice *c,
			    struct fail *fail) MUST_USE;
int64_t hub_list_wanted_bytes(const struct hub_list *l);
