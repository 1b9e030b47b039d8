/* SPDX-License-Identifier: Apache-2.0
 *
 * A file may come from anywhere, so nothing in its header is trusted. The header's length
 * is compared with the file's. Each entry's type, shape and offsets are checked against
 * each other and against the data, and no two entries may share a byte. After that every
 * view is safe to read.
 *
 *   0         8            8+h                        file end
 *   | h (u64) | JSON header | data                     |
 *                           ^ offsets count from here
 */
#include "model/safetensors.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

/* The limit of the reference implementation; 55,000 tensors need 8 MB. */
#define MAX_HEADER_BYTES 100000000u
#define ALIGNMENT 8 /* size of the largest element type */

struct safetensors_reader {
	struct str data; /* the data after the header */
	const char *path;
	struct arena *arena;
	struct fail *fail;
};

static enum status safetensors_bad(const struct safetensors_reader *r, const char *tensor,
				   const char *what)
{
	return fail_set(r->fail, E_FORMAT, "%s: tensor %s %s", r->path, tensor,
			what);
}

static enum status read_shape(const struct safetensors_reader *r, const json_t *shape,
			      struct tensor *t)
{
	if (!json_is_array(shape))
		return safetensors_bad(r, t->name, "has no shape");
	if (json_array_size(shape) > TENSOR_MAX_DIMS)
		return safetensors_bad(r, t->name, "has too many dimensions");
	t->n_dims = (int)json_array_size(shape);
	t->n_bytes = dtype_bytes(t->dtype);
	for (int i = 0; i < t->n_dims; i++) {
		const json_t *d = json_array_get(shape, (size_t)i);
		t->dim[i] = json_integer_value(d);
		if (!json_is_integer(d) || t->dim[i] < 0)
			return safetensors_bad(r, t->name, "has a bad dimension");
		if (__builtin_mul_overflow(t->n_bytes, (size_t)t->dim[i],
					   &t->n_bytes))
			return safetensors_bad(r, t->name, "has an impossible shape");
	}
	/* dim counts numbers, and a byte holds two of them. */
	if (t->dtype == DTYPE_F4) {
		if (t->n_dims == 0 || t->dim[t->n_dims - 1] % 2)
			return safetensors_bad(r, t->name, "ends rows of F4 within a byte");
		t->dim[t->n_dims - 1] /= 2;
		t->n_bytes /= 2;
	}
	return OK;
}

static enum status read_offsets(const struct safetensors_reader *r, const json_t *offsets,
				struct tensor *t)
{
	const json_t *jb = json_array_get(offsets, 0);
	const json_t *je = json_array_get(offsets, 1);
	if (json_array_size(offsets) != 2 || !json_is_integer(jb) ||
	    !json_is_integer(je))
		return safetensors_bad(r, t->name, "has no data_offsets");
	json_int_t begin = json_integer_value(jb), end = json_integer_value(je);
	if (begin < 0 || end < begin)
		return safetensors_bad(r, t->name, "has impossible data_offsets");
	if ((uint64_t)end > r->data.n)
		return fail_set(r->fail, E_FORMAT,
				"%s: tensor %s ends at byte %lld of the data, but "
				"there are %zu: the file is truncated",
				r->path, t->name, (long long)end, r->data.n);
	if ((uint64_t)(end - begin) != t->n_bytes)
		return fail_set(r->fail, E_FORMAT,
				"%s: tensor %s has %lld bytes, its shape and type "
				"need %zu", r->path, t->name,
				(long long)(end - begin), t->n_bytes);
	t->data = r->data.p + begin;
	return OK;
}

static enum status read_entry(const struct safetensors_reader *r, const char *name,
			      const json_t *entry, struct tensor *t)
{
	*t = (struct tensor){.name = arena_strdup(r->arena, name),
			     .file = r->path};
	if (!json_is_object(entry))
		return safetensors_bad(r, name, "is not described by an object");
	const char *type = json_string_value(json_object_get(entry, "dtype"));
	if (!type)
		return safetensors_bad(r, name, "has no dtype");
	t->dtype = dtype_find(type);
	if (t->dtype == DTYPE_COUNT)
		return fail_set(r->fail, E_UNSUPPORTED,
				"%s: tensor %s has the unknown dtype %.40s",
				r->path, name, type);
	enum status st = read_shape(r, json_object_get(entry, "shape"), t);
	if (st == OK)
		st = read_offsets(r, json_object_get(entry, "data_offsets"), t);
	return st;
}

static int by_data(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;
	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

enum status safetensors_check_overlap(struct safetensors *s, const char *path,
				      struct fail *fail)
{
	const struct tensor *t = s->tensors;
	if (s->n)
		qsort(s->tensors, s->n, sizeof *s->tensors, by_data);
	for (size_t i = 1; i < s->n; i++) {
		const char *end = (const char *)t[i - 1].data + t[i - 1].n_bytes;
		if ((const char *)t[i].data < end)
			return fail_set(fail, E_FORMAT,
					"%s: tensors %s and %s overlap", path,
					t[i - 1].name, t[i].name);
	}
	return OK;
}

/* Copy tensors whose data is not aligned. Such a file is valid, but its numbers cannot be
 * read in place. */
static enum status align(const struct safetensors_reader *r, struct safetensors *s)
{
	static const uint64_t nothing; /* address for tensors without data */
	size_t n_bytes = 0;
	for (size_t i = 0; i < s->n; i++)
		if (s->tensors[i].n_bytes == 0)
			s->tensors[i].data = &nothing;
		else if ((uintptr_t)s->tensors[i].data % ALIGNMENT)
			n_bytes += (s->tensors[i].n_bytes + ALIGNMENT - 1) /
				   ALIGNMENT * ALIGNMENT;
	if (n_bytes == 0)
		return OK;
	char *p = s->copies = malloc(n_bytes);
	if (!p)
		return fail_set(r->fail, E_NOMEM, "%s: no memory to align %zu bytes",
				r->path, n_bytes);
	for (size_t i = 0; i < s->n; i++) {
		struct tensor *t = &s->tensors[i];
		if ((uintptr_t)t->data % dtype_bytes(t->dtype) == 0)
			continue;
		memcpy(p, t->data, t->n_bytes);
		t->data = p;
		p += ROUND_UP(t->n_bytes, ALIGNMENT);
	}
	return OK;
}

static enum status safetensors_split(struct str file, const char *path,
				     struct str *out_header, struct str *out_data,
				     struct fail *fail)
{
	uint64_t h = 0;
	if (file.n < 8)
		return fail_set(fail, E_FORMAT, "%s: %zu bytes are no safetensors "
				"file", path, file.n);
	for (int i = 7; i >= 0; i--)
		h = h << 8 | (unsigned char)file.p[i];
	if (h > file.n - 8)
		return fail_set(fail, E_FORMAT, "%s: the header should have %llu "
				"bytes, the file has %zu: truncated, or not "
				"safetensors", path, (unsigned long long)h, file.n);
	if (h > MAX_HEADER_BYTES)
		return fail_set(fail, E_FORMAT, "%s: a header of %llu bytes is too "
				"large", path, (unsigned long long)h);
	*out_header = (struct str){file.p + 8, h};
	*out_data = (struct str){file.p + 8 + h, file.n - 8 - h};
	return OK;
}

static enum status read_entries(const struct safetensors_reader *r, const json_t *root,
				struct safetensors *s)
{
	const char *name;
	json_t *entry;
	s->tensors = calloc(json_object_size(root) + 1, sizeof *s->tensors);
	if (!s->tensors)
		return fail_set(r->fail, E_NOMEM, "%s: no memory for its header",
				r->path);
	json_object_foreach((json_t *)root, name, entry) {
		if (strcmp(name, "__metadata__") == 0)
			continue;
		enum status st = read_entry(r, name, entry, &s->tensors[s->n++]);
		if (st != OK)
			return st;
	}
	return OK;
}

enum status safetensors_parse(struct str file, const char *path, struct arena *a,
			      struct safetensors *out, struct fail *fail)
{
	struct safetensors_reader r = {.path = path, .arena = a, .fail = fail};
	struct safetensors s = {0};
	struct str header;
	json_t *root = NULL;
	enum status st = safetensors_split(file, path, &header, &r.data, fail);
	if (st == OK)
		st = jsonfile_parse(header, path, JSON_TEXT_STRICT, &root, fail);
	if (st == OK)
		st = read_entries(&r, root, &s);
	if (st == OK)
		st = safetensors_check_overlap(&s, path, fail);
	if (st == OK)
		st = align(&r, &s);
	json_decref(root);
	if (st != OK)
		safetensors_deinit(&s);
	else
		*out = s;
	return st;
}

void safetensors_deinit(struct safetensors *s)
{
	free(s->tensors);
	free(s->copies);
	*s = (struct safetensors){0};
}
