/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that tell a sound model's text from a broken model's: pure functions of the text.
 * Wrong kernels or a wrong tokenizer give loops, random letters or broken UTF-8.
 * Thread: any.
 */
#pragma once
#include "base/buf.h"

/* True if `text` holds `word` as a whole word. Upper and lower case of ASCII letters are alike. */
bool answer_has_word(struct str text, const char *word);

/* What is wrong with an English story, as a sentence without a full stop; NULL: nothing. A
 * sound story has at least ANSWER_MIN_WORDS words and is UTF-8. At most half of its runs of
 * four words occur a second time. Nine of ten letters are ASCII, and one word of twenty is
 * among English's most common. */
enum { ANSWER_MIN_WORDS = 20 };
const char *answer_story_fault(struct str text);
