/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's table of normal forms ("precompiled charsmap"): a trie of spellings, each
 * with the text that replaces it. As in Hugging Face `tokenizers`, the shortest entry that a
 * grapheme of fewer than 6 bytes begins with replaces the grapheme. If there is none, or the
 * grapheme is longer, each character is looked up by itself. Thread: any, once created.
 *
 * Source: normalizer.cc of SentencePiece for the bytes; Yata et al., A Compact Static
 * Double-Array Keeping Character Codes, 2007.
 */
#pragma once
#include "base/markview.h"

struct charsmap;

/* blob: size of the trie in bytes (u32, little-endian), the trie's units, then texts that end
 * in NUL. The blob is copied. E_FORMAT. */
enum status charsmap_create(struct str blob, struct charsmap **out,
			    struct fail *fail) MUST_USE;
void charsmap_destroy(struct charsmap *c); /* NULL is fine */
/* Appends the normal form of v, which is UTF-8. A text that replaces bytes of several writers
 * gets their lowest trust. */
void charsmap_run(const struct charsmap *c, struct markview v, struct marked *out);
