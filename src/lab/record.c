/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "lab/codeobject.h"

enum { MAX_BUFFERS = 4096 };

/* An allocation that the current launch can access. */
struct reached {
	struct hip_range range;
	char before[40]; /* name of its blob before the launch */
};

struct record {
	struct hip *h;
	char *dir;
	struct codeobject code;
	int n_launches;
	struct fail fail; /* the first failure */
	struct reached *reached; /* (n_reached) allocations of the current launch */
	int n_reached;
	struct buf json;
	char *copy; /* (copy_size) copy of one allocation */
	size_t copy_size;
};

/* --- files --------------------------------------------------------------------- */

static bool write_file(struct record *r, const char *name, const void *p, size_t n)
{
	char *path = file_join(r->dir, name);
	FILE *f = fopen(path, "w");
	bool good = f && fwrite(p, 1, n, f) == n;
	if (f)
		good = fclose(f) == 0 && good;
	if (!good && r->fail.code == OK)
		fail_set(&r->fail, E_IO, "%s: %s", path, strerror(errno));
	free(path);
	return good;
}

/* Name a blob by its content: two 64-bit hashes, similar to FNV. */
static void name_blob(const char *p, size_t n, char *out, size_t size)
{
	uint64_t a = 0xCBF29CE484222325u ^ n, b = 0x9E3779B97F4A7C15u;
	size_t i = 0;
	for (uint64_t v; i + 8 <= n; i += 8) {
		memcpy(&v, p + i, 8);
		a = (a ^ v) * 0x100000001B3u;
		b = (b ^ (v << 31 | v >> 33)) * 0xD6E8FEB86659FD93u;
		a ^= a >> 29;
		b ^= b >> 32;
	}
	for (; i < n; i++)
		a = (a ^ (unsigned char)p[i]) * 0x100000001B3u;
	snprintf(out, size, "%016llx%016llx", (unsigned long long)a,
		 (unsigned long long)(b ^ a >> 7));
}

static void write_blob(struct record *r, const char *p, size_t n, char *out_name)
{
	char path[64];
	/* Drop zeros at the end: work memory is large and mostly zero. */
	for (uint64_t v = 0; n >= 8; n -= 8) {
		memcpy(&v, p + n - 8, 8);
		if (v != 0)
			break;
	}
	while (n > 0 && p[n - 1] == 0)
		n--;
	name_blob(p, n, out_name, 40);
	snprintf(path, sizeof path, "blobs/%s.bin", out_name);
	char *full = file_join(r->dir, path);
	if (!file_exists(full))
		write_file(r, path, p, n);
	free(full);
}

/* --- memory -------------------------------------------------------------------- */

/* The allocation that contains the address; NULL: not an address of device memory. */
static const struct hip_range *range_of(const struct hip *h, uint64_t address)
{
	for (size_t i = 0; i < h->n_ranges; i++)
		if (address >= (uint64_t)h->ranges[i].p &&
		    address < (uint64_t)h->ranges[i].p + h->ranges[i].n)
			return &h->ranges[i];
	return NULL;
}

/* Index of the address's allocation among the launch's buffers; new ones are added. -1:
 * not an address. */
static int reach(struct record *r, uint64_t address, size_t *out_offset)
{
	const struct hip_range *g = range_of(r->h, address);
	if (!g)
		return -1;
	*out_offset = (size_t)(address - (uint64_t)g->p);
	for (int i = 0; i < r->n_reached; i++)
		if (r->reached[i].range.p == g->p)
			return i;
	if (r->n_reached == MAX_BUFFERS) {
		fail_set(&r->fail, E_LIMIT, "a launch reaches more than %d allocations",
			 MAX_BUFFERS);
		return -1;
	}
	r->reached[r->n_reached] = (struct reached){.range = *g};
	return r->n_reached++;
}

/* Find the addresses in n bytes at p, zero them, and append them to `links`. first_at:
 * the offset of p in the recorded buffer. */
static void cut_links(struct record *r, char *p, size_t n, size_t first_at,
		      struct buf *links)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t v, zero = 0;
		size_t offset = 0;
		memcpy(&v, p + i, 8);
		int buffer = reach(r, v, &offset);
		if (buffer < 0)
			continue;
		memcpy(p + i, &zero, 8);
		buf_addf(links, "%s{\"at\":%zu,\"buffer\":%d,\"offset\":%zu}",
			 links->n ? "," : "", first_at + i, buffer, offset);
	}
}

/* cut_links for allocation g, of which p is a copy. Only places where the backend stored
 * addresses are searched; other numbers that look like addresses stay. */
static void cut_tables(struct record *r, const struct hip_range *g, char *p,
		       struct buf *links)
{
	for (const struct hip_experts *x = r->h->experts; x; x = x->next) {
		size_t at = (size_t)((const char *)x->table - g->p);
		if (x->table && (const char *)x->table >= g->p && at < g->n)
			cut_links(r, p + at, x->n_rows * sizeof *x->table, at, links);
	}
}

/* Copy allocation g to host memory; valid until the next call. */
static char *fetch(struct record *r, const struct hip_range *g)
{
	if (r->copy_size < g->n) {
		free(r->copy);
		r->copy = malloc(g->n);
		r->copy_size = r->copy ? g->n : 0;
	}
	if (!r->copy) {
		fail_set(&r->fail, E_NOMEM, "no memory for %zu bytes", g->n);
		return NULL;
	}
	int error = r->h->api.hipMemcpy(r->copy, g->p, g->n, HIP_DEVICE_TO_HOST);
	if (error == HIP_SUCCESS)
		return r->copy;
	fail_set(&r->fail, E_BACKEND, "reading device memory: %s",
		 r->h->api.hipGetErrorName(error));
	return NULL;
}

/* --- a launch ------------------------------------------------------------------ */

static bool begin_args(struct record *r, const struct hip_launch_info *l)
{
	const struct code_kernel *k = codeobject_find(&r->code, l->kernel->name);
	int n_own = 0;
	while (k && n_own < k->n_args && !k->args[n_own].is_hidden)
		n_own++;
	if (!k || n_own != l->n_args) {
		fail_set(&r->fail, E_FORMAT, k ? "%s takes other arguments in the code "
			 "object" : "%s is not in the code object", l->kernel->name);
		return false;
	}
	size_t n = 0;
	for (int i = 0; i < n_own; i++)
		n = MAX(n, (size_t)(k->args[i].offset + k->args[i].size));
	char *kernarg = xcalloc(n + 8, 1);
	struct buf links = {0}, args = {0};
	for (int i = 0; i < n_own; i++) {
		const struct code_arg *a = &k->args[i];
		char *at = kernarg + a->offset;
		if ((size_t)a->size != l->args[i].n_bytes)
			fail_set(&r->fail, E_FORMAT, "%s: argument %d has %d bytes in the "
				 "code object, %zu here", l->kernel->name, i, a->size,
				 l->args[i].n_bytes);
		memcpy(at, l->args[i].p, MIN((size_t)a->size, l->args[i].n_bytes));
		if (a->offset % 8 == 0)
			cut_links(r, at, (size_t)a->size, (size_t)a->offset, &links);
		buf_addf(&args, "%s[%d,%d]", i ? "," : "", a->offset, a->size);
	}
	buf_add_z(&r->json, "\"kernarg\":\"");
	for (size_t i = 0; i < n; i++)
		buf_addf(&r->json, "%02x", (unsigned char)kernarg[i]);
	buf_addf(&r->json, "\",\n \"args\":[%.*s],\n \"pointers\":[%.*s]", (int)args.n,
		 args.p ? args.p : "", (int)links.n, links.p ? links.p : "");
	buf_deinit(&links);
	buf_deinit(&args);
	free(kernarg);
	return r->fail.code == OK;
}

/* Before a launch: record all allocations that the arguments point to, and those that
 * these point to. */
static void on_before(struct record *r, const struct hip_launch_info *l)
{
	r->n_reached = 0;
	buf_clear(&r->json);
	buf_addf(&r->json, "{\"index\":%d,\"kernel\":\"%s\",\n \"grid\":[%d,%d,1],"
		 "\"block\":[%d,1,1],\"lds\":%d,\n ", r->n_launches, l->kernel->name, l->grid.x,
		 l->grid.y, l->grid.n_threads, l->grid.lds_bytes);
	if (!begin_args(r, l))
		return;
	for (int i = 0; i < r->n_reached && r->fail.code == OK; i++) {
		struct reached *b = &r->reached[i];
		char *p = fetch(r, &b->range);
		struct buf links = {0};
		if (!p)
			return;
		cut_tables(r, &b->range, p, &links);
		buf_deinit(&links);
		write_blob(r, p, b->range.n, b->before);
	}
}

static void on_after(struct record *r)
{
	buf_add_z(&r->json, ",\n \"buffers\":[");
	/* n is fixed here: a launch that wrote addresses could add buffers that have no
	 * "before". */
	for (int i = 0, n = r->n_reached; i < n && r->fail.code == OK; i++) {
		struct reached *b = &r->reached[i];
		char after[40];
		struct buf links = {0};
		char *p = fetch(r, &b->range);
		if (!p)
			return;
		cut_tables(r, &b->range, p, &links);
		write_blob(r, p, b->range.n, after);
		buf_addf(&r->json, "%s\n  {\"bytes\":%zu,\"before\":\"blobs/%s.bin\","
			 "\"after\":\"blobs/%s.bin\",\"pointers\":[%.*s]}", i ? "," : "",
			 b->range.n, b->before, after, (int)links.n,
			 links.p ? links.p : "");
		buf_deinit(&links);
		if (r->n_reached != n)
			fail_set(&r->fail, E_FORMAT, "a kernel wrote an address");
	}
	buf_add_z(&r->json, "]}\n");
	char name[32];
	snprintf(name, sizeof name, "launch-%05d.json", r->n_launches++);
	write_file(r, name, r->json.p, r->json.n);
}

static void on_launch(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	struct record *r = ctx;
	if (r->fail.code != OK)
		return;
	int error = r->h->api.hipStreamSynchronize(r->h->stream);
	if (error != HIP_SUCCESS) {
		fail_set(&r->fail, E_BACKEND, "%s: %s", l->kernel->name,
			 r->h->api.hipGetErrorName(error));
		return;
	}
	if (is_done)
		on_after(r);
	else
		on_before(r, l);
}

/* --- begin and end ------------------------------------------------------------- */

static enum status copy_code(struct record *r, const char *path, struct fail *fail)
{
	struct codeobject code;
	struct buf b = {0};
	enum status st = file_read(path, (size_t)1 << 30, &b, fail);
	if (st == OK)
		st = codeobject_read(buf_str(&b), path, &code, fail);
	if (st != OK) {
		buf_deinit(&b);
		return st;
	}
	char name[48];
	snprintf(name, sizeof name, "%s.hsaco", code.arch);
	if (!write_file(r, name, b.p, b.n))
		st = fail_set(fail, E_IO, "%s", r->fail.text);
	buf_deinit(&b);
	if (r->code.kernel)
		codeobject_deinit(&code);
	else
		r->code = code;
	return st;
}

static void destroy_record(struct record *r)
{
	codeobject_deinit(&r->code);
	buf_deinit(&r->json);
	free(r->copy);
	free(r->reached);
	free(r->dir);
	free(r);
}

enum status record_create(struct hip *h, const char *dir, const char *const *code,
			  int n_code, struct record **out, struct fail *fail)
{
	struct record *r = xcalloc(1, sizeof *r);
	char *blobs = file_join(dir, "blobs");
	enum status st = OK;
	r->h = h;
	r->dir = xstrdup(dir);
	r->reached = xcalloc(MAX_BUFFERS, sizeof *r->reached);
	if ((mkdir(dir, 0777) < 0 && errno != EEXIST) ||
	    (mkdir(blobs, 0777) < 0 && errno != EEXIST))
		st = fail_set(fail, E_IO, "%s: %s", dir, strerror(errno));
	free(blobs);
	for (int i = 0; i < n_code && st == OK; i++)
		st = copy_code(r, code[i], fail);
	if (st != OK) {
		destroy_record(r);
		return st;
	}
	h->on_launch = on_launch;
	h->on_launch_ctx = r;
	*out = r;
	return OK;
}

enum status record_finish(struct record *r, const char *about, int *out_n,
			  struct fail *fail)
{
	struct buf b = {0};
	r->h->on_launch = NULL;
	buf_addf(&b, "{\"format\":1,\"launches\":%d,\"recorded_with\":", r->n_launches);
	buf_add_json(&b, str_of(r->h->base.device));
	buf_addf(&b, ",\"arch\":\"%s\",\"code_object\":\"%s.hsaco\",\"about\":",
		 r->h->device.arch, r->code.arch);
	buf_add_json(&b, str_of(about));
	buf_add_z(&b, "}\n");
	if (r->fail.code == OK)
		write_file(r, "recording.json", b.p, b.n);
	buf_deinit(&b);
	*out_n = r->n_launches;
	enum status st = r->fail.code;
	if (st != OK)
		fail_set(fail, st, "%s", r->fail.text);
	destroy_record(r);
	return st;
}
