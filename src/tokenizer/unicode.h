/* SPDX-License-Identifier: Apache-2.0
 *
 * Characters as Hugging Face's tokenizers see them, whatever Unicode version PCRE2 and utf8proc
 * have. The library has several versions itself: 16 in regular expressions, 15 for case, 9 for
 * normal forms, 8 for BERT. unicode_rows.def has the characters that 14 or a later version sees
 * otherwise. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* True if no normal form changes cp, moves it, or joins it with a neighbour, though utf8proc
 * may think so. */
bool unicode_is_inert(uint32_t cp);
/* True for what StripAccents removes. */
bool unicode_is_mark(uint32_t cp);
/* True for what BertNormalizer removes with accents, and when it cleans. */
bool unicode_is_bert_mark(uint32_t cp);
bool unicode_is_bert_control(uint32_t cp);
/* True if a word of BERT ends before and behind cp, which is not ASCII. */
bool unicode_is_bert_punct(uint32_t cp);
/* Lower case of cp. U+0130 alone becomes two characters: i, and U+0307 in *out_second; else that
 * is 0. */
uint32_t unicode_lower(uint32_t cp, uint32_t *out_second);
/* A character in place of cp that every version of PCRE2 sees as the library sees cp, and that
 * has as many bytes in UTF-8; or cp itself. */
uint32_t unicode_stand_in(uint32_t cp);
