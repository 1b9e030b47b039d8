/* SPDX-License-Identifier: Apache-2.0
 *
 * Where long audio is cut: drawn sounds against the package qwen-asr (tests/golden/make_cuts.py),
 * and what holds of every sound.
 */
#include "audio/audio_cut.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/unit/audio/golden.h"

/* As draw of make_cuts.py. in_word: of each sample. */
static void draw(struct audio *out, bool *in_word, uint32_t seed, uint32_t loud)
{
	uint32_t x = seed;
	bool is_word = false;
#define STEP() ((x = x * 1664525 + 1013904223) >> 16)
	for (int64_t at = 0; at < out->n;) {
		is_word = !is_word;
		uint32_t drawn = STEP();
		int64_t end = at + (is_word ? 1600 + drawn % 8000 : 480 + drawn % 4000);
		drawn = STEP();
		int32_t loudness = (int32_t)(is_word ? 20 + drawn % 236 : drawn % (loud + 1));
		for (; at < end && at < out->n; at++) {
			int32_t noise = (int32_t)STEP() - 32768;
			in_word[at] = is_word;
			out->samples[at] = (float)((noise * loudness) >> 8) / 32768;
		}
	}
#undef STEP
}

static void test_drawn(void)
{
	struct buf list = {0};
	int n_sounds = 0;
	golden_read("cuts.tsv", &list);
	for (char *line = list.p, *next; *line; line = next, n_sounds++) {
		next = strchr(line, '\n') + 1;
		uint32_t seed = (uint32_t)strtol(line, &line, 10);
		uint32_t loud = (uint32_t)strtol(line, &line, 10);
		struct audio a = {.n = strtol(line, &line, 10) * AUDIO_RATE};
		const struct audio_cut rule = audio_cut_rule(strtol(line, &line, 10) * 1000);
		bool *in_word = xcalloc((size_t)a.n, sizeof *in_word);
		a.samples = xcalloc((size_t)a.n, sizeof *a.samples);
		draw(&a, in_word, seed, loud);
		int n_cuts = 0, n_same = 0, n_in_words = 0;
		for (int64_t at = 0; at < a.n; n_cuts++) {
			at = audio_cut_end(&a, &rule, at);
			n_same += strtol(line, &line, 10) == at;
			n_in_words += at < a.n && in_word[at];
		}
		ok(n_cuts > 1 && n_same == n_cuts && *line == '\n',
		   "sound %u: %d of %d cuts are the package's", seed, n_same, n_cuts);
		ok(loud > 10 || n_in_words == 0, "none of them is in a word (%d)", n_in_words);
		free(in_word);
		free(a.samples);
	}
	is_int(n_sounds, 6, "sounds");
	buf_deinit(&list);
}

/* The rule for five minutes, and pieces of all lengths of silence: a rest is never cut short. */
static void test_bounds(void)
{
	const struct audio_cut five = audio_cut_rule(300000000);
	is_int(five.most, 300 * AUDIO_RATE, "most");
	is_int(five.usual, 180 * AUDIO_RATE, "usual");
	is_int(five.around, 5 * AUDIO_RATE, "around");
	const struct audio_cut rule = audio_cut_rule(1000000);
	ok(rule.usual + rule.around <= rule.most && rule.around < rule.usual, "of a second");
	struct audio a = {.samples = xcalloc(6 * AUDIO_RATE, sizeof *a.samples)};
	int64_t shortest = rule.most, longest = 0, rest = rule.most;
	for (int way = 0; way < 2; way++) {
		for (int64_t i = 0; i < 6 * AUDIO_RATE; i++) /* silence, then ever softer */
			a.samples[i] = way ? 1 - (float)i / (6 * AUDIO_RATE) : 0;
		for (a.n = rule.most + 1; a.n < 6 * AUDIO_RATE; a.n += 997)
			for (int64_t at = 0, end; at < a.n; at = end) {
				end = audio_cut_end(&a, &rule, at);
				if (end < a.n)
					shortest = MIN(shortest, end - at);
				else
					rest = MIN(rest, end - at);
				longest = MAX(longest, end - at);
			}
	}
	ok(shortest >= rule.usual - rule.around && longest <= rule.most, "pieces have %lld to %lld "
	   "samples", (long long)shortest, (long long)longest);
	ok(rest > rule.most - rule.usual - rule.around, "and a rest has %lld", (long long)rest);
	a.n = 2 * AUDIO_RATE;
	a.samples[0] = 0;
	const struct audio_cut tiny = {1000, 600, 300};
	is_int(audio_cut_end(&a, &tiny, 0), 600, "without room to look, at the usual length");
	free(a.samples);
}

/* A tenth of a second is soft, and its last sample, or its first one, softest. */
static void test_edges(void)
{
	enum { SOFT = 7000, SPAN = AUDIO_RATE / 10 };
	const struct audio_cut rule = audio_cut_rule(1000000);
	struct audio a = {.n = 20000, .samples = xcalloc(20000, sizeof *a.samples)};
	for (int last = 0; last < 2; last++) {
		int64_t softest = last ? SOFT + SPAN - 1 : SOFT;
		for (int64_t i = 0; i < a.n; i++)
			a.samples[i] = i >= SOFT && i < SOFT + SPAN ? 0.1f : 0.5f;
		a.samples[softest] = 0.05f;
		is_int(audio_cut_end(&a, &rule, 0), softest, "at its %s",
		       last ? "end" : "beginning");
	}
	free(a.samples);
}

static void test_copy(void)
{
	float samples[] = {0, 1, 2, 3};
	const struct audio a = {.n = 4, .samples = samples};
	struct audio part;
	struct fail fail = {0};
	is_int(audio_cut_copy(&a, 1, 2, &part, &fail), OK, "a copy %s", fail.text);
	ok(part.n == 2 && part.samples[0] == 1 && part.samples[1] == 2, "has the samples");
	audio_deinit(&part);
	/* Others hold all there is: then there is no memory, and none is counted. */
	ok(audio_hold(0, AUDIO_HELD_MAX), "another request");
	is_int(audio_cut_copy(&a, 1, 2, &part, &fail), E_NOMEM, "%s", fail.text);
	ok(!part.samples, "nothing is made");
	audio_let(AUDIO_HELD_MAX);
	ok(audio_hold(0, AUDIO_HELD_MAX), "nothing stays counted");
	audio_let(AUDIO_HELD_MAX);
}

int main(void)
{
	test_drawn();
	test_bounds();
	test_edges();
	test_copy();
	return tap_done();
}
