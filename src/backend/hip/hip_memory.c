/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory, and copies to and from it.
 *
 * To the device: bytes are copied to one half of the stage, and the device fetches them
 * from there while the caller continues. A half is reused only after an event says that
 * it was read. So a step's ids cost one copy in host memory and one over the bus. Loading
 * a model overlaps reading the file with the bus.
 *
 * From the device: the device writes to pinned memory, and `sync` copies from there to
 * the caller's memory.
 *
 * A caller with pinned memory of its own needs neither: the device copies from and to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_graph.h"
#include "base/alloc.h"
#include "base/gpumem.h"
#include "base/log.h"
#include "base/metrics.h"

enum {
	ALIGN = 256,
	BLOCK_BYTES = 512 << 20,
	FIRST_BLOCK_BYTES = 8 << 20,
};

static enum status put_one_each(struct hip *h)
{
	int32_t ids[HIP_ONE_EACH + 1];
	for (int32_t i = 0; i <= HIP_ONE_EACH; i++)
		ids[i] = i;
	enum status st = hip_alloc(&h->base, sizeof ids, (void **)&h->one_each);
	if (st == OK)
		st = hip_upload(&h->base, h->one_each, ids, sizeof ids);
	return st == OK ? hip_sync(&h->base, NULL) : st;
}

enum status hip_memory_create(struct hip *h)
{
	const struct hip_api *api = &h->api;
	enum status st = OK;
	for (int i = 0; i < 2 && st == OK; i++) {
		st = hip_check(h, api->hipHostMalloc((void **)&h->staging.half[i],
						     HIP_STAGING_BYTES, 0), "pinned memory");
		hip_mark_create(h, &h->staging.read[i]);
	}
	if (st == OK)
		st = hip_check(h, api->hipHostMalloc((void **)&h->land, HIP_LAND_BYTES, 0),
			       "pinned memory");
	if (st == OK)
		st = hip_alloc(&h->base, HIP_MAX_TOK * sizeof *h->counters,
			       (void **)&h->counters);
	size_t sums = MOE_ROUTER_MAX_EXPERTS * sizeof *h->router_sums;
	if (st == OK)
		st = hip_alloc(&h->base, sums, (void **)&h->router_sums);
	if (st == OK)
		st = hip_alloc(&h->base, h->work_bytes = HIP_WORK_BYTES, &h->work);
	h->base.own_bytes = HIP_WORK_BYTES +
			    (int64_t)(HIP_MAX_TOK * sizeof *h->counters + sums);
	return st == OK ? put_one_each(h) : st;
}

/* --- blocks ----------------------------------------------------------------------- */

/* Array p holds n items and becomes large enough for one more. It doubles at powers of two. */
static void *array_for_one_more(void *p, size_t n, size_t item)
{
	bool is_full = (n & (n - 1)) == 0;
	return is_full ? xrealloc(p, MAX(2 * n, (size_t)1) * item) : p;
}

/* Record each piece of memory that kernels can access, for recorders of launches. */
static void note_range(struct hip *h, void *p, size_t n)
{
	h->ranges = array_for_one_more(h->ranges, h->n_ranges, sizeof *h->ranges);
	h->ranges[h->n_ranges++] = (struct hip_range){p, n};
}

static void forget_range(struct hip *h, const void *p)
{
	for (size_t i = h->n_ranges; i-- > 0;)
		if (h->ranges[i].p == p) {
			h->ranges[i] = h->ranges[--h->n_ranges];
			break;
		}
}

static enum status take_range(struct hip *h, size_t n, void **out)
{
	enum status st = hip_check(h, h->api.hipMalloc(out, n), "device memory");
	if (st == OK)
		note_range(h, *out, n);
	return st;
}

static void give_range(struct hip *h, void *p)
{
	forget_range(h, p);
	h->api.hipFree(p);
}

static void memory_of_apu(const struct hip_device *d, int64_t left, struct backend_memory *out)
{
	char folder[80];
	struct sysmem m;
	struct gpumem g;
	struct gpumem_have have;
	snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", d->pci);
	sysmem_read("/", &m);
	bool is_told = *d->pci && gpumem_read("/", folder, &g);
	gpumem_of_apu(is_told ? &g : NULL, &m, left, &have);
	*out = (struct backend_memory){have.total, have.free, have.is_system};
}

void hip_memory(struct backend *b, struct backend_memory *out)
{
	struct hip *h = hip_of(b);
	size_t left = 0, total = 0;
	bool is_told = h->api.hipMemGetInfo(&left, &total) == HIP_SUCCESS;
	if (h->device.is_integrated)
		memory_of_apu(&h->device, is_told ? (int64_t)left : INT64_MAX, out);
	else
		*out = (struct backend_memory){
			(int64_t)(is_told ? total : h->device.n_bytes),
			(int64_t)(is_told ? left : h->device.n_bytes), false};
}

enum status hip_alloc(struct backend *b, size_t n_bytes, void **out)
{
	struct hip *h = hip_of(b);
	size_t n = MAX(n_bytes, (size_t)1);
	if (hip_graph_is_open(h, "taking memory"))
		return E_UNSUPPORTED;
	enum status st = take_range(h, n, out);
	if (st != OK)
		return st;
	st = hip_check(h, h->api.hipMemsetAsync(*out, 0, n, h->stream), "clearing");
	if (st != OK) {
		give_range(h, *out);
		*out = NULL;
	}
	return st;
}

void hip_free(struct backend *b, void *p)
{
	if (!p)
		return;
	hip_graph_clear(hip_of(b));
	give_range(hip_of(b), p);
}

enum status hip_alloc_shared(struct backend *b, size_t n_bytes, void **out)
{
	struct hip *h = hip_of(b);
	size_t n = MAX(n_bytes, (size_t)1);
	if (hip_graph_is_open(h, "taking memory"))
		return E_UNSUPPORTED;
	/* Kernels access this memory, so it must be coherent. The stage and the landing
	 * need not be coherent, because only the runtime's copies use them. */
	enum status st = hip_check(h, h->api.hipHostMalloc(out, n, HIP_HOST_COHERENT),
				   "pinned memory");
	if (st != OK)
		return st;
	memset(*out, 0, n);
	note_range(h, *out, n);
	return OK;
}

void hip_free_shared(struct backend *b, void *p)
{
	struct hip *h = hip_of(b);
	if (!p)
		return;
	hip_graph_clear(h);
	forget_range(h, p);
	h->api.hipHostFree(p);
}

enum status hip_alloc_pinned(struct backend *b, size_t n_bytes, void **out)
{
	struct hip *h = hip_of(b);
	*out = NULL;
	if (h->has_failed)
		return E_DEVICE;
	if (hip_graph_is_open(h, "taking memory"))
		return E_UNSUPPORTED;
	/* Systems limit how much may be pinned, so a refusal says nothing about the device.
	 * Only the runtime's copies use this memory, so it need not be coherent. */
	bool has_it = h->api.hipHostMalloc(out, MAX(n_bytes, (size_t)1), 0) == HIP_SUCCESS;
	return has_it ? OK : E_NOMEM;
}

void hip_free_pinned(struct backend *b, void *p)
{
	if (p)
		hip_of(b)->api.hipHostFree(p);
}

static enum status arena_block(struct hip *h, struct hip_arena *a, size_t n_bytes,
			       char **out)
{
	void *p;
	enum status st = take_range(h, n_bytes, &p);
	if (st != OK)
		return st;
	a->blocks = array_for_one_more(a->blocks, a->n_blocks, sizeof *a->blocks);
	a->blocks[a->n_blocks++] = p;
	*out = p;
	return OK;
}

enum status hip_arena_take(struct hip *h, struct hip_arena *a, size_t n_bytes, void **out)
{
	size_t n = ROUND_UP(MAX(n_bytes, (size_t)1), ALIGN);
	a->n_bytes += n;
	if (h->checks.own_blocks || n > BLOCK_BYTES / 4)
		return arena_block(h, a, h->checks.own_blocks ? MAX(n_bytes, (size_t)1) : n,
				   (char **)out);
	if (a->size - a->at < n) {
		/* Start with small blocks, for small models. */
		size_t size = MIN(MAX(2 * a->size, (size_t)FIRST_BLOCK_BYTES),
				  (size_t)BLOCK_BYTES);
		size = MAX(size, n);
		enum status st = arena_block(h, a, size, &a->block);
		if (st != OK)
			return st;
		a->at = 0;
		a->size = size;
	}
	*out = a->block + a->at;
	a->at += n;
	return OK;
}

void hip_memory_destroy(struct hip *h)
{
	for (int i = 0; i < 2; i++) {
		if (h->staging.half[i])
			h->api.hipHostFree(h->staging.half[i]);
		hip_mark_destroy(h, &h->staging.read[i]);
	}
	if (h->land)
		h->api.hipHostFree(h->land);
	hip_free(&h->base, h->counters);
	hip_free(&h->base, h->router_sums);
	hip_free(&h->base, h->one_each);
	hip_free(&h->base, h->work);
	for (size_t i = h->weights.n_blocks; i-- > 0;) /* the newest is found first */
		give_range(h, h->weights.blocks[i]);
	free(h->weights.blocks);
	h->weights = (struct hip_arena){0};
}

/* --- marks ------------------------------------------------------------------------ */

static void without_events(struct hip *h, int error)
{
	metric_add(METRIC_EVENT_FAILURES, 1);
	if (!h->has_told_events)
		log_warn("hip: an event: %s; copies wait for the whole queue instead",
			 h->api.hipGetErrorName(error));
	h->has_told_events = true;
}

void hip_mark_create(struct hip *h, struct hip_mark *m)
{
	*m = (struct hip_mark){0};
	int error = h->api.hipEventCreateWithFlags(
		&m->event, HIP_EVENT_NO_TIMING | HIP_EVENT_BLOCKING_SYNC);
	if (error == HIP_SUCCESS)
		return;
	m->event = NULL;
	without_events(h, error);
}

void hip_mark_put(struct hip *h, struct hip_mark *m)
{
	int error = m->event ? h->api.hipEventRecord(m->event, h->stream) : HIP_SUCCESS;
	m->is_lost = !m->event || error != HIP_SUCCESS;
	if (error != HIP_SUCCESS)
		without_events(h, error);
}

enum status hip_mark_wait(struct hip *h, struct hip_mark *m, const char *what)
{
	if (m->event && !m->is_lost) {
		int error = h->api.hipEventSynchronize(m->event);
		if (error == HIP_SUCCESS)
			return OK;
		without_events(h, error);
	}
	/* What the stream says is the device's own error. */
	return hip_check(h, h->api.hipStreamSynchronize(h->stream), what);
}

void hip_mark_destroy(struct hip *h, struct hip_mark *m)
{
	if (m->event)
		h->api.hipEventDestroy(m->event);
}

/* --- to the device -------------------------------------------------------------------- */

/* Reserve n bytes of the stage, within one half. */
static enum status stage_take(struct hip *h, size_t n, char **out)
{
	struct hip_staging *s = &h->staging;
	enum status st = OK;
	if (HIP_STAGING_BYTES - s->at < n) {
		hip_mark_put(h, &s->read[s->now]);
		s->now ^= 1;
		s->at = 0;
		st = hip_mark_wait(h, &s->read[s->now], "copying to the device");
	}
	*out = s->half[s->now] + s->at;
	s->at += (n + 63) / 64 * 64;
	s->at = MIN(s->at, (size_t)HIP_STAGING_BYTES);
	return st;
}

enum status hip_send(struct hip *h, void *dst, const void *pinned, size_t n)
{
	h->has_copied = true;
	return hip_check(h, h->api.hipMemcpyAsync(dst, pinned, n, HIP_HOST_TO_DEVICE,
						  h->stream), "copying to the device");
}

enum status hip_upload(struct backend *b, void *dst, const void *src, size_t n_bytes)
{
	struct hip *h = hip_of(b);
	const size_t piece = HIP_STAGING_BYTES / 4;
	enum status st = h->has_failed ? E_DEVICE : OK;
	if (hip_graph_is_open(h, "an upload"))
		return E_UNSUPPORTED;
	for (size_t at = 0; at < n_bytes && st == OK; at += piece) {
		size_t n = MIN(piece, n_bytes - at);
		char *p;
		st = stage_take(h, n, &p);
		if (st != OK)
			break;
		memcpy(p, (const char *)src + at, n);
		st = hip_send(h, (char *)dst + at, p, n);
	}
	return st;
}

enum status hip_upload_pinned(struct backend *b, void *dst, const void *src, size_t n_bytes)
{
	struct hip *h = hip_of(b);
	if (hip_graph_is_open(h, "an upload"))
		return E_UNSUPPORTED;
	return h->has_failed ? E_DEVICE : hip_send(h, dst, src, n_bytes);
}

enum status hip_upload_rows(struct hip *h, const struct hip_rows *r)
{
	const size_t each = HIP_STAGING_BYTES / 4 / r->pitch;
	enum status st = h->has_failed ? E_DEVICE : OK;
	if (r->pitch == r->row_bytes && r->step == r->row_bytes)
		return hip_upload(&h->base, r->dst, r->src, r->row_bytes * r->n);
	if (each == 0)
		return hip_refuse(h, "rows of %zu bytes", r->row_bytes);
	for (size_t row = 0; row < r->n && st == OK; row += each) {
		size_t n = MIN(each, r->n - row);
		char *p;
		st = stage_take(h, n * r->pitch, &p);
		if (st != OK)
			break;
		for (size_t i = 0; i < n; i++) {
			char *to = p + i * r->pitch;
			memcpy(to, (const char *)r->src + (row + i) * r->step,
			       r->row_bytes);
			memset(to + r->row_bytes, 0, r->pitch - r->row_bytes);
		}
		st = hip_send(h, (char *)r->dst + row * r->pitch, p, n * r->pitch);
	}
	return st;
}

/* --- from the device ------------------------------------------------------------------ */

/* Wait for the device, and copy all landed bytes to the callers' memory. */
static enum status land_all(struct hip *h)
{
	enum status st = h->has_failed ? E_DEVICE
				       : hip_check(h, h->api.hipStreamSynchronize(h->stream),
						   "waiting for the device");
	for (int i = 0; i < h->n_landings && st == OK; i++)
		memcpy(h->landings[i].dst, h->land + h->landings[i].at,
		       h->landings[i].n_bytes);
	h->n_landings = 0;
	h->land_at = 0;
	return st;
}

static enum status take_back(struct hip *h, void *pinned, const void *src, size_t n)
{
	return hip_check(h, h->api.hipMemcpyAsync(pinned, src, n, HIP_DEVICE_TO_HOST, h->stream),
			 "copying from the device");
}

enum status hip_download(struct backend *b, void *dst, const void *src, size_t n_bytes)
{
	struct hip *h = hip_of(b);
	enum status st = h->has_failed ? E_DEVICE : OK;
	if (hip_graph_is_open(h, "a download"))
		return E_UNSUPPORTED;
	for (size_t at = 0; at < n_bytes && st == OK;) {
		if (h->land_at == HIP_LAND_BYTES ||
		    h->n_landings == (int)ARRAY_LEN(h->landings))
			st = land_all(h);
		if (st != OK)
			break;
		size_t n = MIN(n_bytes - at, HIP_LAND_BYTES - h->land_at);
		st = take_back(h, h->land + h->land_at, (const char *)src + at, n);
		h->landings[h->n_landings++] =
			(struct hip_landing){(char *)dst + at, h->land_at, n};
		h->land_at = MIN(h->land_at + (n + 63) / 64 * 64, (size_t)HIP_LAND_BYTES);
		at += n;
	}
	return st;
}

enum status hip_download_pinned(struct backend *b, void *dst, const void *src, size_t n_bytes)
{
	struct hip *h = hip_of(b);
	if (hip_graph_is_open(h, "a download"))
		return E_UNSUPPORTED;
	return h->has_failed ? E_DEVICE : take_back(h, dst, src, n_bytes);
}

enum status hip_sync(struct backend *b, struct fail *fail)
{
	struct hip *h = hip_of(b);
	enum status st = land_all(h);
	if (st == OK) {
		hip_graph_ran(h);
		return OK;
	}
	return fail_set(fail, st, "%.100s: %s", h->base.device, h->failure);
}
