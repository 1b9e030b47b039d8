/* SPDX-License-Identifier: Apache-2.0
 *
 * What halod believes of halod-video: nothing. Its place is taken by programs that lie, crash, hang
 * or are not there; and a file is read by itself.
 */
#include <build-config.h>

#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/tap.h"
#include "video/video.h"
#include "video/video_wire.h"

static const struct video_wire good = {
	.magic = VIDEO_WIRE_MAGIC, .code = VIDEO_WIRE_FOUND, .width = 64, .height = 48, .n = 24,
	.rate = 12};

static void test_wire(void)
{
	const struct video_wire_limits limits = {100, 5000};
	struct fail fail = {0};
	ok(video_wire_check(&good, VIDEO_WIRE_FOUND, &limits, &fail) == OK, "a good one");
	struct {
		struct video_wire w;
		enum status want;
		const char *words;
	} rows[16];
	int n = 0;
#define ROW(status, text, change) do { \
	rows[n].w = good, rows[n].want = (status), rows[n].words = (text); \
	struct video_wire *w = &rows[n++].w; \
	change; \
} while (0)
	ROW(E_INVAL, "broke", w->magic++);
	ROW(E_INVAL, "broke", w->code = VIDEO_WIRE_FRAME);
	ROW(E_INVAL, "broke", w->code = 77);
	ROW(E_INVAL, "broke", w->width = 0);
	ROW(E_INVAL, "broke", w->height = -1);
	ROW(E_INVAL, "broke", w->n = 0);
	ROW(E_INVAL, "broke", w->n = -1);
	ROW(E_INVAL, "broke", w->n = INT64_MAX);
	ROW(E_INVAL, "broke", w->rate = NAN);
	ROW(E_INVAL, "broke", w->rate = -1);
	ROW(E_LIMIT, "101 x 1 pixels", w->width = 101; w->height = 1);
	ROW(E_LIMIT, "100 x 51 pixels", w->width = 100; w->height = 51);
	ROW(E_LIMIT, "pixels", w->width = w->height = INT32_MAX);
	ROW(E_INVAL, "the video is odd", w->code = VIDEO_WIRE_FAULT; strcpy(w->text, "is odd"));
	ROW(E_INVAL, "broke", w->code = VIDEO_WIRE_FAULT; strcpy(w->text, "\x1b[2J"));
	ROW(E_INVAL, "broke", w->code = VIDEO_WIRE_FAULT; memset(w->text, 'a', sizeof w->text));
	for (int i = 0; i < n; i++) {
		fail = (struct fail){0};
		ok(video_wire_check(&rows[i].w, VIDEO_WIRE_FOUND, &limits, &fail) == rows[i].want &&
		   strstr(fail.text, rows[i].words), "row %d: %s", i, fail.text);
	}
	struct video_wire sound = good;
	sound.code = VIDEO_WIRE_SOUND;
	sound.n = 0;
	sound.rate = VIDEO_WIRE_MAX_RATE;
	ok(video_wire_check(&sound, VIDEO_WIRE_SOUND, &limits, &fail) == OK, "the sound's end");
	sound.n = VIDEO_WIRE_MAX_SAMPLES + 1;
	ok(video_wire_check(&sound, VIDEO_WIRE_SOUND, &limits, &fail) == E_INVAL,
	   "more samples than a piece has");
	sound.n = 1;
	sound.rate = 2.0 * VIDEO_WIRE_MAX_RATE;
	ok(video_wire_check(&sound, VIDEO_WIRE_SOUND, &limits, &fail) == E_INVAL,
	   "more samples than a second has");
}

#ifdef HAVE_LIBAV
static char folder[] = "/tmp/halod-video-XXXXXX", program[64];

/* What stands where halod-video should. */
static const char *script(const char *text)
{
	snprintf(program, sizeof program, "%s/program", folder);
	FILE *f = fopen(program, "w");
	if (f) {
		fprintf(f, "#!/bin/sh\n%s\n", text);
		fclose(f);
	}
	chmod(program, 0700);
	return program;
}

static void refused(const char *by, struct str file, int64_t max_us, const _Atomic bool *is_gone,
		    enum status want, const char *words)
{
	const struct video_limits limits = {1 << 20, 100, 10000, max_us, by};
	struct video *v = NULL;
	struct fail fail = {0};
	enum status st = video_open(file, false, &limits, is_gone, &v, &fail);
	ok(st == want && !v && strstr(fail.text, words), "refused: %s", fail.text);
}

static void test_others(void)
{
	static const _Atomic bool gone = true;
	const struct str lie = {(const char *)&good, sizeof good};
	struct video_wire wide = good;
	const int64_t second = 1000000;
	wide.width = 101;
	refused("/nowhere/halod-video", STR("x"), second, NULL, E_UNSUPPORTED,
		"not installed");
	refused("/tmp", STR("x"), second, NULL, E_UNSUPPORTED, "does not start");
	refused(script("exit 127"), STR("x"), second, NULL, E_UNSUPPORTED, "install libavformat");
	refused(script("exit 0"), STR("x"), second, NULL, E_INVAL, "broke the program");
	refused(script("kill -SEGV $$"), STR("x"), second, NULL, E_INVAL, "broke the program");
	refused(script("kill -XCPU $$"), STR("x"), second, NULL, E_LIMIT, "video_timeout");
	refused(script("exec cat"), STR("no message"), second, NULL, E_INVAL, "broke the program");
	refused(script("exec cat"), (struct str){(char *)&wide, sizeof wide}, second, NULL,
		E_LIMIT, "101 x 48");
	refused(script("exec sleep 60"), STR("x"), 200000, NULL, E_LIMIT, "video_timeout");
	refused(script("exec sleep 60"), STR("x"), 60 * second, &gone, E_CANCELLED, "");
	refused(script("exec cat"), STR(""), second, NULL, E_INVAL, "no bytes");
	/* Whoever lies about the file lies about a frame, too. */
	const struct video_limits limits = {1 << 20, 100, 10000, second, script("exec cat")};
	struct video *v;
	struct fail fail = {0};
	struct buf rgb = {0};
	const int64_t at[] = {3};
	if (!ok(video_open(lie, false, &limits, NULL, &v, &fail) == OK,
		"a lie that is believed: %s", fail.text))
		return;
	video_choose(v, at, 1);
	ok(video_read(v, NULL, &rgb, &fail) == E_INVAL && rgb.n == 0, "no frame: %s", fail.text);
	buf_deinit(&rgb);
	video_close(v);
}

/* Pieces of sound, as somebody writes them who is believed until they lie. */
static void test_lies_of_sound(void)
{
	const struct video_limits limits = {1 << 20, 100, 10000, 1000000, script("exec cat")};
	struct {
		struct video_wire found, first;
		float a, b;
		struct video_wire next;
	} sent = {good, good, 0.5f, -0.25f, good};
	struct video *v;
	struct fail fail = {0};
	float x[8];
	size_t n = 0;
	sent.first.code = sent.next.code = VIDEO_WIRE_SOUND;
	sent.first.rate = 16000;
	sent.first.n = 2;
	sent.next.n = 0;
	for (int i = 0; i < 3; i++) { /* the end at another rate, in time, and cut off */
		sent.next.rate = i == 0 ? 8000 : 16000;
		struct str all = {(const char *)&sent, sizeof sent - (i == 2 ? sizeof good : 0)};
		if (!ok(video_open(all, true, &limits, NULL, &v, &fail) == OK &&
			video_found(v)->rate == 16000, "a lie that is believed: %s", fail.text))
			continue;
		ok(video_hear(v, NULL, x, 1, &n, &fail) == OK && n == 1 && x[0] == 0.5f,
		   "a sample");
		ok(video_hear(v, NULL, x, 8, &n, &fail) == OK && n == 1 && x[0] == -0.25f,
		   "the rest of the piece");
		enum status st = video_hear(v, NULL, x, 8, &n, &fail);
		ok(n == 0 && st == (i == 1 ? OK : E_INVAL), "behind it: %s", fail.text);
		video_close(v);
	}
	static const _Atomic bool gone = true;
	if (ok(video_open((struct str){(const char *)&sent, sizeof sent}, true, &limits, NULL, &v,
			  &fail) == OK, "a film"))
		ok(video_hear(v, &gone, x, 8, &n, &fail) == E_CANCELLED && n == 0,
		   "nobody waits for what is there");
	video_close(v);
	sent.first.n = 0;
	ok(video_open((struct str){(const char *)&sent, sizeof sent}, true, &limits, NULL, &v,
		      &fail) == OK && video_found(v)->rate == 0, "no sound");
	video_close(v);
}

static void test_sound(const char *reader)
{
	const struct video_limits limits = {1 << 20, 1000, 100000, 20000000, reader};
	static float x[100000];
	struct buf file = {0};
	struct video *v = NULL;
	struct fail fail = {0};
	size_t all = 0, n = 1;
	enum status st = file_read(tap_src("tests/golden/video/film-talk.mkv"), 1 << 20, &file,
				   &fail);
	if (st == OK)
		st = video_open(buf_str(&file), true, &limits, NULL, &v, &fail);
	if (!ok(st == OK, "a film opens: %s", fail.text))
		return;
	while (st == OK && n > 0) {
		st = video_hear(v, NULL, x + all, MIN((size_t)999, ARRAY_LEN(x) - all), &n, &fail);
		all += n;
	}
	ok(st == OK && video_found(v)->rate == 16000 && all == 35360, "%zu samples: %s", all,
	   fail.text);
	video_close(v);
	ok(video_open(buf_str(&file), false, &limits, NULL, &v, &fail) == OK &&
	   video_found(v)->rate == 0, "nobody listens");
	video_close(v);
	buf_deinit(&file);
}

static void test_file(const char *reader)
{
	const struct video_limits limits = {1 << 20, 100, 10000, 20000000, reader};
	struct buf file = {0}, rgb = {0};
	struct video *v = NULL, *others[3] = {NULL};
	struct fail fail = {0};
	const int64_t at[] = {0, 5, 5, 23};
	enum status st = file_read(tap_src("tests/golden/video/h264.mp4"), 1 << 20, &file, &fail);
	if (st == OK)
		st = video_open(buf_str(&file), false, &limits, NULL, &v, &fail);
	if (!ok(st == OK, "a file of H.264 opens: %s", fail.text))
		return;
	const struct video_found *found = video_found(v);
	ok(found->width == 64 && found->height == 48 && found->n == 24 && found->fps == 12,
	   "what it has");
	video_choose(v, at, 4);
	for (int i = 0; i < 4 && st == OK; i++)
		st = video_read(v, NULL, &rgb, &fail);
	const size_t n = 3 * 64 * 48;
	ok(st == OK && rgb.n == 4 * n, "four frames: %s", fail.text);
	ok(memcmp(rgb.p + n, rgb.p + 2 * n, n) == 0 && memcmp(rgb.p, rgb.p + n, n) != 0,
	   "one came twice, another is another");
	video_close(v);
	/* One that stops in the middle gives its turn back. */
	for (int i = 0; i < 3; i++) {
		ok(video_open(buf_str(&file), false, &limits, NULL, &others[i], &fail) == OK,
		   "open");
		video_choose(others[i], at, 4);
		rgb.n = 0;
		ok(video_read(others[i], NULL, &rgb, &fail) == OK, "a frame of another");
		video_close(others[i]);
	}
	buf_deinit(&rgb);
	buf_deinit(&file);
}
#endif

int main(void)
{
	test_wire();
#ifdef HAVE_LIBAV
	const char *build = getenv("HALOD_BUILDDIR");
	char *reader = file_join(build ? build : ".", "halod-video");
	if (!mkdtemp(folder))
		return 1;
	test_others();
	test_lies_of_sound();
	test_file(reader);
	test_sound(reader);
	unlink(program);
	rmdir(folder);
	free(reader);
#endif
	return tap_done();
}
