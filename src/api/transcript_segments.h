/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a transcript whose words have times, and subtitles of them. A segment ends behind
 * a sentence, before a pause of a second, and where it would be longer than two lines of a
 * subtitle. Thread: any.
 */
#pragma once
#include "align/align_words.h"

struct transcript_segment {
	struct str text; /* a view, without white space at its ends */
	int32_t from_ms, to_ms;
};

struct transcript_segments {
	struct transcript_segment *p; /* (n) */
	size_t n;
};

/* text: the one that the words are of; out's views are into it. */
void transcript_segments_split(struct str text, const struct align_words *w,
			       struct transcript_segments *out);
void transcript_segments_deinit(struct transcript_segments *s);
/* Appends a file of SubRip (srt) or of WebVTT. */
void transcript_segments_add(const struct transcript_segments *s, bool is_vtt, struct buf *out);
