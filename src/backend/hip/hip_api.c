/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

#define NAME "libamdhip64.so"
#define DEFAULT_NAMES NAME ".8, .7, .6, .5"

static const char *const default_names[] = {NAME ".8", NAME ".7", NAME ".6", NAME ".5"};

/* Where ROCm lies, below a folder that an environment variable names, or (NULL) as it stands. Of
 * several versions the last is tried first. */
static const struct {
	const char *variable, *pattern;
} places[] = {
	{"ROCM_PATH", "lib"},
	{"ROCM_PATH", "core*/lib"},
	{NULL, ""}, /* the linker's folders */
	{NULL, "/opt/rocm/lib"},
	{NULL, "/opt/rocm/core*/lib"},
	{NULL, "/opt/rocm-*/lib"},
	{"VIRTUAL_ENV", "lib*/python3*/site-packages/_rocm_sdk_core/lib"},
	{"HOME", ".local/lib*/python3*/site-packages/_rocm_sdk_core/lib"},
};

/* Where a runtime may lie that the linker does not take: of another version, or of another
 * machine. */
static const char *const system_folders[] = {"/usr/lib", "/usr/lib64", "/usr/local/lib",
					     "/usr/lib/x86_64-linux-gnu"};

static const struct {
	const char *name;
	size_t at; /* offset in struct hip_api */
	bool is_needed;
} functions[] = {
#define HIP(type, name, arguments) {#name, offsetof(struct hip_api, name), true},
#define HIP_MAY(type, name, arguments) {#name, offsetof(struct hip_api, name), false},
#include "backend/hip/hip_api.def"
#undef HIP_MAY
#undef HIP
};

/* Of a place: its folders, malloc'ed, oldest version first. */
static size_t folders_of(size_t i, char ***out)
{
	const char *base = places[i].variable ? getenv(places[i].variable) : "";
	glob_t found = {0};
	*out = NULL;
	if (!base || (places[i].variable && !*base) || !*places[i].pattern)
		return 0;
	char *pattern = places[i].variable ? xasprintf("%s/%s", base, places[i].pattern)
					   : xstrdup(places[i].pattern);
	size_t n = glob(pattern, GLOB_NOSORT, NULL, &found) == 0 ? found.gl_pathc : 0;
	free(pattern);
	*out = xcalloc(n + 1, sizeof **out);
	for (size_t k = 0; k < n; k++) {
		size_t at = k;
		for (; at > 0 && strverscmp((*out)[at - 1], found.gl_pathv[k]) > 0; at--)
			(*out)[at] = (*out)[at - 1];
		(*out)[at] = xstrdup(found.gl_pathv[k]);
	}
	globfree(&found);
	return n;
}

/* Notes a folder in which there is a runtime of any version. */
static void note_seen(const char *folder, struct buf *seen)
{
	glob_t found = {0};
	char *pattern = xasprintf("%s/" NAME "*", folder);
	if (glob(pattern, 0, NULL, &found) == 0)
		buf_addf(seen, "%s%s", seen->n ? ", " : "", folder);
	globfree(&found);
	free(pattern);
}

/* Loads the first runtime of a folder, or with "" of the linker's. *path is set. */
static void *open_in(const char *folder, char *path, size_t size, struct buf *why)
{
	for (size_t i = 0; i < ARRAY_LEN(default_names); i++) {
		snprintf(path, size, "%s%s%s", folder, *folder ? "/" : "", default_names[i]);
		if (*folder && access(path, F_OK) != 0)
			continue;
		void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (handle)
			return handle;
		const char *text = dlerror();
		if (*folder && text && why->n == 0)
			buf_add_z(why, text);
	}
	return NULL;
}

static void *open_default(const char **out_name, struct fail *fail)
{
	static char path[4096];
	struct buf seen = {0}, why = {0};
	void *handle = NULL;
	for (size_t i = 0; i < ARRAY_LEN(places) && !handle; i++) {
		char **folders;
		size_t n = folders_of(i, &folders);
		if (!*places[i].pattern)
			handle = open_in("", path, sizeof path, &why);
		for (size_t k = n; k-- > 0;) {
			if (!handle)
				handle = open_in(folders[k], path, sizeof path, &why);
			if (!handle)
				note_seen(folders[k], &seen);
			free(folders[k]);
		}
		free(folders);
	}
	for (size_t i = 0; i < ARRAY_LEN(system_folders) && !handle; i++)
		note_seen(system_folders[i], &seen);
	*out_name = path;
	if (!handle && seen.n)
		fail_set(fail, E_MISSING, "the HIP runtime was not found: tried " DEFAULT_NAMES
			 "; one was seen in %.300s%s%.200s", seen.p, why.n ? ": " : "",
			 why.n ? why.p : "");
	else if (!handle)
		fail_set(fail, E_MISSING, "the HIP runtime was not found: tried " DEFAULT_NAMES
			 " in the linker's folders, $ROCM_PATH, /opt/rocm and the Python "
			 "environment");
	buf_deinit(&seen);
	buf_deinit(&why);
	return handle;
}

static void *open_named(const char *library, struct fail *fail)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fail_set(fail, E_MISSING, "the HIP runtime was not found: tried %.200s: %.200s",
			 library, dlerror());
	return handle;
}

enum status hip_api_open(const char *library, struct hip_api *out, struct fail *fail)
{
	*out = (struct hip_api){0};
	out->library = library;
	void *handle = library && *library ? open_named(library, fail)
					   : open_default(&out->library, fail);
	if (!handle)
		return E_MISSING;
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		void *f = dlsym(handle, functions[i].name);
		if (!f && functions[i].is_needed)
			return fail_set(fail, E_MISSING, "%.200s has no function %s",
					out->library, functions[i].name);
		memcpy((char *)out + functions[i].at, &f, sizeof f);
	}
	return OK;
}
