/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/normalize.h"
#include "tests/tap.h"

/* What one step makes of v. */
static bool one_step(struct normal_step step, struct markview v, struct marked *out)
{
	struct normalizer *n = NULL;
	bool is_changed = false;
	struct fail fail = {0};
	is_int(normalizer_create(&step, 1, &n, &fail), OK, "a step: %s", fail.text);
	is_int(normalizer_run(n, v, out, &is_changed, &fail), OK, "it runs: %s", fail.text);
	normalizer_destroy(n);
	return is_changed;
}

static bool normalize_nfc(struct markview v, struct marked *out)
{
	return one_step((struct normal_step){.kind = NORMAL_NFC}, v, out);
}

/* One step over two writers' text, with the marks as letters: "T1" for one byte of the
 * template's … */
static void check_step(struct normal_step step, const char *template, const char *user,
		       const char *want, const char *marks)
{
	struct marked in = {0}, out = {0};
	marked_add(&in, str_of(template), TRUST_TEMPLATE);
	marked_add(&in, str_of(user), TRUST_USER);
	if (!one_step(step, markview_of(&in), &out))
		markview_copy(markview_of(&in), 0, in.text.n, &out);
	is_str(out.text.p, want, "step %d of %s + %s", step.kind, template, user);
	struct buf got = {0};
	size_t at = 0;
	for (size_t i = 0; i < out.n_marks; i++) {
		buf_addf(&got, "%c%zu", "TMU"[out.marks[i].trust],
			 out.marks[i].end - at);
		at = out.marks[i].end;
	}
	is_str(got.p, marks, "and who wrote it");
	buf_deinit(&got);
	marked_deinit(&in);
	marked_deinit(&out);
}

static void check(const char *template, const char *user, const char *want,
		  const char *marks)
{
	check_step((struct normal_step){.kind = NORMAL_NFC}, template, user, want, marks);
}

/* Who wrote what the other steps make. */
static void test_steps(void)
{
	struct normal_step nfkc = {.kind = NORMAL_NFKC}, nfd = {.kind = NORMAL_NFD};
	struct normal_step lower = {.kind = NORMAL_LOWER}, bare = {.kind = NORMAL_STRIP_ACCENTS};
	struct normal_step strip = {.kind = NORMAL_STRIP, .left = true, .right = true};
	struct normal_step words = {.kind = NORMAL_REPLACE, .pattern = STR("\\p{L}+"),
				    .content = STR("<L>")};
	struct normal_step ab = {.kind = NORMAL_REPLACE, .pattern = STR("a.b"),
				 .content = STR(""), .is_literal = true};
	struct normal_step front = {.kind = NORMAL_PREPEND, .content = STR("__")};
	check_step(nfkc, "\uff1ca", "\uff1e", "<a>", "T1U2");
	check_step(nfkc, "e", "\u0301", "\u00e9", "U2");
	check_step(nfd, "\u00e9", "\uac01", "e\u0301\u1100\u1161\u11a8", "U12");
	check_step(lower, "<S>", "\u0130A", "<s>i\u0307a", "T3U4");
	check_step(bare, "e\u0301", "e\u0301", "ee", "T1U1");
	check_step(strip, " \u3000a", "b\n ", "ab", "T1U1");
	check_step(words, "ab", "cd e", "<L> <L>", "U7");
	check_step(words, "ab ", "\U000323b0", "<L> \U000323b0", "T4U4");
	check_step(ab, "xa.b", "a.bya-b", "xya-b", "T1U4");
	check_step(front, "a", "b", "__ab", "T3U1");
	struct normal_step two[] = {lower, {.kind = NORMAL_REPLACE, .pattern = STR("(a")}};
	struct normalizer *n = NULL;
	struct fail fail = {0};
	is_int(normalizer_create(two, 2, &n, &fail), E_FORMAT, "no expression: %s", fail.text);
	ok(strstr(fail.text, "step 1") != NULL, "it names the step");
	struct normal_step empty = {.kind = NORMAL_REPLACE, .pattern = STR("x*")};
	struct marked in = {0}, out = {0};
	bool is_changed;
	marked_add(&in, STR("abc"), TRUST_USER);
	is_int(normalizer_create(&empty, 1, &n, &fail), OK, "what may be empty");
	is_int(normalizer_run(n, markview_of(&in), &out, &is_changed, &fail), E_UNSUPPORTED,
	       "is refused when it is");
	normalizer_destroy(n);
	marked_deinit(&in);
	marked_deinit(&out);
}

/* Longer than any sort by exchange could do in a test's time. */
static void test_long_run(void)
{
	struct marked in = {0}, out = {0};
	struct buf b = {0};
	buf_add_c(&b, 'a');
	for (int i = 0; i < 300000; i++)
		buf_add_z(&b, "\u0301\u0323"); /* classes 230 and 220 */
	marked_add(&in, buf_str(&b), TRUST_USER);
	ok(normalize_nfc(markview_of(&in), &out), "half a million marks");
	is_int(out.text.n, 3 + 300000 * 2 + 299999 * 2, "one dot is composed");
	is_int(str_find(buf_str(&out.text), STR("\u1ea1\u0323\u0323"), 0), 0,
	       "the dots come first");
	ok(str_ends(buf_str(&out.text), STR("\u0301\u0301")), "acutes last");
	buf_deinit(&b);
	marked_deinit(&in);
	marked_deinit(&out);
}

int main(void)
{
	check("abc", "def", "abcdef", "T3U3");
	check("caf", "e\u0301!", "caf\u00e9!", "T3U3");
	check("cafe", "\u0301!", "caf\u00e9!", "T3U3");
	check("e\u0301", "e\u0301", "\u00e9\u00e9", "T2U2");
	check("<n>", "\u0338", "<n\u226f", "T2U3");
	check("\u0301a", "b", "\u0301ab", "T3U1");
	check("\u4e00\u4e01", "\u4e02", "\u4e00\u4e01\u4e02", "T6U3");
	check("\u041f\u0440", "\u0438", "\u041f\u0440\u0438", "T4U2");
	check("\u1112\u1161", "\u11ab", "\ud55c", "U3");
	check("\uac00", "\u11a8x", "\uac01x", "U4");
	check("q\u0307\u0323", "", "q\u0323\u0307", "T5");
	check("\u212b", "\u2126", "\u00c5\u03a9", "U4");
	check("\u0958", "", "\u0915\u093c", "T6");
	test_steps();
	test_long_run();
	return tap_done();
}
