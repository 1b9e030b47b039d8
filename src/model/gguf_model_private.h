/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by gguf_model.c, gguf_names.c and the files of families. Thread: any.
 */
#pragma once
#include "json/jsonfile.h"
#include "model/gguf_model.h"
#include "model/model_arch.h"

/* The file, and the config.json that is built from its keys. */
struct gguf_model_reader {
	const struct gguf *g;
	const struct tensors *tensors;
	const char *path;
	const struct model_arch *arch;
	json_t *config;
	struct fail *fail;
};

/* The row of archs.def for general.architecture; NULL: there is none. *out_name is the key's
 * value. */
const struct model_arch *gguf_model_arch(const struct gguf *g, struct str *out_name);
/* The value of <architecture>.<key>; NULL if the file lacks it. `name` receives the key's
 * full name. */
const struct gguf_value *gguf_model_key(const struct gguf_model_reader *r, const char *key,
					char name[96]);
/* Returns E_UNSUPPORTED with a message that names the key and its value. */
enum status gguf_model_refuse(const struct gguf_model_reader *r, const char *key,
			      const struct gguf_value *v);
/* An integer that the config under construction has already; 0: it is missing. */
int64_t gguf_model_known(const struct gguf_model_reader *r, const char *hf);
/* Layers of the model itself: the file counts MTP layers, too. read_family checks the number. */
int64_t gguf_model_layers(const struct gguf_model_reader *r);

/* Sets layer_types: layers with key heads are attention layers, the others have the type
 * `others`. */
enum status gguf_model_read_types(struct gguf_model_reader *r, const char *others) MUST_USE;
