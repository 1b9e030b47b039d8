/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by gguf_model.c and the files gguf_*.c of families. Thread: any.
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

/* Reads Gemma 4's heads and kinds of layers from its keys and tensors. */
enum status gguf_gemma4_read(struct gguf_model_reader *r) MUST_USE;
/* Reads Nemotron-H, whose layers have one part each (a mixer or a feed-forward). */
enum status gguf_nemotron_read(struct gguf_model_reader *r) MUST_USE;
/* Reads the hyper-connections, indexer and n-grams of Qwen4-Exp. */
enum status gguf_qwen4_read(struct gguf_model_reader *r) MUST_USE;
/* Reads the compression of DeepSeek-V4's layers. Call it after the keys are copied. */
enum status gguf_deepseek4_read(struct gguf_model_reader *r) MUST_USE;
/* Reads sizes of state spaces: of a head, and whether convolutions have a bias. */
enum status gguf_space_sizes(struct gguf_model_reader *r) MUST_USE;
/* Reads the state spaces of Granite 4's hybrids, and the feed-forwards beside them. */
enum status gguf_space_read(struct gguf_model_reader *r) MUST_USE;
