/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated delta nets, exact way. The convolution divides work by sequence and channel. The
 * delta rule divides it by sequence, head and ROWS rows of the head's state. A row goes
 * through the sequence's tokens by itself, so its bits do not depend on the cut into
 * steps.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_delta.h"
#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

/* ROWS: state rows in a unit of work, 8 KB at K = 128. */
enum { ROWS = 16, MAX_K = CPU_DELTA_MAX, CHANNELS = 64 };

/* --- convolution ------------------------------------------------------------------- */

static void conv_keep(float *state, int32_t slot, int c, int n_channels, int n,
		      const float *window)
{
	if (slot < 0)
		return;
	float *out = state + ((size_t)slot * (size_t)n_channels + (size_t)c) * (size_t)n;
	memcpy(out, window, (size_t)n * sizeof *out);
}

static float view_at(const struct head_view *v, int32_t t, int32_t c)
{
	return ((const float *)v->p)[head_view_at(v, t, c)];
}

static void conv_channel(const struct causal_conv_args *a, int b, int c, int n_channels)
{
	const struct head_view *part = a->part;
	const float *weight = a->weight + (size_t)c * (size_t)a->width;
	int n = a->width - 1, in = c;
	float window[CAUSAL_CONV_MAX_WIDTH] = {0};
	for (; in >= part->n_heads * part->dim; part++)
		in -= part->n_heads * part->dim;
	const float *low = a->low[part - a->part];
	size_t from = ((size_t)a->states.from[b] * (size_t)n_channels + (size_t)c) *
		      (size_t)n;
	if (a->states.from[b] >= 0)
		memcpy(window, a->state + from, (size_t)n * sizeof *window);
	for (int t = a->first_tok[b]; t < a->first_tok[b + 1]; t++) {
		window[n] = view_at(part, t, in);
		if (low)
			window[n] += a->low_scale * low[head_view_at(part, t, in)];
		if (a->is_gated)
			window[n] *= view_at(&a->in_gate, t, c);
		float sum = a->bias ? a->bias[c] : 0;
		for (int i = 0; i <= n; i++)
			sum += weight[i] * window[i];
		((float *)a->y)[(size_t)t * (size_t)n_channels + (size_t)c] =
			a->is_gated ? sum * view_at(&a->out_gate, t, c)
				    : silu_mul_one(sum, 1);
		memmove(window, window + 1, (size_t)n * sizeof *window);
		if (a->states.save_at[b] == t)
			conv_keep(a->state, a->states.save[b], c, n_channels, n, window);
	}
	conv_keep(a->state, a->states.to[b], c, n_channels, n, window);
}

static void run_conv(void *arg, int begin, int end)
{
	const struct causal_conv_args *a = arg;
	int n_channels = causal_conv_channels(a);
	int n_blocks = DIV_UP(n_channels, CHANNELS);
	for (int i = begin; i < end; i++) {
		int c = i % n_blocks * CHANNELS, last = MIN(c + CHANNELS, n_channels);
		for (; c < last; c++)
			conv_channel(a, i / n_blocks, c, n_channels);
	}
}

enum status cpu_causal_conv(struct backend *b, const struct causal_conv_args *a)
{
	if (a->width < 2 || a->width > CAUSAL_CONV_MAX_WIDTH)
		return E_UNSUPPORTED;
	if (a->beside) {
		enum status st = b->ops->linear(b, a->beside);
		if (st != OK)
			return st;
	}
	if (((struct cpu *)b)->isa && cpu_causal_conv_fast_can(a))
		return cpu_causal_conv_fast(b, a);
	int n_blocks = DIV_UP(causal_conv_channels(a), CHANNELS);
	size_t work = (size_t)a->n_tok / (size_t)MAX(a->n_seq, 1) * CHANNELS * 16;
	cpu_for(b, a->n_seq * n_blocks, work, run_conv, a);
	return OK;
}

/* --- delta rule -------------------------------------------------------------------- */

/* A token's data that all state rows of a head use. */
struct token_of_head {
	float beta, y_scale;
	bool is_space; /* use Mamba-2's rule */
	float skip;
	float q[MAX_K], k[MAX_K], keep[MAX_K];
	const float *v;
	float *y;
};

static void unit_vector(const float *x, int n, float *out)
{
	float scale = 1 / sqrtf(squares_of(x, n) + 1e-6f);
	for (int i = 0; i < n; i++)
		out[i] = x[i] * scale;
}

/* What token t leaves of the columns of head h. Returns the head's step, or 0 where each channel
 * has its own. */
static float prepare_keep(const struct delta_rule_args *a, int t, int h, float *keep)
{
	float softplus = a->by_channel ? 0 : cpu_delta_step(a, t, h);
	float all = expf(a->decay[h] * softplus);
	for (int i = 0; i < a->k_dim; i++)
		keep[i] = a->by_channel ? cpu_delta_keep(a, t, h, h * a->k_dim + i) : all;
	return softplus;
}

static void prepare_token(const struct delta_rule_args *a, int t, int h,
			  struct token_of_head *out)
{
	int n_keys = a->n_k_heads * a->k_dim;
	int key = (a->heads_tiled ? h % a->n_k_heads
				    : h / (a->n_v_heads / a->n_k_heads)) * a->k_dim;
	const float *row = (const float *)a->qkv +
			   (size_t)t * (size_t)(2 * n_keys + a->n_v_heads * a->v_dim);
	float softplus = prepare_keep(a, t, h, out->keep);
	out->is_space = a->skip;
	if (a->skip) {
		memcpy(out->q, row + key, (size_t)a->k_dim * sizeof *out->q);
		memcpy(out->k, row + n_keys + key, (size_t)a->k_dim * sizeof *out->k);
		out->beta = softplus;
		out->y_scale = 1;
		out->skip = a->skip[h];
	} else {
		unit_vector(row + key, a->k_dim, out->q);
		unit_vector(row + n_keys + key, a->k_dim, out->k);
		out->beta = 1 / (1 + expf(-cpu_delta_number(&a->b, t, h)));
		out->y_scale = 1 / sqrtf((float)a->k_dim);
	}
	out->v = row + 2 * n_keys + h * a->v_dim;
	out->y = (float *)a->y +
		 ((size_t)t * (size_t)a->n_v_heads + (size_t)h) * (size_t)a->v_dim;
}

/* Update rows v .. v + 3 of the state, s (4, K), by one token. */
static void four_rows(float *s, int n, const struct token_of_head *x, int v)
{
	float *row[4] = {s, s + n, s + 2 * n, s + 3 * n};
	vec4 seen[4] = {{0}}, sums[4] = {{0}};
	for (int i = 0; i < n; i += 4) {
		vec4 k = vec4_load(x->k + i), keep = vec4_load(x->keep + i);
#pragma GCC unroll 4
		for (int r = 0; r < 4; r++) {
			vec4 kept = vec4_load(row[r] + i) * keep;
			vec4_store(row[r] + i, kept);
			seen[r] += kept * k;
		}
	}
	vec4 value = vec4_load(x->v + v), error = value;
	if (!x->is_space)
		error -= vec4_sums(seen[0], seen[1], seen[2], seen[3]);
	vec4 change = error * vec4_all(x->beta);
	for (int i = 0; i < n; i += 4) {
		vec4 k = vec4_load(x->k + i), q = vec4_load(x->q + i);
#pragma GCC unroll 4
		for (int r = 0; r < 4; r++) {
			vec4 now = vec4_load(row[r] + i) + vec4_all(change[r]) * k;
			vec4_store(row[r] + i, now);
			sums[r] += now * q;
		}
	}
	vec4 y = vec4_sums(sums[0], sums[1], sums[2], sums[3]) * vec4_all(x->y_scale);
	vec4_store(x->y + v, x->is_space ? y + value * vec4_all(x->skip) : y);
}

static float *state_rows(const struct delta_rule_args *a, int32_t slot, int h, int v)
{
	size_t head = (size_t)slot * (size_t)a->n_v_heads + (size_t)h;
	return a->state + (head * (size_t)a->v_dim + (size_t)v) * (size_t)a->k_dim;
}

static void run_rows(const struct delta_rule_args *a, int b, int h, int v0)
{
	float s[ROWS * MAX_K] = {0};
	struct token_of_head x;
	int n_rows = MIN(ROWS, a->v_dim - v0), n = a->k_dim;
	size_t n_bytes = (size_t)(n_rows * n) * sizeof *s;
	const struct seq_states *st = &a->states;
	if (st->from[b] >= 0)
		memcpy(s, state_rows(a, st->from[b], h, v0), n_bytes);
	for (int t = a->first_tok[b]; t < a->first_tok[b + 1]; t++) {
		prepare_token(a, t, h, &x);
		for (int v = 0; v < n_rows; v += 4)
			four_rows(s + (size_t)v * (size_t)n, n, &x, v0 + v);
		if (st->save_at[b] == t && st->save[b] >= 0)
			memcpy(state_rows(a, st->save[b], h, v0), s, n_bytes);
	}
	memcpy(state_rows(a, st->to[b], h, v0), s, n_bytes);
}

static void run_delta(void *arg, int begin, int end)
{
	const struct delta_rule_args *a = arg;
	int n_blocks = DIV_UP(a->v_dim, ROWS);
	for (int i = begin; i < end; i++) {
		int head = i / n_blocks;
		run_rows(a, head / a->n_v_heads, head % a->n_v_heads,
			 i % n_blocks * ROWS);
	}
}

static enum status delta_rule(struct backend *b, const struct delta_rule_args *a)
{
	if (((struct cpu *)b)->isa)
		return cpu_delta_rule_fast(b, a);
	int n_blocks = DIV_UP(a->v_dim, ROWS);
	size_t work = (size_t)a->n_tok / (size_t)MAX(a->n_seq, 1) * ROWS * (size_t)a->k_dim * 4;
	cpu_for(b, a->n_seq * a->n_v_heads * n_blocks, work, run_delta, a);
	return OK;
}

enum status cpu_delta_rule(struct backend *b, const struct delta_rule_args *a)
{
	if (a->k_dim > MAX_K || a->k_dim % 4 || a->v_dim % 4)
		return E_UNSUPPORTED;
	enum status st = delta_rule(b, a);
	return st == OK && a->norm ? cpu_gated_norm(b, a->norm) : st;
}

/* --- norm and gate ----------------------------------------------------------------- */

struct norm_job {
	const struct gated_norm_args *a;
	const struct cpu_isa *isa; /* NULL: exact way */
};

/* Norms of heads whose gate comes before the norm. y may be x. */
static void norm_gated(const struct norm_job *j, int t, int first, const float *x, float *y)
{
	const struct gated_norm_args *a = j->a;
	const float *z = a->z.p, *weight = a->weight + first;
	float by = a->z_scale != 0 ? a->z_scale : 1;
	for (int d = 0; d < a->dim; d++)
		y[d] = silu_mul_one(by * z[head_view_at(&a->z, t, first + d)], x[d]);
	for (int d = 0; a->skips_norm && d < a->dim; d++)
		y[d] *= weight[d];
	if (a->skips_norm)
		return;
	if (j->isa) {
		j->isa->norm(y, a->dim, a->eps, weight, y);
		return;
	}
	float scale = 1 / sqrtf(squares_of(y, a->dim) / (float)a->dim + a->eps);
	for (int d = 0; d < a->dim; d++)
		y[d] *= scale * weight[d];
}

static void run_gated_norm(void *arg, int begin, int end)
{
	const struct norm_job *j = arg;
	const struct gated_norm_args *a = j->a;
	int dim = a->dim;
	const struct activation silu = {.kind = ACT_SILU};
	bool is_one = a->z.dim % dim == 0; /* true: the gates of a head are contiguous */
	for (int i = begin; i < end; i++) {
		const float *x = (const float *)a->x + (size_t)i * (size_t)dim, *z = a->z.p;
		float *y = (float *)a->y + (size_t)i * (size_t)dim;
		int t = i / a->n_heads, first = i % a->n_heads * dim;
		if (a->gates_first) {
			norm_gated(j, t, first, x, y);
			continue;
		}
		if (j->isa && is_one) {
			j->isa->norm(x, dim, a->eps, a->weight, y);
			if (a->is_sigmoid) {
				j->isa->sigmoid_mul(z + head_view_at(&a->z, t, first),
						    (size_t)dim, y);
				continue;
			}
			j->isa->act_mul(&silu, z + head_view_at(&a->z, t, first), y,
					(size_t)dim, y);
			continue;
		}
		float scale = 1 / sqrtf(squares_of(x, dim) / (float)dim + a->eps);
		for (int d = 0; d < dim; d++) {
			float gate = z[head_view_at(&a->z, t, first + d)];
			float out = x[d] * scale * a->weight[d];
			y[d] = a->is_sigmoid ? out / (1 + expf(-gate))
					     : silu_mul_one(gate, out);
		}
	}
}

enum status cpu_gated_norm(struct backend *b, const struct gated_norm_args *a)
{
	struct norm_job j = {a, ((struct cpu *)b)->isa};
	cpu_for(b, a->n_tok * a->n_heads, (size_t)a->dim * 16, run_gated_norm, &j);
	return OK;
}

struct gate_job {
	const struct sigmoid_gate_args *a;
	const struct cpu_isa *isa; /* NULL: exact way */
};

/* Gates that each are for several channels, or are no sigmoids. */
static void gate_spans(const struct sigmoid_gate_args *a, int32_t t, float *y)
{
	const float *gate = a->gate.p;
	for (int32_t c = 0; c < a->dim; c += a->span) {
		float g = gate[head_view_at(&a->gate, t, c / a->span)];
		float by = a->is_softplus ? fmaxf(g, 0) + log1pf(expf(-fabsf(g)))
					  : 1 / (1 + expf(-g));
		for (int32_t d = 0; d < a->span; d++)
			y[c + d] *= by;
	}
}

static void run_sigmoid_gate(void *arg, int begin, int end)
{
	const struct gate_job *j = arg;
	const struct sigmoid_gate_args *a = j->a;
	const float *gate = a->gate.p;
	bool is_plain = a->span == 1 && !a->is_softplus;
	int together = MIN(a->gate.dim, a->dim); /* number of contiguous gates */
	for (int t = begin; t < end; t++) {
		float *y = (float *)a->y + (size_t)t * (size_t)a->dim;
		if (!is_plain)
			gate_spans(a, t, y);
		for (int c = 0; is_plain && j->isa && c < a->dim; c += together)
			j->isa->sigmoid_mul(gate + head_view_at(&a->gate, t, c),
					    (size_t)MIN(together, a->dim - c), y + c);
		for (int c = 0; is_plain && !j->isa && c < a->dim; c++)
			y[c] /= 1 + expf(-gate[head_view_at(&a->gate, t, c)]);
	}
}

enum status cpu_sigmoid_gate(struct backend *b, const struct sigmoid_gate_args *a)
{
	struct gate_job j = {a, ((struct cpu *)b)->isa};
	cpu_for(b, a->n_tok, (size_t)a->dim * 16, run_sigmoid_gate, &j);
	return OK;
}
