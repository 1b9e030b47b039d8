/* SPDX-License-Identifier: Apache-2.0
 *
 * MP3 by libmpg123. libsndfile would read it by the same library, but lets it write about
 * each broken frame to stderr, and the files come from clients.
 */
#include <build-config.h>

#ifdef HAVE_AUDIO
#include <stdlib.h>

#include "audio/audio_format.h"
#include "base/alloc.h"

enum { FED = 16 << 10 }; /* bytes that the decoder gets at a time */

struct mp3 {
	struct str left; /* of the file */
	int code;        /* of the last read: a fault may come with what stands before it */
	mpg123_handle *h;
};

/* Reads until there is something, or the file ends. n: bytes. */
static int mp3_step(struct audio_file *f, void *out, size_t n, size_t *out_n)
{
	struct mp3 *m = f->state;
	for (;;) {
		int code = f->lib->mpg123_read(m->h, out, n, out_n);
		if (code != MPG123_NEED_MORE || *out_n || m->left.n == 0)
			return code;
		size_t fed = MIN(m->left.n, FED);
		code = f->lib->mpg123_feed(m->h, (const unsigned char *)m->left.p, fed);
		m->left = (struct str){m->left.p + fed, m->left.n - fed};
		if (code != MPG123_OK)
			return code;
	}
}

static enum status mp3_read(struct audio_file *f, float *out, size_t n, size_t *out_n,
			    struct fail *fail)
{
	struct mp3 *m = f->state;
	size_t frame = (size_t)f->channels * sizeof *out, done = 0;
	errno = 0;
	if (m->code == MPG123_OK || m->code == MPG123_NEED_MORE)
		m->code = mp3_step(f, out, n * frame, &done);
	*out_n = done / frame;
	if (*out_n || m->code == MPG123_DONE || (m->code == MPG123_NEED_MORE && m->left.n == 0))
		return OK;
	if (m->code == MPG123_NEW_FORMAT)
		return fail_set(fail, E_INVAL, "the audio changes its rate or its channels");
	if (audio_lacks_memory(fail))
		return E_NOMEM;
	return fail_set(fail, E_INVAL, "the audio is broken: %.100s",
			f->lib->mpg123_strerror(m->h));
}

static void mp3_close(struct audio_file *f)
{
	struct mp3 *m = f->state;
	f->lib->mpg123_delete(m->h);
	free(m);
}

enum status audio_mp3_open(const struct audio_lib *lib, struct str file, struct audio_file *out,
			   struct fail *fail)
{
	struct mp3 *m = xmalloc(sizeof *m);
	errno = 0;
	*m = (struct mp3){file, MPG123_OK, lib->mpg123_new(NULL, NULL)};
	*out = (struct audio_file){lib, 0, 0, mp3_read, mp3_close, m};
	int encoding, code = MPG123_ERR;
	long rate = 0;
	size_t n = 0;
	if (m->h && lib->mpg123_param(m->h, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT,
				      0) == MPG123_OK &&
	    lib->mpg123_open_feed(m->h) == MPG123_OK)
		code = mp3_step(out, NULL, 0, &n);
	if (code == MPG123_NEW_FORMAT)
		code = lib->mpg123_getformat(m->h, &rate, &out->channels, &encoding);
	out->rate = (int)rate;
	if (code == MPG123_OK && encoding == MPG123_ENC_FLOAT_32)
		return OK;
	bool lacks_memory = audio_lacks_memory(fail);
	mp3_close(out);
	return lacks_memory ? E_NOMEM
			    : fail_set(fail, E_INVAL, "the audio cannot be read: it has no "
				       "frame of MP3");
}
#endif
