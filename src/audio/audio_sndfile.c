/* SPDX-License-Identifier: Apache-2.0
 *
 * WAV, FLAC and Ogg Opus by libsndfile.
 */
#include <build-config.h>

#ifdef HAVE_AUDIO
#include <stdlib.h>

#include "audio/audio_format.h"
#include "base/alloc.h"

struct source {
	struct str file;
	sf_count_t at;
	SNDFILE *from;
};

static sf_count_t source_length(void *arg)
{
	return (sf_count_t)((struct source *)arg)->file.n;
}

static sf_count_t source_seek(sf_count_t offset, int whence, void *arg)
{
	struct source *s = arg;
	sf_count_t n = (sf_count_t)s->file.n;
	sf_count_t from = whence == SEEK_CUR ? s->at : whence == SEEK_END ? n : 0;
	if (offset < -from || offset > n - from)
		return -1;
	return s->at = from + offset;
}

static sf_count_t source_read(void *to, sf_count_t n, void *arg)
{
	struct source *s = arg;
	n = MAX(0, MIN(n, (sf_count_t)s->file.n - s->at));
	memcpy(to, s->file.p + s->at, (size_t)n);
	s->at += n;
	return n;
}

static sf_count_t source_write(const void *from, sf_count_t n, void *arg)
{
	return 0;
}

static sf_count_t source_tell(void *arg)
{
	return ((struct source *)arg)->at;
}

static enum status sndfile_read(struct audio_file *f, float *out, size_t n, size_t *out_n,
				struct fail *fail)
{
	struct source *s = f->state;
	errno = 0;
	sf_count_t done = f->lib->sf_readf_float(s->from, out, (sf_count_t)n);
	*out_n = (size_t)MAX(0, done);
	if (done > 0 || !f->lib->sf_error(s->from))
		return OK;
	if (audio_lacks_memory(fail))
		return E_NOMEM;
	return fail_set(fail, E_INVAL, "the audio is broken: %.100s",
			f->lib->sf_strerror(s->from));
}

static void sndfile_close(struct audio_file *f)
{
	struct source *s = f->state;
	f->lib->sf_close(s->from);
	free(s);
}

enum status audio_sndfile_open(const struct audio_lib *lib, struct str file,
			       struct audio_file *out, struct fail *fail)
{
	SF_VIRTUAL_IO io = {source_length, source_seek, source_read, source_write, source_tell};
	SF_INFO info = {0};
	struct source *s = xmalloc(sizeof *s);
	*s = (struct source){.file = file};
	errno = 0;
	s->from = lib->sf_open_virtual(&io, SFM_READ, &info, s);
	if (!s->from) {
		bool lacks_memory = audio_lacks_memory(fail);
		free(s);
		if (lacks_memory)
			return E_NOMEM;
		/* Which fault it was stands in a variable of all threads. */
		return fail_set(fail, E_INVAL, "the audio cannot be read: its header is broken, "
				"or its encoding is not known");
	}
	*out = (struct audio_file){lib, info.samplerate, info.channels, sndfile_read,
				   sndfile_close, s};
	return OK;
}
#endif
