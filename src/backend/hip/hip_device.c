/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the device and the code object for it.
 *
 * A device is identified by the name of its architecture, which is a field of
 * hipDeviceProp_t. That struct's layout changes between versions of ROCm, so its fields
 * are not used. Instead the struct is read into more memory than any version needs, by
 * whichever function name the library has. The first text "gfx..." after the 256 bytes of
 * the device's name is the architecture.
 */
#include <build-config.h>
#include <build-paths.h>

#include "backend/hip/hip.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/gpumem.h"

#define KFD "/dev/kfd" /* device file that every process needs to reach an AMD GPU */
#define NO_KFD "no AMD GPU visible: " KFD " is missing"

/* --- the device ------------------------------------------------------------------- */

/* Find the architecture in the bytes of a hipDeviceProp_t: "gfx1151:sramecc+" gives
 * "gfx1151". Returns false if there is none. */
static bool find_arch(const char *p, size_t n, char *out, size_t size)
{
	for (size_t i = 256; i + 4 < n; i++) {
		if (memcmp(p + i, "gfx", 3) != 0 || !isalnum((unsigned char)p[i + 3]))
			continue;
		size_t len = 3;
		while (len + 1 < size && i + len < n && isalnum((unsigned char)p[i + len]))
			len++;
		memcpy(out, p + i, len);
		out[len] = '\0';
		return true;
	}
	return false;
}

static bool arch_of(const struct hip_api *api, int device, char *out, size_t size)
{
	char *p = xcalloc(1, HIP_PROPERTIES_BYTES);
	int error = HIP_ERROR_NOT_FOUND;
	if (api->hipGetDevicePropertiesR0600)
		error = api->hipGetDevicePropertiesR0600(p, device);
	else if (api->hipGetDeviceProperties)
		error = api->hipGetDeviceProperties(p, device);
	bool is_found = error == HIP_SUCCESS &&
			find_arch(p, HIP_PROPERTIES_BYTES, out, size);
	free(p);
	return is_found;
}

static int attribute(const struct hip_api *api, int device, int what, int otherwise)
{
	int value = 0;
	return api->hipDeviceGetAttribute(&value, what, device) == HIP_SUCCESS && value > 0
		       ? value : otherwise;
}

static enum status describe(const struct hip_api *api, int i, struct hip_device *d,
			    struct fail *fail)
{
	*d = (struct hip_device){.index = i};
	if (!arch_of(api, i, d->arch, sizeof d->arch))
		return fail_set(fail, E_DEVICE, "%.200s does not tell the architecture "
				"of device %d", api->library, i);
	if (api->hipDeviceGetName(d->name, sizeof d->name, i) != HIP_SUCCESS || !*d->name)
		memcpy(d->name, d->arch, sizeof d->arch);
	d->name[sizeof d->name - 1] = '\0';
	d->n_cu = attribute(api, i, HIP_ATTRIBUTE_PROCESSORS, 1);
	if (strncmp(d->arch, "gfx1", 4) == 0 && strlen(d->arch) >= 7)
		d->n_cu *= 2; /* gfx10 and later: HIP counts pairs of compute units */
	d->lds_bytes = attribute(api, i, HIP_ATTRIBUTE_LDS_BYTES, 65536);
	/* Runtimes before 6.2 do not know the attribute. */
	int value;
	bool knows = api->hipDeviceGetAttribute(&value, HIP_ATTRIBUTE_INTEGRATED, i) ==
		     HIP_SUCCESS;
	d->is_integrated = knows ? value : gpumem_is_shared(d->arch);
	if (!api->hipDeviceGetPCIBusId ||
	    api->hipDeviceGetPCIBusId(d->pci, sizeof d->pci, i) != HIP_SUCCESS)
		*d->pci = '\0';
	if (api->hipDeviceTotalMem(&d->n_bytes, i) != HIP_SUCCESS)
		d->n_bytes = 0;
	return OK;
}

/* Fail with the reason why the runtime finds no device. */
static enum status no_device(const struct hip_api *api, int error, struct fail *fail)
{
	if (access(KFD, F_OK) != 0)
		return fail_set(fail, E_MISSING, NO_KFD);
	if (access(KFD, R_OK | W_OK) != 0)
		return fail_set(fail, E_MISSING, "no permission on " KFD
				": is the user in groups render and video?");
	return fail_set(fail, E_MISSING, "no AMD GPU visible: %.200s says %s",
			api->library, api->hipGetErrorName(error ? error
							   : HIP_ERROR_NO_DEVICE));
}

/* --- the code object -------------------------------------------------------------- */

char *hip_device_file(const char *arch, const char *kind, const struct backend_opts *o)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	exe[MAX(n, 0)] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	char *beside = xasprintf("%s/kernels", exe);
	char *moved = xasprintf("%s/../lib/" PACKAGE, exe);
	const char *const dirs[] = {beside, moved, HALOD_LIBDIR};
	const char *const named[] = {o->kernel_dir};
	bool is_named = o->kernel_dir && *o->kernel_dir;
	const char *const *list = is_named ? named : dirs;
	char *file = xasprintf("%s.%s", arch, kind), *found = NULL;
	for (size_t i = 0; !found && i < (is_named ? 1 : ARRAY_LEN(dirs)); i++) {
		char *path = file_join(list[i], file);
		if (file_exists(path))
			found = path;
		else
			free(path);
	}
	free(file);
	free(beside);
	free(moved);
	return found;
}

enum status hip_device_image(const struct hip_api *api, const struct hip_device *d,
			     const struct backend_opts *o, struct buf *file,
			     const void **out, struct fail *fail)
{
	size_t n_bytes;
	if (api->halodHipImage) {
		*out = api->halodHipImage(&n_bytes);
		return OK;
	}
	char *path = hip_device_file(d->arch, "hsaco", o);
	if (!path)
		return fail_set(fail, E_MISSING, "code object for %s is not installed "
				"(%s.hsaco in " HALOD_LIBDIR "; see --with-gpu-targets "
				"of configure)", d->arch, d->arch);
	enum status st = file_read(path, (size_t)1 << 30, file, fail);
	if (st == OK)
		*out = file->p;
	free(path);
	return st;
}

static bool has_code(const struct hip_api *api, const struct hip_device *d,
		     const struct backend_opts *o)
{
	if (api->halodHipImage)
		return true;
	char *path = hip_device_file(d->arch, "hsaco", o);
	free(path);
	return path != NULL;
}

/* Number of devices; none is an error. */
static enum status hip_device_count(const struct hip_api *api, int *out, struct fail *fail)
{
	*out = 0;
	int error = api->hipGetDeviceCount(out);
	return error != HIP_SUCCESS || *out < 1 ? no_device(api, error, fail) : OK;
}

enum status hip_device_open(const struct hip_api *api, const struct backend_opts *o,
			    struct hip_device *out, struct fail *fail)
{
	int n;
	enum status st = hip_device_count(api, &n, fail);
	if (st != OK)
		return st;
	/* Choose the first device that has kernels. If none has, choose the first device,
	 * so that its error is reported. */
	for (int i = 0; i < n; i++) {
		struct hip_device d;
		st = describe(api, i, &d, fail);
		if (st != OK)
			return st;
		bool is_good = has_code(api, &d, o);
		if (i == 0 || is_good)
			*out = d;
		if (is_good)
			break;
	}
	/* Else a thread of the runtime spins for ever behind the first kernel (ROCr 1.21). The
	 * flags are the current device's, and it must not be in use yet. */
	if (api->hipSetDeviceFlags)
		api->hipSetDeviceFlags(HIP_SCHEDULE_BLOCKING_SYNC);
	int error = api->hipSetDevice(out->index);
	if (error == HIP_SUCCESS && out->index > 0 && api->hipSetDeviceFlags)
		api->hipSetDeviceFlags(HIP_SCHEDULE_BLOCKING_SYNC);
	if (error != HIP_SUCCESS)
		return fail_set(fail, E_DEVICE, "%s: %s", out->name,
				api->hipGetErrorName(error));
	return OK;
}

enum status hip_open_api(const struct backend_opts *o, struct hip_api *out,
			 struct fail *fail)
{
	bool is_named = o->hip_library && *o->hip_library;
	if (o->hip_api) {
		*out = *o->hip_api;
		return OK;
	}
	if (!is_named && access(KFD, F_OK) != 0)
		return fail_set(fail, E_MISSING, NO_KFD);
	return hip_api_open(o->hip_library, out, fail);
}

enum status hip_list(const struct backend_opts *o, struct hip_api *out_api,
		     void (*on)(void *ctx, const struct hip_device *d, bool has_kernels),
		     void *ctx, struct fail *fail)
{
	int n = 0;
	enum status st = hip_open_api(o, out_api, fail);
	if (st == OK)
		st = hip_device_count(out_api, &n, fail);
	for (int i = 0; i < n && st == OK; i++) {
		struct hip_device d;
		st = describe(out_api, i, &d, fail);
		if (st == OK)
			on(ctx, &d, has_code(out_api, &d, o));
	}
	return st;
}

enum status hip_probe(const struct backend_opts *o, struct hip_device *out,
		      struct fail *fail)
{
	struct hip_api api;
	struct buf file = {0};
	const void *image;
	enum status st = hip_open_api(o, &api, fail);
	if (st == OK)
		st = hip_device_open(&api, o, out, fail);
	if (st == OK)
		st = hip_device_image(&api, out, o, &file, &image, fail);
	buf_deinit(&file);
	return st;
}
