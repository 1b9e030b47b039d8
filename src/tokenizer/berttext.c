/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/berttext.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/unicode.h"

bool berttext_is_space(uint32_t cp)
{
	return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 ||
	       cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
	       cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static bool is_han(uint32_t cp)
{
	return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) ||
	       (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B73F) ||
	       (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
	       (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

static bool is_punctuation(uint32_t cp)
{
	if (cp < 0x80)
		return (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) ||
		       (cp >= 91 && cp <= 96) || (cp >= 123 && cp <= 126);
	return unicode_is_bert_punct(cp);
}

static void add_char(uint32_t cp, enum trust trust, struct marked *out)
{
	char text[4];
	marked_add(out, (struct str){text, utf8_encode(cp, text)}, trust);
}

/* Append the normal form of cp. A decomposition has four characters at most. */
static void add_normal(const struct bert_text *b, uint32_t cp, enum trust trust,
		       struct marked *out)
{
	utf8proc_int32_t parts[8] = {(utf8proc_int32_t)cp};
	utf8proc_ssize_t n = 1;
	int bounds = UTF8PROC_BOUNDCLASS_START;
	if (b->strips_accents && !unicode_is_inert(cp))
		n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 8,
					    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &bounds);
	for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) {
		uint32_t part = (uint32_t)parts[i], second = 0;
		if (b->strips_accents && unicode_is_bert_mark(part))
			continue;
		if (b->lowers)
			part = unicode_lower(part, &second);
		add_char(part, trust, out);
		if (second)
			add_char(second, trust, out);
	}
}

void berttext_normalize(const struct bert_text *b, struct markview v, struct marked *out)
{
	for (size_t at = 0, n; at < v.text.n; at += n) {
		uint32_t cp;
		n = utf8_decode((struct str){v.text.p + at, v.text.n - at}, &cp);
		enum trust trust = markview_least(v, at, at + n);
		if (b->cleans && unicode_is_bert_control(cp))
			continue;
		if (b->cleans && berttext_is_space(cp))
			cp = ' ';
		bool is_apart = b->spaces_han && is_han(cp);
		if (is_apart)
			add_char(' ', trust, out);
		add_normal(b, cp, trust, out);
		if (is_apart)
			add_char(' ', trust, out);
	}
}

enum status berttext_words(struct str text, pretok_word_fn on_word, void *ctx)
{
	size_t from = 0, n;
	enum status st = OK;
	for (size_t at = 0; at < text.n && st == OK; at += n) {
		uint32_t cp;
		n = utf8_decode((struct str){text.p + at, text.n - at}, &cp);
		bool is_space = berttext_is_space(cp), is_alone = is_punctuation(cp);
		if (!is_space && !is_alone)
			continue;
		if (from < at)
			st = on_word(ctx, (struct str){text.p + from, at - from});
		if (st == OK && is_alone)
			st = on_word(ctx, (struct str){text.p + at, n});
		from = at + n;
	}
	return st == OK && from < text.n
		       ? on_word(ctx, (struct str){text.p + from, text.n - from})
		       : st;
}
