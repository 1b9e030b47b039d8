/* SPDX-License-Identifier: Apache-2.0 */
#include "api/transcript_segments.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* PAUSE_MS: of a silence that ends a segment. MOST: characters of a segment; a word alone may have
 * more. */
enum { PAUSE_MS = 1000, MOST = 84 };

/* --- where they end ------------------------------------------------------------------ */

/* Does this, between two words, end a sentence? */
static bool ends_sentence(struct str s)
{
	static const char *const ends[] = {".", "!", "?", "\n", "\u2026", "\u3002", "\uff01",
					   "\uff1f"};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_find(s, str_of(ends[i]), 0) >= 0)
			return true;
	return false;
}

/* Where the text before the next word ends: at the first space, or at that word. */
static size_t end_of(struct str text, const struct align_word *w, const struct align_word *next)
{
	size_t at = w->end;
	while (at < next->begin && !isspace((unsigned char)text.p[at]))
		at++;
	return at;
}

static bool is_cut(struct str text, size_t begin, const struct align_word *w,
		   const struct align_word *next)
{
	const struct str between = {text.p + w->end, next->begin - w->end};
	const struct str longer = {text.p + begin, next->end - begin};
	return ends_sentence(between) || next->from_ms - w->to_ms >= PAUSE_MS ||
	       utf8_count(longer) > MOST;
}

void transcript_segments_split(struct str text, const struct align_words *w,
			       struct transcript_segments *out)
{
	size_t begin = 0, first = 0;
	*out = (struct transcript_segments){0};
	out->p = xcalloc(w->n + 1, sizeof *out->p);
	for (size_t i = 0; i < w->n; i++) {
		bool is_last = i + 1 == w->n;
		if (!is_last && !is_cut(text, begin, &w->p[i], &w->p[i + 1]))
			continue;
		size_t end = is_last ? text.n : end_of(text, &w->p[i], &w->p[i + 1]);
		out->p[out->n++] = (struct transcript_segment){
			str_trim((struct str){text.p + begin, end - begin}), w->p[first].from_ms,
			w->p[i].to_ms};
		begin = end;
		first = i + 1;
	}
}

void transcript_segments_deinit(struct transcript_segments *s)
{
	free(s->p);
}

/* --- subtitles ----------------------------------------------------------------------- */

static void add_clock(int32_t ms, char point, struct buf *out)
{
	int32_t s = ms / 1000;
	buf_addf(out, "%02d:%02d:%02d%c%03d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60),
		 point, (int)(ms % 1000));
}

/* In both formats a line with an arrow would be taken for times, and in one of them text is
 * markup. */
static void add_line(struct str text, bool is_vtt, struct buf *out)
{
	for (size_t i = 0; i < text.n; i++) {
		char b = text.p[i];
		if (b == '\n' || b == '\r')
			buf_add_c(out, ' ');
		else if (b == '>' && is_vtt)
			buf_add_z(out, "&gt;");
		else if (b == '<' && is_vtt)
			buf_add_z(out, "&lt;");
		else if (b == '&' && is_vtt)
			buf_add_z(out, "&amp;");
		else if (b != '>' || !str_ends(buf_str(out), STR("--")))
			buf_add_c(out, b);
	}
}

void transcript_segments_add(const struct transcript_segments *s, bool is_vtt, struct buf *out)
{
	const char point = is_vtt ? '.' : ',';
	if (is_vtt)
		buf_add_z(out, "WEBVTT\n\n");
	for (size_t i = 0; i < s->n; i++) {
		if (!is_vtt)
			buf_addf(out, "%zu\n", i + 1);
		add_clock(s->p[i].from_ms, point, out);
		buf_add_z(out, " --> ");
		add_clock(s->p[i].to_ms, point, out);
		buf_add_c(out, '\n');
		add_line(s->p[i].text, is_vtt, out);
		buf_add_z(out, "\n\n");
	}
}
