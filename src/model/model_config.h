/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads config.json and generation_config.json. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "model/model.h"

/* Read the settings of a parsed config.json. Lists go into the arena. E_UNSUPPORTED: an
 * unknown architecture, or an unknown setting that changes the result; fail->param is the
 * key. E_FORMAT: a wrong type or a value out of range. E_MISSING: a required value is
 * absent. */
enum status model_config_read(const json_t *root, struct arena *a,
			      struct model_config *out,
			      struct fail *fail) MUST_USE;
/* The object of a config.json that holds the settings of towers, beside text_config: root, or
 * what is within it (Qwen3-Omni's thinker_config). */
const json_t *model_config_outer(const json_t *root);
/* Read generation_config.json; root is NULL if there is none. The end-of-text ids of
 * config.json are added. */
enum status model_defaults_read(const json_t *root, const struct model_config *c,
				struct generation_defaults *out,
				struct fail *fail) MUST_USE;
/* Read a list of token ids, a single id, or null. Appends the ids that are not yet in
 * ids[*n]. */
enum status model_ids_read(const json_t *v, const char *file, const char *key,
			   int32_t n_vocab, int32_t *ids, int *n,
			   struct fail *fail) MUST_USE;
