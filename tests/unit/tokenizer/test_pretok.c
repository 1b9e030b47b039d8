/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/pretok.h"
#include "tests/tap.h"

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
		struct pretok_work *w = pretok_work_create(p);
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
	struct pretok_work *w = pretok_work_create(p);
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

static enum status stop(void *ctx, struct str word)
{
	return --*(int *)ctx == 0 ? E_NOMEM : OK;
}

int main(void)
{
	test_dialect();
	test_refused();
	test_long();

	struct pretok *p = create(" ", true);
	struct pretok_work *w = pretok_work_create(p);
	int left = 2;
	is_int(pretok_run(p, w, STR("a b c d"), stop, &left, NULL), E_NOMEM,
	       "a failing callback ends the run");
	is_int(left, 0, "at once");
	pretok_work_destroy(w);
	pretok_destroy(p);
	return tap_done();
}
