/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by gguf_model.c and the files gguf_*.c of families. Thread: any.
 */
#pragma once
#include "json/jsonfile.h"
#include "model/gguf_model.h"
#include "model/model_arch.h"

/* The file, and the config.json that is made of its keys. */
struct gguf_model_reader {
	const struct gguf *g;
	const struct tensors *tensors;
	const char *path;
	const struct model_arch *arch;
	json_t *config;
	struct fail *fail;
};

/* The row of general.architecture, whose value *out_name is; NULL: there is none. */
const struct model_arch *gguf_model_arch(const struct gguf *g, struct str *out_name);
/* The value of <architecture>.<key>; NULL if the file lacks it. `name` receives the key's
 * full name. */
const struct gguf_value *gguf_model_key(const struct gguf_model_reader *r, const char *key,
					char name[96]);
/* E_UNSUPPORTED, with the key and its value. */
enum status gguf_model_refuse(const struct gguf_model_reader *r, const char *key,
			      const struct gguf_value *v);
/* An integer of the config so far; 0: it is not there. */
int64_t gguf_model_known(const struct gguf_model_reader *r, const char *hf);

/* What the heads and layers of Gemma 4 are, from its keys and tensors. */
enum status gguf_gemma4_read(struct gguf_model_reader *r) MUST_USE;
/* Layers of one part, of Nemotron-H. */
enum status gguf_nemotron_read(struct gguf_model_reader *r) MUST_USE;
/* Hyper-connections, the indexer and n-grams of Qwen4-Exp. */
enum status gguf_qwen4_read(struct gguf_model_reader *r) MUST_USE;
/* The blocks of DeepSeek-V4's layers, behind its keys. */
enum status gguf_deepseek4_read(struct gguf_model_reader *r) MUST_USE;
/* Of state spaces: the size of a head, and whether convolutions have a bias. */
enum status gguf_space_sizes(struct gguf_model_reader *r) MUST_USE;
/* The state spaces of Granite 4's hybrids, and the parts beside them. */
enum status gguf_space_read(struct gguf_model_reader *r) MUST_USE;
