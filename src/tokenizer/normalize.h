/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes a text with trust marks as the normalizers of tokenizer.json do: Unicode's normal
 * forms, lower case, accents, replacements. Thread: any, once created.
 */
#pragma once
#include "base/markview.h"

enum normal_kind {
	NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD,
	NORMAL_LOWER,         /* each character by itself */
	NORMAL_STRIP_ACCENTS, /* no marks */
	NORMAL_STRIP,         /* no white space at the ends */
	NORMAL_REPLACE,       /* each match of `pattern` by `content` */
	NORMAL_PREPEND,       /* `content` before a text that is not empty */
};

struct normal_step {
	enum normal_kind kind;
	struct str pattern, content;
	bool is_literal;  /* the pattern is a plain text, no regular expression */
	bool left, right; /* where NORMAL_STRIP strips */
};

struct normalizer;

/* Copies what it keeps. Error texts name the step as "steps[i]". */
enum status normalizer_create(const struct normal_step *steps, int n_steps,
			      struct normalizer **out, struct fail *fail) MUST_USE;
void normalizer_destroy(struct normalizer *n); /* NULL is fine */

/* Appends what the steps make of v, which is UTF-8, to out, and sets *out_changed. If a quick
 * look shows that nothing changes, leaves out untouched. What is made of bytes of several
 * writers gets the lowest trust of them. Time is linear for any text, but for regular
 * expressions: E_LIMIT. */
enum status normalizer_run(const struct normalizer *n, struct markview v, struct marked *out,
			   bool *out_changed, struct fail *fail) MUST_USE;
