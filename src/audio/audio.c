/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is read from memory, a block at a time. Each block becomes one channel, and soxr
 * resamples it. So a file takes the memory of its result, and a block's.
 */
#include <build-config.h>

#include "audio/audio.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/work.h"

static _Atomic int64_t all_held;

bool audio_hold(int64_t own, int64_t more)
{
	int64_t before = atomic_fetch_add(&all_held, more);
	if (before <= own || before + more <= AUDIO_HELD_MAX)
		return true;
	audio_let(more);
	return false;
}

void audio_let(int64_t bytes) { atomic_fetch_sub(&all_held, bytes); }

void audio_deinit(struct audio *a)
{
	audio_let(a->held);
	free(a->samples);
	*a = (struct audio){0};
}

enum status audio_fill(struct audio *a, int64_t least, struct fail *fail)
{
	if (a->n >= least)
		return OK;
	int64_t n_bytes = (least - a->n) * (int64_t)sizeof *a->samples;
	float *more = NULL;
	bool may = audio_hold(a->held, n_bytes);
	if (may)
		more = alloc_try(a->samples, (size_t)least * sizeof *more);
	if (may && !more)
		audio_let(n_bytes);
	if (!more)
		return fail_set(fail, E_NOMEM, "no memory for the audio now: try again later");
	memset(more + a->n, 0, (size_t)(least - a->n) * sizeof *more);
	a->n = least;
	a->samples = more;
	a->held += n_bytes;
	return OK;
}

#ifdef HAVE_AUDIO
#include "audio/audio_format.h"

enum {
	BLOCK = 4096, /* frames */
	MAX_CHANNELS = 16,
	MIN_RATE = 4000,
	MAX_RATE = 384000,
	MIN_SAMPLES = AUDIO_RATE / 10,
	/* Work of decoding a sample of one channel, as far as the file's bytes do not pay for it.
	 * A second as most recorders write it, two channels of 48 kHz, costs nothing: seconds are
	 * bounded by max_us. */
	SAMPLE_UNITS = 4,
	FREE_SAMPLES = 2 * 48000,
};
/* Larger samples are no sound. Their squares would leave the range of floats. */
#define MAX_SAMPLE 1e6f

/* --- samples ---------------------------------------------------------------- */

struct decoder {
	const struct audio_lib *lib;
	const struct audio_limits *l;
	struct audio_file file;
	soxr_t resampler; /* NULL: the file has the rate already */
	int64_t worth;    /* work that is paid already: see base/work.h */
	int64_t n_frames; /* read so far */
	size_t cap;       /* samples that `out` has room for */
	struct audio *out;
	float *block;     /* (BLOCK, channels), then (BLOCK) */
};

/* Room for n more samples. */
static enum status reserve_samples(struct decoder *d, size_t n, struct fail *fail)
{
	size_t need = (size_t)d->out->n + n;
	if (need <= d->cap)
		return OK;
	size_t cap = MAX(need, d->cap * 2);
	int64_t more = (int64_t)((cap - d->cap) * sizeof(float));
	if (!audio_hold(d->out->held, more))
		return fail_set(fail, E_NOMEM, "too much audio is being read now: try again later");
	d->out->held += more;
	float *p = alloc_try(d->out->samples, cap * sizeof *p);
	if (!p)
		return fail_set(fail, E_NOMEM, "no memory for %zu s of audio",
				cap / AUDIO_RATE);
	d->out->samples = p;
	d->cap = cap;
	return OK;
}

/* Resamples n samples; n 0: the end of the file, and what the resampler still holds. */
static enum status add_samples(struct decoder *d, const float *in, size_t n, struct fail *fail)
{
	size_t done, room = n * AUDIO_RATE / (size_t)d->file.rate + BLOCK;
	enum status st;
	if (!d->resampler) {
		st = reserve_samples(d, n, fail);
		if (st != OK)
			return st;
		memcpy(d->out->samples + d->out->n, in, n * sizeof *in);
		d->out->n += (int64_t)n;
		return OK;
	}
	do {
		st = reserve_samples(d, room, fail);
		if (st != OK)
			return st;
		if (d->lib->soxr_process(d->resampler, n ? in : NULL, n, NULL,
				 d->out->samples + d->out->n, room, &done))
			return fail_set(fail, E_NOMEM, "no memory to resample the audio");
		d->out->n += (int64_t)done;
	} while (n == 0 && done > 0);
	return OK;
}

static enum status check_length(const struct decoder *d, struct fail *fail)
{
	int64_t max = d->l->max_us, rate = d->file.rate;
	if (max && d->n_frames > max / 1000000 * rate + max % 1000000 * rate / 1000000)
		return fail_set(fail, E_LIMIT, "the audio is longer than %.6g s, which the "
				"request has left of max_audio_time",
				(double)((max + 500) / 1000) / 1e3);
	return OK;
}

/* Work of n more frames. */
static enum status pay(struct decoder *d, int64_t n, struct fail *fail)
{
	int64_t samples = n * d->file.channels;
	int64_t is_free = n * FREE_SAMPLES / d->file.rate;
	int64_t units = MAX(0, samples - is_free) * SAMPLE_UNITS;
	int64_t own = MIN(units, d->worth);
	d->worth -= own;
	if (work_spend(WORK_AUDIO, (size_t)(units - own)))
		return OK;
	return fail_set(fail, E_LIMIT, "the audio has too many samples for so small a file");
}

/* The mean of the channels of n frames. */
static enum status mix(const struct decoder *d, const float *in, size_t n, float *out,
		       struct fail *fail)
{
	size_t channels = (size_t)d->file.channels;
	bool is_sound = true;
	for (size_t i = 0; i < n; i++) {
		float sum = 0;
		for (size_t c = 0; c < channels; c++)
			sum += in[i * channels + c];
		out[i] = sum / (float)channels;
		is_sound &= fabsf(out[i]) <= MAX_SAMPLE; /* false for NaN */
	}
	return is_sound ? OK : fail_set(fail, E_INVAL, "the audio has samples that are no "
						       "numbers, or far beyond full scale");
}

static enum status read_all(struct decoder *d, struct fail *fail)
{
	float *mono = d->block + (size_t)BLOCK * (size_t)d->file.channels;
	enum status st = OK;
	while (st == OK) {
		size_t n = 0;
		st = d->file.read(&d->file, d->block, BLOCK, &n, fail);
		if (st != OK || n == 0)
			break;
		d->n_frames += (int64_t)n;
		st = check_length(d, fail);
		if (st == OK)
			st = pay(d, (int64_t)n, fail);
		if (st == OK)
			st = mix(d, d->block, n, mono, fail);
		if (st == OK)
			st = add_samples(d, mono, n, fail);
	}
	if (st == OK && d->resampler)
		st = add_samples(d, NULL, 0, fail);
	if (st == OK && d->out->n < MIN_SAMPLES)
		st = fail_set(fail, E_INVAL, "the audio is %.3f s long: at least 0.1 s are "
			      "needed", (double)d->out->n / AUDIO_RATE);
	return st;
}

static enum status check_info(const struct decoder *d, struct fail *fail)
{
	if (d->file.channels < 1 || d->file.channels > MAX_CHANNELS)
		return fail_set(fail, E_INVAL, "the audio has %d channels: 1 to %d are read",
				d->file.channels, MAX_CHANNELS);
	if (d->file.rate < MIN_RATE || d->file.rate > MAX_RATE)
		return fail_set(fail, E_INVAL, "the audio has %d samples a second: %d to %d are "
				"read", d->file.rate, MIN_RATE, MAX_RATE);
	return OK;
}

static enum status start_decoder(struct decoder *d, struct fail *fail)
{
	enum status st = check_info(d, fail);
	if (st != OK)
		return st;
	d->block = alloc_try(NULL, (size_t)BLOCK * ((size_t)d->file.channels + 1) *
				       sizeof *d->block);
	soxr_error_t wrong = NULL;
	if (d->block && d->file.rate != AUDIO_RATE) {
		const soxr_quality_spec_t q = d->lib->soxr_quality_spec(SOXR_HQ, 0);
		d->resampler = d->lib->soxr_create(d->file.rate, AUDIO_RATE, 1, &wrong,
						  NULL, &q, NULL);
	}
	return d->block && !wrong ? OK : fail_set(fail, E_NOMEM, "no memory to read the audio");
}

/* Of an open file: all of it. */
static enum status run_decoder(struct decoder *d, struct fail *fail)
{
	enum status st = start_decoder(d, fail);
	if (st == OK)
		st = read_all(d, fail);
	d->lib->soxr_delete(d->resampler);
	free(d->block);
	if (st != OK)
		audio_deinit(d->out);
	return st;
}

static bool is_mp3(struct str file)
{
	const uint8_t *p = (const uint8_t *)file.p;
	return str_starts(file, STR("ID3")) || (file.n >= 2 && p[0] == 0xff && p[1] >= 0xe0);
}

/* --- Ogg ----------------------------------------------------------------------- */

enum { OGG_HEAD = 28, OGG_CRC_AT = 22 }; /* bytes before the packet of a page with one, RFC 3533 */

static uint32_t ogg_crc(struct str page)
{
	uint32_t crc = 0;
	for (size_t i = 0; i < page.n; i++) {
		bool is_own = i >= OGG_CRC_AT && i < OGG_CRC_AT + 4; /* counts as zeros */
		crc ^= (uint32_t)(is_own ? 0 : (uint8_t)page.p[i]) << 24;
		for (int k = 0; k < 8; k++)
			crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7u : 0);
	}
	return crc;
}

/* Is it an Ogg stream that begins with this packet? */
static bool is_ogg(struct str file, struct str packet)
{
	return str_starts(file, STR("OggS")) && file.n >= OGG_HEAD &&
	       str_starts((struct str){file.p + OGG_HEAD, file.n - OGG_HEAD}, packet);
}

/* libsndfile passes over a page whose sum is wrong, and would take the next one's format. Of Ogg's
 * formats Opus alone is read: libvorbis gives a file of 200 bytes megabytes of its stack. */
static bool is_opus(struct str file)
{
	const uint8_t *p = (const uint8_t *)file.p;
	size_t n = is_ogg(file, STR("OpusHead")) && p[26] == 1 ? OGG_HEAD + (size_t)p[27] : 0;
	return n > 0 && n <= file.n &&
	       ogg_crc((struct str){file.p, n}) == ((uint32_t)p[25] << 24 | (uint32_t)p[24] << 16 |
						    (uint32_t)p[23] << 8 | p[22]);
}

static bool is_known(struct str file)
{
	bool is_wav = (str_starts(file, STR("RIFF")) || str_starts(file, STR("RIFX"))) &&
		      file.n >= 12 && memcmp(file.p + 8, "WAVE", 4) == 0;
	return is_wav || is_mp3(file) || str_starts(file, STR("fLaC")) ||
	       is_opus(file);
}

enum status audio_decode(struct str file, const struct audio_limits *l, struct audio *out,
			 struct fail *fail)
{
	struct decoder d = {.l = l, .worth = (int64_t)file.n * WORK_BYTE, .out = out};
	*out = (struct audio){0};
	if (l->max_bytes && file.n > (size_t)l->max_bytes)
		return fail_set(fail, E_LIMIT, "the audio has %zu bytes, more than %lld "
				"(max_audio_bytes)", file.n, (long long)l->max_bytes);
	if (is_ogg(file, STR("\1vorbis")))
		return fail_set(fail, E_INVAL, "Ogg Vorbis is not read: send Ogg Opus, FLAC, MP3 "
				"or WAV");
	if (!is_known(file))
		return fail_set(fail, E_INVAL,
				"the audio is not a WAV, MP3, FLAC or Ogg Opus file");
	enum status st = audio_lib_get(&d.lib, fail);
	if (st != OK)
		return st;
	st = is_mp3(file) ? audio_mp3_open(d.lib, file, &d.file, fail)
			  : audio_sndfile_open(d.lib, file, &d.file, fail);
	if (st != OK)
		return st;
	st = run_decoder(&d, fail);
	d.file.close(&d.file);
	return st;
}

static enum status read_source(struct audio_file *f, float *out, size_t n, size_t *out_n,
			       struct fail *fail)
{
	const struct audio_source *s = f->state;
	return s->read(s->ctx, out, n, out_n, fail);
}

enum status audio_take(const struct audio_source *s, const struct audio_limits *l,
		       struct audio *out, struct fail *fail)
{
	struct audio_source own = *s;
	struct decoder d = {.l = l, .worth = s->n_bytes * WORK_BYTE, .out = out,
			    .file = {.rate = s->rate, .channels = 1, .read = read_source,
				     .state = &own}};
	*out = (struct audio){0};
	enum status st = audio_lib_get(&d.lib, fail);
	return st == OK ? run_decoder(&d, fail) : st;
}

enum status audio_check(struct fail *fail)
{
	const struct audio_lib *lib;
	return audio_lib_get(&lib, fail);
}

#else

enum status audio_check(struct fail *fail)
{
	return fail_set(fail, E_UNSUPPORTED, "audio cannot be read: this halod was built without "
					     "libsndfile, libmpg123 and soxr");
}

enum status audio_decode(struct str file, const struct audio_limits *l, struct audio *out,
			 struct fail *fail)
{
	*out = (struct audio){0};
	return audio_check(fail);
}

enum status audio_take(const struct audio_source *s, const struct audio_limits *l,
		       struct audio *out, struct fail *fail)
{
	*out = (struct audio){0};
	return audio_check(fail);
}
#endif
