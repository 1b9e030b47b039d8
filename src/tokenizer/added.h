/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds added tokens such as "<|im_end|>" and "<think>" in a text. The leftmost match
 * wins, then the longest. A token matches only where the writer of its bytes may write
 * it. Thread: any, once the struct added is built.
 */
#pragma once
#include "base/markview.h"
#include "tokenizer/tokenizer.h"

/* Maximal bytes of an added token that added_insert accepts. Scanning costs at most this
 * many trie steps per byte of text. Real tokens have at most about a hundred bytes. */
#define ADDED_MAX_BYTES 1024

struct added;
/* space_is_text: U+0020 stands for SentencePiece's U+2581, so lstrip and rstrip leave it
 * in the text. */
struct added *added_create(bool space_is_text);
void added_destroy(struct added *a);
/* Inserts `token`, which is found where `text` stands. If two tokens have the same text,
 * the first one stays. text: 1..ADDED_MAX_BYTES bytes of UTF-8. */
void added_insert(struct added *a, struct str text,
		  const struct added_token *token);

struct added_match {
	size_t start, end; /* byte range, including the white space that lstrip and rstrip take */
	int32_t id;
};
struct added_scan {
	const struct added *a;
	struct markview v;
	size_t at;      /* byte offset where the search continues */
	size_t done;    /* end of the last match, including white space that rstrip took */
	size_t space_start, space_end; /* byte range of the run of white space measured last */
};
void added_scan_init(struct added_scan *s, const struct added *a,
		     struct markview v);
/* Finds the next match. The text between s->done (read before the call) and out->start is
 * plain text. If the result is false, the text after s->done is plain too. */
bool added_scan_next(struct added_scan *s, struct added_match *out);
