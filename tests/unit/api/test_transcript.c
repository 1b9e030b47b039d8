/* SPDX-License-Identifier: Apache-2.0
 *
 * What Qwen3-ASR says before a transcript is taken off, however it comes in pieces.
 */
#include "api/transcript.h"

#include "tests/tap.h"

/* Adds `said` in pieces of n bytes. */
static void check(const char *said, size_t n, const char *text, const char *heard)
{
	struct transcript t = {.has_head = true};
	struct buf out = {0};
	size_t n_said = strlen(said);
	for (size_t at = 0; at < n_said; at += n) {
		size_t left = n_said - at;
		transcript_add(&t, (struct str){said + at, left < n ? left : n}, &out);
	}
	transcript_end(&t, &out);
	bool same = str_is(buf_str(&t.text), text) && str_is(buf_str(&out), text);
	ok(same && strcmp(t.heard, heard) == 0, "\"%s\" in pieces of %zu", said, n);
	buf_deinit(&t.head);
	buf_deinit(&t.text);
	buf_deinit(&out);
}

int main(void)
{
	static const struct {
		const char *said, *text, *heard;
	} rows[] = {
		{"language English<asr_text>Hello there.", "Hello there.", "English"},
		{"language English<asr_text>", "", "English"},
		{"language None<asr_text>", "", ""},
		{"language A1<asr_text>x", "x", ""},
		{"<asr_text>x", "x", ""},
		{"language x<asr_text>a<asr_text>b", "a<asr_text>b", "x"},
		{"language is a gift", "language is a gift", ""},
		{"Hello.", "Hello.", ""},
		{"lang", "lang", ""},
		{"", "", ""},
		{"language\nEnglish", "language\nEnglish", ""},
		{"language is what a long sentence begins with that is no head of a transcript at "
		 "all<asr_text>",
		 "language is what a long sentence begins with that is no head of a transcript at "
		 "all<asr_text>", ""},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (size_t n = 1; n < 40; n += 6)
			check(rows[i].said, n, rows[i].text, rows[i].heard);
	struct transcript t = {.has_head = false};
	struct buf out = {0};
	transcript_add(&t, STR("language English<asr_text>"), &out);
	ok(str_is(buf_str(&t.text), "language English<asr_text>"), "of another model it is text");
	buf_deinit(&t.text);
	buf_deinit(&out);
	return tap_done();
}
