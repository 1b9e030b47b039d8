/* SPDX-License-Identifier: Apache-2.0
 *
 * Ogg Vorbis by libvorbisfile, as a stream. libsndfile would read it, but loses the memory of a
 * broken head, and the files come from clients.
 */
#include <build-config.h>

#ifdef HAVE_AUDIO
#include <stdlib.h>

#include "audio/audio_format.h"
#include "base/alloc.h"

struct vorbis {
	struct str left; /* of the file */
	OggVorbis_File file;
};

static size_t vorbis_take(void *to, size_t size, size_t n, void *arg)
{
	struct vorbis *v = arg;
	n = MIN(n, v->left.n / size);
	memcpy(to, v->left.p, n * size);
	v->left = (struct str){v->left.p + n * size, v->left.n - n * size};
	return n;
}

static enum status vorbis_read(struct audio_file *f, float *out, size_t n, size_t *out_n,
			       struct fail *fail)
{
	struct vorbis *v = f->state;
	float **from;
	int part;
	long done = f->lib->ov_read_float(&v->file, &from, (int)n, &part);
	*out_n = (size_t)MAX(0, done);
	if (done < 0)
		return fail_set(fail, E_INVAL, "the audio is broken (Vorbis, error %ld)", done);
	const vorbis_info *info = f->lib->ov_info(&v->file, -1);
	if (done > 0 && (!info || info->rate != f->rate || info->channels != f->channels))
		return fail_set(fail, E_INVAL, "the audio changes its rate or its channels");
	for (long i = 0; i < done; i++)
		for (int c = 0; c < f->channels; c++)
			*out++ = from[c][i];
	return OK;
}

static void vorbis_close(struct audio_file *f)
{
	struct vorbis *v = f->state;
	f->lib->ov_clear(&v->file);
	free(v);
}

enum status audio_vorbis_open(const struct audio_lib *lib, struct str file,
			      struct audio_file *out, struct fail *fail)
{
	struct vorbis *v = xcalloc(1, sizeof *v);
	v->left = file;
	int code = lib->ov_open_callbacks(v, &v->file, NULL, 0,
					  (ov_callbacks){.read_func = vorbis_take});
	const vorbis_info *info = code == 0 ? lib->ov_info(&v->file, -1) : NULL;
	if (!info) {
		if (code == 0)
			lib->ov_clear(&v->file);
		free(v);
		return fail_set(fail, E_INVAL, "the audio cannot be read (Vorbis, error %d)", code);
	}
	*out = (struct audio_file){lib, (int)info->rate, info->channels, vorbis_read, vorbis_close,
				   v};
	return OK;
}
#endif
