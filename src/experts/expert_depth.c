/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/expert_depth.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

static const int depths[] = {1, 2, 4, 8, 16, 32, 64, 128};

enum {
	N_DEPTHS = (int)ARRAY_LEN(depths),
	MAX_BATCH = 64,           /* experts that are asked for at once */
	BATCH_BYTES = 32 << 20,   /* or that many bytes: enough for the greatest depth */
	MAX_NOTE = 200,
};
#define SECONDS 0.02 /* time of a measurement; each depth and size of pieces is measured twice */
#define WORTH (1 - 1.0 / 30) /* a deeper queue or larger pieces must raise the rate by more than
			      * this */

struct pace {
	int depth;
	size_t piece;
	double rate; /* bytes a second; 0: the store cannot be read */
};

int expert_depth_choose(const int *d, const double *rates, int n)
{
	double best = 0;
	int i = 0;
	for (int j = 0; j < n; j++)
		best = rates[j] > best ? rates[j] : best;
	while (i + 1 < n && rates[i] < best * WORTH)
		i++;
	return d[i];
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- measuring ---------------------------------------------------------------------- */

/* Visits all experts one after another, in an order that read-ahead does not foresee. */
struct walk {
	const struct expert_store *s;
	int64_t at;
};

static const struct expert_entry *next_of(struct walk *w)
{
	/* A step that has no common factor with n visits every expert. */
	int64_t step = 7919 % w->s->n ? 7919 : 1;
	for (int32_t i = 0; i < w->s->n; i++) {
		w->at = (w->at + step) % w->s->n;
		if (w->s->entries[w->at].n_bytes)
			break;
	}
	return &w->s->entries[w->at];
}

/* Reads n experts, each into a buffer of its own. Returns the bytes; 0: a read failed. */
static double read_batch(struct expert_reader *r, struct walk *w,
			 const struct expert_reader_opts *o, struct expert_read *reads, int n)
{
	struct expert_read *x[MAX_BATCH];
	double bytes = 0;
	bool good = true;
	for (int i = 0; i < n; i++) {
		const struct expert_entry *e = next_of(w);
		x[i] = &reads[i];
		x[i]->to = o->slots + (size_t)i * o->slot_bytes;
		x[i]->at = e->at;
		x[i]->n = e->n_bytes;
		x[i]->sum = e->sum;
		bytes += (double)e->n_bytes;
	}
	expert_reader_submit(r, x, n);
	for (int i = 0; i < n; i++) {
		expert_reader_wait(r, x[i]);
		good &= atomic_load(&x[i]->state) == EXPERT_READ_GOOD;
	}
	return good ? bytes : 0;
}

/* Bytes a second at a depth; 0: the store cannot be read. */
static double rate_at(struct walk *w, struct expert_reader_opts o, int depth)
{
	struct expert_read *reads = xcalloc(MAX_BATCH, sizeof *reads);
	size_t most = MAX((size_t)BATCH_BYTES / o.slot_bytes, (size_t)2);
	int n = (int)MIN(MIN(o.slots_bytes / o.slot_bytes, most), (size_t)MAX_BATCH);
	double bytes = 0, got = 1, all = 2.0 * w->s->n * (double)o.slot_bytes;
	o.depth = depth;
	struct expert_reader *r = expert_reader_create(&o);
	double begin = now_s(), s = 0;
	while (got > 0 && s < SECONDS && bytes < all) {
		bytes += got = read_batch(r, w, &o, reads, n);
		s = now_s() - begin;
	}
	expert_reader_destroy(r);
	free(reads);
	return got > 0 && s > 0 ? bytes / s : 0;
}

/* --- beside the store --------------------------------------------------------------- */

/* Reads the note of an earlier measurement. False: there is none for this store. */
static bool read_note(const struct expert_store *s, const char *path, struct pace *out)
{
	struct buf b = {0};
	unsigned long long key = 0;
	bool is_good = false;
	if (file_read(path, MAX_NOTE, &b, NULL) == OK) {
		buf_add(&b, "", 1);
		is_good = sscanf(b.p, "store %llx depth %d piece %zu", &key, &out->depth,
				 &out->piece) == 3 &&
			  key == expert_store_key(s) && out->depth >= 1 &&
			  out->depth <= EXPERT_READ_MAX_DEPTH && out->piece > 0 &&
			  out->piece <= EXPERT_READ_MAX_PIECE &&
			  out->piece % EXPERT_READ_PIECE == 0;
	}
	buf_deinit(&b);
	return is_good;
}

static void write_note(const struct expert_store *s, const char *path, const struct pace *p)
{
	struct buf b = {0};
	buf_addf(&b, "store %016llx depth %d piece %zu bytes_a_second %.0f\n",
		 (unsigned long long)expert_store_key(s), p->depth, p->piece, p->rate);
	if (!expert_store_keep(path, buf_str(&b)))
		log_warn("%s is not written: each start measures the disk", path);
	buf_deinit(&b);
}

/* Measures twice. The better one counts, because other load on the machine only lowers a rate. */
static struct pace measure_twice(const struct expert_store *s, struct expert_reader_opts o)
{
	static const size_t pieces[] = {EXPERT_READ_PIECE, EXPERT_READ_MAX_PIECE};
	double rates[ARRAY_LEN(pieces)][N_DEPTHS] = {{0}};
	struct pace best = {0};
	struct walk w = {s, 0};
	size_t n = o.slot_bytes > EXPERT_READ_MAX_PIECE ? ARRAY_LEN(pieces) : 1;
	for (size_t i = 0; i < 2 * n * N_DEPTHS; i++) {
		double *rate = &rates[i / N_DEPTHS % n][i % N_DEPTHS];
		o.piece = pieces[i / N_DEPTHS % n];
		*rate = MAX(*rate, rate_at(&w, o, depths[i % N_DEPTHS]));
	}
	for (size_t p = 0; p < n; p++) {
		double rate = 0;
		for (int i = 0; i < N_DEPTHS; i++)
			rate = MAX(rate, rates[p][i]);
		if (rate * WORTH > best.rate)
			best = (struct pace){expert_depth_choose(depths, rates[p], N_DEPTHS),
					     pieces[p], rate};
	}
	return best;
}

void expert_depth_find(const struct expert_store *s, struct expert_reader_opts *reader,
		       const char *path)
{
	struct pace best = {0};
	reader->depth = 0;
	reader->piece = 0;
	if (!s->is_direct || s->n == 0)
		return;
	if (!path || !read_note(s, path, &best)) {
		best = measure_twice(s, *reader);
		if (best.rate == 0) /* whoever reads the store next reports the fault */
			return;
		if (path)
			write_note(s, path, &best);
	}
	reader->depth = best.depth;
	reader->piece = best.piece;
}
