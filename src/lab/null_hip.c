/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/null_hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "kernels/attention/index_launch.h"

struct null_range {
	uint64_t at;
	size_t n;
};

struct null_ranges {
	struct null_range *r;
	size_t n, cap;
};

static struct {
	struct hip_api api;
	const struct chip *chip;
	const struct codeobject *code;
	struct null_ranges mapped; /* memory to unmap at the end */
	struct null_ranges known;
	bool is_sorted;
} null;

/* --- known memory ------------------------------------------------------------------ */

static void add_range(struct null_ranges *s, const void *at, size_t n)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->r = xrealloc(s->r, s->cap * sizeof *s->r);
	}
	s->r[s->n++] = (struct null_range){(uint64_t)(uintptr_t)at, n};
}

static void learn(const void *at, size_t n)
{
	add_range(&null.known, at, n);
	null.is_sorted = false;
}

static int by_address(const void *a, const void *b)
{
	const struct null_range *x = a, *y = b;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Sort the known ranges and join those that touch. */
static void sort_known(void)
{
	struct null_ranges *s = &null.known;
	size_t n = 0;
	if (s->n)
		qsort(s->r, s->n, sizeof *s->r, by_address);
	for (size_t i = 0; i < s->n; i++) {
		struct null_range *last = n ? &s->r[n - 1] : NULL;
		uint64_t end = s->r[i].at + s->r[i].n;
		if (last && s->r[i].at <= last->at + last->n)
			last->n = MAX(last->n, (size_t)(end - last->at));
		else
			s->r[n++] = s->r[i];
	}
	s->n = n;
	null.is_sorted = true;
}

bool null_hip_read(void *ctx, uint64_t at, size_t n, void *out)
{
	if (!null.is_sorted)
		sort_known();
	size_t lo = 0, hi = null.known.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (null.known.r[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	const struct null_range *r = lo ? &null.known.r[lo - 1] : NULL;
	if (!r || at + n > r->at + r->n)
		return false;
	memcpy(out, (const void *)(uintptr_t)at, n);
	return true;
}

static void copy_words(const struct hip_launch_info *l)
{
	int32_t n;
	const void *from;
	void *to;
	memcpy(&n, l->args[0].p, sizeof n);
	memcpy(&from, l->args[1].p, sizeof from);
	memcpy(&to, l->args[2].p, sizeof to);
	memcpy(to, from, (size_t)n * 4);
	learn(to, (size_t)n * 4);
}

/* As kernels/ops/index.h, if the blocks with the best scores are equally far apart. */
static void choose_evenly(const struct hip_launch_info *l)
{
	struct index_choose_launch a;
	memcpy(&a, l->args[0].p, sizeof a);
	size_t n_tok = (size_t)l->grid.x, width = (size_t)a.top + 1;
	int32_t each = a.page_size / a.ratio, known;
	if (!null_hip_read(NULL, (uint64_t)(uintptr_t)(a.position + n_tok - 1), 4, &known))
		return;
	for (size_t t = 0; t < n_tok; t++) {
		const int32_t *pages = a.page_table + a.seq_of[t] * a.max_pages_per_seq;
		int32_t n = (a.position[t] + 1) / a.ratio, k = MIN(n, a.top);
		int32_t rest = (a.position[t] + 1) % a.ratio;
		for (int32_t i = 0; i < k + (rest > 0); i++) {
			int32_t b = i < k ? (int32_t)((int64_t)i * n / k) : n;
			a.table[t * width + (size_t)i] = pages[b / each] * each + b % each;
		}
		a.last[t] = k * a.ratio + rest - 1;
	}
	learn(a.table, n_tok * width * sizeof *a.table);
	learn(a.last, n_tok * sizeof *a.last);
}

void null_hip_after(const struct hip_launch_info *l)
{
	if (strcmp(l->kernel->name, "copy_words_kernel") == 0 && l->n_args == 3)
		copy_words(l);
	else if (strcmp(l->kernel->name, "index_choose_kernel") == 0)
		choose_evenly(l);
}

/* --- memory ----------------------------------------------------------------------- */

static int null_malloc(void **out, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return HIP_ERROR_OUT_OF_MEMORY;
	add_range(&null.mapped, p, bytes);
	*out = p;
	return HIP_SUCCESS;
}

static int null_free(void *p)
{
	for (size_t i = 0; i < null.mapped.n; i++)
		if (null.mapped.r[i].at == (uint64_t)(uintptr_t)p) {
			munmap(p, null.mapped.r[i].n);
			null.mapped.r[i] = null.mapped.r[--null.mapped.n];
			break;
		}
	return HIP_SUCCESS;
}

static int null_host_malloc(void **out, size_t bytes, unsigned flags)
{
	int error = null_malloc(out, bytes);
	if (error == HIP_SUCCESS)
		learn(*out, bytes);
	return error;
}

static int null_copy(void *dst, const void *src, size_t bytes, int kind, hip_stream s)
{
	if (bytes > NULL_HIP_KEPT || kind == HIP_DEVICE_TO_DEVICE)
		return HIP_SUCCESS;
	memcpy(dst, src, bytes);
	if (kind == HIP_HOST_TO_DEVICE)
		learn(dst, bytes);
	return HIP_SUCCESS;
}

static int null_copy_now(void *dst, const void *src, size_t bytes, int kind)
{
	return null_copy(dst, src, bytes, kind, NULL);
}

static int null_set(void *dst, int value, size_t bytes, hip_stream s)
{
	return HIP_SUCCESS;
}

static int null_memory(size_t *free, size_t *total)
{
	*free = *total = (size_t)1 << 37;
	return HIP_SUCCESS;
}

static int null_total(size_t *bytes, int device)
{
	*bytes = (size_t)1 << 37;
	return HIP_SUCCESS;
}

/* --- the device ------------------------------------------------------------------- */

static int null_number(int *out)
{
	*out = 1;
	return HIP_SUCCESS;
}

static const char *null_text(int error)
{
	return "no error";
}

static int null_device(int device)
{
	return HIP_SUCCESS;
}

static int null_name(char *name, int size, int device)
{
	snprintf(name, (size_t)size, "%s", null.chip->name);
	return HIP_SUCCESS;
}

static int null_properties(void *p, int device)
{
	memset(p, 0, HIP_PROPERTIES_BYTES);
	memcpy((char *)p + 512, null.chip->arch, strlen(null.chip->arch));
	return HIP_SUCCESS;
}

static int null_attribute(int *out, int what, int device)
{
	*out = what == HIP_ATTRIBUTE_PROCESSORS ? null.chip->n_cu / 2
	       : what == HIP_ATTRIBUTE_LDS_BYTES ? 65536
	       : what == HIP_ATTRIBUTE_MAX_THREADS ? 1024
	       : what == HIP_ATTRIBUTE_WAVE ? 32 : 1;
	return HIP_SUCCESS;
}

/* --- streams, events, graphs, code ------------------------------------------------ */

static int null_stream(hip_stream *out, unsigned flags)
{
	*out = (hip_stream)(void *)&null;
	return HIP_SUCCESS;
}

static int null_of_stream(hip_stream s)
{
	return HIP_SUCCESS;
}

static int null_event(hip_event *out, unsigned flags)
{
	*out = (hip_event)(void *)&null;
	return HIP_SUCCESS;
}

static int null_of_event(hip_event e)
{
	return HIP_SUCCESS;
}

static int null_record(hip_event e, hip_stream s)
{
	return HIP_SUCCESS;
}

static int null_elapsed(float *ms, hip_event a, hip_event b)
{
	*ms = 1;
	return HIP_SUCCESS;
}

static int null_load(hip_module *out, const void *image)
{
	*out = (hip_module)(void *)&null;
	return HIP_SUCCESS;
}

static int null_unload(hip_module m)
{
	return HIP_SUCCESS;
}

static int null_function(hip_function *out, hip_module m, const char *name)
{
	const struct code_kernel *k = codeobject_find(null.code, name);
	*out = (hip_function)(uintptr_t)k;
	return k ? HIP_SUCCESS : HIP_ERROR_NOT_FOUND;
}

static int null_launch(hip_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		       unsigned by, unsigned bz, unsigned lds, hip_stream s, void **args,
		       void **extra)
{
	return HIP_SUCCESS;
}

const struct hip_api *null_hip_open(const struct chip *chip, const struct codeobject *code)
{
	null.chip = chip;
	null.code = code;
	null.api = (struct hip_api){
		.hipRuntimeGetVersion = null_number, .hipGetErrorName = null_text,
		.hipGetDeviceCount = null_number,
		.hipSetDevice = null_device, .hipDeviceGetName = null_name,
		.hipGetDevicePropertiesR0600 = null_properties,
		.hipDeviceGetAttribute = null_attribute, .hipDeviceTotalMem = null_total,
		.hipMemGetInfo = null_memory,
		.hipMalloc = null_malloc, .hipFree = null_free,
		.hipHostMalloc = null_host_malloc, .hipHostFree = null_free,
		.hipMemcpy = null_copy_now, .hipMemcpyAsync = null_copy,
		.hipMemsetAsync = null_set, .hipStreamCreateWithFlags = null_stream,
		.hipStreamDestroy = null_of_stream, .hipStreamSynchronize = null_of_stream,
		.hipEventCreateWithFlags = null_event, .hipEventDestroy = null_of_event,
		.hipEventRecord = null_record, .hipEventSynchronize = null_of_event,
		.hipEventElapsedTime = null_elapsed,
		.hipModuleLoadData = null_load, .hipModuleUnload = null_unload,
		.hipModuleGetFunction = null_function,
		.hipModuleLaunchKernel = null_launch, .library = "no runtime"};
	return &null.api;
}

void null_hip_close(void)
{
	while (null.mapped.n)
		null_free((void *)(uintptr_t)null.mapped.r[0].at);
	free(null.mapped.r);
	free(null.known.r);
	memset(&null, 0, sizeof null);
}
