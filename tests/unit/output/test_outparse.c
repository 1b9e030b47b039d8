/* SPDX-License-Identifier: Apache-2.0
 *
 * Each row is fed whole, cut in two at every byte, and byte by byte: the
 * channels must not depend on the cuts.
 */
#include "base/alloc.h"
#include "output/outparse.h"
#include "tests/tap.h"

struct row {
	const char *name;
	const char *text;
	const char *reasoning, *content;
	bool in_reasoning;    /* starts_in_reasoning */
	bool raw;             /* !split_reasoning */
	bool include_stop;
	const char *stops[3];
	int i_stop;           /* -1: none; set for rows with stops */
};

static const struct row rows[] = {
	{.name = "plain", .text = "  Hello\n", .reasoning = "", .content = "  Hello\n"},
	{.name = "both", .text = "<think>\nA b.\n</think>\n\nC.\n",
	 .reasoning = "A b.", .content = "C.\n"},
	{.name = "space before the tag", .text = "\n <think>a</think>b",
	 .reasoning = "a", .content = "b"},
	{.name = "opened by the prompt", .text = "\nwhy\n\nso\n</think>\n\nyes",
	 .in_reasoning = true, .reasoning = "why\n\nso", .content = "yes"},
	{.name = "opened twice", .text = "<think>\nx</think>y", .in_reasoning = true,
	 .reasoning = "x", .content = "y"},
	{.name = "empty reasoning", .text = "<think>\n\n</think>\n\nhi",
	 .reasoning = "", .content = "hi"},
	{.name = "stray close tag first", .text = "</think>\n\nhi",
	 .reasoning = "", .content = "hi"},
	{.name = "close tag in prose", .text = "use </think> here",
	 .reasoning = "", .content = "use </think> here"},
	{.name = "open tag in prose", .text = "the <think> tag",
	 .reasoning = "", .content = "the <think> tag"},
	{.name = "open tag in reasoning", .text = "<think>a <think> b</think>c",
	 .reasoning = "a <think> b", .content = "c"},
	{.name = "two blocks", .text = "<think>a</think>\n<think>b</think>c",
	 .reasoning = "ab", .content = "c"},
	{.name = "never closed", .text = "<think>abc\n", .reasoning = "abc\n",
	 .content = ""},
	{.name = "ends inside the close tag", .text = "<think>a\n</thin",
	 .reasoning = "a\n</thin", .content = ""},
	{.name = "ends inside the open tag", .text = " <thi", .reasoning = "",
	 .content = " <thi"},
	{.name = "almost tags", .text = "<think>a<</think</thinking </think>b",
	 .reasoning = "a<</think</thinking", .content = "b"},
	{.name = "near miss first", .text = "<thinks>a</think>", .reasoning = "",
	 .content = "<thinks>a</think>"},
	{.name = "near miss in reasoning", .text = "</thx</think>z", .in_reasoning = true,
	 .reasoning = "</thx", .content = "z"},
	{.name = "white space inside reasoning", .text = "<think>a \n\n\t b \n</think>",
	 .reasoning = "a \n\n\t b", .content = ""},
	{.name = "white space behind a near miss", .text = "<think>a</ \n</think>b",
	 .reasoning = "a</", .content = "b"},
	{.name = "only white space", .text = " \n", .reasoning = "", .content = " \n"},
	{.name = "no splitting", .text = "<think>a</think>b", .raw = true,
	 .reasoning = "", .content = "<think>a</think>b"},
	{.name = "characters of several bytes", .text = "<think>日本</think>é😀",
	 .reasoning = "日本", .content = "é😀"},

	{.name = "stop", .text = "one\nTwo\nthree", .stops = {"\nT"}, .reasoning = "",
	 .content = "one", .i_stop = 0},
	{.name = "stop kept", .text = "one END more", .stops = {"END"},
	 .include_stop = true, .reasoning = "", .content = "one END", .i_stop = 0},
	{.name = "the first to end wins", .text = "abcdef", .stops = {"cdef", "de"},
	 .reasoning = "", .content = "abc", .i_stop = 1},
	{.name = "the longest of those that end there", .text = "xabcy",
	 .stops = {"bc", "abc", "c"}, .reasoning = "", .content = "x", .i_stop = 1},
	{.name = "overlap with itself", .text = "aaabaaab!", .stops = {"aab!"},
	 .reasoning = "", .content = "aaaba", .i_stop = 0},
	{.name = "not met", .text = "abab", .stops = {"abc", "bb"}, .reasoning = "",
	 .content = "abab", .i_stop = -1},
	{.name = "stop in reasoning", .text = "<think>a\n\nb</think>c", .stops = {"\n\n"},
	 .reasoning = "a", .content = "", .i_stop = 0},
	{.name = "stop over the close tag", .text = "<think>a</think>c",
	 .stops = {"</think>"}, .reasoning = "a", .content = "", .i_stop = 0},
	{.name = "stop of several bytes", .text = "aéèb", .stops = {"è"},
	 .reasoning = "", .content = "aé", .i_stop = 0},
};

static struct outparse *open_row(const struct row *r)
{
	struct str stops[3];
	int n = 0;
	while (n < 3 && r->stops[n]) {
		stops[n] = str_of(r->stops[n]);
		n++;
	}
	return outparse_create(&(struct outparse_opts){
		.stops = stops, .n_stops = n, .include_stop = r->include_stop,
		.split_reasoning = !r->raw, .starts_in_reasoning = r->in_reasoning,
		.think_open = STR("<think>"), .think_close = STR("</think>")});
}

static void collect(struct buf out[2], const struct out_span *s, int n)
{
	for (int i = 0; i < n; i++)
		buf_add_str(&out[s[i].channel], s[i].text);
}

/* Feed text in pieces that end at `cut` and then every `step` bytes; true when
 * the channels are as the row says. */
static bool feed(const struct row *r, size_t cut, size_t step, bool say)
{
	struct outparse *p = open_row(r);
	const struct out_span *s;
	struct buf out[2] = {{0}, {0}};
	size_t n = strlen(r->text);
	for (size_t at = 0; at < n;) {
		size_t end = at < cut ? cut : MIN(n, at + step);
		int k = outparse_push(p, (struct str){r->text + at, end - at}, &s);
		collect(out, s, k);
		at = end;
	}
	int k = outparse_finish(p, false, &s);
	collect(out, s, k);
	bool same = str_is(buf_str(&out[OUT_CONTENT]), r->content) &&
		    str_is(buf_str(&out[OUT_REASONING]), r->reasoning);
	if (r->stops[0])
		same = same && outparse_stop_index(p) == r->i_stop &&
		       outparse_stopped(p) == (r->i_stop >= 0);
	if (!same && say)
		printf("# reasoning [%s] content [%s] stop %d\n",
		       buf_str(&out[OUT_REASONING]).p, buf_str(&out[OUT_CONTENT]).p,
		       outparse_stop_index(p));
	buf_deinit(&out[0]);
	buf_deinit(&out[1]);
	outparse_destroy(p);
	return same;
}

static void test_rows(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		size_t n = strlen(r->text);
		bool same = feed(r, n, n, true) && feed(r, 0, 1, true);
		for (size_t cut = 1; same && cut < n; cut++)
			same = feed(r, cut, n, true);
		ok(same, "%s, however it is cut", r->name);
	}
}

/* What is out after each byte is all but the longest tail that begins a stop. */
static void test_holds_the_least(void)
{
	static const char *const stops[] = {"abab!", "bax", "\n\n"};
	struct row r = {.raw = true, .stops = {stops[0], stops[1], stops[2]}};
	const char text[] = "ababababxbaba\nabbaab\n x aba\nbabab";
	struct outparse *p = open_row(&r);
	size_t out = 0, wrong = 0;
	for (size_t i = 0; text[i]; i++) {
		const struct out_span *s;
		int n = outparse_push(p, (struct str){text + i, 1}, &s);
		for (int k = 0; k < n; k++)
			out += s[k].text.n;
		size_t held = 0;
		for (size_t k = 0; k < ARRAY_LEN(stops); k++)
			for (size_t len = MIN(strlen(stops[k]) - 1, i + 1); len > held; len--)
				if (!memcmp(text + i + 1 - len, stops[k], len))
					held = len;
		wrong += out != i + 1 - held;
	}
	is_int(wrong, 0, "only a true beginning of a stop string is held back");
	outparse_destroy(p);
}

static int spans_of(struct outparse *p, const char *text)
{
	const struct out_span *s;
	return outparse_push(p, str_of(text), &s);
}

static void test_streaming(void)
{
	struct row r = {0};
	struct outparse *p = open_row(&r);
	is_int(spans_of(p, "<thi"), 0, "a beginning of the tag waits");
	ok(!outparse_in_reasoning(p), "not yet in reasoning");
	is_int(spans_of(p, "nk>\n"), 0, "the tag has no text");
	ok(outparse_in_reasoning(p), "in reasoning");
	is_int(spans_of(p, "hm"), 1, "reasoning goes out at once");
	is_int(spans_of(p, "\n"), 0, "white space waits for the tag");
	is_int(spans_of(p, "ok</think>\n\nSo"), 2, "one push, both channels");
	ok(!outparse_in_reasoning(p), "out of reasoning");
	is_int(spans_of(p, "a < b </th"), 1, "nothing is held back in content");
	outparse_destroy(p);

	r = (struct row){.stops = {"END"}};
	p = open_row(&r);
	is_int(spans_of(p, "a END b"), 1, "text before the stop string");
	is_int(spans_of(p, "more"), 0, "text behind it is ignored");
	const struct out_span *s;
	is_int(outparse_finish(p, false, &s), 0, "also at the end");
	outparse_destroy(p);
}

/* A client's stop string that almost matches a model's endless repetition: work
 * must stay linear. A quadratic parser would need 10^10 steps here. */
static void test_hostile_stop(void)
{
	enum { N = 100000 };
	struct buf b = {0}, text = {0};
	for (int i = 0; i < N; i++) {
		buf_add_c(&b, 'a');
		buf_add_c(&text, 'a');
	}
	buf_add_c(&b, 'b');
	struct row r = {.raw = true, .stops = {b.p}};
	struct outparse *p = open_row(&r);
	size_t out = 0;
	const struct out_span *s;
	for (int i = 0; i < 20; i++) {
		int n = outparse_push(p, buf_str(&text), &s);
		for (int k = 0; k < n; k++)
			out += s[k].text.n;
	}
	is_int(out, 19 * N, "exactly the possible beginning is held");
	int n = outparse_finish(p, false, &s);
	is_int(n == 1 ? s[0].text.n : 0, N, "and comes out at the end");
	outparse_destroy(p);
	buf_deinit(&b);
	buf_deinit(&text);
}

int main(void)
{
	test_rows();
	test_holds_the_least();
	test_streaming();
	test_hostile_stop();
	outparse_destroy(NULL);
	return tap_done();
}
