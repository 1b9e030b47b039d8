/* SPDX-License-Identifier: Apache-2.0
 *
 * Where segments of a transcript end, and subtitles of them.
 */
#include "api/transcript_segments.h"
#include "base/alloc.h"
#include "tests/tap.h"

/* Each word takes 200 ms; one that begins with p comes after a pause of a second. */
static void make_words(struct str text, struct align_words *w)
{
	int32_t ms = 0;
	align_words_split(text, NULL, w);
	for (size_t i = 0; i < w->n; i++) {
		ms += align_words_text(w, i).p[0] == 'p' ? 1000 : 0;
		w->p[i].from_ms = ms;
		w->p[i].to_ms = ms += 200;
	}
}

#define FORTY "aaaa bbbb cccc dddd eeee ffff gggg hhhh "

static void test_split(void)
{
	static const struct {
		const char *text, *want; /* segments, with bars between */
	} cases[] = {
		{"", ""},
		{" \u2026 ", ""},
		{"one", "one"},
		{"  one, two ", "one, two"},
		{"One. Two!  \"Three?\" (Four) \u2026 five",
		 "One.|Two!|\"Three?\"|(Four)|\u2026 five"},
		{"It costs 3.50 at example.com or so.", "It costs 3.50 at example.com or so."},
		{"one\ntwo", "one|two"},
		{"one two, pause and on", "one two,|pause and on"},
		{"\u4f60\u597d\u3002\u4e16\u754c\uff01\u597d",
		 "\u4f60\u597d\u3002|\u4e16\u754c\uff01|\u597d"},
		{FORTY FORTY "abcd e", FORTY FORTY "abcd|e"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct str text = str_of(cases[i].text);
		struct align_words w = {0};
		struct transcript_segments s;
		struct buf own = {0};
		make_words(text, &w);
		transcript_segments_split(text, &w, &s);
		for (size_t k = 0; k < s.n; k++) {
			buf_add_z(&own, k ? "|" : "");
			buf_add_str(&own, s.p[k].text);
			ok(s.p[k].from_ms < s.p[k].to_ms &&
				   (k == 0 || s.p[k - 1].to_ms <= s.p[k].from_ms),
			   "times of segment %zu", k);
		}
		buf_add_z(&own, "");
		is_str(own.n ? own.p : "", cases[i].want, "\"%s\"", cases[i].text);
		buf_deinit(&own);
		transcript_segments_deinit(&s);
		align_words_deinit(&w);
	}
}

static void test_subtitles(void)
{
	struct transcript_segment p[] = {{STR("a --> b --->> c"), 0, 1200},
					 {STR("x <i> & y\nz"), 3599999, 3661001}};
	const struct transcript_segments s = {p, ARRAY_LEN(p)}, none = {0};
	struct buf b = {0};
	transcript_segments_add(&s, false, &b);
	buf_add_z(&b, "");
	is_str(b.p, "1\n00:00:00,000 --> 00:00:01,200\na -- b --- c\n\n"
	       "2\n00:59:59,999 --> 01:01:01,001\nx <i> & y z\n\n", "SubRip");
	buf_clear(&b);
	transcript_segments_add(&s, true, &b);
	is_str(b.p, "WEBVTT\n\n00:00:00.000 --> 00:00:01.200\na --&gt; b ---&gt;&gt; c\n\n"
	       "00:59:59.999 --> 01:01:01.001\nx &lt;i&gt; &amp; y z\n\n", "WebVTT");
	buf_clear(&b);
	transcript_segments_add(&none, true, &b);
	is_str(b.p, "WEBVTT\n\n", "nothing was said");
	buf_deinit(&b);
}

int main(void)
{
	test_split();
	test_subtitles();
	return tap_done();
}
