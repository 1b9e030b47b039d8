/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar engine: what each notation accepts, and that a mask allows exactly the
 * tokens whose bytes could be accepted.
 */
#include <pthread.h>

#include "grammar/grammar.h"

#include "tests/tap.h"

static const char words[][12] = {
	"a", "b", "c", "ab", "abc", "aa", "aaa", "aaaa", "aaaaaaaa", "ba", "\"", "\",",
	"\":", "\"}", "\"]", "{", "}", "{\"", "[", "]", "[[", "]]", "],", ", ", ",",
	"1", "12", "123", "0", "-", "-1", ".", "e", "true", "false", "null", "tr",
	"\xc3", "\xa9", "\xc3\xa9", "\xe2\x82", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
	" ", "  ", "\n", "x", "xx", "y", "(", ")", "+", "((", "))", "a\"", "ab\",",
	"a\"}", "\\", "\\\"", "\\n", "u", "ends", "end", "s",
	":", ",", "n", "d", "\xac", "\x82", "\xe2",
};
#define N_WORDS ((int)(sizeof words / sizeof *words))
static struct grammar_vocab *vocab;

static enum status make(const char *kind, const char *text, struct grammar **out,
			struct fail *f)
{
	return kind[0] == 'g' ? grammar_create_gbnf(str_of(text), out, f)
			      : grammar_create_regex(str_of(text), out, f);
}

/* --- tables -------------------------------------------------------------- */

static const struct {
	const char *kind, *grammar;
	const char *yes[8], *no[8];
} cases[] = {
	{"gbnf", "root ::= \"a\" | \"bc\"", {"a", "bc"}, {"", "b", "ac", "abc"}},
	{"gbnf", "root ::= x+ \"!\"? # why\nx ::= [a-c]\n",
	 {"a", "abc!", "b!"}, {"", "!", "d", "a!!"}},
	{"gbnf", "root ::= \"x\"{2,4}", {"xx", "xxx", "xxxx"}, {"x", "xxxxx", ""}},
	{"gbnf", "root ::= \"x\"{3}", {"xxx"}, {"xx", "xxxx"}},
	{"gbnf", "root ::= \"x\"{2,}", {"xx", "xxxxxxxxxxx"}, {"x", ""}},
	{"gbnf", "root ::= \"(\" root \")\" | \"x\"",
	 {"x", "(x)", "((((x))))"}, {"", "()", "((x)", "(x))"}},
	{"gbnf", "root ::= line root | line\nline ::= [^\\n]* \"\\n\"",
	 {"\n", "ab\n", "a\nb\n\n"}, {"", "a", "a\nb"}},
	{"gbnf", "root ::= (\n\t\"a\" |\n\t\"b\"\n)* [\\x41-\\u0043\\]]",
	 {"A", "abaB", "ab]"}, {"ab", "D", "aAA"}},
	{"gbnf", "root ::= [^a-y] \"\\u20ac\" .",
	 {"z\u20acx", "\u20ac\u20ac\u20ac", "\n\u20ac\U0001F600"},
	 {"a\u20acx", "z\u20ac", "z\u20ac\xff", "\xc0\x80\u20acx", "\xed\xa0\x80\u20acx"}},
	{"gbnf", "root ::= e\ne ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" e \")\"",
	 {"1", "1+2", "(1+(2))+33"}, {"", "1+", "(1", "1)"}},
	{"gbnf", "root ::= (\"a\"?)* \"b\"", {"b", "ab", "aaaab"}, {"", "a", "ba"}},
	{"gbnf", "root ::= (\"a\"? \"b\"?){0,3}", {"", "ab", "bbb", "ababab", "a"},
	 {"bbbb", "abababa", "c"}},
	{"gbnf", "root ::= \"a\" dead | \"b\"\ndead ::= \"x\" dead", {"b"}, {"a", "ax"}},
	{"regex", "^(a|b)+c?$", {"a", "abac", "bc"}, {"", "c", "abcc"}},
	{"regex", "\\d{3}-[[:]?x", {NULL}, {NULL}},
	{"regex", "\\d{3}-\\w+\\.\\S", {"123-a_Z.x", "000-1.\u20ac"},
	 {"12-a.x", "123-.x", "123-a. "}},
	{"regex", "[^\\d\\s]{2}", {"ab", "\u00e9\u00e9"}, {"a1", "a ", "a"}},
	{"regex", "(?:x|(?<n>yy))*?z", {"z", "xz", "yyxz"}, {"yz", "x"}},
	{"regex", "a.c", {"abc", "a\u20acc"}, {"a\nc", "ac", "a\xffz"}},
	{"regex", "", {""}, {"a"}},
	{"regex", "a|", {"", "a"}, {"b", "aa"}},
	{"regex", "[a-c-]+\\x41\\u0042\\u{43}\\/", {"a-bABC/"}, {"ABC/", "a-bABC"}},
	/* A surrogate is no character: nothing that needs one can be written. */
	{"regex", "\\uD800", {NULL}, {NULL}},
	{"regex", "[\\uD800-\\uDFFF]b", {NULL}, {NULL}},
	{"regex", "\\uDFFFx|a", {"a"}, {"x", "\xed\xbf\xbfx"}},
	{"regex", "(a\\uD83D)*b", {"b"}, {"ab", "a"}},
	{"regex", "[\\uD7FF-\\uE000]", {"\ud7ff", "\ue000"}, {"\xed\xa0\x80", "a"}},
	{"regex", "[^\\u0000-\\uD7FF\\uE000-\\u{10FFFF}]a", {NULL}, {NULL}},
	{"regex", "(?!\\uD800)a", {"a"}, {"b"}},
	{"gbnf", "root ::= [^\\x00-\\U0010FFFF] \"a\"", {NULL}, {NULL}},
	{"gbnf", "root ::= [^\\x00-\\U0010FFFF] \"a\" | \"b\"", {"b"}, {"a", "\x80"}},
	{"regex", "(ab){2,3}", {"abab", "ababab"}, {"ab", "abababab", "aba"}},
	{"regex", "a{1000000}", {NULL}, {"a", "b"}},
	/* anchors and look-around */
	{"regex", "(^a|b)c", {"ac", "bc"}, {"c", "bac"}},
	{"regex", "(?:^|x)a(?:$|y)", {"a", "xay", "ay"}, {"", "aa"}},
	{"regex", "(?=.*\\d)(?=.*[a-z])\\w{3,4}", {"a1b", "1xxx"}, {"abc", "123", "a1", "a1bcd"}},
	{"regex", "(?!ab)\\w+", {"ba", "aab", "a"}, {"ab", "abc", ""}},
	{"regex", "^(?!^[+.]*$)[+]?\\d*[.]?$", {"1", "+1."}, {"", "+", "."}},
	{"regex", "(?!a|b$)\\w*c?", {"", "bc", "c"}, {"a", "b", "ac"}},
	{"regex", "(?:x(?=\\d)\\w|y){2}", {"x1y", "yy", "yx2"}, {"xay", "y"}},
	{"regex", "^(?!-)[a-z-]{1,4}(?<!-)$", {"a", "a-b"}, {"-a", "a-", ""}},
	{"regex", "((?!--)[a-z-])*", {"a-b", "", "-"}, {"a--b", "--"}},
	{"regex", "(?i)aB[c-d]", {"AbC", "abd", "ABD"}, {"abe"}},
	{"regex", "\\p{Lu}\\p{Ll}+[^\\p{L}]", {"Ab1", "\xc3\x89\xc3\xa9 "}, {"ab1", "AB1", "Abb"}},
	{"regex", "[\\p{Extended_Pictographic}\\p{Emoji_Component}]+", {"\xf0\x9f\x98\x80"}, {"a"}},
	{"regex", "(a|b|ab)*c{,2}", {"", "abbacc", "c"}, {"ccc", "d"}},
	{"regex", "\\$\\{{a}{2}{b", {"${{a}}{b"}, {"${{a}{2}{b", "$a"}},
	{"regex", "\\b[a-]{2}\\b.?", {"aa", "aa-", "a-a"}, {"-a", "aaa", "a-", "--"}},
	{"regex", "[a ]+\\B[ab]*", {"aa", "  ", "ab", "a "}, {"a", " a", " a b"}},
};

static bool accepts(struct grammar *g, struct str text)
{
	struct grammar_state *s = grammar_state_create(g, vocab);
	bool is_in = grammar_state_accept(s, text) == OK && grammar_state_may_end(s);
	grammar_state_destroy(s);
	return is_in;
}

static void test_tables(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct grammar *g = NULL;
		struct fail f = {0};
		enum status st = make(cases[i].kind, cases[i].grammar, &g, &f);
		if (!cases[i].yes[0] && !cases[i].no[0]) {
			is_int(st, E_INVAL, "refused: %s", f.text);
			continue;
		}
		is_int(st, OK, "grammar %zu compiles %s", i, f.text);
		for (int k = 0; k < 8 && cases[i].yes[k]; k++)
			ok(accepts(g, str_of(cases[i].yes[k])), "%zu accepts %d", i, k);
		for (int k = 0; k < 8 && cases[i].no[k]; k++)
			ok(!accepts(g, str_of(cases[i].no[k])), "%zu rejects %d", i, k);
		grammar_unref(g);
	}
}

static const struct {
	const char *kind, *grammar;
	enum status st;
	const char *says;
} errors[] = {
	{"gbnf", "", E_INVAL, "`root` is not defined"},
	{"gbnf", "root ::= x", E_INVAL, "`x` is not defined"},
	{"gbnf", "root ::= \"a\"\nroot ::= \"b\"", E_INVAL, "twice, in line 2"},
	{"gbnf", "root ::= root \"a\" | \"a\"", E_INVAL, "begins with itself"},
	{"gbnf", "root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a", E_INVAL,
	 "begins with itself"},
	{"gbnf", "root ::= \"a\" root", E_INVAL, "nothing can be written"},
	{"gbnf", "root ::= \"a", E_INVAL, "literal is not closed, in line 1"},
	{"gbnf", "root ::= [a", E_INVAL, "class is not closed"},
	{"gbnf", "root ::= (\"a\"", E_INVAL, "group is not closed"},
	{"gbnf", "root ::= \"a\")", E_INVAL, "no place"},
	{"gbnf", "root ::= \"a\"{2,1}", E_INVAL, "repetition count"},
	{"gbnf", "root ::= \"\\q\"", E_INVAL, "escape"},
	{"gbnf", "root ::= \"a\"{2000000}", E_LIMIT, "million"},
	{"gbnf", "root ::= (\"a\"*){0,65}", E_LIMIT, "may be empty"},
	{"gbnf", "root = \"a\"", E_INVAL, "`::=` is missing"},
	{"gbnf", "root ::= \xff", E_INVAL, "UTF-8"},
	{"regex", "a(", E_INVAL, "group is not closed"},
	{"regex", "a)", E_INVAL, "parenthesis"},
	{"regex", "*a", E_INVAL, "nothing to repeat, at character 1"},
	{"regex", "[a", E_INVAL, "class is not closed"},
	{"regex", "[b-a]", E_INVAL, "a range"},
	{"regex", "(a)\\1", E_INVAL, "back references"},
	{"regex", "a?\\bx", E_INVAL, "word boundary"},
	{"regex", "(?:a|\\bx)", E_INVAL, "word boundary"},
	{"regex", "(?<!x)y", E_INVAL, "look-behind"},
	{"regex", "\\p{Klingon}", E_INVAL, "Unicode property"},
	{"regex", "a$b", E_INVAL, "nothing can be written"},
	{"regex", "((?!a)b)*c", E_INVAL, "repeated"},
	{"regex", "(^a)*", E_INVAL, "repeated"},
	{"regex", "a{1,2000000}", E_INVAL, "million"},
	{"regex", "a++", E_INVAL, "possessive"},
	{"regex", "a{3,2}", E_INVAL, "repetition count"},
	{"regex", "a\\", E_INVAL, "backslash"},
	{"regex", "[^\\s\\S]", E_INVAL, "without characters"},
};

static void test_errors(void)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct grammar *g = NULL;
		struct fail f = {0};
		is_int(make(errors[i].kind, errors[i].grammar, &g, &f), errors[i].st,
		       "error %zu", i);
		ok(strstr(f.text, errors[i].says), "%s", f.text);
	}
}

static void test_hostile(void)
{
	struct buf b = {0};
	struct grammar *g = NULL;
	struct fail f = {0};
	for (int i = 0; i < 5000; i++)
		buf_add_c(&b, '(');
	is_int(grammar_create_regex(buf_str(&b), &g, &f), E_INVAL, "deep groups: %s",
	       f.text);
	is_int(grammar_create_regex(STR("a(?<\0b)"), &g, &f), E_INVAL, "NUL: %s", f.text);
	buf_clear(&b);
	buf_add_z(&b, "root ::= r0\n");
	for (int i = 0; i < 5000; i++)
		buf_addf(&b, "r%d ::= \"a\" r%d \"b\"\n", i, i + 1);
	buf_add_z(&b, "r5000 ::= \"x\"");
	is_int(grammar_create_gbnf(buf_str(&b), &g, &f), E_INVAL, "deep rules: %s",
	       f.text);
	buf_clear(&b);
	/* Exponentially many ways to the same place are one. */
	for (int i = 0; i < 40; i++)
		buf_addf(&b, "r%d ::= r%d | r%d | r%d?\n", i, i + 1, i + 1, i + 1);
	buf_add_z(&b, "r40 ::= \"x\"\nroot ::= r0");
	is_int(grammar_create_gbnf(buf_str(&b), &g, &f), OK, "many ways %s", f.text);
	ok(accepts(g, STR("x")) && accepts(g, STR("")) && !accepts(g, STR("xx")),
	   "and the same text");
	grammar_unref(g);

	/* A million counts at once: a clear end instead of a long wait. */
	is_int(grammar_create_regex(STR("((a{1,1000}){1,1000}){1,1000}"), &g, &f), OK,
	       "ambiguous");
	struct grammar_state *s = grammar_state_create(g, vocab);
	enum status st = OK;
	int n = 0;
	while (st == OK && n++ < 4000)
		st = grammar_state_accept(s, STR("a"));
	is_int(st, E_LIMIT, "too ambiguous to follow");
	grammar_state_destroy(s);
	grammar_unref(g);

	/* No deeper than the bound, and never into a dead end. */
	is_int(grammar_create_gbnf(STR("root ::= \"[\" root \"]\" | \"x\""), &g, &f), OK,
	       "nesting");
	s = grammar_state_create(g, vocab);
	for (n = 0; grammar_state_accept(s, STR("[")) == OK; n++)
		;
	ok(n > 300 && n < 1000, "nests %d deep", n);
	is_int(grammar_state_accept(s, STR("x")), OK, "and can still end");
	for (; n > 0 && grammar_state_accept(s, STR("]")) == OK; n--)
		;
	ok(n == 0 && grammar_state_must_end(s), "and does");
	grammar_state_destroy(s);
	grammar_unref(g);
	buf_deinit(&b);
}

/* --- masks --------------------------------------------------------------- */

static uint32_t rng = 1;
static uint32_t draw(uint32_t n)
{
	rng = rng * 1664525u + 1013904223u;
	return (rng >> 8) % n;
}

static void check_masks(const char *name, struct grammar *g, int n_texts)
{
	int n_wrong = 0, n_masks = 0, n_ended = 0, n_stuck = 0;
	for (int t = 0; t < n_texts; t++) {
		struct grammar_state *s = grammar_state_create(g, vocab);
		struct buf text = {0};
		for (int step = 0; step < 60; step++) {
			uint64_t mask[(N_WORDS + 63) / 64];
			int allowed[N_WORDS], n = 0;
			if (grammar_state_mask(s, mask, (N_WORDS + 63) / 64) != OK)
				n_wrong++;
			n_masks++;
			for (int i = 0; i < N_WORDS; i++) {
				struct grammar_state *x = grammar_state_create(g, vocab);
				bool is_in = grammar_state_accept(x, buf_str(&text)) == OK &&
					     grammar_state_accept(x, str_of(words[i])) == OK;
				grammar_state_destroy(x);
				bool is_set = mask[i / 64] >> (i % 64) & 1;
				n_wrong += is_in != is_set;
				if (is_set)
					allowed[n++] = i;
			}
			if (n == 0) {
				n_ended += grammar_state_must_end(s);
				n_stuck += !grammar_state_may_end(s);
				break;
			}
			const char *w = words[allowed[draw((uint32_t)n)]];
			buf_add_z(&text, w);
			n_wrong += grammar_state_accept(s, str_of(w)) != OK;
		}
		buf_deinit(&text);
		grammar_state_destroy(s);
	}
	ok(n_wrong == 0 && n_stuck == 0,
	   "%s: %d masks as by brute force, %d texts ended (%d wrong, %d stuck)", name,
	   n_masks, n_ended, n_wrong, n_stuck);
}

static void test_masks(void)
{
	static const char *const grammars[] = {
		"root ::= [abc]+ \"x\"",
		"root ::= \"{\" (kv (\", \" kv)*)? \"}\"\nkv ::= str \":\" val\n"
		"str ::= \"\\\"\" [^\"\\\\\\n]* \"\\\"\"\n"
		"val ::= str | \"[\" (val (\",\" val)*)? \"]\" | \"true\" | [0-9]+",
		"root ::= \"[\" v{2,5} \"]\"\nv ::= \"\\\"\" [^\"]{1,12} \"\\\"\" \",\"",
		"root ::= (\"a\"{3,40} | \"ab\"{2,9}) \"x\"",
		"root ::= (\"a\"? \"b\"?){0,9} \"x\" tail\ntail ::= \"y\" tail | \"\"",
		"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"1\"+ | \"(\" e \")\"",
		"root ::= ([a-b] \"c\"?){5,200} \"end\" \"s\"?",
		"root ::= [\\u00e8-\\u00ea\\u20ac\\U0001F600]{1,3} \"x\"",
		"root ::= \"a\" | \"ab\" | \"abc\" | \"b\" | \"ba\" | \"c\" \"x\" | \"true\"",
	};
	char name[16];
	int n_texts = tap_check("short") ? 2 : 12; /* a sanitizer: see docs/testing.md */
	for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
		struct grammar *g = NULL;
		struct fail f = {0};
		if (!ok(grammar_create_gbnf(str_of(grammars[i]), &g, &f) == OK, "%s",
			f.text))
			continue;
		snprintf(name, sizeof name, "grammar %zu", i);
		check_masks(name, g, n_texts);
		grammar_unref(g);
	}
}

/* --- the rest ------------------------------------------------------------ */

static void test_choice(void)
{
	static const struct str texts[] = {{"yes", 3}, {"no", 2}, {"nope", 4},
					   {"yes", 3}, {"n\xc3\xa9", 3}};
	struct grammar *g = NULL;
	struct fail f = {0};
	is_int(grammar_create_choice(texts, 5, &g, &f), OK, "choices");
	ok(accepts(g, STR("yes")) && accepts(g, STR("no")) && accepts(g, STR("nope")) &&
	   accepts(g, STR("n\xc3\xa9")), "each is accepted");
	ok(!accepts(g, STR("")) && !accepts(g, STR("n")) && !accepts(g, STR("nop")),
	   "parts are not");
	check_masks("choices", g, 4);
	grammar_unref(g);
	static const struct str bad = {"\xff", 1};
	is_int(grammar_create_choice(&bad, 1, &g, &f), E_INVAL, "%s", f.text);
	struct str many[3000];
	static char store[3000][8];
	for (int i = 0; i < 3000; i++) {
		snprintf(store[i], sizeof store[i], "%d", i * 7);
		many[i] = str_of(store[i]);
	}
	is_int(grammar_create_choice(many, 3000, &g, &f), OK, "3000 choices %s", f.text);
	ok(accepts(g, STR("20993")) && accepts(g, STR("7")) && !accepts(g, STR("8")),
	   "of numbers");
	grammar_unref(g);
}

static void test_forced(void)
{
	struct grammar *g = NULL;
	struct fail f = {0};
	struct buf out = {0};
	is_int(grammar_create_gbnf(STR("root ::= \"{\\\"name\\\": \" ([0-9] | \"null\") \"}\""),
				   &g, &f), OK, "%s", f.text);
	struct grammar_state *s = grammar_state_create(g, vocab);
	grammar_state_forced(s, 100, &out);
	is_str(out.p, "{\"name\": ", "up to the first fork");
	buf_clear(&out);
	grammar_state_forced(s, 3, &out);
	is_str(out.p, "{\"n", "no more than asked for");
	is_int(grammar_state_accept(s, STR("{\"name\": n")), OK, "taken");
	buf_clear(&out);
	grammar_state_forced(s, 100, &out);
	is_str(out.p, "ull}", "up to the end");
	is_int(grammar_state_accept(s, STR("ull}")), OK, "taken");
	ok(grammar_state_must_end(s), "must end");
	buf_clear(&out);
	grammar_state_forced(s, 100, &out);
	is_int(out.n, 0, "nothing is forced behind the end");
	is_int(grammar_state_accept(s, STR("x")), E_INVAL, "nothing may follow");
	ok(grammar_state_must_end(s), "and the state has not moved");
	grammar_state_destroy(s);
	grammar_unref(g);
	buf_deinit(&out);
}

/* Long texts: the tables are swept on the way and nothing is lost. */
static void test_long(void)
{
	struct grammar *g = NULL;
	struct fail f = {0};
	struct buf text = {0};
	is_int(grammar_create_gbnf(
		       STR("root ::= \"(\" item{10,100000} \")\"\n"
			   "item ::= \"[\" [a-z]{1,3} (\",\" item){0,9} \"]\""),
		       &g, &f), OK, "%s", f.text);
	buf_add_c(&text, '(');
	for (int i = 0; i < 30000; i++)
		buf_add_z(&text, i % 3 ? "[ab,[c]]" : "[x,[y,[z]],[a]]");
	ok(!accepts(g, buf_str(&text)), "not yet");
	buf_add_c(&text, ')');
	ok(accepts(g, buf_str(&text)), "a quarter of a megabyte");
	grammar_unref(g);
	buf_deinit(&text);
}

/* One grammar, several sequences at once: the same masks for all. */
static void *run_thread(void *arg)
{
	struct grammar_state *s = grammar_state_create(arg, vocab);
	uint64_t sum = 0, mask[(N_WORDS + 63) / 64];
	for (int i = 0; i < 200; i++) {
		if (grammar_state_mask(s, mask, (N_WORDS + 63) / 64) != OK ||
		    grammar_state_accept(s, STR("[a")) != OK)
			break;
		sum = sum * 31 + mask[0] + i;
	}
	grammar_state_destroy(s);
	return (void *)(uintptr_t)sum;
}

static void test_threads(void)
{
	struct grammar *g = NULL;
	struct fail f = {0};
	pthread_t threads[4];
	void *sums[4];
	is_int(grammar_create_gbnf(
		       STR("root ::= (\"[\" [a-c]{1,9} (\"x\" [0-9]{1,3})?)*"), &g, &f),
	       OK, "%s", f.text);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run_thread, g);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], &sums[i]);
	ok(sums[0] && sums[0] == sums[1] && sums[0] == sums[2] && sums[0] == sums[3],
	   "four threads see the same");
	grammar_unref(g);
}

int main(void)
{
	struct str bytes[N_WORDS];
	for (int i = 0; i < N_WORDS; i++)
		bytes[i] = str_of(words[i]);
	vocab = grammar_vocab_create(bytes, N_WORDS);
	/* ThreadSanitizer: what several threads read. */
	if (!tap_check("races")) {
		test_tables();
		test_errors();
		test_hostile();
		test_masks();
		test_choice();
		test_forced();
		test_long();
	}
	test_threads();
	grammar_vocab_destroy(vocab);
	return tap_done();
}
