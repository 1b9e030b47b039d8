/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on each token's row by itself: embedding, norms, rotation, copies.
 */
#include <assert.h>
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_kv.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"

static void embed_one(const struct embed_rows_args *a, int t)
{
	float *x = a->x + (size_t)t * (size_t)a->table->k;
	cpu_tile_decode(a->table, a->token[t], 0, a->table->k, x);
	for (int32_t i = 0; a->scale != 1 && i < a->table->k; i++)
		x[i] *= a->scale;
}

static void run_embed(void *arg, int begin, int end)
{
	const struct embed_rows_args *a = arg;
	for (int t = begin; t < end; t++)
		embed_one(a, t);
}

enum status cpu_embed_rows(struct backend *b, const struct embed_rows_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->table->k, run_embed, a);
	return OK;
}

enum status cpu_gather_rows(struct backend *b, const struct gather_rows_args *a)
{
	size_t dim = (size_t)a->dim;
	for (size_t r = 0; r < (size_t)a->n_rows; r++)
		memcpy(a->y + r * dim, a->x + (size_t)a->row[r] * dim,
		       dim * sizeof *a->y);
	return OK;
}

enum status cpu_copy_words(struct backend *b, const struct copy_words_args *a)
{
	memcpy(a->y, a->x, (size_t)a->n * sizeof *a->y);
	return OK;
}

enum status cpu_fill_words(struct backend *b, const struct fill_words_args *a)
{
	fill_words_ref(a);
	return OK;
}

static void run_scale(void *arg, int begin, int end)
{
	const struct scale_rows_args *a = arg;
	for (int t = begin; t < end; t++) {
		const float *x = (const float *)a->x + (size_t)t * (size_t)a->dim;
		float *y = (float *)a->y + (size_t)t * (size_t)a->dim;
		for (int32_t d = 0; d < a->dim; d++)
			y[d] = a->scale[t] * x[d];
	}
}

enum status cpu_scale_rows(struct backend *b, const struct scale_rows_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim, run_scale, a);
	return OK;
}

/* Activations are floats here. */
enum status cpu_to_act(struct backend *b, const struct to_act_args *a)
{
	memcpy(a->y, a->x, (size_t)a->n_tok * (size_t)a->dim * sizeof *a->x);
	return OK;
}

enum status cpu_move_pieces(struct backend *b, const struct move_pieces_args *a)
{
	for (int32_t i = 0; i < a->n; i++)
		for (int32_t p = 0; p < a->n_pieces; p++) {
			char *ends[] = {move_pieces_packed(a, p, i), move_pieces_apart(a, p, i)};
			memcpy(ends[a->is_load], ends[!a->is_load], a->piece[p].bytes);
		}
	return OK;
}

static void run_cap(void *arg, int begin, int end)
{
	const struct logits_cap_args *a = arg;
	size_t n = (size_t)a->n_vocab;
	for (size_t i = (size_t)begin * n; i < (size_t)end * n; i++)
		a->x[i] = a->cap * tanhf(a->x[i] / a->cap);
}

enum status cpu_logits_cap(struct backend *b, const struct logits_cap_args *a)
{
	cpu_for(b, a->n_rows, (size_t)a->n_vocab * 16, run_cap, a);
	return OK;
}

/* Not used by the engine, because logits are in host memory already. */
enum status cpu_logits_top(struct backend *b, const struct logits_top_args *a)
{
	logits_top_ref(a);
	return OK;
}

static const struct cpu_isa *isa_of(const struct backend *b)
{
	return ((const struct cpu *)b)->isa;
}

/* An operation's arguments, and its backend. */
struct rows_job {
	struct backend *b;
	const void *a;
};

static void normalise(const struct backend *b, const float *x, int n, float eps,
		      const float *weight, float *y)
{
	if (isa_of(b)) {
		isa_of(b)->norm(x, n, eps, weight, y);
		return;
	}
	float scale = 1 / sqrtf(squares_of(x, n) / (float)n + eps);
	for (int i = 0; i < n; i++)
		y[i] = x[i] * scale * weight[i];
}

static void run_norm(void *arg, int begin, int end)
{
	const struct rows_job *job = arg;
	const struct rms_norm_args *a = job->a;
	float times = rms_norm_sum_scale(a);
	for (int t = begin; t < end; t++) {
		size_t row = (size_t)t * (size_t)a->dim;
		float *x = a->x + row;
		for (int d = 0; a->add && d < a->dim; d++)
			x[d] += ((const float *)a->add)[row + (size_t)d];
		size_t out = (size_t)t * (size_t)(a->y_pitch ? a->y_pitch : a->dim);
		normalise(job->b, x, a->dim, a->eps, rms_norm_weight(a, t),
			  a->sum ? x : (float *)a->y + out);
		if (a->y_low) /* y holds all that is computed, so rounding takes nothing */
			memset((float *)a->y_low + row, 0, (size_t)a->dim * sizeof(float));
		for (int d = 0; a->sum && d < a->dim; d++)
			a->sum[row + (size_t)d] = (a->sum[row + (size_t)d] + x[d]) * times;
	}
}

enum status cpu_rms_norm(struct backend *b, const struct rms_norm_args *a)
{
	enum profile_stage before = profile_now(b->profile);
	profile_enter(b->profile, PROFILE_NORM);
	cpu_for(b, a->n_tok, (size_t)a->dim * 3, run_norm, &(struct rows_job){b, a});
	profile_enter(b->profile, before);
	return OK;
}

static void run_angles(void *arg, int begin, int end)
{
	const struct rope_table_args *a = arg;
	for (int t = begin; t < end; t++) {
		float *row = a->table + (size_t)t * (size_t)a->n_freq * 2;
		for (int i = 0; i < a->n_freq; i++) {
			int32_t p = a->axis ? a->position[3 * t + a->axis[i]]
					    : a->position[t];
			double angle = p * a->inv_freq[i];
			row[2 * i] = (float)(a->scale * cos(angle));
			row[2 * i + 1] = (float)(a->scale * sin(angle));
		}
	}
}

enum status cpu_rope_table(struct backend *b, const struct rope_table_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->n_freq * 64, run_angles, a);
	return OK;
}

static void rotate_head(const struct rows_job *job, const float *rope, float *out)
{
	const struct qk_norm_rope_kv_args *a = job->a;
	const struct cpu_isa *isa = isa_of(job->b);
	if (isa) {
		isa->rotate(out, a->n_freq, rope);
		return;
	}
	for (int i = 0; i < a->n_freq; i++) {
		float c = rope[2 * i], s = rope[2 * i + 1];
		float x = out[i], y = out[i + a->n_freq];
		out[i] = x * c - y * s;
		out[i + a->n_freq] = y * c + x * s;
	}
}

/* Normalise and rotate a head from in (K) to out (K), which may be the same memory. */
static void prepare_head(const struct rows_job *job, const float *in, const float *norm,
			 const float *rope, float *out)
{
	const struct qk_norm_rope_kv_args *a = job->a;
	bool is_first = norm && !a->norm_after_rope;
	if (is_first)
		normalise(job->b, in, a->head_dim, a->eps, norm, out);
	else if (in != out)
		memcpy(out, in, (size_t)a->head_dim * sizeof *out);
	rotate_head(job, rope, out);
	if (norm && !is_first)
		normalise(job->b, out, a->head_dim, a->eps, norm, out);
}

void cpu_kv_store(struct backend *b, void *cache, size_t at, const float *x, int32_t n)
{
	if (b->kv_type == DTYPE_F16)
		((struct cpu *)b)->isa->to_half(x, n, (uint16_t *)cache + at);
	else
		memcpy((float *)cache + at, x, (size_t)n * sizeof *x);
}

static void run_prepare(void *arg, int begin, int end)
{
	const struct rows_job *job = arg;
	const struct qk_norm_rope_kv_args *a = job->a;
	size_t dim = (size_t)a->head_dim;
	float key[CPU_MAX_HEAD];
	for (int t = begin; t < end; t++) {
		const float *rope = a->n_freq ? a->rope + (size_t)t * (size_t)a->n_freq * 2
					      : NULL;
		float *q = (float *)a->q + (size_t)t * (size_t)a->n_heads * dim;
		for (int h = 0; h < a->n_heads; h++, q += dim) {
			size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
			const float *from = q;
			if (a->q_from)
				from = (const float *)a->q_from + head * (size_t)a->q_pitch;
			prepare_head(job, from, a->q_norm, rope, q);
			for (size_t i = 0; a->q_scale && i < dim; i++)
				q[i] *= a->q_scale[t];
			if (a->kv.type == DTYPE_I8)
				cpu_kv_hadamard(q, a->head_dim);
		}
		for (int g = 0; g < a->n_kv_heads; g++) {
			size_t at = kv_pages_at(&a->kv, a->n_kv_heads, a->head_dim,
						a->slot[t], g);
			size_t row = ((size_t)t * (size_t)a->n_kv_heads + (size_t)g) * dim;
			const float *v = (const float *)a->v + row;
			prepare_head(job, (const float *)a->k + row, a->k_norm, rope, key);
			if (a->kv.type == DTYPE_I8) {
				cpu_kv_hadamard(key, a->head_dim);
				cpu_kv_store_bytes(&a->kv, &(struct cpu_kv_row){
					a->n_kv_heads, a->slot[t], g, a->head_dim, key, v});
				continue;
			}
			cpu_kv_store(job->b, a->kv.k, at, key, a->head_dim);
			cpu_kv_store(job->b, a->kv.v, at, v, a->head_dim);
		}
	}
}

enum status cpu_qk_norm_rope_kv(struct backend *b,
				const struct qk_norm_rope_kv_args *a)
{
	assert(a->kv.type == b->kv_type || a->kv.type == DTYPE_I8);
	if (a->head_dim > CPU_MAX_HEAD)
		return E_UNSUPPORTED;
	size_t work = (size_t)(a->n_heads + a->n_kv_heads) * (size_t)a->head_dim * 4;
	cpu_for(b, a->n_tok, work, run_prepare, &(struct rows_job){b, a});
	return OK;
}

static void run_act(void *arg, int begin, int end)
{
	const struct rows_job *job = arg;
	const struct act_mul_args *a = job->a;
	size_t dim = (size_t)a->dim;
	for (size_t row = (size_t)begin; row < (size_t)end; row++) {
		const float *gate = (const float *)a->gate + row * dim;
		const float *up = (const float *)a->up + row * act_mul_up_pitch(a);
		float *y = (float *)a->y + row * dim;
		size_t i = 0;
		if (isa_of(job->b)) {
			isa_of(job->b)->act_mul(&a->act, gate, up, dim, y);
			continue;
		}
		for (; i + 4 <= dim; i += 4)
			vec4_store(y + i, act_mul4(&a->act, vec4_load(gate + i),
						   vec4_load(up + i)));
		for (; i < dim; i++)
			y[i] = act_mul4(&a->act, vec4_all(gate[i]), vec4_all(up[i]))[0];
	}
}

enum status cpu_act_mul(struct backend *b, const struct act_mul_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim * 8, run_act, &(struct rows_job){b, a});
	return OK;
}

enum status cpu_kv_copy(struct backend *b, const struct kv_copy_args *a)
{
	size_t rows = (size_t)a->n_kv_heads * (size_t)a->kv.page_size;
	size_t n = rows * (size_t)a->head_dim * dtype_bytes(a->kv.type);
	const struct {
		void *p;
		size_t n;
	} pages[] = {{a->kv.k, n}, {a->kv.v, n}, {a->kv.k_scale, rows * sizeof(uint16_t)},
		     {a->kv.v_scale, rows * sizeof(uint16_t)}};
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		if (pages[i].p)
			memcpy((char *)pages[i].p + (size_t)a->dst * pages[i].n,
			       (char *)pages[i].p + (size_t)a->src * pages[i].n, pages[i].n);
	return OK;
}
