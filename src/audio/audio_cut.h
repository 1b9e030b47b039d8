/* SPDX-License-Identifier: Apache-2.0
 *
 * Where long audio is cut into pieces: at a quiet place. Pure. Thread: any.
 *
 * The rule is that of the package qwen-asr, but for the end: a rest that may be a piece is one.
 */
#pragma once
#include "audio/audio.h"

/* In samples. A piece has usual - around to usual + around. The last one has more than most - usual
 * - around, and at most `most`. */
struct audio_cut {
	int64_t most;   /* of a piece; at least usual + around */
	int64_t usual;  /* where a cut is sought … */
	int64_t around; /* … and how far from there, at most; below usual */
};

/* The rule for pieces of at most so many microseconds: three fifths of them are usual, and a cut is
 * at most 5 s from there, or half of that piece. */
struct audio_cut audio_cut_rule(int64_t most_us);
/* The end of the piece that begins at sample `from`, below a->n. Of all tenths of a second around
 * the usual end the quietest one is found, the first of several: the least sum of sizes. The piece
 * ends before its quietest sample. */
int64_t audio_cut_end(const struct audio *a, const struct audio_cut *rule, int64_t from);
/* Copies n samples from sample `from` on. E_NOMEM, also where others hold too much. */
enum status audio_cut_copy(const struct audio *a, int64_t from, int64_t n, struct audio *out,
			   struct fail *fail) MUST_USE;
