/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding added tokens ("<|im_end|>", "<think>") in a text: leftmost, then
 * longest, and only where their writer may write them. Thread: any once built.
 */
#pragma once
#include "base/markview.h"
#include "tokenizer/tokenizer.h"

/* The longest added token that is accepted: scanning costs at most this much per
 * byte of text. Real ones have at most about a hundred bytes. */
#define ADDED_MAX_BYTES 1024

struct added;
/* space_is_text: U+0020 stands for U+2581, which is no white space to be taken along. */
struct added *added_create(bool space_is_text);
void added_destroy(struct added *a);
/* Take token, found where `text` stands. Of two tokens with the same text the
 * first stays. text: 1..ADDED_MAX_BYTES bytes of UTF-8. */
void added_insert(struct added *a, struct str text,
		  const struct added_token *token);

struct added_match {
	size_t start, end; /* with the white space that lstrip and rstrip take */
	int32_t id;
};
struct added_scan {
	const struct added *a;
	struct markview v;
	size_t at;      /* search goes on here */
	size_t done;    /* end of the last match, as stripped */
	size_t space_start, space_end; /* white space already measured */
};
void added_scan_init(struct added_scan *s, const struct added *a,
		     struct markview v);
/* The next match. Text between s->done (read before the call) and
 * out->start is plain; so is what is behind s->done when this returns false. */
bool added_scan_next(struct added_scan *s, struct added_match *out);
