/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#ifdef HAVE_AUDIO
#include "audio/audio_lib.h"

#include <dlfcn.h>
#include <pthread.h>

static struct audio_lib lib;
static struct fail why; /* code OK: lib is whole */

static void *load_library(const char *name, const char *package)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fail_set(&why, E_UNSUPPORTED, "audio cannot be read: install %s (%.200s)",
			 package, dlerror());
	return handle;
}

static void find_symbol(void *handle, const char *name, void *to)
{
	void *at = handle ? dlsym(handle, name) : NULL;
	*(void **)to = at;
	if (!at && why.code == OK)
		fail_set(&why, E_UNSUPPORTED, "audio cannot be read: %s is not in its library",
			 name);
}

static void find_all(void)
{
	void *sndfile = load_library("libsndfile.so.1", "libsndfile");
	void *mpg123 = load_library("libmpg123.so.0", "libmpg123");
	void *soxr = load_library("libsoxr.so.0", "soxr");
#define FIND(name) find_symbol(sndfile, #name, &lib.name);
	AUDIO_LIB_SNDFILE(FIND)
#undef FIND
#define FIND(name) find_symbol(mpg123, #name, &lib.name);
	AUDIO_LIB_MPG123(FIND)
#undef FIND
#define FIND(name) find_symbol(soxr, #name, &lib.name);
	AUDIO_LIB_SOXR(FIND)
#undef FIND
	if (why.code == OK && lib.mpg123_init() != MPG123_OK)
		fail_set(&why, E_UNSUPPORTED, "audio cannot be read: libmpg123 does not start");
}

enum status audio_lib_get(const struct audio_lib **out, struct fail *fail)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_all);
	*out = &lib;
	if (why.code != OK && fail)
		*fail = why;
	return why.code;
}
#endif
