/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON that came with a model: parsed with bounds, faults named by file. Thread:
 * any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* Parse text, said to be from `path`, whose top is an object. A key given twice,
 * more than 64 levels, or bytes that are not JSON: E_FORMAT with the line. The caller
 * owns *out. */
enum status jsonfile_parse(struct str text, const char *path, json_t **out,
			   struct fail *fail) MUST_USE;
/* The same for dir/name of at most max_bytes. E_MISSING where there is no such
 * file. */
enum status jsonfile_load(const char *dir, const char *name, size_t max_bytes,
			  json_t **out, struct fail *fail) MUST_USE;
/* "object", "a list", … for messages. */
const char *jsonfile_type(const json_t *v);
/* Value of key, or NULL where it is absent or null: config files say both. */
const json_t *jsonfile_get(const json_t *object, const char *key);
