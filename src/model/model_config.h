/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json and generation_config.json. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "model/model.h"

/* Read the settings of a parsed config.json. Lists go into the arena. An
 * architecture, or a setting that changes the result, which this version does not
 * know: E_UNSUPPORTED, with the key in fail->param; a wrong type or a value out of
 * range: E_FORMAT; no value: E_MISSING. */
enum status model_config_read(const json_t *root, struct arena *a,
			      struct model_config *out,
			      struct fail *fail) MUST_USE;
/* What generation_config.json (root, NULL if there is none) says, with the ends of
 * text of config.json added. */
enum status model_defaults_read(const json_t *root, const struct model_config *c,
				struct generation_defaults *out,
				struct fail *fail) MUST_USE;
/* A list of token ids, or one, or null. Appends those not yet in ids[*n]. */
enum status model_ids_read(const json_t *v, const char *file, const char *key,
			   int32_t n_vocab, int32_t *ids, int *n,
			   struct fail *fail) MUST_USE;
