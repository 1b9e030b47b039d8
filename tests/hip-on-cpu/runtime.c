/* SPDX-License-Identifier: Apache-2.0
 *
 * libhip_cpu.so: the HIP runtime's C API (backend/hip/hip_api.def) on the CPU, so that the
 * whole HIP backend runs where there is no GPU, also under sanitizers. It looks like a
 * gfx1151 with 40 compute units. Its kernels are those of kernels/, compiled as
 * C++ (unit.cpp) and run on fibers (fiber.c). libhip_gfx11.so is the same runtime with
 * another way to run kernels (device.h).
 *
 * What is queued on any stream runs on one worker thread in the order in which it was
 * queued, which is an order that HIP allows; the caller goes on meanwhile, as with a
 * GPU, so memory that is changed or read too early shows. Kernels' arguments are
 * copied when they are launched or captured, as HIP has it; copies read and write the
 * memory they name when they run.
 *
 * Stricter than HIP: device memory is filled with 0xFF (halves and floats are NaN)
 * until it is written; while a stream is being captured, what would wait or take
 * memory fails with hipErrorStreamCaptureUnsupported, and the capture with it.
 *
 * From the environment, when a module is loaded: HIP_CPU_REVERSED=1 runs a workgroup's
 * threads in the other order; HIP_CPU_FAULT=launch:N makes the N-th launch end in
 * hipErrorLaunchFailure, hang:N never end; illegal:N makes it end in
 * hipErrorIllegalAddress, which every later call returns, also those that only take memory
 * or record; lost:NAME leaves the last workgroup of each
 * launch of kernel NAME out; upload:N turns over the bits of the N-th copy of 4 KiB or more
 * (tests of what halod does then); pinned:N refuses the N-th piece of pinned
 * memory that is not coherent, and all behind it; call:NAME:N makes the N-th call of the function
 * NAME fail with hipErrorUnknown and do nothing else, calls:NAME:N also all behind it.
 * HIP_CPU_CALLS=FILE counts the calls of each function there (struct call_line).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "backend/hip/hip_api.h"
#include "tests/hip-on-cpu/device.h"
#include "tests/hip-on-cpu/kernels.h"
#include "tests/hip-on-cpu/runtime.h"
#include "tests/hip-on-cpu/sanitizer.h"

#define API __attribute__((visibility("default")))
#define HIP(type, name, arguments) API type name arguments;
#define HIP_MAY HIP
#include "backend/hip/hip_api.def"
#undef HIP_MAY
#undef HIP

enum {
	MAX_ARGS = 32,
	TOTAL_BYTES_GIB = 16,
	ALIGN = 256,
	CANARY = 64, /* bytes behind a block that nobody may change */
	LDS_BYTES = 65536,
	UNKNOWN_ERROR = 999, /* hipErrorUnknown */
};

static const char image[] = "halod kernels on the CPU";

/* --- what is queued --------------------------------------------------------------- */

enum kind { COPY, FILL, LAUNCH, EVENT, GRAPH };

struct op {
	struct op *next;
	enum kind kind;
	uint64_t ticket;
	void *dst;               /* COPY, FILL */
	const void *src;         /* COPY */
	bool is_to_device;       /* COPY */
	size_t n_bytes;
	int value;               /* FILL */
	const struct kernel_entry *kernel;
	struct device_launch launch;
	void *args[MAX_ARGS];    /* into arg_bytes */
	_Alignas(16) char arg_bytes[4096];
	hip_event event;
	hip_graph_exec exec;
};

struct ihipGraph {
	struct op *first, **last;
};
struct hipGraphExec {
	struct op *first;
};
struct ihipStream_t {
	uint64_t last;      /* ticket */
	hip_graph capture;  /* or NULL */
	bool has_copied;    /* to the device, and launched no kernel behind that */
};
struct ihipEvent_t {
	uint64_t ticket;    /* of the last record */
	double at_us;
};
struct ihipModuleSymbol_t {
	struct kernel_entry entry;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t is_queued, is_done;
	struct op *first, **last;
	uint64_t n_queued, n_done;
	bool has_worker;
	bool is_reversed;
	bool is_fault_hang, is_fault_illegal;
	uint64_t fault_at, n_launched; /* 0: no fault */
	uint64_t spoil_at, n_copied;   /* the same for large copies */
	uint64_t pinned_at, n_pinned;  /* the same for pinned memory, and all behind it */
	char lost[64];                 /* a kernel; "": none */
	int error;           /* sticky, of the worker */
	size_t used_bytes;
	int n_capturing;
	struct hip_cpu_counts counts;
} R = {.lock = PTHREAD_MUTEX_INITIALIZER, .is_queued = PTHREAD_COND_INITIALIZER,
       .is_done = PTHREAD_COND_INITIALIZER};

static void *take(size_t n_bytes)
{
	void *p = calloc(1, n_bytes);
	if (!p) {
		fputs("hip-on-cpu: no memory\n", stderr);
		abort();
	}
	return p;
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void run_launch(struct op *o)
{
	if (R.fault_at && ++R.n_launched == R.fault_at) {
		while (R.is_fault_hang)
			pause();
		pthread_mutex_lock(&R.lock);
		R.error = R.is_fault_illegal ? HIP_ERROR_ILLEGAL_ADDRESS
					     : HIP_ERROR_LAUNCH_FAILURE;
		pthread_mutex_unlock(&R.lock);
	}
	if (R.error != HIP_SUCCESS)
		return;
	struct device_launch launch = o->launch;
	if (strcmp(o->kernel->name, R.lost) == 0) {
		uint32_t *last = launch.grid_y > 1 ? &launch.grid_y : &launch.grid_x;
		if (--*last == 0)
			return;
	}
	if (!device_run(o->kernel, o->args, &launch))
		R.error = HIP_ERROR_LAUNCH_FAILURE;
}

static void run_copy(struct op *o)
{
	memmove(o->dst, o->src, o->n_bytes);
	if (o->n_bytes < 4096 || ++R.n_copied != R.spoil_at)
		return;
	for (size_t i = 0; i < o->n_bytes; i++)
		((unsigned char *)o->dst)[i] ^= 0xFF;
}

/* Large memory becomes zero by giving its pages back. Most of it is never used: a backend alone
 * clears 160 MB, which took a quarter of a second of each start. Blocks are private memory. */
static void fill(char *dst, int value, size_t n)
{
	enum { LARGE = 4 << 20, PAGE = 4096 };
	char *from = dst + (PAGE - (uintptr_t)dst % PAGE) % PAGE;
	size_t inside = n < LARGE ? 0 : (n - (size_t)(from - dst)) / PAGE * PAGE;
	if (value != 0 || !inside || madvise(from, inside, MADV_DONTNEED) != 0) {
		memset(dst, value, n);
		return;
	}
	memset(dst, 0, (size_t)(from - dst));
	memset(from + inside, 0, n - inside - (size_t)(from - dst));
}

static void run(struct op *o)
{
	switch (o->kind) {
	case COPY:
		run_copy(o);
		break;
	case FILL:
		fill(o->dst, o->value, o->n_bytes);
		break;
	case LAUNCH:
		run_launch(o);
		break;
	case EVENT:
		o->event->at_us = now_us();
		break;
	case GRAPH:
		for (struct op *each = o->exec->first; each; each = each->next)
			run(each);
		break;
	}
}

static void *worker(void *arg)
{
	pthread_mutex_lock(&R.lock);
	for (;;) {
		while (!R.first)
			pthread_cond_wait(&R.is_queued, &R.lock);
		struct op *o = R.first;
		pthread_mutex_unlock(&R.lock);
		run(o);
		pthread_mutex_lock(&R.lock);
		R.first = o->next;
		if (!R.first)
			R.last = &R.first;
		R.n_done = o->ticket;
		free(o);
		pthread_cond_broadcast(&R.is_done);
	}
	return NULL;
}

static void start_worker(void)
{
	pthread_t t;
	R.last = &R.first;
	R.has_worker = true;
	if (pthread_create(&t, NULL, worker, NULL) != 0) {
		fputs("hip-on-cpu: no thread\n", stderr);
		abort();
	}
	pthread_detach(t);
}

/* A kernel's launch makes the chip's caches forget what a copy has overwritten. Whether the first
 * kernel of a graph does so is the runtime's affair, so nothing may rest on it. */
static bool is_out_of_order(hip_stream s, const struct op *o)
{
	if (o->kind == GRAPH && s->has_copied) {
		fputs("hip-on-cpu: a graph is launched behind a copy to the device, with no kernel "
		      "between\n", stderr);
		return true;
	}
	s->has_copied = (s->has_copied && o->kind != LAUNCH) || o->is_to_device;
	return false;
}

/* Into the stream's graph while it is captured, else into the queue. Takes o. */
static int submit(hip_stream s, struct op *o)
{
	pthread_mutex_lock(&R.lock);
	if (s && s->capture) {
		*s->capture->last = o;
		s->capture->last = &o->next;
		pthread_mutex_unlock(&R.lock);
		return HIP_SUCCESS;
	}
	if (s && is_out_of_order(s, o)) {
		pthread_mutex_unlock(&R.lock);
		free(o);
		return HIP_ERROR_INVALID_VALUE;
	}
	if (!R.has_worker)
		start_worker();
	o->ticket = ++R.n_queued;
	if (s)
		s->last = o->ticket;
	if (o->kind == EVENT)
		o->event->ticket = o->ticket;
	*R.last = o;
	R.last = &o->next;
	int error = R.error;
	pthread_cond_signal(&R.is_queued);
	pthread_mutex_unlock(&R.lock);
	return error;
}

static struct op *op_create(enum kind kind)
{
	struct op *o = take(sizeof *o);
	o->kind = kind;
	return o;
}

/* What a broken context answers to every call. */
static int broken(void)
{
	pthread_mutex_lock(&R.lock);
	int error = R.is_fault_illegal ? R.error : HIP_SUCCESS;
	pthread_mutex_unlock(&R.lock);
	return error;
}

/* A call that waits or takes memory ends every capture. */
static int may_wait(void)
{
	int error = broken();
	return error ? error : R.n_capturing ? HIP_ERROR_CAPTURE_UNSUPPORTED : HIP_SUCCESS;
}

static int wait_for(uint64_t ticket)
{
	pthread_mutex_lock(&R.lock);
	while (R.n_done < ticket)
		pthread_cond_wait(&R.is_done, &R.lock);
	int error = R.error;
	pthread_mutex_unlock(&R.lock);
	return error;
}

static void ops_destroy(struct op *o)
{
	while (o) {
		struct op *next = o->next;
		free(o);
		o = next;
	}
}

static void graph_free(hip_graph g)
{
	ops_destroy(g->first);
	free(g);
}

/* --- calls ------------------------------------------------------------------------ */

enum { MAX_FUNCTIONS = 64 };

/* A line of the file HIP_CPU_CALLS, which other processes may read meanwhile. */
struct call_line {
	char name[56];
	uint64_t n;
};

static struct {
	pthread_once_t once;
	struct call_line *lines; /* (MAX_FUNCTIONS) */
	char name[56];           /* the function that fails, "": none */
	unsigned long long at;   /* from 1 */
	bool is_for_ever;        /* that call and all behind it */
} C = {.once = PTHREAD_ONCE_INIT};

static void calls_open(void)
{
	const char *fault = getenv("HIP_CPU_FAULT"), *path = getenv("HIP_CPU_CALLS");
	size_t n = MAX_FUNCTIONS * sizeof *C.lines;
	int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
	if (fd >= 0 && ftruncate(fd, (off_t)n) == 0)
		C.lines = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || C.lines == MAP_FAILED)
		C.lines = take(n);
	if (fd >= 0)
		close(fd);
	C.is_for_ever = fault && sscanf(fault, "calls:%55[^:]:%llu", C.name, &C.at) == 2;
	if (fault && !C.is_for_ever && sscanf(fault, "call:%55[^:]:%llu", C.name, &C.at) != 2)
		*C.name = '\0';
}

/* Counts a call. The error that it ends with: none, unless the environment asks for one. */
static int called(const char *name)
{
	struct call_line *l;
	pthread_once(&C.once, calls_open);
	pthread_mutex_lock(&R.lock);
	for (l = C.lines; *l->name && strcmp(l->name, name) != 0; l++)
		;
	if (!*l->name)
		snprintf(l->name, sizeof l->name, "%s", name);
	uint64_t n = ++l->n;
	pthread_mutex_unlock(&R.lock);
	bool is_meant = strcmp(C.name, name) == 0 && (n == C.at || (C.is_for_ever && n > C.at));
	return is_meant ? UNKNOWN_ERROR : HIP_SUCCESS;
}

#define CALLED                                                                             \
	do {                                                                                \
		int injected = called(__func__);                                            \
		if (injected)                                                               \
			return injected;                                                    \
	} while (0)

API struct hip_cpu_counts hip_cpu_counts(void)
{
	return R.counts;
}

/* --- the device ------------------------------------------------------------------- */

int hipRuntimeGetVersion(int *version)
{
	CALLED;
	const char *text = getenv("HIP_CPU_VERSION"); /* as in "70200000" */
	*version = text ? atoi(text) : 70200000;
	return HIP_SUCCESS;
}

const char *hipGetErrorName(int error)
{
	switch (error) {
	case HIP_SUCCESS: return "hipSuccess";
	case HIP_ERROR_INVALID_VALUE: return "hipErrorInvalidValue";
	case HIP_ERROR_OUT_OF_MEMORY: return "hipErrorOutOfMemory";
	case HIP_ERROR_INVALID_DEVICE: return "hipErrorInvalidDevice";
	case HIP_ERROR_INVALID_IMAGE: return "hipErrorInvalidImage";
	case HIP_ERROR_NOT_FOUND: return "hipErrorNotFound";
	case HIP_ERROR_ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
	case HIP_ERROR_LAUNCH_FAILURE: return "hipErrorLaunchFailure";
	case HIP_ERROR_CAPTURE_UNSUPPORTED: return "hipErrorStreamCaptureUnsupported";
	default: return "hipErrorUnknown";
	}
}

int hipGetDeviceCount(int *count)
{
	CALLED;
	*count = 1;
	return HIP_SUCCESS;
}

int hipSetDevice(int device)
{
	CALLED;
	return device ? HIP_ERROR_INVALID_DEVICE : HIP_SUCCESS;
}

int hipSetDeviceFlags(unsigned flags)
{
	CALLED;
	return flags & ~0x1Fu ? HIP_ERROR_INVALID_VALUE : HIP_SUCCESS;
}

int hipDeviceGetName(char *name, int size, int device)
{
	CALLED;
	snprintf(name, (size_t)size, "%s", device_name());
	return hipSetDevice(device);
}

/* As in ROCm 6: the name of 256 bytes first, and the architecture far behind. */
int hipGetDevicePropertiesR0600(void *properties, int device)
{
	CALLED;
	char *p = properties;
	memset(p, 0, 1472);
	hipDeviceGetName(p, 256, device);
	snprintf(p + 1160, 16, "%s", device_arch());
	return hipSetDevice(device);
}

int hipGetDeviceProperties(void *properties, int device)
{
	CALLED;
	return hipGetDevicePropertiesR0600(properties, device);
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
	CALLED;
	switch (attribute) {
	case HIP_ATTRIBUTE_PROCESSORS: *value = 20; break;
	case HIP_ATTRIBUTE_LDS_BYTES: *value = LDS_BYTES; break;
	case HIP_ATTRIBUTE_MAX_THREADS: *value = 1024; break;
	case HIP_ATTRIBUTE_WAVE: *value = 32; break;
	case HIP_ATTRIBUTE_INTEGRATED: *value = 1; break;
	case HIP_ATTRIBUTE_CLOCK_KHZ: *value = 2900000; break;
	case HIP_ATTRIBUTE_MEMORY_KHZ: *value = 1000000; break;
	case HIP_ATTRIBUTE_BUS_BITS: *value = 256; break;
	case HIP_ATTRIBUTE_L2_BYTES: *value = 2 << 20; break;
	default: return HIP_ERROR_INVALID_VALUE;
	}
	return hipSetDevice(device);
}

/* As HIP spells it; the CPU is on no such bus, so sysfs knows none. */
int hipDeviceGetPCIBusId(char *id, int size, int device)
{
	CALLED;
	snprintf(id, (size_t)size, "ffff:00:00.0");
	return hipSetDevice(device);
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
	CALLED;
	*bytes = (size_t)TOTAL_BYTES_GIB << 30;
	return hipSetDevice(device);
}

int hipMemGetInfo(size_t *left, size_t *total)
{
	CALLED;
	*total = (size_t)TOTAL_BYTES_GIB << 30;
	pthread_mutex_lock(&R.lock);
	*left = *total - R.used_bytes;
	pthread_mutex_unlock(&R.lock);
	return broken();
}

static int wait_for_all(void)
{
	int error = may_wait();
	return error ? error : wait_for(R.n_queued);
}

/* --- memory ----------------------------------------------------------------------- */

/* In front of each block, so that free knows its size. */
struct header {
	void *block;
	size_t n_bytes;
};

enum { SPOILED_BYTES = 2 << 20 }; /* of a new block: no numbers, NaN in each float format */

static int block_create(void **out, size_t n_bytes, enum memory_kind kind)
{
	size_t total = (size_t)TOTAL_BYTES_GIB << 30;
	pthread_mutex_lock(&R.lock);
	bool fits = n_bytes <= total && R.used_bytes <= total - n_bytes;
	R.used_bytes += fits ? n_bytes : 0;
	pthread_mutex_unlock(&R.lock);
	size_t all = ALIGN + n_bytes + CANARY;
	void *p = fits ? device_place(all) : NULL;
	if (!fits || (!p && posix_memalign(&p, ALIGN, all) != 0))
		return HIP_ERROR_OUT_OF_MEMORY;
	char *block = p;
	*(struct header *)block = (struct header){block, n_bytes};
	R.counts.n_allocs++;
	/* The rest of a larger one is scratch that few tests reach: its pages come when used. */
	memset(block + ALIGN, 0xFF, n_bytes < SPOILED_BYTES ? n_bytes : SPOILED_BYTES);
	memset(block + ALIGN + n_bytes, 0xA5, CANARY);
	__asan_poison_memory_region(block, ALIGN);
	__asan_poison_memory_region(block + ALIGN + n_bytes, CANARY);
	*out = block + ALIGN;
	device_memory(*out, n_bytes, kind);
	return HIP_SUCCESS;
}

static void block_destroy(void *p)
{
	char *block = (char *)p - ALIGN;
	__asan_unpoison_memory_region(block, ALIGN);
	size_t n = ((struct header *)block)->n_bytes;
	device_memory(p, n, MEMORY_GONE);
	__asan_unpoison_memory_region(block + ALIGN + n, CANARY);
	for (size_t i = 0; i < CANARY; i++)
		if ((unsigned char)block[ALIGN + n + i] != 0xA5) {
			fprintf(stderr, "hip-on-cpu: %zu bytes at %p: written %zu bytes "
				"behind the end\n", n, p, i);
			abort();
		}
	pthread_mutex_lock(&R.lock);
	R.used_bytes -= n;
	pthread_mutex_unlock(&R.lock);
	if (!device_displace(block))
		free(block);
}

int hipMalloc(void **out, size_t bytes)
{
	CALLED;
	int error = may_wait();
	return error ? error : block_create(out, bytes, MEMORY_DEVICE);
}

int hipFree(void *p)
{
	CALLED;
	int error = may_wait();
	if (error == HIP_ERROR_CAPTURE_UNSUPPORTED)
		return error;
	error = wait_for(R.n_queued);
	if (p)
		block_destroy(p);
	return error;
}

int hipHostMalloc(void **out, size_t bytes, unsigned flags)
{
	CALLED;
	/* The flags of hipHostMalloc that ROCm knows: no other bit may be set. */
	const unsigned known = 0x7u | HIP_HOST_COHERENT | 0x80000000u;
	if (flags & ~known)
		return HIP_ERROR_INVALID_VALUE;
	bool is_coherent = flags & HIP_HOST_COHERENT;
	R.counts.n_coherent += is_coherent;
	if (!is_coherent && R.pinned_at && ++R.n_pinned >= R.pinned_at)
		return HIP_ERROR_OUT_OF_MEMORY;
	int error = may_wait();
	return error ? error
		     : block_create(out, bytes, is_coherent ? MEMORY_COHERENT : MEMORY_PINNED);
}

int hipHostFree(void *p)
{
	CALLED;
	return hipFree(p);
}

int hipMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
	CALLED;
	int error = wait_for_all();
	if (error == HIP_SUCCESS && bytes)
		memmove(dst, src, bytes);
	return error;
}

int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, hip_stream s)
{
	CALLED;
	struct op *o = op_create(COPY);
	R.counts.n_copies[kind & 3]++;
	R.counts.copied_bytes[kind & 3] += bytes;
	o->dst = dst;
	o->src = src;
	o->n_bytes = bytes;
	o->is_to_device = kind == HIP_HOST_TO_DEVICE;
	return submit(s, o);
}

int hipMemsetAsync(void *dst, int value, size_t bytes, hip_stream s)
{
	CALLED;
	struct op *o = op_create(FILL);
	o->dst = dst;
	o->value = value;
	o->n_bytes = bytes;
	return submit(s, o);
}

/* --- streams and events ----------------------------------------------------------- */

int hipStreamCreateWithFlags(hip_stream *out, unsigned flags)
{
	CALLED;
	*out = take(sizeof **out);
	return HIP_SUCCESS;
}

int hipStreamSynchronize(hip_stream s)
{
	CALLED;
	int error = may_wait();
	return error ? error : wait_for(s ? s->last : R.n_queued);
}

/* Ends a capture, too. */
int hipStreamDestroy(hip_stream s)
{
	CALLED;
	hip_graph g = s->capture;
	s->capture = NULL;
	R.n_capturing -= g != NULL;
	if (g)
		graph_free(g);
	int error = may_wait();
	error = error ? error : wait_for(s->last);
	free(s);
	return error;
}

int hipEventCreateWithFlags(hip_event *out, unsigned flags)
{
	CALLED;
	*out = take(sizeof **out);
	return HIP_SUCCESS;
}

int hipEventDestroy(hip_event e)
{
	CALLED;
	wait_for(e->ticket);
	free(e);
	return HIP_SUCCESS;
}

int hipEventRecord(hip_event e, hip_stream s)
{
	CALLED;
	struct op *o = op_create(EVENT);
	o->event = e;
	return submit(s, o);
}

int hipEventSynchronize(hip_event e)
{
	CALLED;
	int error = may_wait();
	return error ? error : wait_for(e->ticket);
}

int hipEventElapsedTime(float *milliseconds, hip_event start, hip_event stop)
{
	CALLED;
	pthread_mutex_lock(&R.lock);
	bool is_done = R.n_done >= start->ticket && R.n_done >= stop->ticket;
	int error = R.error ? R.error : is_done ? HIP_SUCCESS : HIP_ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&R.lock);
	if (error == HIP_SUCCESS)
		*milliseconds = (float)((stop->at_us - start->at_us) * 1e-3);
	return error;
}

/* --- graphs ----------------------------------------------------------------------- */

int hipStreamBeginCapture(hip_stream s, int mode)
{
	CALLED;
	if (!s || s->capture)
		return HIP_ERROR_INVALID_VALUE;
	if (broken())
		return broken();
	hip_graph g = take(sizeof *g);
	g->last = &g->first;
	s->capture = g;
	R.n_capturing++;
	return HIP_SUCCESS;
}

int hipStreamEndCapture(hip_stream s, hip_graph *out)
{
	CALLED;
	if (!s || !s->capture)
		return HIP_ERROR_INVALID_VALUE;
	*out = s->capture;
	s->capture = NULL;
	R.n_capturing--;
	return HIP_SUCCESS;
}

int hipGraphDestroy(hip_graph g)
{
	CALLED;
	graph_free(g);
	return HIP_SUCCESS;
}

static struct op *op_copy(const struct op *o)
{
	struct op *copy = op_create(o->kind);
	*copy = *o;
	copy->next = NULL;
	for (int i = 0; o->kind == LAUNCH && i < o->kernel->n_args; i++)
		copy->args[i] = copy->arg_bytes + ((char *)o->args[i] - o->arg_bytes);
	return copy;
}

int hipGraphInstantiate(hip_graph_exec *out, hip_graph g, void *error_node, char *log,
			size_t log_bytes)
{
	CALLED;
	if (broken())
		return broken();
	hip_graph_exec e = take(sizeof *e);
	struct op **last = &e->first;
	for (const struct op *o = g->first; o; o = o->next) {
		*last = op_copy(o);
		last = &(*last)->next;
	}
	*out = e;
	return HIP_SUCCESS;
}

int hipGraphLaunch(hip_graph_exec e, hip_stream s)
{
	CALLED;
	struct op *o = op_create(GRAPH);
	R.counts.n_graphs++;
	o->exec = e;
	return submit(s, o);
}

int hipGraphExecDestroy(hip_graph_exec e)
{
	CALLED;
	int error = wait_for_all();
	ops_destroy(e->first);
	free(e);
	return error;
}

/* --- code ------------------------------------------------------------------------- */

const void *halodHipImage(size_t *bytes)
{
	*bytes = sizeof image;
	return image;
}

int hipModuleLoadData(hip_module *out, const void *data)
{
	CALLED;
	if (strncmp(data, image, sizeof image) != 0)
		return HIP_ERROR_NO_BINARY_FOR_GPU;
	const char *reversed = getenv("HIP_CPU_REVERSED"), *fault = getenv("HIP_CPU_FAULT");
	unsigned long long n = 0, spoil = 0, pinned = 0;
	pthread_mutex_lock(&R.lock);
	R.is_reversed = reversed && *reversed == '1';
	R.is_fault_hang = fault && sscanf(fault, "hang:%llu", &n) == 1;
	R.is_fault_illegal = fault && sscanf(fault, "illegal:%llu", &n) == 1;
	if (fault)
		sscanf(fault, "launch:%llu", &n);
	R.fault_at = n;
	R.n_launched = 0;
	*R.lost = '\0';
	if (fault && sscanf(fault, "lost:%63s", R.lost) != 1)
		sscanf(fault, "upload:%llu", &spoil);
	if (fault)
		sscanf(fault, "pinned:%llu", &pinned);
	R.spoil_at = spoil;
	R.pinned_at = pinned;
	R.n_pinned = 0;
	R.n_copied = 0;
	R.error = HIP_SUCCESS;
	pthread_mutex_unlock(&R.lock);
	*out = (hip_module)(uintptr_t)image;
	return HIP_SUCCESS;
}

int hipModuleUnload(hip_module m)
{
	CALLED;
	return m == (hip_module)(uintptr_t)image ? HIP_SUCCESS : HIP_ERROR_INVALID_HANDLE;
}

int hipModuleGetFunction(hip_function *out, hip_module m, const char *name)
{
	CALLED;
	const struct kernel_entry *k = kernels_find(name);
	*out = (hip_function)(uintptr_t)k;
	return k ? HIP_SUCCESS : HIP_ERROR_NOT_FOUND;
}

int hipModuleLaunchKernel(hip_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			  unsigned block_x, unsigned block_y, unsigned block_z,
			  unsigned lds, hip_stream s, void **args, void **extra)
{
	CALLED;
	const struct kernel_entry *k = (const struct kernel_entry *)(uintptr_t)f;
	if (!k || extra || !grid_x || !grid_y || grid_z != 1 || !block_x ||
	    block_x > 1024 || block_y != 1 || block_z != 1 || lds > LDS_BYTES ||
	    grid_y > 65535 || (uint64_t)grid_x * block_x > UINT32_MAX ||
	    k->n_args > MAX_ARGS)
		return HIP_ERROR_INVALID_VALUE;
	if (broken())
		return broken();
	struct op *o = op_create(LAUNCH);
	R.counts.n_launches++;
	o->kernel = k;
	o->launch = (struct device_launch){.grid_x = grid_x, .grid_y = grid_y,
					  .n_threads = block_x, .lds_bytes = lds,
					  .is_reversed = R.is_reversed};
	size_t at = 0;
	for (int i = 0; i < k->n_args; i++) {
		at = (at + 15) / 16 * 16;
		if (at + k->arg_bytes[i] > sizeof o->arg_bytes) {
			free(o);
			return HIP_ERROR_INVALID_VALUE;
		}
		o->args[i] = memcpy(o->arg_bytes + at, args[i], k->arg_bytes[i]);
		at += k->arg_bytes[i];
	}
	return submit(s, o);
}
