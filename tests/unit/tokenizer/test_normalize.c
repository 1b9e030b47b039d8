/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/normalize.h"
#include "tests/tap.h"

/* NFC of two writers' text, with the marks as letters: "e^T" for "e" … */
static void check(const char *template, const char *user, const char *want,
		  const char *marks)
{
	struct marked in = {0}, out = {0};
	marked_add(&in, str_of(template), TRUST_TEMPLATE);
	marked_add(&in, str_of(user), TRUST_USER);
	if (!normalize_nfc(markview_of(&in), &out))
		markview_copy(markview_of(&in), 0, in.text.n, &out);
	is_str(out.text.p, want, "NFC of %s + %s", template, user);
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
	test_long_run();
	return tap_done();
}
