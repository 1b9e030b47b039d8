/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "lab/record.h"

enum { MAX_ARGS = 64 };

struct buffer {
	size_t n;
	char *device;
	char *host;  /* recorded contents: before, then after the launch */
	const json_t *json;
};

struct kernel_replay {
	struct hip *h;
	const char *dir;
	double tolerance;
	struct replay_result *out;
	struct fail *fail;
	const char *file; /* as in "launch-00003.json" */
	struct buffer *buffers;
	size_t n_buffers;
};

static enum status bad(struct kernel_replay *r, const char *what)
{
	return fail_set(r->fail, E_FORMAT, "%s/%s: %s is not as it should be", r->dir,
			r->file, what);
}

/* --- reading ------------------------------------------------------------------- */

/* Read the blob under key `name` of the buffer's JSON to b->host; the rest becomes zeros. */
static enum status read_blob(struct kernel_replay *r, struct buffer *b, const char *name)
{
	const char *path = json_string_value(json_object_get(b->json, name));
	struct buf bytes = {0};
	if (!path || strstr(path, "..") || *path == '/')
		return bad(r, name);
	char *full = file_join(r->dir, path);
	enum status st = file_read(full, b->n, &bytes, r->fail);
	free(full);
	memset(b->host, 0, b->n);
	if (st == OK && bytes.n)
		memcpy(b->host, bytes.p, bytes.n);
	buf_deinit(&bytes);
	return st;
}

/* Write addresses (zeros if is_zero) to their places in n bytes at p. */
static enum status put_links(struct kernel_replay *r, const json_t *links, char *p, size_t n,
			     bool is_zero)
{
	size_t i;
	const json_t *l;
	json_array_foreach (links, i, l) {
		json_int_t at = json_integer_value(json_object_get(l, "at"));
		json_int_t buffer = json_integer_value(json_object_get(l, "buffer"));
		json_int_t offset = json_integer_value(json_object_get(l, "offset"));
		if (at < 0 || (size_t)at + 8 > n || buffer < 0 ||
		    (size_t)buffer >= r->n_buffers)
			return bad(r, "pointers");
		uint64_t v = is_zero ? 0 : (uint64_t)r->buffers[buffer].device +
						   (uint64_t)offset;
		memcpy(p + at, &v, 8);
	}
	return OK;
}

static enum status make_buffers(struct kernel_replay *r, const json_t *list)
{
	enum status st = OK;
	r->n_buffers = json_array_size(list);
	r->buffers = xcalloc(r->n_buffers + 1, sizeof *r->buffers);
	for (size_t i = 0; i < r->n_buffers && st == OK; i++) {
		struct buffer *b = &r->buffers[i];
		b->json = json_array_get(list, i);
		json_int_t n = json_integer_value(json_object_get(b->json, "bytes"));
		if (n < 1)
			return bad(r, "bytes");
		b->n = (size_t)n;
		b->host = malloc(b->n);
		st = b->host ? hip_alloc(&r->h->base, b->n, (void **)&b->device) : E_NOMEM;
	}
	/* Addresses can be written only after all buffers are allocated. */
	for (size_t i = 0; i < r->n_buffers && st == OK; i++) {
		struct buffer *b = &r->buffers[i];
		st = read_blob(r, b, "before");
		if (st == OK)
			st = put_links(r, json_object_get(b->json, "pointers"), b->host, b->n,
				       false);
		if (st == OK)
			st = hip_check(r->h, r->h->api.hipMemcpy(b->device, b->host, b->n,
								 HIP_HOST_TO_DEVICE),
				       "copying");
	}
	return st;
}

static void free_buffers(struct kernel_replay *r)
{
	for (size_t i = 0; i < r->n_buffers; i++) {
		hip_free(&r->h->base, r->buffers[i].device);
		free(r->buffers[i].host);
	}
	free(r->buffers);
	r->buffers = NULL;
	r->n_buffers = 0;
}

/* --- the launch ---------------------------------------------------------------- */

static bool from_hex(const char *text, unsigned char *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int v = hex_pair(text + 2 * i);
		if (v < 0)
			return false;
		out[i] = (unsigned char)v;
	}
	return true;
}

static int32_t number_at(const json_t *list, size_t i)
{
	return (int32_t)json_integer_value(json_array_get(list, i));
}

static enum status launch(struct kernel_replay *r, const json_t *root)
{
	const char *kernel = json_string_value(json_object_get(root, "kernel"));
	const char *hex = json_string_value(json_object_get(root, "kernarg"));
	const json_t *args = json_object_get(root, "args");
	const json_t *grid = json_object_get(root, "grid");
	const json_t *block = json_object_get(root, "block");
	struct hip_arg list[MAX_ARGS];
	size_t n = hex ? strlen(hex) / 2 : 0, n_args = json_array_size(args);
	if (!kernel || !hex || n_args > MAX_ARGS)
		return bad(r, "kernarg");
	unsigned char *bytes = xcalloc(n + 8, 1);
	enum status st = from_hex(hex, bytes, n) ? OK : bad(r, "kernarg");
	if (st == OK)
		st = put_links(r, json_object_get(root, "pointers"), (char *)bytes, n, false);
	for (size_t i = 0; i < n_args && st == OK; i++) {
		const json_t *a = json_array_get(args, i);
		int32_t at = number_at(a, 0), size = number_at(a, 1);
		if (at < 0 || size < 1 || (size_t)at + (size_t)size > n)
			st = bad(r, "args");
		list[i] = (struct hip_arg){bytes + at, (size_t)size};
	}
	struct hip_grid g = {number_at(grid, 0), number_at(grid, 1), number_at(block, 0),
			     (int32_t)json_integer_value(json_object_get(root, "lds"))};
	if (st == OK) {
		st = hip_launch(r->h, PLAIN("%s", kernel), g, list, (int)n_args);
		if (st == OK)
			st = hip_sync(&r->h->base, r->fail);
		if (st != OK && r->fail && r->fail->code == OK)
			fail_set(r->fail, st, "%s: %s", kernel, backend_why(&r->h->base, st));
	}
	free(bytes);
	return st;
}

/* --- comparing ----------------------------------------------------------------- */

static double difference(double a, double b)
{
	if (a == b || (isnan(a) && isnan(b)))
		return 0;
	double d = fabs(a - b) / fmax(1, fabs(b));
	return isnan(d) ? INFINITY : d;
}

/* Largest difference of p and q, read as numbers of `size` bytes: 4 (f32) or 2 (f16). */
static double difference_as(const char *p, const char *q, size_t n, size_t size)
{
	double worst = 0;
	for (size_t i = 0; i + size <= n; i += size) {
		float a, b;
		uint16_t u, v;
		if (memcmp(p + i, q + i, size) == 0)
			continue;
		if (size == 4) {
			memcpy(&a, p + i, 4);
			memcpy(&b, q + i, 4);
		} else {
			memcpy(&u, p + i, 2);
			memcpy(&v, q + i, 2);
			a = blocks_f16(u);
			b = blocks_f16(v);
		}
		worst = fmax(worst, difference(a, b));
	}
	return worst;
}

static enum status compare_results(struct kernel_replay *r, const char *kernel)
{
	bool is_equal = true;
	double worst = 0;
	size_t i_worst = 0;
	for (size_t i = 0; i < r->n_buffers; i++) {
		struct buffer *b = &r->buffers[i];
		char *got = malloc(b->n);
		enum status st = got ? read_blob(r, b, "after") : E_NOMEM;
		if (st == OK)
			st = hip_check(r->h, r->h->api.hipMemcpy(got, b->device, b->n,
								 HIP_DEVICE_TO_HOST),
				       "copying");
		if (st == OK)
			st = put_links(r, json_object_get(b->json, "pointers"), got, b->n,
				       true);
		if (st == OK && memcmp(got, b->host, b->n) != 0) {
			double d = fmin(difference_as(got, b->host, b->n, 4),
					difference_as(got, b->host, b->n, 2));
			is_equal = false;
			if (d >= worst) {
				worst = d;
				i_worst = i;
			}
		}
		free(got);
		if (st != OK)
			return st;
	}
	r->out->n_launches++;
	r->out->n_equal += is_equal;
	bool is_close = !is_equal && worst <= r->tolerance;
	r->out->n_close += is_close;
	if (is_close)
		r->out->worst = fmax(r->out->worst, worst);
	else if (!is_equal && !*r->out->text)
		snprintf(r->out->text, sizeof r->out->text,
			 "%.24s %.80s: buffer %zu differs by %.3g", r->file, kernel,
			 i_worst, worst);
	return OK;
}

static enum status replay_launch(struct kernel_replay *r)
{
	json_error_t error;
	char *path = file_join(r->dir, r->file);
	json_t *root = json_load_file(path, 0, &error);
	enum status st = OK;
	if (!root)
		st = fail_set(r->fail, E_FORMAT, "%s: %s", path, error.text);
	free(path);
	if (st == OK)
		st = make_buffers(r, json_object_get(root, "buffers"));
	if (st == OK)
		st = launch(r, root);
	if (st == OK)
		st = compare_results(r, json_string_value(json_object_get(root, "kernel")));
	free_buffers(r);
	json_decref(root);
	return st;
}

enum status replay_run(struct hip *h, const char *dir, double tolerance,
		       struct replay_result *out, struct fail *fail)
{
	struct kernel_replay r = {.h = h, .dir = dir, .tolerance = tolerance, .out = out,
			   .fail = fail, .file = "recording.json"};
	json_error_t error;
	*out = (struct replay_result){0};
	char *path = file_join(dir, r.file);
	json_t *root = json_load_file(path, 0, &error);
	if (!root) {
		enum status st = fail_set(fail, E_IO, "%s: %s", path, error.text);
		free(path);
		return st;
	}
	free(path);
	json_int_t n = json_integer_value(json_object_get(root, "launches"));
	json_decref(root);
	enum status st = OK;
	for (json_int_t i = 0; i < n && st == OK; i++) {
		char name[32];
		snprintf(name, sizeof name, "launch-%05d.json", (int)i);
		r.file = name;
		st = replay_launch(&r);
	}
	return fail_default(fail, st);
}
