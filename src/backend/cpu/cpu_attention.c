/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of the exact path, in one pass over the cache (online softmax: Milakov and
 * Gimelshein, 2018). Positions come in blocks of at most BLOCK within a page. After each
 * block, the running maximum, sum and weighted values cover all positions so far. The
 * token's position fixes the block boundaries, so its result depends on what it sees
 * only.
 *
 * The unit of work is one query head of one token. Heads of one group follow each other
 * on a thread, so they find the keys and values in its cache.
 */
#include <assert.h>
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_kv.h"
#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

enum { BLOCK = 16, MAX_HEAD_DIM = 1024 };

struct head_state {
	float max, sum;
	float acc[MAX_HEAD_DIM];
};

/* p[i] = scale * q . k[i] for BLOCK entries. Only n are valid; the others repeat the
 * last. */
static void score_block(const float *q, const float *k, int dim, int n, float scale,
			float *p)
{
	for (int i = 0; i < n; i += 4) {
		const float *row[4];
		vec4 dots;
		for (int r = 0; r < 4; r++)
			row[r] = k + (size_t)MIN(i + r, n - 1) * (size_t)dim;
		dot_rows(row, &q, 1, dim, &dots);
		vec4_store(p + i, dots * vec4_all(scale));
	}
}

/* Turn scores into weights relative to the running maximum, which is updated first. */
static void weigh_block(struct head_state *s, float *p, int n, int dim)
{
	float max = s->max;
	for (int i = 0; i < n; i++)
		max = p[i] > max ? p[i] : max;
	if (max > s->max) {
		float shrink = s->sum > 0 ? vec4_exp(vec4_all(s->max - max))[0] : 0;
		s->sum *= shrink;
		for (int d = 0; d < dim; d++)
			s->acc[d] *= shrink;
		s->max = max;
	}
	for (int i = 0; i < n; i += 4)
		vec4_store(p + i, vec4_exp(vec4_load(p + i) - vec4_all(max)));
	for (int i = 0; i < n; i++)
		s->sum += p[i];
}

/* acc (dim) += sum of p[i] v[i]. Rows of v are `pitch` floats apart. Four vectors of acc
 * at a time stay in registers. */
static void add_values(float *acc, const float *p, const float *v, int dim, int pitch,
		       int n)
{
	int d = 0;
	for (; d + 16 <= dim; d += 16) {
		vec4 a0 = vec4_load(acc + d), a1 = vec4_load(acc + d + 4);
		vec4 a2 = vec4_load(acc + d + 8), a3 = vec4_load(acc + d + 12);
		for (int i = 0; i < n; i++) {
			const float *row = v + (size_t)i * (size_t)pitch + d;
			a0 += vec4_all(p[i]) * vec4_load(row);
			a1 += vec4_all(p[i]) * vec4_load(row + 4);
			a2 += vec4_all(p[i]) * vec4_load(row + 8);
			a3 += vec4_all(p[i]) * vec4_load(row + 12);
		}
		vec4_store(acc + d, a0);
		vec4_store(acc + d + 4, a1);
		vec4_store(acc + d + 8, a2);
		vec4_store(acc + d + 12, a3);
	}
	for (; d < dim; d++)
		for (int i = 0; i < n; i++)
			acc[d] += p[i] * v[(size_t)i * (size_t)pitch + d];
}

/* Keys and values of n positions of one page, from `slot` on, v_pitch floats apart. `room`
 * is where bytes become floats: (2, BLOCK, KV_PAGES_WIDEST). */
static void find_rows(const struct attention_args *a, int32_t slot, int g, int n, float *room,
		      const float **k, const float **v)
{
	int dim = a->head_dim, v_pitch = a->kv.v ? attention_v_dim(a) : dim;
	if (a->kv.type != DTYPE_I8) {
		const float *values = a->kv.v ? a->kv.v : a->kv.k;
		*k = (const float *)a->kv.k +
		     kv_pages_at(&a->kv, a->n_kv_heads, dim, slot, g);
		*v = values + kv_pages_at(&a->kv, a->n_kv_heads, v_pitch, slot, g);
		return;
	}
	size_t row = kv_pages_row(&a->kv, a->n_kv_heads, slot, g), at = row * (size_t)dim;
	float *values = room + BLOCK * KV_PAGES_WIDEST;
	cpu_kv_widen((const uint8_t *)a->kv.k + at, a->kv.k_scale + row, n, dim, room);
	cpu_kv_widen((const uint8_t *)a->kv.v + at, a->kv.v_scale + row, n, dim, values);
	*k = room;
	*v = values;
}

static void attend(const struct attention_args *a, int t, int h)
{
	int dim = a->head_dim, size = a->kv.page_size;
	int g = h / (a->n_heads / a->n_kv_heads), n_seen = attention_last(a, t) + 1;
	int v_dim = attention_v_dim(a), v_pitch = a->kv.v ? v_dim : dim;
	size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
	const float *q = (const float *)a->q + head * (size_t)dim;
	float *y = (float *)a->y + head * (size_t)v_dim;
	const int32_t *table = a->page_table +
			       (size_t)a->seq_of[t] * (size_t)a->max_pages_per_seq;
	struct head_state s;
	float p[BLOCK], room[2 * BLOCK * KV_PAGES_WIDEST];
	s.max = a->sinks ? a->sinks[h] : -INFINITY;
	s.sum = a->sinks ? 1 : 0;
	memset(s.acc, 0, (size_t)v_dim * sizeof *s.acc);
	for (int s0 = attention_first(a, t), n; s0 < n_seen; s0 += n) {
		int offset = s0 % size;
		n = MIN(MIN(BLOCK, size - offset), n_seen - s0);
		int32_t slot = table[s0 / size] * size + offset;
		const float *k, *v;
		find_rows(a, slot, g, n, room, &k, &v);
		score_block(q, k, dim, n, a->scale, p);
		weigh_block(&s, p, n, v_dim);
		add_values(s.acc, p, v, v_dim, v_pitch, n);
	}
	for (int d = 0; d < v_dim; d++)
		y[d] = s.acc[d] / s.sum;
}

static void run_heads(void *arg, int begin, int end)
{
	const struct attention_args *a = arg;
	for (int i = begin; i < end; i++)
		attend(a, i / a->n_heads, i % a->n_heads);
}

enum status cpu_attention(struct backend *b, const struct attention_args *a)
{
	enum status st = a->fused ? cpu_qk_norm_rope_kv(b, a->fused) : OK;
	if (st != OK)
		return st;
	if (((struct cpu *)b)->isa)
		return cpu_attention_fast(b, a);
	if (a->head_dim > MAX_HEAD_DIM || attention_v_dim(a) > MAX_HEAD_DIM)
		return E_UNSUPPORTED;
	assert(a->kv.type == DTYPE_F32 || a->kv.type == DTYPE_I8);
	size_t work = 2 * (size_t)a->n_ctx_max * (size_t)a->head_dim;
	cpu_for(b, a->n_tok * a->n_heads, work, run_heads, a);
	return OK;
}
