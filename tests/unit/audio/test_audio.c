/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of each format against what FFmpeg and soxr read from them (tests/golden/audio), and what
 * is refused: beyond limits, changed and cut anywhere.
 */
#include <build-config.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/work.h"
#include "tests/unit/audio/golden.h"

static const struct audio_limits wide = {.max_bytes = 1 << 20, .max_us = 60000000};

static enum status decode(struct str file, const struct audio_limits *l, struct audio *a,
			  struct fail *fail)
{
	*fail = (struct fail){0};
	return audio_decode(file, l, a, fail);
}

static void refused(struct str file, const struct audio_limits *l, enum status want,
		    const char *words)
{
	struct audio a;
	struct fail fail;
	enum status st = decode(file, l, &a, &fail);
	ok(st == want && strstr(fail.text, words) && !a.samples, "refused: %s", fail.text);
	audio_deinit(&a);
}

#ifdef HAVE_AUDIO
#include "audio/audio_format.h"

/* The root of the mean square of the difference, over that of what is wanted. */
static double error_of(const struct audio *a, const char *numbers)
{
	double sum = 0, of = 0;
	char *end = NULL;
	for (int64_t i = 0; i < a->n; i += 16, numbers = end) {
		double want = strtod(numbers, &end) / 8192, d = a->samples[i] - want;
		if (end == numbers)
			break;
		sum += d * d;
		of += want * want;
	}
	return sqrt(sum / of);
}

/* The file cut anywhere and with changed bytes: read, or refused with words. A sanitizer sees
 * what reads beyond the end. */
static bool survives(struct str file)
{
	for (size_t n = 0; n < file.n; n += file.n / 60 + 1) {
		struct audio a;
		struct fail fail;
		char *cut = xmalloc(file.n), *changed = xmalloc(file.n);
		memcpy(cut, file.p, n);
		memcpy(changed, file.p, file.n);
		for (size_t i = n; i < file.n && i < n + 4; i++)
			changed[i] ^= 0x55;
		const struct str both[] = {{cut, n}, {changed, file.n}};
		for (int i = 0; i < 2; i++) {
			enum status st = decode(both[i], &wide, &a, &fail);
			if ((st == OK) != !fail.text[0] || (st == OK) != (a.samples != NULL))
				return false;
			audio_deinit(&a);
		}
		free(cut);
		free(changed);
	}
	return true;
}

static void test_files(void)
{
	struct buf list = {0}, b = {0};
	golden_read("samples.tsv", &list);
	int n_files = 0;
	for (char *line = list.p, *next; *line; line = next, n_files++) {
		char name[32];
		int n = 0, at = 0;
		next = strchr(line, '\n') + 1;
		sscanf(line, "%31s %d %n", name, &n, &at);
		struct audio a;
		struct fail fail;
		buf_clear(&b);
		golden_read(name, &b);
		if (!ok(decode(buf_str(&b), &wide, &a, &fail) == OK, "%s is read: %s", name,
			fail.text))
			continue;
		ok(llabs(a.n - n) <= 80, "%s has %lld samples, %d in FFmpeg", name,
		   (long long)a.n, n);
		double error = error_of(&a, line + at);
		ok(error < 0.01, "%s: a relative error of %.5f", name, error);
		audio_deinit(&a);
		ok(survives(buf_str(&b)), "%s, cut and changed anywhere, breaks nothing", name);
	}
	is_int(n_files, 8, "files");
	buf_deinit(&list);
	buf_deinit(&b);
}

static void put(struct buf *b, uint32_t v, int n_bytes)
{
	for (int i = 0; i < n_bytes; i++, v >>= 8)
		buf_add_c(b, (char)v);
}

/* A WAV of silence, 8 bits a sample. n_said: bytes that its header promises. */
static void make_wav(struct buf *b, uint32_t rate, uint32_t channels, uint32_t n_bytes,
		     uint32_t n_said)
{
	buf_clear(b);
	buf_add_z(b, "RIFF");
	put(b, 36 + n_said, 4);
	buf_add_z(b, "WAVEfmt ");
	put(b, 16, 4);
	put(b, 1, 2);
	put(b, channels, 2);
	put(b, rate, 4);
	put(b, rate * channels, 4);
	put(b, channels, 2);
	put(b, 8, 2);
	buf_add_z(b, "data");
	put(b, n_said, 4);
	for (uint32_t i = 0; i < n_bytes; i++)
		buf_add_c(b, (char)0x80);
}

static void test_refused(void)
{
	struct buf b = {0};
	golden_read("short.wav", &b);
	refused(buf_str(&b), &wide, E_INVAL, "0.050 s long: at least 0.1 s");
	buf_clear(&b);
	golden_read("nan.wav", &b);
	refused(buf_str(&b), &wide, E_INVAL, "no numbers");
	buf_clear(&b);
	/* libsndfile would pass over a page with a wrong sum, and read what stands behind it. */
	golden_read("opus.ogg", &b);
	b.p[30] ^= 1;
	refused(buf_str(&b), &wide, E_INVAL, "not a WAV");
	memcpy(b.p + 28, "\1vorbis", 7);
	refused(buf_str(&b), &wide, E_INVAL, "Ogg Vorbis is not read: send Ogg Opus");
	buf_clear(&b);
	golden_read("mpeg.mp3", &b);
	golden_read("speech.mp3", &b);
	refused(buf_str(&b), &wide, E_INVAL, "changes its rate or its channels");
	buf_clear(&b);
	make_wav(&b, 16000, 17, 17 * 16000, 17 * 16000);
	refused(buf_str(&b), &wide, E_INVAL, "17 channels");
	make_wav(&b, 100, 1, 16000, 16000);
	refused(buf_str(&b), &wide, E_INVAL, "100 samples a second");
	make_wav(&b, 2000000000, 1, 16000, 16000);
	refused(buf_str(&b), &wide, E_INVAL, "2000000000 samples a second");
	buf_deinit(&b);
}

static void test_limits(void)
{
	struct audio a;
	struct fail fail;
	struct buf b = {0};
	make_wav(&b, 16000, 1, 32000, 32000);
	refused(buf_str(&b), &(struct audio_limits){.max_bytes = 100}, E_LIMIT, "bytes, more than");
	refused(buf_str(&b), &(struct audio_limits){.max_us = 1999999}, E_LIMIT, "longer than 2 s");
	ok(decode(buf_str(&b), &(struct audio_limits){.max_us = 2000000}, &a, &fail) == OK &&
	   a.n == 32000 && audio_us(&a) == 2000000, "two seconds may be two seconds long");
	audio_deinit(&a);
	/* Recorders that stream leave the length open. */
	make_wav(&b, 16000, 1, 32000, 0xffffffff - 36);
	ok(decode(buf_str(&b), &wide, &a, &fail) == OK && a.n == 32000,
	   "a header that promises too much: what is there is read");
	audio_deinit(&a);
	make_wav(&b, 4000, 1, 4000, 4000);
	ok(decode(buf_str(&b), &wide, &a, &fail) == OK && llabs(a.n - 16000) <= 1,
	   "a second of the lowest rate");
	audio_deinit(&a);
	buf_deinit(&b);
}

static void test_budget(void)
{
	struct buf b = {0};
	struct audio a;
	struct fail fail;
	struct work_budget w;
	golden_read("opus.ogg", &b);
	work_begin(&w, 1000);
	ok(decode(buf_str(&b), &wide, &a, &fail) == OK && w.left == 1000,
	   "a file as recorders write it costs nothing");
	audio_deinit(&a);
	work_end();
	golden_read("many.flac", (buf_clear(&b), &b));
	work_begin(&w, 1000);
	ok(decode(buf_str(&b), &wide, &a, &fail) == E_LIMIT && w.is_over,
	   "eight channels of 96 kHz in few bytes: %s", fail.text);
	work_end();
	ok(decode(buf_str(&b), &wide, &a, &fail) == OK, "which are read without a budget");
	audio_deinit(&a);
	buf_deinit(&b);
}

/* One alone may have any size; beside others there is a bound, and nothing stays held. */
static void test_held(void)
{
	struct buf b = {0};
	struct audio a;
	struct fail fail;
	ok(audio_hold(0, AUDIO_HELD_MAX + 1), "nothing is held by those before");
	make_wav(&b, 16000, 1, 32000, 32000);
	refused(buf_str(&b), &wide, E_NOMEM, "too much audio is being read");
	ok(!audio_hold(0, 1) && audio_hold(AUDIO_HELD_MAX + 1, 1), "the first may go on");
	audio_let(AUDIO_HELD_MAX + 2);
	ok(decode(buf_str(&b), &wide, &a, &fail) == OK && a.held >= 4 * a.n, "now there is room");
	audio_deinit(&a);
	ok(audio_hold(0, AUDIO_HELD_MAX + 1), "which is given back");
	buf_deinit(&b);
}

/* A clip is filled up with zeros; one that finds no memory says so, and stays. */
static void test_fill(void)
{
	struct buf b = {0};
	struct audio a;
	struct fail fail = {0};
	make_wav(&b, 16000, 1, 3200, 3200);
	ok(decode(buf_str(&b), &wide, &a, &fail) == OK && a.n == 3200, "a fifth of a second");
	ok(audio_fill(&a, 8000, &fail) == OK && a.n == 8000 && a.samples[7999] == 0, "a half");
	/* A sanitizer's allocator ends the process for so much. */
	ok(TAP_IS_SANITIZED || (audio_fill(&a, INT64_MAX / 8, &fail) == E_NOMEM &&
				fail.code == E_NOMEM && fail.text[0] && a.n == 8000),
	   "no memory: %s", fail.text);
	audio_deinit(&a);
	buf_deinit(&b);
}

/* Libraries that get no memory. */
static SNDFILE *no_open(SF_VIRTUAL_IO *io, int mode, SF_INFO *info, void *ctx)
{
	errno = ENOMEM;
	return NULL;
}
static sf_count_t no_read(SNDFILE *f, float *out, sf_count_t n)
{
	errno = ENOMEM;
	return 0;
}
static int has_error(SNDFILE *f) { return 1; }
static int no_mp3(mpg123_handle *h, void *out, size_t n, size_t *out_n)
{
	*out_n = 0;
	errno = ENOMEM;
	return MPG123_ERR;
}
static int no_feed(mpg123_handle *h, const unsigned char *in, size_t n)
{
	errno = ENOMEM;
	return MPG123_ERR;
}

/* What a library has no memory for is not the client's fault. */
static void test_no_memory(void)
{
	const struct audio_lib *lib;
	struct audio_lib poor;
	struct audio_file f;
	struct fail fail = {0};
	struct buf wav = {0}, mp3 = {0};
	float out[64];
	size_t n;
	make_wav(&wav, 16000, 1, 3200, 3200);
	is_int(file_read(tap_src("tests/golden/audio/speech.mp3"), 1 << 20, &mp3, &fail), OK,
	       "a file");
	is_int(audio_lib_get(&lib, &fail), OK, "the libraries are there");
	poor = *lib;
	poor.sf_open_virtual = no_open;
	poor.sf_readf_float = no_read;
	poor.sf_error = has_error;
	poor.mpg123_feed = no_feed;
	ok(audio_sndfile_open(&poor, buf_str(&wav), &f, &fail) == E_NOMEM && fail.code == E_NOMEM,
	   "WAV: %s", fail.text);
	ok(audio_mp3_open(&poor, buf_str(&mp3), &f, &fail) == E_NOMEM && fail.code == E_NOMEM,
	   "MP3: %s", fail.text);
	is_int(audio_sndfile_open(lib, buf_str(&wav), &f, &fail), OK, "with memory");
	f.lib = &poor;
	is_int(f.read(&f, out, 64, &n, &fail), E_NOMEM, "in the middle of a file");
	f.lib = lib;
	f.close(&f);
	is_int(audio_mp3_open(lib, buf_str(&mp3), &f, &fail), OK, "MP3 with memory");
	f.lib = &poor;
	poor.mpg123_read = no_mp3;
	is_int(f.read(&f, out, 16, &n, &fail), E_NOMEM, "in its middle");
	f.lib = lib;
	f.close(&f);
	buf_deinit(&wav);
	buf_deinit(&mp3);
}

int main(void)
{
	struct fail fail = {0};
	refused(STR(""), &wide, E_INVAL, "not a WAV, MP3, FLAC or Ogg Opus");
	refused(STR("RIFF1234WEBP"), &wide, E_INVAL, "not a WAV");
	refused(STR("RIFF1234WAVE"), &wide, E_INVAL, "cannot be read: ");
	refused(STR("OggS"), &wide, E_INVAL, "not a WAV");
	refused(STR("ID3"), &wide, E_INVAL, "the audio");
	is_int(audio_check(&fail), OK, "audio can be read: %s", fail.text);
	test_files();
	test_refused();
	test_limits();
	test_budget();
	test_fill();
	test_no_memory();
	test_held();
	return tap_done();
}

#else

int main(void)
{
	refused(STR("RIFF1234WAVE"), &wide, E_UNSUPPORTED, "built without libsndfile");
	return tap_done();
}
#endif
