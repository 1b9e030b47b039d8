/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions of tokenizer.json, in Oniguruma's syntax, matched by PCRE2. Thread: any,
 * once created. A struct regex_work belongs to one thread.
 */
#pragma once
#include "base/buf.h"

struct regex_code;

/* is_literal: source is a plain text. use_jit false: interpret, which also happens if the system
 * refuses executable memory. E_FORMAT, E_UNSUPPORTED. */
enum status regex_create(struct str source, bool is_literal, bool use_jit, struct regex_code **out,
			 struct fail *fail) MUST_USE;
void regex_destroy(struct regex_code *re);

struct regex_work;
struct regex_work *regex_work_create(void); /* NULL: no memory */
void regex_work_destroy(struct regex_work *w);

/* Prepares for a text in UTF-8: returns what to match, which has stand-ins (unicode.h) at the
 * same places, and is valid until the next call. A match may take a time that grows with the
 * text. */
struct str regex_begin(struct regex_work *w, struct str text);
/* The first match at or after offset `from`; none: *out_found is false. E_LIMIT. */
enum status regex_find(const struct regex_code *re, struct regex_work *w, struct str text,
		       size_t from, bool *out_found, size_t *out_start, size_t *out_end,
		       struct fail *fail) MUST_USE;
