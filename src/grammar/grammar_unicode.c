/* SPDX-License-Identifier: Apache-2.0
 *
 * \p{…} of regexes: the general categories from utf8proc, and two properties that
 * expressions for emoji use. A process classifies all characters once.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "grammar/grammar_private.h"

struct unicode_run {
	struct grammar_range range;
	uint8_t category; /* a utf8proc_category_t */
	bool is_pictographic;
};

static struct unicode_run *runs;
static size_t n_runs;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_runs(void)
{
	size_t cap = 0;
	for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
		const utf8proc_property_t *p =
			utf8proc_get_property((utf8proc_int32_t)cp);
		struct unicode_run r = {.range = {cp, cp}, .category = (uint8_t)p->category,
				.is_pictographic = p->boundclass ==
					UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC};
		struct unicode_run *last = n_runs ? &runs[n_runs - 1] : NULL;
		if (last && last->category == r.category &&
		    last->is_pictographic == r.is_pictographic) {
			last->range.hi = cp;
			continue;
		}
		if (n_runs == cap) {
			cap = cap ? 2 * cap : 4096;
			runs = xrealloc(runs, cap * sizeof *runs);
		}
		runs[n_runs++] = r;
	}
}

/* Code points that UTS #51 calls emoji components. */
static const struct grammar_range components[] = {
	{'#', '#'}, {'*', '*'}, {'0', '9'}, {0x200D, 0x200D}, {0x20E3, 0x20E3},
	{0xFE0F, 0xFE0F}, {0x1F1E6, 0x1F1FF}, {0x1F3FB, 0x1F3FF}, {0x1F9B0, 0x1F9B3},
	{0xE0020, 0xE007F}};

static const struct category {
	const char *name, *long_name;
	unsigned bits; /* bit set of utf8proc's categories */
} categories[] = {
#define BIT(name) (1u << UTF8PROC_CATEGORY_##name)
	{"Lu", "Uppercase_Letter", BIT(LU)}, {"Ll", "Lowercase_Letter", BIT(LL)},
	{"Lt", "Titlecase_Letter", BIT(LT)}, {"Lm", "Modifier_Letter", BIT(LM)},
	{"Lo", "Other_Letter", BIT(LO)},
	{"L", "Letter", BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO)},
	{"Mn", "Nonspacing_Mark", BIT(MN)}, {"Mc", "Spacing_Mark", BIT(MC)},
	{"Me", "Enclosing_Mark", BIT(ME)}, {"M", "Mark", BIT(MN) | BIT(MC) | BIT(ME)},
	{"Nd", "Decimal_Number", BIT(ND)}, {"Nl", "Letter_Number", BIT(NL)},
	{"No", "Other_Number", BIT(NO)}, {"N", "Number", BIT(ND) | BIT(NL) | BIT(NO)},
	{"Pc", "Connector_Punctuation", BIT(PC)}, {"Pd", "Dash_Punctuation", BIT(PD)},
	{"Ps", "Open_Punctuation", BIT(PS)}, {"Pe", "Close_Punctuation", BIT(PE)},
	{"Pi", "Initial_Punctuation", BIT(PI)}, {"Pf", "Final_Punctuation", BIT(PF)},
	{"Po", "Other_Punctuation", BIT(PO)},
	{"P", "Punctuation", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) |
			     BIT(PO)},
	{"Sm", "Math_Symbol", BIT(SM)}, {"Sc", "Currency_Symbol", BIT(SC)},
	{"Sk", "Modifier_Symbol", BIT(SK)}, {"So", "Other_Symbol", BIT(SO)},
	{"S", "Symbol", BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO)},
	{"Cc", "Control", BIT(CC)}, {"Cf", "Format", BIT(CF)},
	{"Zs", "Space_Separator", BIT(ZS)}, {"Zl", "Line_Separator", BIT(ZL)},
	{"Zp", "Paragraph_Separator", BIT(ZP)},
	{"Z", "Separator", BIT(ZS) | BIT(ZL) | BIT(ZP)},
#undef BIT
};

size_t grammar_unicode_class(struct str name, struct grammar_range **out)
{
	unsigned bits = 0;
	size_t n = 0;
	bool is_pictographic = str_is(name, "Extended_Pictographic");
	for (size_t i = 0; i < ARRAY_LEN(categories); i++)
		if (str_is(name, categories[i].name) || str_is(name, categories[i].long_name))
			bits = categories[i].bits;
	*out = NULL;
	if (str_is(name, "Regional_Indicator")) {
		*out = xmalloc(sizeof **out);
		(*out)[0] = (struct grammar_range){0x1F1E6, 0x1F1FF};
		return 1;
	}
	if (str_is(name, "Emoji_Component")) {
		*out = xmalloc(sizeof components);
		memcpy(*out, components, sizeof components);
		return ARRAY_LEN(components);
	}
	if (!bits && !is_pictographic)
		return 0;
	pthread_once(&once, find_runs);
	*out = xmalloc((n_runs + 1) * sizeof **out);
	for (size_t i = 0; i < n_runs; i++)
		if (is_pictographic ? runs[i].is_pictographic
				    : bits >> runs[i].category & 1)
			(*out)[n++] = runs[i].range;
	return range_normalize(*out, n);
}
