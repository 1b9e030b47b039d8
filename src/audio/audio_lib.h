/* SPDX-License-Identifier: Apache-2.0
 *
 * libsndfile, libmpg123 and soxr, found when they are first needed: halod starts
 * without them, and a server that hears nothing does not load the decoders. Thread: any.
 */
#pragma once
#include <mpg123.h>
#include <sndfile.h>
#include <soxr.h>

#include "base/status.h"

/* One line for each function that is called: the name of its library's own. */
#define AUDIO_LIB_SNDFILE(X) \
	X(sf_open_virtual) X(sf_readf_float) X(sf_error) X(sf_strerror) X(sf_close)
#define AUDIO_LIB_MPG123(X) \
	X(mpg123_init) X(mpg123_new) X(mpg123_param) X(mpg123_open_feed) X(mpg123_feed) \
	X(mpg123_read) X(mpg123_getformat) X(mpg123_strerror) X(mpg123_delete)
#define AUDIO_LIB_SOXR(X) X(soxr_create) X(soxr_process) X(soxr_delete) X(soxr_quality_spec)

struct audio_lib {
#define AUDIO_LIB_FIELD(name) __typeof__(name) *name;
	AUDIO_LIB_SNDFILE(AUDIO_LIB_FIELD)
	AUDIO_LIB_MPG123(AUDIO_LIB_FIELD)
	AUDIO_LIB_SOXR(AUDIO_LIB_FIELD)
#undef AUDIO_LIB_FIELD
};

/* *out lasts as long as the process. E_UNSUPPORTED names what is missing. */
enum status audio_lib_get(const struct audio_lib **out, struct fail *fail) MUST_USE;
