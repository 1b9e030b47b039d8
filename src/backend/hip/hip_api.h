/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP runtime's C API, loaded at run time. So one build of halod serves every version
 * of ROCm, and the build needs no ROCm. hip_api.def lists the functions. Types and
 * constants here are those of HIP's ABI, which is the same from ROCm 5 on. Only the
 * layout of hipDeviceProp_t changes, so no code here depends on it. Source:
 * hip_runtime_api.h of ROCm. Thread: engine; hip_api_open any.
 */
#pragma once
#include <stddef.h>

#include "base/status.h"

typedef struct ihipStream_t *hip_stream;
typedef struct ihipEvent_t *hip_event;
typedef struct ihipModule_t *hip_module;
typedef struct ihipModuleSymbol_t *hip_function;
typedef struct ihipGraph *hip_graph;
typedef struct hipGraphExec *hip_graph_exec;

enum hip_error {
	HIP_SUCCESS = 0,
	HIP_ERROR_INVALID_VALUE = 1,
	HIP_ERROR_OUT_OF_MEMORY = 2,
	HIP_ERROR_NO_DEVICE = 100,
	HIP_ERROR_INVALID_DEVICE = 101,
	HIP_ERROR_INVALID_IMAGE = 200,
	HIP_ERROR_NO_BINARY_FOR_GPU = 209,
	HIP_ERROR_INVALID_HANDLE = 400,
	HIP_ERROR_NOT_FOUND = 500,
	HIP_ERROR_ILLEGAL_ADDRESS = 700,
	HIP_ERROR_LAUNCH_FAILURE = 719,
	HIP_ERROR_CAPTURE_UNSUPPORTED = 900,
};

enum hip_copy { HIP_HOST_TO_DEVICE = 1, HIP_DEVICE_TO_HOST = 2, HIP_DEVICE_TO_DEVICE = 3 };

/* Numbers of hipDeviceAttribute_t. */
enum hip_attribute {
	HIP_ATTRIBUTE_CLOCK_KHZ = 5,
	HIP_ATTRIBUTE_INTEGRATED = 16,
	HIP_ATTRIBUTE_L2_BYTES = 19,
	HIP_ATTRIBUTE_MAX_THREADS = 56, /* most threads of a workgroup */
	HIP_ATTRIBUTE_BUS_BITS = 59,
	HIP_ATTRIBUTE_MEMORY_KHZ = 60,
	/* AMD only: workgroup processors (two compute units each) on gfx10 and later. */
	HIP_ATTRIBUTE_PROCESSORS = 63,
	HIP_ATTRIBUTE_LDS_BYTES = 74, /* most LDS of a workgroup */
	HIP_ATTRIBUTE_WAVE = 87,
};

enum {
	HIP_STREAM_NON_BLOCKING = 1,
	HIP_EVENT_BLOCKING_SYNC = 1, /* waiting threads sleep, and do not spin */
	HIP_EVENT_NO_TIMING = 2,
	HIP_CAPTURE_THREAD_LOCAL = 1,
	HIP_SCHEDULE_BLOCKING_SYNC = 4, /* of a device: waiting threads sleep */
	/* hipHostMallocCoherent: the device's caches do not keep this memory. Without the
	 * flag the environment variable HIP_HOST_COHERENT decides. */
	HIP_HOST_COHERENT = 0x40000000,
	/* Larger than hipDeviceProp_t in any ROCm (1,472 bytes in ROCm 6). */
	HIP_PROPERTIES_BYTES = 16384,
};

struct hip_api {
#define HIP(type, name, arguments) type (*name) arguments;
#define HIP_MAY HIP
#include "backend/hip/hip_api.def"
#undef HIP_MAY
#undef HIP
	const char *library; /* name of the loaded library; the caller's, or of the last library
			      * that was looked for */
};

/* Load `library`. NULL or "": the first libamdhip64.so.8 to .5 of the places that hip_api.c lists.
 * It is never unloaded. E_MISSING, with the folders in which a runtime was seen, if none loads or
 * a function is missing. */
enum status hip_api_open(const char *library, struct hip_api *out,
			 struct fail *fail) MUST_USE;
