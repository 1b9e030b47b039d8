/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of the fast path. A tile is a few consecutive tokens of one sequence, with up
 * to CPU_QUERIES of their query heads that share a key head. So keys and values are read
 * once for the whole tile.
 *
 * Positions are divided into ranges of RANGE, from 0 on. Each range gives its own softmax
 * state, and states are joined in order. So a token's result is the same whether one
 * thread does all ranges, or, when there are few tiles, many threads share them.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"

/* APART: padding in floats, to spread rows over cache sets */
enum { RANGE = 512, MAX_HEAD = CPU_MAX_HEAD, APART = 16 };

struct fast_attention {
	struct backend *b;
	const struct attention_args *a;
	int group, per; /* query heads of a key head; tokens in a tile */
	int most;       /* most queries in a tile */
	int n_chunks, heads; /* a group has n_chunks chunks of `heads` heads */
	int n_tiles, n_ranges;
	int v_dim, v_pad; /* elements of a value; the same rounded up to a vector */
	int pitch;        /* floats from one query, or its sums, to the next */
	float *parts; /* (tile, G, chunk, range, query) states; NULL: ranges are not shared */
};

/* The queries of a tile and their memory. */
struct work {
	struct cpu_attend u;
	struct cpu_query query[CPU_QUERIES];
	float q[CPU_QUERY_ROOM] __attribute__((aligned(64)));
	float acc[CPU_QUERY_ROOM] __attribute__((aligned(64)));
	int tok[CPU_QUERIES], head[CPU_QUERIES];
	int32_t first, last; /* positions that any of the queries sees */
};

static int padded(int n)
{
	return (n + 15) / 16 * 16;
}

static int tiles_of(const struct fast_attention *j, int seq)
{
	return DIV_UP(j->a->first_tok[seq + 1] - j->a->first_tok[seq], j->per);
}

static void add_query(const struct fast_attention *j, struct work *w, int t, int h)
{
	const struct attention_args *a = j->a;
	int i = w->u.n++;
	size_t row = (size_t)t * (size_t)a->n_heads + (size_t)h;
	w->tok[i] = t;
	w->head[i] = h;
	float *q = w->q + (size_t)i * (size_t)j->pitch;
	memcpy(q, (const float *)a->q + row * (size_t)a->head_dim,
	       (size_t)a->head_dim * sizeof *q);
	for (int d = a->head_dim; d < padded(a->head_dim); d++)
		q[d] = 0;
	w->query[i] = (struct cpu_query){
		.q = q, .position = attention_last(a, t),
		.first = attention_first(a, t)};
	w->first = i ? MIN(w->first, w->query[i].first) : w->query[i].first;
	w->last = i ? MAX(w->last, w->query[i].position) : w->query[i].position;
}

/* Collect the queries of tile i, key head g, chunk c. */
static void gather_queries(const struct fast_attention *j, int i, int g, int c, struct work *w)
{
	const struct attention_args *a = j->a;
	int seq = 0;
	while (i >= tiles_of(j, seq))
		i -= tiles_of(j, seq++);
	int t0 = a->first_tok[seq] + i * j->per;
	int t1 = MIN(t0 + j->per, a->first_tok[seq + 1]);
	w->u = (struct cpu_attend){
		.kv = &a->kv, .n_kv_heads = a->n_kv_heads, .dim = a->head_dim,
		.v_dim = j->v_dim, .g = g, .scale = a->scale, .query = w->query,
		.table = a->page_table + (size_t)seq * (size_t)a->max_pages_per_seq};
	int h0 = g * j->group + c * j->heads;
	int h1 = MIN(h0 + j->heads, (g + 1) * j->group);
	for (int t = t0; t < t1; t++)
		for (int h = h0; h < h1; h++)
			add_query(j, w, t, h);
}

static void run_range(const struct fast_attention *j, struct work *w, int range)
{
	for (int i = 0; i < w->u.n; i++) {
		float *acc = w->acc + (size_t)i * (size_t)j->pitch;
		w->query[i].state = (struct cpu_state){-INFINITY, 0, acc};
		memset(acc, 0, (size_t)j->v_pad * sizeof *acc);
	}
	int32_t from = MAX(range * RANGE, w->first);
	int32_t to = MIN((range + 1) * RANGE, w->last + 1);
	if (from < to)
		((struct cpu *)j->b)->isa->attend(&w->u, from, to);
}

/* Initialise the state of query i, with its attention sink if there is one. */
static void cpu_attention_fast_begin(const struct fast_attention *j, const struct work *w, int i,
				     struct cpu_state *total)
{
	const float *sinks = j->a->sinks;
	total->max = sinks ? sinks[w->head[i]] : -INFINITY;
	total->sum = sinks ? 1 : 0;
	memset(total->acc, 0, (size_t)j->v_pad * sizeof(float));
}

static void cpu_attention_fast_finish(const struct fast_attention *j, const struct work *w, int i,
				      const struct cpu_state *total)
{
	size_t row = (size_t)w->tok[i] * (size_t)j->a->n_heads + (size_t)w->head[i];
	float *y = (float *)j->a->y + row * (size_t)j->v_dim;
	for (int d = 0; d < j->v_dim; d++)
		y[d] = total->acc[d] / total->sum;
}

static void locate(const struct fast_attention *j, int unit, int *tile, int *g, int *chunk)
{
	*chunk = unit % j->n_chunks;
	*g = unit / j->n_chunks % j->a->n_kv_heads;
	*tile = unit / j->n_chunks / j->a->n_kv_heads;
}

/* Loop body of the pool: each index is a tile with all its ranges. */
static void run_tiles(void *arg, int begin_unit, int end)
{
	const struct fast_attention *j = arg;
	const struct cpu_isa *isa = ((struct cpu *)j->b)->isa;
	struct work w;
	float acc[CPU_QUERY_ROOM] __attribute__((aligned(64)));
	struct cpu_state total[CPU_QUERIES];
	for (int unit = begin_unit; unit < end; unit++) {
		int tile, g, chunk;
		locate(j, unit, &tile, &g, &chunk);
		gather_queries(j, tile, g, chunk, &w);
		for (int i = 0; i < w.u.n; i++) {
			total[i].acc = acc + (size_t)i * (size_t)j->pitch;
			cpu_attention_fast_begin(j, &w, i, &total[i]);
		}
		for (int r = w.first / RANGE; r <= w.last / RANGE; r++) {
			run_range(j, &w, r);
			for (int i = 0; i < w.u.n; i++)
				isa->attend_join(&total[i], &w.query[i].state, j->v_dim);
		}
		for (int i = 0; i < w.u.n; i++)
			cpu_attention_fast_finish(j, &w, i, &total[i]);
	}
}

static float *part_at(const struct fast_attention *j, int unit, int range, int query)
{
	size_t i = ((size_t)unit * (size_t)j->n_ranges + (size_t)range) *
			   (size_t)j->most +
		   (size_t)query;
	return j->parts + i * ((size_t)j->v_pad + 16);
}

/* Loop body of the pool: each index is one range of a tile. Its states go to parts. */
static void run_parts(void *arg, int begin_unit, int end)
{
	const struct fast_attention *j = arg;
	struct work w;
	for (int i = begin_unit; i < end; i++) {
		int unit = i / j->n_ranges, range = i % j->n_ranges, tile, g, chunk;
		locate(j, unit, &tile, &g, &chunk);
		gather_queries(j, tile, g, chunk, &w);
		run_range(j, &w, range);
		for (int k = 0; k < w.u.n; k++) {
			float *p = part_at(j, unit, range, k);
			const struct cpu_state *s = &w.query[k].state;
			memcpy(p, s->acc, (size_t)j->v_pad * sizeof *p);
			p[j->v_pad] = s->max;
			p[j->v_pad + 1] = s->sum;
		}
	}
}

static void run_joins(void *arg, int begin_unit, int end)
{
	const struct fast_attention *j = arg;
	const struct cpu_isa *isa = ((struct cpu *)j->b)->isa;
	struct work w;
	float acc[MAX_HEAD] __attribute__((aligned(64)));
	for (int unit = begin_unit; unit < end; unit++) {
		int tile, g, chunk;
		locate(j, unit, &tile, &g, &chunk);
		gather_queries(j, tile, g, chunk, &w);
		for (int i = 0; i < w.u.n; i++) {
			struct cpu_state total = {.acc = acc};
			cpu_attention_fast_begin(j, &w, i, &total);
			for (int r = w.first / RANGE; r <= w.last / RANGE; r++) {
				float *p = part_at(j, unit, r, i);
				struct cpu_state s = {p[j->v_pad], p[j->v_pad + 1], p};
				isa->attend_join(&total, &s, j->v_dim);
			}
			cpu_attention_fast_finish(j, &w, i, &total);
		}
	}
}

enum status cpu_attention_fast(struct backend *b, const struct attention_args *a)
{
	struct fast_attention j = {.b = b, .a = a, .group = a->n_heads / a->n_kv_heads,
			.v_dim = attention_v_dim(a)};
	if (a->head_dim > MAX_HEAD || j.v_dim > MAX_HEAD)
		return E_UNSUPPORTED;
	j.v_pad = padded(j.v_dim);
	j.pitch = MAX(padded(a->head_dim), j.v_pad) + APART;
	j.most = MIN(CPU_QUERIES, CPU_QUERY_ROOM / j.pitch);
	j.per = MAX(1, j.most / j.group);
	j.heads = MIN(j.group, j.most);
	j.n_chunks = DIV_UP(j.group, j.heads);
	j.n_ranges = DIV_UP(a->n_ctx_max, RANGE);
	for (int s = 0; s < a->n_seq; s++)
		j.n_tiles += tiles_of(&j, s);
	int n = j.n_tiles * a->n_kv_heads * j.n_chunks;
	size_t work = (size_t)j.most * (size_t)a->head_dim / 4;
	if (n >= 4 * pool_threads(((struct cpu *)b)->pool) || j.n_ranges == 1) {
		cpu_for(b, n, work * (size_t)a->n_ctx_max, run_tiles, &j);
		return OK;
	}
	size_t states = (size_t)n * (size_t)j.n_ranges * (size_t)j.most;
	j.parts = cpu_scratch(b, states * ((size_t)j.v_pad + 16) * sizeof(float));
	if (!j.parts)
		return E_NOMEM;
	cpu_for(b, n * j.n_ranges, work * RANGE, run_parts, &j);
	cpu_for(b, n, work * (size_t)j.n_ranges, run_joins, &j);
	return OK;
}
