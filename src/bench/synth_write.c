/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes random tensors as fast as the disk takes them. Random numbers are made once, in pools
 * with a prime count of elements. A tensor repeats one pool, from a starting place of its own.
 * A prime period makes all rows of a matrix differ; equal rows would give equal logits. Making
 * the numbers costs little beside writing them.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "bench/synth.h"
#include "ctl/progress.h"

enum {
	POOL = 4194301,     /* elements of a pool; the largest prime below 2^22 */
	BLOCKS = 262139,    /* blocks of a pool; the largest prime below 2^18 */
	MAX_POOLS = 64,
	DIRECT = 1 << 18,   /* writes of at least this many bytes bypass the buffer */
	GATHER = 1 << 20,
};

struct writer_pool {
	enum synth_fill fill;
	enum quant quant;
	float scale;
	size_t n, size; /* elements; bytes of an element */
	void *p;        /* (n) */
};

struct synth_writer {
	uint64_t state; /* state of the random number generator */
	struct writer_pool pool[MAX_POOLS];
	int n_pools;
	const char *path;
	int fd;
	char *gather;
	size_t n_gather;
};

/* splitmix64: Steele, Lea, Flood 2014. */
static uint64_t random_bits(void *ctx)
{
	struct synth_writer *w = ctx;
	uint64_t z = w->state += 0x9E3779B97F4A7C15u;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* A random number between 0 and 1, excluding both. */
static double random_unit(struct synth_writer *w)
{
	return ((double)(random_bits(w) >> 11) + 0.5) * 0x1p-53;
}

static uint16_t bf16_of(double x)
{
	float f = (float)x;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* --- pools ---------------------------------------------------------------------- */

/* Element i of a pool of bf16, or of F32 with numbers of bf16. */
static void put_number(const struct writer_pool *p, size_t i, double x)
{
	uint16_t h = bf16_of(x);
	if (p->size == sizeof h)
		((uint16_t *)p->p)[i] = h;
	else
		((float *)p->p)[i] = blocks_bf16(h);
}

static void fill_normal(struct synth_writer *w, const struct writer_pool *p)
{
	for (size_t i = 0; i < p->n; i++) {
		double r = sqrt(-2 * log(random_unit(w)));
		put_number(p, i, p->scale * r * cos(2 * M_PI * random_unit(w)));
	}
}

static void fill_near(struct synth_writer *w, const struct writer_pool *p)
{
	for (size_t i = 0; i < p->n; i++)
		put_number(p, i, p->scale * (0.75 + 0.5 * random_unit(w)));
}

static void fill_same(const struct writer_pool *p)
{
	for (size_t i = 0; i < p->n; i++)
		((float *)p->p)[i] = p->scale;
}

/* Maps a random byte to a nibble 8 + 2.5 n, n normal, within 1 to 15. */
static void nibble_table(uint8_t *out)
{
	double sum = 0, part[16];
	for (int v = 1; v < 16; v++)
		sum += part[v] = exp(-0.5 * pow((v - 8) / SYNTH_NIBBLE_DEV, 2));
	double upto = 0;
	for (int v = 1, at = 0; v < 16; v++) {
		upto += part[v] / sum * 256;
		while (at < 256 && at + 0.5 < upto)
			out[at++] = (uint8_t)v;
		if (v == 15)
			while (at < 256)
				out[at++] = 8;
	}
}

static void fill_nibbles(struct synth_writer *w, uint32_t *out)
{
	uint8_t table[256];
	nibble_table(table);
	for (size_t i = 0; i < POOL; i++) {
		uint64_t r = random_bits(w);
		uint32_t word = 0;
		for (int j = 0; j < 8; j++)
			word |= (uint32_t)table[r >> 8 * j & 0xFF] << 4 * j;
		out[i] = word;
	}
}

static void fill_zeros(struct synth_writer *w, uint32_t *out)
{
	for (size_t i = 0; i < POOL; i++) {
		uint64_t r = random_bits(w);
		uint32_t word = 0;
		for (int j = 0; j < 8; j++)
			word |= (uint32_t)(7 + (r >> 8 * j & 0xFF) % 3) << 4 * j;
		out[i] = word;
	}
}

static const struct writer_pool *pool_of(struct synth_writer *w, const struct synth_tensor *t)
{
	bool in_blocks = t->fill == SYNTH_BLOCKS;
	size_t size = in_blocks ? quant_block_bytes(t->quant) : dtype_bytes(t->dtype);
	for (int i = 0; i < w->n_pools; i++)
		if (w->pool[i].fill == t->fill && w->pool[i].scale == t->scale &&
		    w->pool[i].size == size && w->pool[i].quant == t->quant)
			return &w->pool[i];
	if (w->n_pools == MAX_POOLS) /* the shapes of synth_shape.c need fewer pools */
		abort();
	struct writer_pool *p = &w->pool[w->n_pools++];
	*p = (struct writer_pool){t->fill, t->quant, t->scale, in_blocks ? BLOCKS : POOL, size,
				  NULL};
	p->p = xmalloc(p->n * p->size);
	switch (t->fill) {
	case SYNTH_NORMAL:
		fill_normal(w, p);
		break;
	case SYNTH_NEAR:
		fill_near(w, p);
		break;
	case SYNTH_SAME:
		fill_same(p);
		break;
	case SYNTH_BLOCKS:
		synth_blocks_fill(t->quant, t->scale, random_bits, w, p->p, p->n);
		break;
	case SYNTH_NIBBLES:
		fill_nibbles(w, p->p);
		break;
	default:
		fill_zeros(w, p->p);
		break;
	}
	return p;
}

/* --- the file ------------------------------------------------------------------- */

static enum status write_all(struct synth_writer *w, const char *p, size_t n,
			     struct fail *fail)
{
	while (n > 0) {
		ssize_t did = write(w->fd, p, n);
		if (did < 0 && errno == EINTR)
			continue;
		if (did < 0)
			return fail_set(fail, E_IO, "%s: cannot write: %s", w->path,
					strerror(errno));
		p += did;
		n -= (size_t)did;
	}
	return OK;
}

static enum status synth_write_flush(struct synth_writer *w, struct fail *fail)
{
	size_t n = w->n_gather;
	w->n_gather = 0;
	return write_all(w, w->gather, n, fail);
}

static enum status synth_write_put(struct synth_writer *w, const void *p, size_t n,
				   struct fail *fail)
{
	enum status st = OK;
	if (w->n_gather + n > GATHER || n >= DIRECT)
		st = synth_write_flush(w, fail);
	if (st != OK || n >= DIRECT)
		return st == OK ? write_all(w, p, n, fail) : st;
	memcpy(w->gather + w->n_gather, p, n);
	w->n_gather += n;
	return OK;
}

static enum status put_tensor(struct synth_writer *w, const struct synth_tensor *t,
			      struct fail *fail)
{
	if (t->fill == SYNTH_SIZES)
		return synth_write_put(w, t->sizes, sizeof t->sizes, fail);
	const struct writer_pool *p = pool_of(w, t);
	size_t left = (size_t)synth_tensor_bytes(t) / p->size;
	size_t at = random_bits(w) % p->n;
	enum status st = OK;
	for (size_t n; left > 0 && st == OK; left -= n, at = 0) {
		n = MIN(left, p->n - at);
		st = synth_write_put(w, (const char *)p->p + at * p->size, n * p->size, fail);
	}
	return st;
}

/* Leaves a hole in the file as large as t. */
static enum status skip_tensor(struct synth_writer *w, const struct synth_tensor *t,
			       struct fail *fail)
{
	enum status st = synth_write_flush(w, fail);
	if (st == OK && lseek(w->fd, (off_t)synth_tensor_bytes(t), SEEK_CUR) < 0)
		st = fail_set(fail, E_IO, "%s: %s", w->path, strerror(errno));
	return st;
}

void synth_header(const struct synth_plan *p, struct buf *b)
{
	int64_t at = 0;
	uint64_t n = 0;
	buf_add(b, &n, sizeof n);
	buf_add_z(b, "{\"__metadata__\":{\"format\":\"pt\"}");
	for (size_t i = 0; i < p->n; i++) {
		const struct synth_tensor *t = &p->tensor[i];
		buf_addf(b, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
			 dtype_name(t->dtype));
		for (int d = 0; d < t->n_dims; d++)
			buf_addf(b, "%s%lld", d ? "," : "", (long long)t->dim[d]);
		buf_addf(b, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
			 (long long)(at + synth_tensor_bytes(t)));
		at += synth_tensor_bytes(t);
	}
	buf_add_c(b, '}');
	/* Data begins at a multiple of 64 bytes. */
	while (b->n % 64)
		buf_add_c(b, ' ');
	n = b->n - sizeof n;
	memcpy(b->p, &n, sizeof n); /* little-endian, like this machine */
}

/* Writes zeros up to the next multiple of p->align. */
static enum status put_padding(struct synth_writer *w, const struct synth_plan *p,
			       const struct synth_tensor *t, struct fail *fail)
{
	static const char zeros[64];
	int64_t n = synth_tensor_bytes(t);
	return synth_write_put(w, zeros, (size_t)(ROUND_UP(n, p->align) - n), fail);
}

static enum status put_everything(struct synth_writer *w, const struct synth_plan *p,
				  const struct buf *header, struct fail *fail)
{
	/* Reserve all space at once if the file system can, so that a full disk fails now. */
	off_t n_bytes = (off_t)header->n + p->n_bytes;
	int error = p->is_empty ? ftruncate(w->fd, n_bytes) : fallocate(w->fd, 0, 0, n_bytes);
	if (error < 0 && (errno == ENOSPC || p->is_empty))
		return fail_set(fail, E_IO, "%s: the disk has no room for %lld bytes",
				w->path, (long long)p->n_bytes);
	enum status st = synth_write_put(w, header->p, header->n, fail);
	int64_t done = 0;
	for (size_t i = 0; i < p->n && st == OK; i++) {
		const struct synth_tensor *t = &p->tensor[i];
		/* A model without these does not load. */
		bool is_needed = t->fill == SYNTH_SIZES || t->fill == SYNTH_SAME;
		st = p->is_empty && !is_needed ? skip_tensor(w, t, fail) : put_tensor(w, t, fail);
		if (st == OK)
			st = put_padding(w, p, t, fail);
		done += synth_tensor_bytes(t);
		progress_show("writing", done, p->n_bytes);
	}
	progress_end();
	return st == OK ? synth_write_flush(w, fail) : st;
}

enum status synth_write(const struct synth_plan *p, const struct buf *header, uint64_t seed,
			const char *path, struct fail *fail)
{
	struct synth_writer w = {.state = seed, .path = path};
	w.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (w.fd < 0)
		return fail_set(fail, E_IO, "%s: %s", path, strerror(errno));
	w.gather = xmalloc(GATHER);
	enum status st = put_everything(&w, p, header, fail);
	if (close(w.fd) < 0 && st == OK)
		st = fail_set(fail, E_IO, "%s: %s", path, strerror(errno));
	for (int i = 0; i < w.n_pools; i++)
		free(w.pool[i].p);
	free(w.gather);
	return st;
}
