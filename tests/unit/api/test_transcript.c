/* SPDX-License-Identifier: Apache-2.0
 *
 * What Qwen3-ASR says before a transcript is taken off, however it comes in pieces. A file that
 * was heard is not decoded again.
 */
#include "api/transcript.h"

#include "audio/audio.h"
#include "base/file.h"
#include "chat/sounds.h"
#include "model/model.h"
#include "tests/tap.h"
#include "tests/unit/created.h"

CREATED(sound, sound_load_tower)

/* Adds `said` in pieces of n bytes. */
static void check(const char *said, size_t n, const char *text, const char *heard)
{
	struct transcript_head h = {.is_open = true};
	struct buf out = {0};
	size_t n_said = strlen(said);
	for (size_t at = 0; at < n_said; at += n) {
		size_t left = n_said - at;
		transcript_add(&h, (struct str){said + at, left < n ? left : n}, &out);
	}
	transcript_end(&h, &out);
	ok(str_is(buf_str(&out), text) && strcmp(h.heard, heard) == 0, "\"%s\" in pieces of %zu",
	   said, n);
	buf_deinit(&h.text);
	buf_deinit(&out);
}

/* Measures and hears the file, `most` us of it at most. *out_decodes: samples were made. */
static enum status hear(const struct chat_model *m, struct str file, uint64_t owner,
			struct images_entry *e, bool *out_decodes, struct fail *fail)
{
	const struct images im = {.m = m, .first = e};
	const struct images_use use = {.owner = owner};
	*e = (struct images_entry){.kind = IMAGES_SOUND, .form = IMAGES_FILE, .source = file};
	enum status st = sounds_measure(&im, e, &use, fail);
	*out_decodes = e->audio.samples != NULL;
	return st == OK ? sounds_hear(&im, e, &use, fail) : st;
}

static void test_again(void)
{
	struct fail fail = {0};
	struct model *model = NULL;
	struct chat_model m = {.audio = {.max_us = 60000000}};
	struct buf file = {0};
	struct images_entry first, again, other, late;
	bool decodes;
	if (audio_check(&fail) != OK)
		return;
	is_int(file_read(tap_src("tests/golden/audio/mel.wav"), 1 << 20, &file, &fail), OK,
	       "a file");
	is_int(model_open(tap_src("tests/golden/vision/qwen3asr"), NULL, &model, &fail), OK,
	       "ears");
	const struct sound_opts so = {.model = model, .backend = {.name = "cpu", .n_threads = 1},
				      .cache_bytes = 1 << 20};
	is_int(sound_create(&so, &m.sound, &fail), OK, "a tower: %s", fail.text);
	struct str bytes = buf_str(&file);
	ok(hear(&m, bytes, 1, &first, &decodes, &fail) == OK && decodes, "it is decoded");
	ok(hear(&m, bytes, 1, &again, &decodes, &fail) == OK && !decodes, "once");
	ok(again.us == first.us && again.us > 0 && again.image.n == first.image.n &&
	   again.image.rows == first.image.rows, "and is as it was");
	ok(hear(&m, bytes, 2, &other, &decodes, &fail) == OK && decodes, "but not for others");
	m.audio.max_us = first.us - 1;
	is_int(hear(&m, bytes, 1, &late, &decodes, &fail), E_LIMIT, "its time is bounded again");
	tower_view_unref(first.view);
	tower_view_unref(again.view);
	tower_view_unref(other.view);
	sound_destroy(m.sound);
	model_close(model);
	buf_deinit(&file);
}

/* Texts of pieces, joined as their scripts are written. */
static void test_join(void)
{
	static const struct {
		const char *before, *piece, *text;
		size_t at;
	} rows[] = {
		{"", "One.", "One.", 0},
		{"One.", "", "One.", 4},
		{"One.", "Two.", "One. Two.", 5},
		{"\u597d\u3002", "\u4e16", "\u597d\u3002\u4e16", 6},
		{"\u597d\u3002", "One", "\u597d\u3002One", 6},
		{"One", "\u597d", "One\u597d", 3},
		{"\u304b", "\u30ab", "\u304b\u30ab", 3},
		{"\uc548\ub155", "\ud558", "\uc548\ub155 \ud558", 7},
		{"\u00e9t\u00e9", "\u00e9", "\u00e9t\u00e9 \u00e9", 6},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf text = {0};
		buf_add_z(&text, rows[i].before);
		size_t at = transcript_join(&text, str_of(rows[i].piece));
		ok(str_is(buf_str(&text), rows[i].text) && at == rows[i].at, "\"%.*s\" at %zu",
		   (int)text.n, text.p, at);
		buf_deinit(&text);
	}
	static const char *const heard[] = {"",    "English", "English", "",
					    "Old", "nglish",  "English"};
	struct buf all = {0};
	for (size_t i = 0; i < ARRAY_LEN(heard); i++)
		transcript_add_heard(&all, heard[i]);
	ok(str_is(buf_str(&all), "English,Old,nglish,English"), "languages: %.*s", (int)all.n,
	   all.p);
	buf_deinit(&all);
}

int main(void)
{
	test_again();
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
	struct transcript_head h = {0};
	struct buf out = {0};
	transcript_add(&h, STR("language English<asr_text>"), &out);
	ok(str_is(buf_str(&out), "language English<asr_text>"), "of another model it is text");
	buf_deinit(&out);
	test_join();
	return tap_done();
}
