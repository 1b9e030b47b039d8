/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretok.h"

#include <pcre2.h>

#include "base/alloc.h"
#include "base/work.h"
#include "tests/tap.h"
#include "tokenizer/oniguruma.h"

static const struct pretok_step byte_level = {.kind = PRETOK_BYTE_LEVEL};

/* Words with "|" between. */
static enum status collect(void *ctx, struct str word)
{
	struct buf *b = ctx;
	buf_add_str(b, word);
	buf_add_c(b, '|');
	return OK;
}

static enum status count(void *ctx, struct str word)
{
	(*(size_t *)ctx)++;
	return OK;
}

static struct pretok *create(const char *regex, bool use_jit)
{
	struct pretok_step steps[] = {
		{.kind = PRETOK_SPLIT, .regex = str_of(regex),
		 .behavior = SPLIT_ISOLATED},
		byte_level,
	};
	struct pretok *p = NULL;
	struct fail fail = {0};
	enum status st = pretok_create(steps, 2, use_jit, &p, &fail);
	if (st != OK)
		ok(false, "%s compiles: %s", regex, fail.text);
	return p;
}

static void check_words(const char *regex, const char *text, const char *want)
{
	for (int jit = 0; jit < 2; jit++) {
		struct pretok *p = create(regex, jit);
		if (!p)
			return;
		struct pretok_work *w = pretok_work_create();
		struct buf got = {0};
		enum status st = pretok_run(p, w, str_of(text), collect, &got,
					    NULL);
		is_str(st == OK ? got.p : "failed", want, "%s%s", regex,
		       jit ? "" : " interpreted");
		buf_deinit(&got);
		pretok_work_destroy(w);
		pretok_destroy(p);
	}
}

static void test_dialect(void)
{
	check_words("\\s+(?!\\S)|\\s+", "a   b", "a|  | |b|");
	check_words("\\h+", "xdeadx", "x|dead|x|");
	check_words("[^\\s]+", "a\u180eb c", "a\u180eb| |c|");
	check_words("(?i:'s|'ll)", "it'S 'Ll '\u017f", "it|'S| |'Ll| |'\u017f|");
	check_words("a(?i)b|c", "aBCac", "aB|C|ac|");
	check_words("(x(?i)y|z)w", "xYwxZw", "xYw|xZw|");
	check_words("p{2}+", "ppppp", "pppp|p|");
	check_words("p{,2}q", "pppq", "p|ppq|");
	check_words("(?m:a.b)", "xa\nby", "x|a\nb|y|");
	check_words("a.b", "xa\nbacb", "xa\nb|acb|");
	check_words("^b$", "a\nb\nc", "a\n|b|\nc|");
	check_words("\\v|\\x41|\\u0042", "a\x0b" "AB\n", "a|\x0b|A|B|\n|");
	check_words("[[:punct:]]|[a-c[x-z]]", "a+d.z", "a|+|d|.|z|");
	check_words("\\p{^L}|\\p{Han}", "ab1\u4e00", "ab|1|\u4e00|");
	check_words("\\b", "ab cd", "ab| |cd|");
	check_words("q{|{q", "q{{q", "q{|{q|");
}

static void refuse(const char *regex, const char *words)
{
	struct pretok_step steps[] = {
		{.kind = PRETOK_SPLIT, .regex = str_of(regex)}, byte_level};
	struct pretok *p = NULL;
	struct fail fail = {0};
	enum status st = pretok_create(steps, 2, true, &p, &fail);
	ok((st == E_UNSUPPORTED || st == E_FORMAT) &&
	   strstr(fail.text, words) && !strcmp(fail.param, "steps[0]"),
	   "%s is refused: %s", regex, fail.text);
	pretok_destroy(p);
}

static void test_refused(void)
{
	refuse("(a)\\1", "this escape");
	refuse("\\k<x>", "this escape");
	refuse("[a-z&&[^b]]", "intersection");
	refuse("[a[^b]]", "nested set");
	refuse("[\\s-x]", "range with a set");
	refuse("[!-\\s]", "range with a set");
	refuse("[^\\W]", "negated set in a class");
	refuse("(*LIMIT_MATCH=9)a", "(*");
	refuse("a(*ACCEPT)", "(*");
	refuse("(?x: a)", "kind of group");
	refuse("(?~a)", "kind of group");
	refuse("\\p{NoSuchScript}", "unknown");
	refuse("\\pL", "without braces");
	refuse("\\p{L", "without end");
	refuse("[abc", "without ]");
	refuse("(abc", "without )");
	refuse("abc)", "without (");
	refuse("abc\\", "ends in");
	refuse("\\x80", "character code");
	refuse("\\x{110000}", "character code");
	refuse("\xff", "UTF-8");
	refuse("*a", "");
	struct buf deep = {0};
	for (int i = 0; i < 5000; i++)
		buf_add_c(&deep, '(');
	refuse(deep.p, "nesting");
	for (int i = 0; i < 70000; i++)
		buf_add_c(&deep, 'a');
	refuse(deep.p, "65536");
	buf_deinit(&deep);

	struct pretok *p = NULL;
	struct pretok_step twice[] = {byte_level, byte_level};
	is_int(pretok_create(twice, 2, true, &p, NULL), E_UNSUPPORTED,
	       "ByteLevel must be last");
	struct pretok_step digits = {.kind = PRETOK_DIGITS};
	is_int(pretok_create(&digits, 1, true, &p, NULL), E_UNSUPPORTED,
	       "and must be there");
	is_int(pretok_create(NULL, 0, true, &p, NULL), E_UNSUPPORTED,
	       "no steps at all");
}

static enum status run_over(const char *regex, bool jit, const char *unit,
			    size_t n, size_t *out_words)
{
	struct pretok *p = create(regex, jit);
	struct pretok_work *w = pretok_work_create();
	struct buf b = {0};
	while (b.n < n)
		buf_add_z(&b, unit);
	*out_words = 0;
	enum status st = pretok_run(p, w, buf_str(&b), count, out_words, NULL);
	buf_deinit(&b);
	pretok_work_destroy(w);
	pretok_destroy(p);
	return st;
}

/* A megabyte of one thing is one word, with machine code and without. */
static void test_long(void)
{
	static const char words[] =
		"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
		"|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
		"|\\s+(?!\\S)|\\s+";
	static const char *const units[] = {" ", "\n", "a", "A", "!", "\u4e00"};
	size_t n;
	for (int jit = 0; jit < 2; jit++) {
		for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
			enum status st = run_over(words, jit, units[i],
						  1 << 20, &n);
			ok(st == OK && n == 1, "jit %d: a long word of unit %zu",
			   jit, i);
		}
		is_int(run_over("(?:a|a)+[bc]", jit, "a", 60, &n), E_LIMIT,
		       "jit %d: an exponential search is given up", jit);
		enum status st = run_over("(?:a|b)+", jit, "ab", 100000, &n);
		ok(st == OK && n == 1, "jit %d: a match too deep for the "
		   "stack of machine code", jit);
	}
}

/* --- windows ---------------------------------------------------------------------- */

static const char *const looking[] = {
	("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
	 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
	"(?=(?:\\d{3})+(?!\\d))",
	"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
	"\\d{1,3}(?=(?:\\d{3})*\\b)",
	"\\s+$",
	"^\\s*|\\b",
	"x*",
	"(?<=a)b+|(?<!\\s)1+",
	"a+b|ab",
	"(?:a|é)+(?=1)|.",
	"$",
};

static pcre2_code *compile(const char *regex)
{
	struct buf t = {0};
	int error;
	PCRE2_SIZE at;
	pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
	pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
	is_int(oniguruma_translate(str_of(regex), &t, NULL), OK, "%s", regex);
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)t.p, t.n, PCRE2_UTF | PCRE2_UCP |
					 PCRE2_MULTILINE, &error, &at, cc);
	pcre2_compile_context_free(cc);
	buf_deinit(&t);
	return code;
}

/* The pieces between and of all matches, as pretok_run has them for SPLIT_ISOLATED, by searches
 * that see the whole text. */
static void cut_whole(const pcre2_code *code, struct str text, struct buf *out)
{
	pcre2_match_data *data = pcre2_match_data_create(16, NULL);
	const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(data);
	size_t done = 0, from = 0;
	bool is_first = true;
	while (from <= text.n && pcre2_match(code, (PCRE2_SPTR)text.p, text.n, from, 0, data,
					     NULL) > 0) {
		if (ov[0] == ov[1] && !is_first && ov[1] == done) {
			from++;
			while (from < text.n && ((unsigned char)text.p[from] & 0xC0) == 0x80)
				from++;
			continue;
		}
		if (done < ov[0])
			collect(out, (struct str){text.p + done, ov[0] - done});
		if (ov[0] < ov[1])
			collect(out, (struct str){text.p + ov[0], ov[1] - ov[0]});
		done = from = ov[1];
		is_first = false;
	}
	if (done < text.n)
		collect(out, (struct str){text.p + done, text.n - done});
	pcre2_match_data_free(data);
}

/* A text of runs, of which some are longer than several windows. */
static void make_text(unsigned *seed, struct buf *out)
{
	static const char *const units[] = {" ", "\n", "a", "b", "1", "x", "é", "!", "\u3000",
					    "\U00010400", "'s", "\t"};
	buf_clear(out);
	for (int n_runs = 1 + rand_r(seed) % 8; n_runs > 0; n_runs--) {
		const char *unit = units[(size_t)rand_r(seed) % ARRAY_LEN(units)];
		int most = rand_r(seed) % 4 ? 5 : 300;
		for (int n = rand_r(seed) % most + 1; n > 0; n--)
			buf_add_z(out, unit);
	}
}

static void test_windows(void)
{
	unsigned seed = 1;
	struct buf text = {0}, want = {0}, got = {0};
	for (size_t i = 0; i < ARRAY_LEN(looking); i++) {
		int n_wrong = 0;
		pcre2_code *code = compile(looking[i]);
		for (int jit = 0; jit < 2; jit++) {
			struct pretok *p = create(looking[i], jit);
			struct pretok_work *w = pretok_work_create();
			for (int k = 0; k < (jit ? 100 : 20); k++) {
				make_text(&seed, &text);
				buf_clear(&want);
				buf_clear(&got);
				cut_whole(code, buf_str(&text), &want);
				bool is_fine = pretok_run(p, w, buf_str(&text), collect, &got,
							  NULL) == OK;
				if (!is_fine || !str_eq(buf_str(&want), buf_str(&got)))
					n_wrong++;
			}
			pretok_work_destroy(w);
			pretok_destroy(p);
		}
		pcre2_code_free(code);
		is_int(n_wrong, 0, "%s: the words of the whole text", looking[i]);
	}
	buf_deinit(&text);
	buf_deinit(&want);
	buf_deinit(&got);
}

/* Units that n_units of `unit`, and then `end`, take; SIZE_MAX: more than a request may. */
static size_t units_of(const char *regex, bool use_jit, const char *unit, size_t n_units,
		       const char *end)
{
	struct buf text = {0};
	struct work_budget work;
	struct pretok *p = create(regex, use_jit);
	struct pretok_work *w = pretok_work_create();
	size_t n = 0;
	for (size_t i = 0; i < n_units; i++)
		buf_add_z(&text, unit);
	buf_add_z(&text, end);
	work_begin(&work, 2000000);
	enum status st = pretok_run(p, w, buf_str(&text), count, &n, NULL);
	work_end();
	ok(st == OK || (st == E_LIMIT && work.is_over), "it ends, or the budget does");
	pretok_work_destroy(w);
	pretok_destroy(p);
	buf_deinit(&text);
	return st == OK ? work.spent[WORK_TEXT] : SIZE_MAX;
}

static void test_budget(void)
{
	for (int jit = 0; jit < 2; jit++) {
		for (size_t i = 1; i < 5; i++) {
			const char *unit = i < 4 ? "1" : " ";
			ok(units_of(looking[i], jit, unit, 1000, "a") < 2000000,
			   "%s: a run of 1,000", looking[i]);
			is_int(units_of(looking[i], jit, unit, 300000, "a"), SIZE_MAX,
			       "jit %d: %s: a run of 300,000 ends with the budget", jit,
			       looking[i]);
		}
		ok(units_of(looking[0], jit, " ", 300000, "a") < 1000000,
		   "jit %d: one look at a long run is no reason", jit);
		ok(units_of(looking[0], jit, "Lorem ipsum, 123 dolor.\n", 20000, "") < 1000000,
		   "jit %d: nor is a long text", jit);
	}
}

static enum status stop(void *ctx, struct str word)
{
	return --*(int *)ctx == 0 ? E_NOMEM : OK;
}

int main(void)
{
	test_dialect();
	test_refused();
	test_long();
	test_windows();
	test_budget();

	struct pretok *p = create(" ", true);
	struct pretok_work *w = pretok_work_create();
	int left = 2;
	is_int(pretok_run(p, w, STR("a b c d"), stop, &left, NULL), E_NOMEM,
	       "a failing callback ends the run");
	is_int(left, 0, "at once");
	pretok_work_destroy(w);
	pretok_destroy(p);
	return tap_done();
}
