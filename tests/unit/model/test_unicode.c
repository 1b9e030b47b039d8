/* SPDX-License-Identifier: Apache-2.0
 *
 * Every character, as Hugging Face's tokenizers see it (tests/golden/make_unicode.py): its
 * category in regular expressions, its normal forms, its lower case, and what BERT makes of it.
 * This holds whatever Unicode version PCRE2 and utf8proc have.
 */
#include <jansson.h>

#include "base/map.h"
#include "base/utf8.h"
#include "tests/tap.h"
#include "tokenizer/berttext.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretok.h"
#include "tokenizer/unicode.h"

#define BLOCK 256

static uint32_t crc_table[256];

static uint32_t crc32_of(struct str s)
{
	uint32_t crc = 0xFFFFFFFF;
	for (uint32_t i = 0; i < 256 && !crc_table[255]; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xEDB88320 ^ c >> 1 : c >> 1;
		crc_table[i] = c;
	}
	for (size_t i = 0; i < s.n; i++)
		crc = crc_table[(crc ^ (unsigned char)s.p[i]) & 255] ^ crc >> 8;
	return ~crc;
}

static bool is_text(uint32_t cp)
{
	return cp < 0xD800 || (cp >= 0xE000 && cp < 0x110000);
}

/* --- categories --------------------------------------------------------------- */

static const char *wanted[0x110000]; /* the category of each character */

struct piece_ends {
	const char *begin;
	size_t n, at[BLOCK * 2];
};

static enum status on_piece(void *ctx, struct str word)
{
	struct piece_ends *e = ctx;
	e->at[e->n++] = (size_t)(word.p - e->begin);
	(void)word;
	return OK;
}

/* Characters of which the expression [^X] finds one are not of category X. */
static int check_category(const char *name, const char *more)
{
	char regex[32], text[64];
	snprintf(regex, sizeof regex, "\\p{%s}", name);
	struct pretok_step steps[] = {
		{.kind = PRETOK_SPLIT, .regex = str_of(regex), .behavior = SPLIT_REMOVED},
		{.kind = PRETOK_BYTE_LEVEL}};
	struct pretok *p = NULL;
	struct pretok_work *w = pretok_work_create();
	int n_wrong = 0;
	is_int(pretok_create(steps, 2, true, &p, NULL), OK, "%s", regex);
	uint32_t step = tap_check("short") ? 7 : 1;
	for (uint32_t cp = 0; cp < 0x110000; cp += step) {
		struct piece_ends e = {.begin = text};
		struct str s = {text, 0};
		if (!is_text(cp))
			continue;
		s.n = utf8_encode(cp, text);
		bool is = pretok_run(p, w, s, on_piece, &e, NULL) == OK && e.n == 0;
		bool want = strcmp(wanted[cp], name) == 0 || (more && wanted[cp][0] == *more);
		if (is != want && n_wrong++ < 8)
			printf("# U+%04X is %s\n", cp, wanted[cp]);
	}
	pretok_work_destroy(w);
	pretok_destroy(p);
	return n_wrong;
}

static void test_categories(const json_t *golden)
{
	static const char *const names[] = {
		"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
		"Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Cc", "Cf", "Cn", "Co"};
	static const char *const groups[] = {"L", "M", "N", "P", "S", "C"};
	const json_t *runs = json_object_get(golden, "category");
	for (size_t i = 0; i < json_array_size(runs); i++) {
		const json_t *run = json_array_get(runs, i), *next = json_array_get(runs, i + 1);
		json_int_t end = next ? json_integer_value(json_array_get(next, 0)) : 0x110000;
		for (json_int_t cp = json_integer_value(json_array_get(run, 0)); cp < end; cp++)
			wanted[cp] = json_string_value(json_array_get(run, 1));
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		is_int(check_category(names[i], NULL), 0, "characters of %s", names[i]);
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		is_int(check_category(groups[i], groups[i]), 0, "characters of %s", groups[i]);
}

/* --- what becomes of each ---------------------------------------------------- */

typedef void (*change_fn)(const void *how, struct markview v, struct marked *out);

static void by_normalizer(const void *how, struct markview v, struct marked *out)
{
	bool is_changed;
	if (normalizer_run(how, v, out, &is_changed, NULL) != OK || !is_changed)
		markview_copy(v, 0, v.text.n, out);
}

static void by_bert(const void *how, struct markview v, struct marked *out)
{
	berttext_normalize(how, v, out);
}

static void by_punct(const void *how, struct markview v, struct marked *out)
{
	uint32_t cp;
	utf8_decode(v.text, &cp);
	if (how && (cp < 0x80 || !unicode_is_bert_punct(cp)))
		markview_copy(v, 0, v.text.n, out);
}

static void check_all(const json_t *golden, const char *name, change_fn change, const void *how)
{
	const json_t *blocks = json_object_get(golden, name);
	int n_wrong = 0;
	uint32_t step = tap_check("short") ? 3 : 1;
	for (uint32_t block = 0; block < 0x110000 / BLOCK; block += step) {
		struct buf list = {0};
		for (uint32_t cp = block * BLOCK; cp < (block + 1) * BLOCK; cp++) {
			char text[4];
			struct marked in = {0}, out = {0};
			if (!is_text(cp))
				continue;
			struct str s = {text, utf8_encode(cp, text)};
			marked_add(&in, s, TRUST_USER);
			change(how, markview_of(&in), &out);
			if (!str_eq(buf_str(&out.text), s)) {
				buf_addf(&list, "%s%x:", list.n ? ";" : "", cp);
				buf_add_str(&list, buf_str(&out.text));
			}
			marked_deinit(&in);
			marked_deinit(&out);
		}
		char key[16];
		snprintf(key, sizeof key, "%u", block);
		const json_t *want = json_object_get(blocks, key);
		bool same = want ? list.n && json_integer_value(want) == crc32_of(buf_str(&list))
				 : list.n == 0;
		if (!same && n_wrong++ < 8)
			printf("# U+%02Xxx: %.*s\n", block, (int)list.n, list.p ? list.p : "");
		buf_deinit(&list);
	}
	ok(json_object_size(blocks) > 3 && n_wrong == 0, "%s of every character%s", name,
	   step > 1 ? ", a third of them" : "");
}

static void test_changes(const json_t *golden)
{
	static const struct {
		const char *name;
		enum normal_kind kind;
	} steps[] = {{"nfc", NORMAL_NFC}, {"nfd", NORMAL_NFD}, {"nfkc", NORMAL_NFKC},
		     {"nfkd", NORMAL_NFKD}, {"lower", NORMAL_LOWER},
		     {"strip", NORMAL_STRIP_ACCENTS}};
	struct bert_text clean = {.cleans = true}, bare = {.strips_accents = true};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		struct normal_step step = {.kind = steps[i].kind};
		struct normalizer *n = NULL;
		is_int(normalizer_create(&step, 1, &n, NULL), OK, "%s", steps[i].name);
		check_all(golden, steps[i].name, by_normalizer, n);
		normalizer_destroy(n);
	}
	check_all(golden, "bert_clean", by_bert, &clean);
	check_all(golden, "bert_strip", by_bert, &bare);
	check_all(golden, "bert_punct", by_punct, &clean);
}

int main(void)
{
	json_t *golden = json_load_file(tap_src("tests/golden/tokenizer/unicode.json"), 0, NULL);
	if (!ok(golden != NULL, "the golden is there"))
		return tap_done();
	test_categories(golden);
	test_changes(golden);
	json_decref(golden);
	return tap_done();
}
