/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of HIP's C API that halod calls (src/backend/hip/hip_api.def), on CUDA's driver:
 * the same backend and kernels on an NVIDIA GPU. HIP was made after CUDA, so nearly
 * every function is its counterpart, and error codes are the same numbers. What differs:
 *
 *   - HIP has no contexts to make current: each call makes the device's primary one so
 *   - a workgroup of more than 48 KB of shared memory must be allowed per function
 *   - attributes are numbered differently
 *
 * libcuda is opened when the first function is called, so that this library can be
 * built, and its absence told in words, where there is none. The kernels, compiled by
 * nvcc, are inside (halodHipImage).
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_api.h"
#include "base/alloc.h"

/* Every row of the list, with its very type. */
#define HIP(type, name, arguments) type name arguments;
#define HIP_MAY HIP
#include "backend/hip/hip_api.def"
#undef HIP_MAY
#undef HIP

/* --- the driver ------------------------------------------------------------------- */

/* cuda.h spells some names with a version behind (cuMemAlloc_v2): SPELL sees it. */
#define DRIVER(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) \
	X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceTotalMem) \
	X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) \
	X(cuCtxGetCurrent) X(cuMemGetInfo) X(cuMemAlloc) \
	X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpy) \
	X(cuMemcpyAsync) X(cuMemsetD8Async) X(cuStreamCreate) X(cuStreamDestroy) \
	X(cuStreamSynchronize) X(cuEventCreate) \
	X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) \
	X(cuEventElapsedTime) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
	X(cuGraphInstantiate) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy) \
	X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) \
	X(cuFuncGetAttribute) X(cuFuncSetAttribute) \
	X(cuLaunchKernel)
#define SPELL(name) SPELL_(name)
#define SPELL_(name) #name

static struct {
#define FIELD(name) FIELD_(name)
#define FIELD_(name) __typeof__(name) *p_##name;
	DRIVER(FIELD)
#undef FIELD_
#undef FIELD
} cu;
/* p_cuMemAlloc_v2 for CALL(cuMemAlloc) */
#define CALL(name) CALL_(name)
#define CALL_(name) cu.p_##name

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int start_error;
static CUcontext context[16];
static _Thread_local int thread_device;

static void start(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "libhip_cuda: %s\n", dlerror());
		start_error = HIP_ERROR_NO_DEVICE;
		return;
	}
#define FIND(name) \
	*(void **)&CALL(name) = dlsym(lib, SPELL(name)); \
	if (!CALL(name)) { \
		fprintf(stderr, "libhip_cuda: libcuda has no %s\n", SPELL(name)); \
		start_error = HIP_ERROR_NOT_FOUND; \
		return; \
	}
	DRIVER(FIND)
#undef FIND
	start_error = (int)CALL(cuInit)(0);
}

/* The driver, without a context. */
static int begin(void)
{
	pthread_once(&once, start);
	return start_error;
}

static int enter_device(int device)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	CUdevice d;
	int error = begin();
	if (error)
		return error;
	if (device < 0 || device >= (int)ARRAY_LEN(context))
		return HIP_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!context[device]) {
		error = CALL(cuDeviceGet)(&d, device);
		if (!error)
			error = CALL(cuDevicePrimaryCtxRetain)(&context[device], d);
	}
	pthread_mutex_unlock(&lock);
	return error ? error : (int)CALL(cuCtxSetCurrent)(context[device]);
}

/* This thread's device, current. */
static int enter(void)
{
	static _Thread_local bool is_entered;
	if (is_entered)
		return 0;
	int error = enter_device(thread_device);
	is_entered = !error;
	return error;
}

#define ENTER \
	do { \
		int enter_error_ = enter(); \
		if (enter_error_) \
			return enter_error_; \
	} while (0)

/* --- errors, devices -------------------------------------------------------------- */

int hipRuntimeGetVersion(int *version)
{
	int error = begin();
	return error ? error : (int)CALL(cuDriverGetVersion)(version);
}

const char *hipGetErrorName(int error)
{
	const char *name = NULL;
	if (begin() == 0 && CALL(cuGetErrorName)((CUresult)error, &name) == 0 && name)
		return name;
	return error == HIP_ERROR_NO_DEVICE ? "hipErrorNoDevice" : "hipErrorUnknown";
}

int hipGetDeviceCount(int *count)
{
	*count = 0;
	int error = begin();
	return error ? error : (int)CALL(cuDeviceGetCount)(count);
}

int hipSetDevice(int device)
{
	thread_device = device;
	return enter_device(device);
}

int hipDeviceGetName(char *name, int size, int device)
{
	ENTER;
	return CALL(cuDeviceGetName)(name, size, device);
}

static int cu_attribute(int *value, int attribute, int device)
{
	ENTER;
	return CALL(cuDeviceGetAttribute)(value, (CUdevice_attribute)attribute, device);
}

/* As much of hipDeviceProp_t as its readers look for: a name of 256 bytes, and behind
 * it somewhere the name of the architecture. */
int hipGetDevicePropertiesR0600(void *properties, int device)
{
	int major, minor;
	int error = hipDeviceGetName(properties, 256, device);
	if (!error)
		error = cu_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				     device);
	if (!error)
		error = cu_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				     device);
	if (!error)
		snprintf((char *)properties + 256, 32, "gfxsm%d%d", major, minor);
	return error;
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
	static const struct {
		int hip, cuda;
	} rows[] = {
		{HIP_ATTRIBUTE_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
		{HIP_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED},
		{HIP_ATTRIBUTE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
		{HIP_ATTRIBUTE_MAX_THREADS, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
		{HIP_ATTRIBUTE_BUS_BITS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
		{HIP_ATTRIBUTE_MEMORY_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
		{HIP_ATTRIBUTE_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
		{HIP_ATTRIBUTE_WAVE, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
	};
	if (attribute == HIP_ATTRIBUTE_LDS_BYTES) { /* gfx11's, although the card allows more */
		*value = 65536;
		return HIP_SUCCESS;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].hip == attribute)
			return cu_attribute(value, rows[i].cuda, device);
	return HIP_ERROR_INVALID_VALUE;
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
	ENTER;
	return CALL(cuDeviceTotalMem)(bytes, device);
}

int hipMemGetInfo(size_t *free, size_t *total)
{
	ENTER;
	return CALL(cuMemGetInfo)(free, total);
}

/* --- memory ----------------------------------------------------------------------- */

int hipMalloc(void **out, size_t bytes)
{
	CUdeviceptr p = 0;
	ENTER;
	int error = CALL(cuMemAlloc)(&p, bytes);
	*out = error ? NULL : (void *)p;
	return error;
}

int hipFree(void *p)
{
	ENTER;
	return p ? (int)CALL(cuMemFree)((CUdeviceptr)p) : 0;
}

int hipHostMalloc(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	ENTER;
	return CALL(cuMemHostAlloc)(out, bytes, CU_MEMHOSTALLOC_PORTABLE);
}

int hipHostFree(void *p)
{
	ENTER;
	return p ? (int)CALL(cuMemFreeHost)(p) : 0;
}

/* Addresses are unified: the kind follows from them. */
int hipMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
	(void)kind;
	ENTER;
	return CALL(cuMemcpy)((CUdeviceptr)dst, (CUdeviceptr)src, bytes);
}

int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, hip_stream s)
{
	(void)kind;
	ENTER;
	return CALL(cuMemcpyAsync)((CUdeviceptr)dst, (CUdeviceptr)src, bytes,
				   (CUstream)s);
}

int hipMemsetAsync(void *dst, int value, size_t bytes, hip_stream s)
{
	ENTER;
	return CALL(cuMemsetD8Async)((CUdeviceptr)dst, (unsigned char)value, bytes,
				     (CUstream)s);
}

/* --- streams, events -------------------------------------------------------------- */

int hipStreamCreateWithFlags(hip_stream *out, unsigned flags)
{
	ENTER;
	return CALL(cuStreamCreate)((CUstream *)out, flags);
}

int hipStreamDestroy(hip_stream s)
{
	ENTER;
	return CALL(cuStreamDestroy)((CUstream)s);
}

int hipStreamSynchronize(hip_stream s)
{
	ENTER;
	return CALL(cuStreamSynchronize)((CUstream)s);
}

int hipEventCreateWithFlags(hip_event *out, unsigned flags)
{
	ENTER;
	return CALL(cuEventCreate)((CUevent *)out, flags);
}

int hipEventDestroy(hip_event e)
{
	ENTER;
	return CALL(cuEventDestroy)((CUevent)e);
}

int hipEventRecord(hip_event e, hip_stream s)
{
	ENTER;
	return CALL(cuEventRecord)((CUevent)e, (CUstream)s);
}

int hipEventSynchronize(hip_event e)
{
	ENTER;
	return CALL(cuEventSynchronize)((CUevent)e);
}

int hipEventElapsedTime(float *milliseconds, hip_event start, hip_event stop)
{
	ENTER;
	return CALL(cuEventElapsedTime)(milliseconds, (CUevent)start, (CUevent)stop);
}

/* --- graphs ----------------------------------------------------------------------- */

int hipStreamBeginCapture(hip_stream s, int mode)
{
	ENTER;
	return CALL(cuStreamBeginCapture)((CUstream)s, (CUstreamCaptureMode)mode);
}

int hipStreamEndCapture(hip_stream s, hip_graph *out)
{
	ENTER;
	return CALL(cuStreamEndCapture)((CUstream)s, (CUgraph *)out);
}

int hipGraphInstantiate(hip_graph_exec *out, hip_graph g, void *error_node, char *log,
			size_t log_bytes)
{
	(void)error_node;
	ENTER;
	if (log && log_bytes)
		*log = '\0';
	return CALL(cuGraphInstantiate)((CUgraphExec *)out, (CUgraph)g, 0);
}

int hipGraphLaunch(hip_graph_exec e, hip_stream s)
{
	ENTER;
	return CALL(cuGraphLaunch)((CUgraphExec)e, (CUstream)s);
}

int hipGraphExecDestroy(hip_graph_exec e)
{
	ENTER;
	return CALL(cuGraphExecDestroy)((CUgraphExec)e);
}

int hipGraphDestroy(hip_graph g)
{
	ENTER;
	return CALL(cuGraphDestroy)((CUgraph)g);
}

/* --- code ------------------------------------------------------------------------- */

/* What nvcc made of each compile unit of kernels/, a file that the build names:
 * HIP_CUDA_UNITS is UNIT("FILE") for each. */
#define UNIT(file) \
	".balign 64\n" \
	"1:\n" \
	".incbin \"" file "\"\n" \
	".pushsection .data.rel.ro, \"aw\"\n" \
	".quad 1b\n" \
	".popsection\n"
__asm__(".pushsection .data.rel.ro, \"aw\"\n"
	".balign 8\n"
	"hip_cuda_units:\n"
	".popsection\n"
	".pushsection .rodata\n"
	HIP_CUDA_UNITS
	".popsection\n"
	".pushsection .data.rel.ro, \"aw\"\n"
	"hip_cuda_units_end:\n"
	".quad 0\n"
	".popsection\n");
extern const void *const hip_cuda_units[], *const hip_cuda_units_end[];

/* A module of HIP's is one of CUDA's for each unit. */
struct ihipModule_t {
	size_t n_units;
	CUmodule unit[];
};

const void *halodHipImage(size_t *bytes)
{
	*bytes = (size_t)((const char *)hip_cuda_units_end - (const char *)hip_cuda_units);
	return hip_cuda_units;
}

/* Only of halodHipImage's. */
int hipModuleLoadData(hip_module *out, const void *image)
{
	size_t n = (size_t)(hip_cuda_units_end - hip_cuda_units);
	ENTER;
	if (image != hip_cuda_units)
		return HIP_ERROR_NO_BINARY_FOR_GPU;
	struct ihipModule_t *m = calloc(1, sizeof *m + n * sizeof m->unit[0]);
	if (!m)
		return HIP_ERROR_OUT_OF_MEMORY;
	for (; m->n_units < n; m->n_units++) {
		int error = CALL(cuModuleLoadData)(&m->unit[m->n_units],
						   hip_cuda_units[m->n_units]);
		if (error) {
			hipModuleUnload(m);
			return error;
		}
	}
	*out = m;
	return HIP_SUCCESS;
}

int hipModuleUnload(hip_module m)
{
	int error = HIP_SUCCESS;
	ENTER;
	for (size_t i = 0; i < m->n_units; i++)
		error = error ? error : (int)CALL(cuModuleUnload)(m->unit[i]);
	free(m);
	return error;
}

int hipModuleGetFunction(hip_function *out, hip_module m, const char *name)
{
	int fixed = 0, most = 0, error = HIP_ERROR_NOT_FOUND;
	ENTER;
	for (size_t i = 0; i < m->n_units && error == HIP_ERROR_NOT_FOUND; i++)
		error = CALL(cuModuleGetFunction)((CUfunction *)out, m->unit[i], name);
	if (!error)
		error = CALL(cuFuncGetAttribute)(&fixed,
						 CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
						 (CUfunction)*out);
	if (!error)
		error = cu_attribute(&most,
				     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
				     thread_device);
	if (!error && most > fixed)
		error = CALL(cuFuncSetAttribute)(
			(CUfunction)*out, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			most - fixed);
	return error;
}

int hipModuleLaunchKernel(hip_function f, unsigned grid_x, unsigned grid_y,
			  unsigned grid_z, unsigned block_x, unsigned block_y,
			  unsigned block_z, unsigned lds, hip_stream s, void **args,
			  void **extra)
{
	ENTER;
	return CALL(cuLaunchKernel)((CUfunction)f, grid_x, grid_y, grid_z, block_x,
				    block_y, block_z, lds, (CUstream)s, args, extra);
}
