/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

#define DEFAULT_NAMES "libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5"

static const char *const default_names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
					    "libamdhip64.so.5"};

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

static void *open_any(const char *library, const char **out_name)
{
	void *handle = NULL;
	if (library && *library) {
		*out_name = library;
		return dlopen(library, RTLD_NOW | RTLD_LOCAL);
	}
	for (size_t i = 0; i < ARRAY_LEN(default_names) && !handle; i++) {
		*out_name = default_names[i];
		handle = dlopen(default_names[i], RTLD_NOW | RTLD_LOCAL);
	}
	return handle;
}

enum status hip_api_open(const char *library, struct hip_api *out, struct fail *fail)
{
	bool is_named = library && *library;
	*out = (struct hip_api){0};
	void *handle = open_any(library, &out->library);
	if (!handle)
		return fail_set(fail, E_MISSING,
				"the HIP runtime was not found: tried %.200s: %.200s",
				is_named ? library : DEFAULT_NAMES, dlerror());
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		void *f = dlsym(handle, functions[i].name);
		if (!f && functions[i].is_needed)
			return fail_set(fail, E_MISSING, "%.200s has no function %s",
					out->library, functions[i].name);
		memcpy((char *)out + functions[i].at, &f, sizeof f);
	}
	return OK;
}
