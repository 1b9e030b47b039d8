/* SPDX-License-Identifier: Apache-2.0
 *
 * How long each kernel ran on the card, by CUPTI's activity records. The driver loads
 * this library (CUDA_INJECTION64_PATH) and calls InitializeInjection; at exit the sums
 * go to the file that HIP_PROFILE names, one line a kernel, tab-separated:
 *
 *   kernel  launches  total_us  median_us  least_us  gap_us
 *
 * gap_us: the time between the end of what ran before it and its beginning, where that
 * is less than MAX_GAP (else nothing was queued). The last line is their sum. With
 * HIP_PROFILE_SKIP=n the first n launches are left out (loading, warming up); with
 * HIP_PROFILE_RAW=file every launch is written there: kernel, begin and end in ns.
 */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 8 << 20, MAX_GAP = 200000 /* ns */ };

struct record {
	const char *name;
	uint64_t begin, end;
};

static struct record *records;
static size_t n_records, cap_records;

static void request(uint8_t **buffer, size_t *size, size_t *n_max)
{
	*buffer = aligned_alloc(64, BUFFER);
	*size = *buffer ? BUFFER : 0;
	*n_max = 0;
}

static void add(const CUpti_ActivityKernel9 *k)
{
	if (n_records == cap_records) {
		cap_records = cap_records ? 2 * cap_records : 65536;
		records = realloc(records, cap_records * sizeof *records);
		if (!records)
			abort();
	}
	records[n_records++] = (struct record){k->name, k->start, k->end};
}

static void completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
		      size_t n_valid)
{
	CUpti_Activity *a = NULL;
	(void)context;
	(void)stream;
	(void)size;
	while (cuptiActivityGetNextRecord(buffer, n_valid, &a) == CUPTI_SUCCESS)
		if (a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
		    a->kind == CUPTI_ACTIVITY_KIND_KERNEL)
			add((const CUpti_ActivityKernel9 *)a);
	free(buffer);
}

static int by_begin(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Times of one kernel. */
struct row {
	const char *name;
	double *us;
	size_t n, cap;
	double total, gap;
};

static struct row rows[1024];
static size_t n_rows;

static struct row *row_of(const char *name)
{
	for (size_t i = 0; i < n_rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	if (n_rows == sizeof rows / sizeof rows[0])
		return &rows[0];
	rows[n_rows].name = name;
	return &rows[n_rows++];
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int by_total(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return (x->total < y->total) - (x->total > y->total);
}

static void count(size_t skip)
{
	for (size_t i = skip; i < n_records; i++) {
		struct row *r = row_of(records[i].name);
		double us = (double)(records[i].end - records[i].begin) * 1e-3;
		if (r->n == r->cap) {
			r->cap = r->cap ? 2 * r->cap : 256;
			r->us = realloc(r->us, r->cap * sizeof *r->us);
			if (!r->us)
				abort();
		}
		r->us[r->n++] = us;
		r->total += us;
		if (i > skip && records[i].begin > records[i - 1].end &&
		    records[i].begin - records[i - 1].end < MAX_GAP)
			r->gap += (double)(records[i].begin - records[i - 1].end) * 1e-3;
	}
}

static void write_rows(FILE *f)
{
	double total = 0, gap = 0;
	size_t n = 0;
	qsort(rows, n_rows, sizeof rows[0], by_total);
	fputs("kernel\tlaunches\ttotal_us\tmedian_us\tleast_us\tgap_us\n", f);
	for (size_t i = 0; i < n_rows; i++) {
		struct row *r = &rows[i];
		qsort(r->us, r->n, sizeof *r->us, by_value);
		fprintf(f, "%s\t%zu\t%.1f\t%.2f\t%.2f\t%.1f\n", r->name, r->n, r->total,
			r->us[r->n / 2], r->us[0], r->gap);
		total += r->total;
		gap += r->gap;
		n += r->n;
	}
	fprintf(f, "all\t%zu\t%.1f\t\t\t%.1f\n", n, total, gap);
}

static void at_exit(void)
{
	const char *path = getenv("HIP_PROFILE"), *skip = getenv("HIP_PROFILE_SKIP");
	const char *raw = getenv("HIP_PROFILE_RAW");
	cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (n_records)
		qsort(records, n_records, sizeof *records, by_begin);
	FILE *f = raw ? fopen(raw, "w") : NULL;
	for (size_t i = 0; f && i < n_records; i++)
		fprintf(f, "%s\t%llu\t%llu\n", records[i].name,
			(unsigned long long)(records[i].begin - records[0].begin),
			(unsigned long long)(records[i].end - records[0].begin));
	if (f)
		fclose(f);
	count(skip ? strtoull(skip, NULL, 10) : 0);
	f = path ? fopen(path, "w") : stderr;
	if (!f)
		return;
	write_rows(f);
	if (path)
		fclose(f);
}

int InitializeInjection(void);

__attribute__((visibility("default"))) int InitializeInjection(void)
{
	if (cuptiActivityRegisterCallbacks(request, completed) != CUPTI_SUCCESS ||
	    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
		fputs("libhip_profile: CUPTI refuses\n", stderr);
		return 0;
	}
	atexit(at_exit);
	return 1;
}
