/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's table of normal forms ("precompiled charsmap"): a trie of spellings and
 * what each becomes. It is used as Hugging Face `tokenizers` uses it: of a grapheme of
 * less than 6 bytes the shortest entry that begins it decides, else each character has
 * its own. Thread: any, once created.
 *
 * Source: normalizer.cc of SentencePiece for the bytes; Yata et al., A Compact Static
 * Double-Array Keeping Character Codes, 2007.
 */
#pragma once
#include "base/markview.h"

struct charsmap;

/* blob: bytes of the trie (u32, little-endian), its units, then texts that end in NUL.
 * Copied. E_FORMAT. */
enum status charsmap_create(struct str blob, struct charsmap **out,
			    struct fail *fail) MUST_USE;
void charsmap_destroy(struct charsmap *c); /* NULL is fine */
/* Appends the normal form of v, which is UTF-8. What replaces bytes of several writers
 * gets the lowest trust of them. */
void charsmap_run(const struct charsmap *c, struct markview v, struct marked *out);
