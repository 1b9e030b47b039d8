/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tower.h"

#include <stdlib.h>

#include "base/alloc.h"

void tower_free(struct tower_memory *m, struct backend *b)
{
	for (size_t i = 0; i < m->n_blocks; i++)
		b->ops->free(b, m->blocks[i]);
	for (size_t i = 0; i < m->n_hosts; i++)
		free(m->hosts[i]);
	free(m->blocks);
	free(m->hosts);
	*m = (struct tower_memory){0};
}

void tower_stop(struct tower_loader *l, enum status st, const char *name, const char *what)
{
	l->st = fail_at(l->fail, st, name, "%s tensor %s %s", l->whose, name, what);
}

/* Find a tensor of n numbers, in any shape. Only a matrix may be in blocks. */
static const struct tensor *find_any(struct tower_loader *l, const char *name, int64_t n,
				     bool may_be_blocks)
{
	const struct tensor *t = tensors_find(l->tensors, name);
	int64_t have = 1;
	if (l->st != OK)
		return NULL;
	if (!t) {
		tower_stop(l, E_MISSING, name, "is missing");
		return NULL;
	}
	for (int i = 0; i < t->n_dims; i++)
		have *= t->dim[i];
	if (have != n)
		tower_stop(l, E_FORMAT, name, "has another size than its settings say");
	else if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16 &&
		 !(may_be_blocks && t->dtype == DTYPE_BLOCKS))
		tower_stop(l, E_UNSUPPORTED, name, may_be_blocks
			? "is neither in 16 or 32 bits nor in a format of GGUF"
			: "is not in 16 or 32 bits");
	return l->st == OK ? t : NULL;
}

const struct tensor *tower_find(struct tower_loader *l, const char *name, int64_t n)
{
	return find_any(l, name, n, false);
}

const struct tensor *tower_matrix(struct tower_loader *l, const char *name, int32_t n, int32_t k,
				  struct weight *out)
{
	const struct tensor *t = find_any(l, name, (int64_t)n * k, true);
	if (!t)
		return NULL;
	bool is_blocks = t->dtype == DTYPE_BLOCKS;
	bool is_transposed = t->n_dims == 2 && t->dim[1] != k;
	if (is_transposed || (is_blocks && (k % quant_block(t->quant) != 0 || t->n_dims == 0 ||
					t->dim[t->n_dims - 1] != k))) {
		tower_stop(l, E_FORMAT, name, "has another shape than its settings say");
		return NULL;
	}
	*out = (struct weight){.quant = is_blocks ? t->quant : quant_plain(t->dtype),
			       .n = n, .k = k, .group = is_blocks ? quant_block(t->quant) : k,
			       .q = t->data, .name = t->name};
	return t;
}

/* Send host as float16, in rows of `pitch` numbers: zeros fill the end of a row. */
static void send_halves(struct tower_loader *l, const struct weight *host, size_t pitch,
			struct weight *out)
{
	size_t k = (size_t)host->k;
	float *row = xmalloc(k * sizeof *row);
	uint16_t *all = xcalloc((size_t)host->n * pitch, sizeof *all);
	for (int32_t i = 0; i < host->n; i++) {
		weight_decode(host, i, i + 1, row);
		backend_to_act(l->b, row, k, all + (size_t)i * pitch);
	}
	const struct weight w = {.quant = QUANT_F16, .n = host->n, .k = (int32_t)pitch,
				 .group = (int32_t)pitch, .q = all, .name = host->name};
	l->st = l->b->ops->load_weight(l->b, &w, out, l->fail);
	free(all);
	free(row);
}

void tower_send(struct tower_loader *l, const struct weight *host, size_t pitch,
		struct weight *out)
{
	bool pads = pitch > (size_t)host->k && !quant_block(host->quant);
	if (l->b->act_type == DTYPE_F16 && (host->quant == QUANT_F32 || pads))
		send_halves(l, host, pitch, out);
	else
		l->st = l->b->ops->load_weight(l->b, host, out, l->fail);
}

void tower_load(struct tower_loader *l, const char *name, int32_t n, int32_t k,
		struct weight *out)
{
	struct weight host;
	if (tower_matrix(l, name, n, k, &host))
		tower_send(l, &host, (size_t)k, out);
}

void tower_keep(struct tower_loader *l, void *p)
{
	struct tower_memory *t = l->memory;
	t->hosts = xrealloc(t->hosts, (t->n_hosts + 1) * sizeof *t->hosts);
	t->hosts[t->n_hosts++] = p;
}

void tower_send_own(struct tower_loader *l, const struct weight *host, size_t pitch,
		    struct weight *out)
{
	void *rows = (void *)(uintptr_t)host->q;
	bool is_copied = l->b->act_type == DTYPE_F16 && host->quant == QUANT_F32;
	if (!is_copied)
		tower_keep(l, rows);
	tower_send(l, host, pitch, out);
	if (is_copied)
		free(rows);
}

const float *tower_put(struct tower_loader *l, const float *host, int64_t n)
{
	struct tower_memory *m = l->memory;
	void *p = NULL;
	l->st = l->b->ops->alloc(l->b, (size_t)n * sizeof *host, &p);
	if (l->st == OK) {
		m->blocks = xrealloc(m->blocks, (m->n_blocks + 1) * sizeof *m->blocks);
		m->blocks[m->n_blocks++] = p;
		l->st = l->b->ops->upload(l->b, p, host, (size_t)n * sizeof *host);
	}
	if (l->st == OK) /* the upload may still be reading `host` */
		l->st = l->b->ops->sync(l->b, l->fail);
	return p;
}

const float *tower_sums(struct tower_loader *l, const char *name, int64_t n_all, int64_t first,
			int64_t n, float plus)
{
	const struct tensor *t = tower_find(l, name, n_all);
	if (!t)
		return NULL;
	float *host = xmalloc((size_t)n * sizeof *host);
	for (int64_t i = 0; i < n; i++)
		host[i] = blocks_float(t->data, t->dtype, (size_t)(first + i)) + plus;
	const float *p = tower_put(l, host, n);
	free(host);
	return p;
}

const float *tower_floats(struct tower_loader *l, const char *name, int64_t n_all, int64_t first,
			  int64_t n)
{
	return tower_sums(l, name, n_all, first, n, 0);
}

int64_t tower_weight_bytes(const struct tensors *tensors, const char *const *prefixes, size_t n)
{
	int64_t n_bytes = 0;
	for (size_t i = 0; i < tensors_count(tensors); i++) {
		const struct tensor *t = tensors_at(tensors, i);
		bool is_part = false;
		for (size_t k = 0; k < n; k++)
			is_part |= str_starts(str_of(t->name), str_of(prefixes[k]));
		n_bytes += is_part ? (int64_t)t->n_bytes : 0;
	}
	return n_bytes;
}
