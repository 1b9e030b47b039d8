/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the JSON files of a model, with limits. Error texts name the file. Thread: any.
 */
#pragma once
#include "json/json_text.h"

/* Parses text, whose top level must be an object. `path` is for error texts only.
 * E_FORMAT with the line: not JSON of this mode, or more than 64 levels. The caller owns
 * *out. */
enum status jsonfile_parse(struct str text, const char *path, enum json_text_mode mode,
			   json_t **out, struct fail *fail) MUST_USE;
/* Like jsonfile_parse, for the file dir/name of at most max_bytes, as Python reads it.
 * E_MISSING: there is no such file. */
enum status jsonfile_load(const char *dir, const char *name, size_t max_bytes,
			  json_t **out, struct fail *fail) MUST_USE;
/* The type for an error text: "object", "a list", … */
const char *jsonfile_type(const json_t *v);
/* The value of key. NULL if it is absent or null: config files use both for "not set". */
const json_t *jsonfile_get(const json_t *object, const char *key);

/* How an int32_t of a struct is read. */
struct jsonfile_number {
	const char *key;
	size_t at; /* offset in the struct */
	int32_t min, max, fallback; /* fallback -1: required */
};
/* Reads n numbers of an object into the struct `to`. `what` names the object in error texts.
 * E_MISSING and E_FORMAT name the key. */
enum status jsonfile_numbers(const json_t *from, const char *what,
			     const struct jsonfile_number *s, size_t n, void *to,
			     struct fail *fail) MUST_USE;
/* The settings of what prepares images or sound: preprocessor_config.json of a model's folder, or
 * in newer folders `part` of processor_config.json. The caller owns *out; NULL: there are none. */
enum status jsonfile_processor(const char *dir, const char *part, json_t **out,
			       struct fail *fail) MUST_USE;
