/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/unicode.h"

#include <stddef.h>

#include <utf8proc.h>

#include "base/alloc.h"

enum { INERT = 1, MARK = 2, BERT_MARK = 4, BERT_CONTROL = 8, BERT_PUNCT = 16, HAN = 32 };

/* Of each category characters of 2, 3 and 4 bytes that have it since Unicode 14 or before. Where
 * a category has none of a length, no row needs it. Han stands in for itself only. */
#define CATEGORIES(X) \
	X(LU, 0x100, 0x1E00, 0x10400) X(LL, 0x101, 0x1E01, 0x10428) X(LM, 0x2B0, 0x1D2C, 0x16B40) \
	X(LO, 0x621, 0x905, 0x10000) X(MN, 0x300, 0x941, 0x10A01) X(MC, 0, 0x903, 0x11000) \
	X(ME, 0x488, 0x20DD, 0) X(ND, 0x660, 0x966, 0x104A0) X(NL, 0, 0x2160, 0x10140) \
	X(NO, 0, 0x2070, 0x10107) X(PC, 0, 0x203F, 0) X(PD, 0x58A, 0x2010, 0x10EAD) \
	X(PS, 0, 0x2045, 0) X(PE, 0, 0x2046, 0) X(PI, 0, 0x2018, 0) X(PF, 0, 0x2019, 0) \
	X(PO, 0x60C, 0x2016, 0x10100) X(SM, 0x3F6, 0x2044, 0x1D6C1) X(SC, 0x58F, 0x20A0, 0x11FDD) \
	X(SK, 0x2C2, 0x1FBD, 0x1F3FB) X(SO, 0x482, 0x2100, 0x10137) X(CF, 0x600, 0x2061, 0x110BD) \
	X(CN, 0x378, 0xFDD0, 0x1FFFE)

enum category {
#define CATEGORY(name, two, three, four) name,
	CATEGORIES(CATEGORY)
#undef CATEGORY
};

static const uint32_t stand_ins[][3] = {
#define CATEGORY(name, two, three, four) {two, three, four},
	CATEGORIES(CATEGORY)
#undef CATEGORY
};

struct unicode_row {
	uint32_t first, last;
	uint8_t category, flags;
	int32_t to_lower;
};

static const struct unicode_row rows[] = {
#define ROW(first, last, category, flags, to_lower) {first, last, category, flags, to_lower},
#include "tokenizer/unicode_rows.def"
#undef ROW
};

static const struct unicode_row *unicode_find(uint32_t cp)
{
	size_t low = 0, high = ARRAY_LEN(rows);
	if (cp < rows[0].first || (cp >= 0x4E00 && cp < 0x9FFD) || (cp >= 0xAC00 && cp < 0xD7A4))
		return NULL; /* most text */
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (cp > rows[mid].last)
			low = mid + 1;
		else
			high = mid;
	}
	return low < ARRAY_LEN(rows) && rows[low].first <= cp ? &rows[low] : NULL;
}

static utf8proc_category_t category(uint32_t cp)
{
	return utf8proc_category((utf8proc_int32_t)cp);
}

bool unicode_is_inert(uint32_t cp)
{
	const struct unicode_row *r = unicode_find(cp);
	return r && r->flags & INERT;
}

bool unicode_is_mark(uint32_t cp)
{
	const struct unicode_row *r = unicode_find(cp);
	utf8proc_category_t c = category(cp);
	return r ? r->flags & MARK : c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool unicode_is_bert_mark(uint32_t cp)
{
	const struct unicode_row *r = unicode_find(cp);
	return r ? r->flags & BERT_MARK : category(cp) == UTF8PROC_CATEGORY_MN;
}

bool unicode_is_bert_control(uint32_t cp)
{
	const struct unicode_row *r = unicode_find(cp);
	if (cp == 0 || cp == 0xFFFD)
		return true;
	if (cp == '\t' || cp == '\n' || cp == '\r')
		return false;
	return r ? r->flags & BERT_CONTROL
		 : category(cp) >= UTF8PROC_CATEGORY_CC && category(cp) <= UTF8PROC_CATEGORY_CO;
}

bool unicode_is_bert_punct(uint32_t cp)
{
	const struct unicode_row *r = unicode_find(cp);
	utf8proc_category_t c = category(cp);
	return r ? r->flags & BERT_PUNCT : c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

uint32_t unicode_lower(uint32_t cp, uint32_t *out_second)
{
	const struct unicode_row *r = unicode_find(cp);
	*out_second = cp == 0x130 ? 0x307 : 0;
	if (cp == 0x130)
		return 'i';
	return r ? (uint32_t)((int32_t)cp + r->to_lower)
		 : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

uint32_t unicode_stand_in(uint32_t cp)
{
	const struct unicode_row *r = unicode_find(cp);
	if (!r)
		return cp;
	if (r->flags & HAN)
		return cp < 0x10000 ? 0x4E00 : 0x20000;
	uint32_t other = stand_ins[r->category][cp < 0x800 ? 0 : cp < 0x10000 ? 1 : 2];
	return other ? other : cp;
}
