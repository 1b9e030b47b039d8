/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated delta nets by the loops of cpu_isa. A token's key, query and gates are the same
 * for all state rows of a head, so they are computed first. Then the rows go through a
 * sequence's tokens in pairs, and the channels of the convolution in groups of 16.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_delta.h"
#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

/* State rows and channels in a unit of work. */
enum { ROWS = 32, CHANNELS = 16 };

/* --- delta rule -------------------------------------------------------------------- */

struct delta_job {
	const struct delta_rule_args *a;
	const struct cpu_isa *isa;
	float *keys;        /* (Hk, T, CPU_DELTA_KEY) */
	float (*gates)[2];  /* (Hv, T) */
	float *keeps;       /* (Hv, T, CPU_PADDED(K)); NULL: a head has one decay */
};

static void unit_vector(const float *x, int n, float scale, float *out)
{
	scale /= sqrtf(squares_of(x, n) + 1e-6f);
	for (int i = 0; i < n; i++)
		out[i] = x[i] * scale;
	memset(out + n, 0, (CPU_PADDED(n) - (size_t)n) * sizeof *out);
}

static void plain_vector(const float *x, int n, float *out)
{
	memcpy(out, x, (size_t)n * sizeof *out);
	memset(out + n, 0, (CPU_PADDED(n) - (size_t)n) * sizeof *out);
}

static void prepare_keys(void *arg, int begin, int end)
{
	const struct delta_job *j = arg;
	const struct delta_rule_args *a = j->a;
	int k = a->k_dim, n_keys = a->n_k_heads * k;
	for (int i = begin; i < end; i++) {
		int h = i / a->n_tok, t = i % a->n_tok;
		const float *row = (const float *)a->qkv + h * k +
				   (size_t)t * (size_t)(2 * n_keys + a->n_v_heads * a->v_dim);
		float *query = j->keys + (size_t)i * CPU_DELTA_KEY(k);
		float *key = query + CPU_PADDED(k), product = 0;
		if (a->skip) {
			plain_vector(row, k, query);
			plain_vector(row + n_keys, k, key);
		} else {
			unit_vector(row, k, 1 / sqrtf((float)k), query);
			unit_vector(row + n_keys, k, 1, key);
		}
		for (int c = 0; c < k; c++)
			product += query[c] * key[c];
		key[CPU_PADDED(k)] = product;
	}
}

static float *keeps_of(const struct delta_job *j, size_t row)
{
	return j->keeps ? j->keeps + row * CPU_PADDED(j->a->k_dim) : NULL;
}

static void prepare_gates(void *arg, int begin, int end)
{
	const struct delta_job *j = arg;
	const struct delta_rule_args *a = j->a;
	int k = a->k_dim;
	for (int i = begin; i < end; i++) {
		int h = i / a->n_tok, t = i % a->n_tok;
		float softplus = j->keeps ? 0 : cpu_delta_step(a, t, h);
		float *keep = keeps_of(j, (size_t)i);
		/* With decays for each channel the rows are decayed before gates are used. */
		j->gates[i][0] = j->keeps ? 1 : expf(a->decay[h] * softplus);
		j->gates[i][1] = a->skip ? softplus
					 : 1 / (1 + expf(-cpu_delta_number(&a->b, t, h)));
		for (int c = 0; j->keeps && c < (int)CPU_PADDED(k); c++)
			keep[c] = c < k ? cpu_delta_keep(a, t, h, h * k + c) : 0;
	}
}

static float *state_rows(const struct delta_rule_args *a, int32_t slot, int h, int v)
{
	size_t head = (size_t)slot * (size_t)a->n_v_heads + (size_t)h;
	return a->state + (head * (size_t)a->v_dim + (size_t)v) * (size_t)a->k_dim;
}

/* Update state rows v and v + 1 of head h by the tokens [t, end). */
static void through(const struct delta_job *j, int h, int v, int t, int end, const float *from,
		    float *to)
{
	const struct delta_rule_args *a = j->a;
	size_t n_v = (size_t)a->n_v_heads * (size_t)a->v_dim;
	size_t n_keys = (size_t)a->n_k_heads * (size_t)a->k_dim, at = (size_t)t;
	int key = a->heads_tiled ? h % a->n_k_heads : h / (a->n_v_heads / a->n_k_heads);
	struct cpu_delta d = {
		.n_tok = end - t, .dim = a->k_dim,
		.keys = j->keys + ((size_t)key * (size_t)a->n_tok + at) *
					  CPU_DELTA_KEY(a->k_dim),
		.gates = j->gates + (size_t)h * (size_t)a->n_tok + at,
		.keeps = keeps_of(j, (size_t)h * (size_t)a->n_tok + at),
		.v = (const float *)a->qkv + at * (2 * n_keys + n_v) + 2 * n_keys +
		     (size_t)(h * a->v_dim + v),
		.y = (float *)a->y + at * n_v + (size_t)(h * a->v_dim + v),
		.v_row = 2 * n_keys + n_v, .y_row = n_v,
		.is_space = a->skip, .skip = a->skip ? a->skip[h] : 0};
	j->isa->delta(&d, from, to);
}

static void two_rows(const struct delta_job *j, int b, int h, int v)
{
	const struct delta_rule_args *a = j->a;
	const struct seq_states *s = &a->states;
	int t = a->first_tok[b], end = a->first_tok[b + 1];
	const float *from = s->from[b] < 0 ? NULL : state_rows(a, s->from[b], h, v);
	if (s->save[b] >= 0 && s->save_at[b] >= t && s->save_at[b] < end) {
		float *saved = state_rows(a, s->save[b], h, v);
		through(j, h, v, t, s->save_at[b] + 1, from, saved);
		t = s->save_at[b] + 1;
		from = saved;
	}
	through(j, h, v, t, end, from, state_rows(a, s->to[b], h, v));
}

static void run_rows(void *arg, int begin, int end)
{
	const struct delta_job *j = arg;
	int n_blocks = DIV_UP(j->a->v_dim, ROWS);
	for (int i = begin; i < end; i++) {
		int head = i / n_blocks, v = i % n_blocks * ROWS;
		int last = MIN(v + ROWS, j->a->v_dim);
		for (; v < last; v += 2)
			two_rows(j, head / j->a->n_v_heads, head % j->a->n_v_heads, v);
	}
}

enum status cpu_delta_rule_fast(struct backend *b, const struct delta_rule_args *a)
{
	struct delta_job j = {.a = a, .isa = ((struct cpu *)b)->isa};
	int n_keys = a->n_tok * a->n_k_heads, n_gates = a->n_tok * a->n_v_heads;
	size_t key_floats = (size_t)n_keys * CPU_DELTA_KEY(a->k_dim);
	size_t keep_floats = a->by_channel ? (size_t)n_gates * CPU_PADDED(a->k_dim) : 0;
	size_t n_floats = key_floats + keep_floats + 2 * (size_t)n_gates;
	j.keys = cpu_scratch(b, n_floats * sizeof *j.keys);
	if (!j.keys)
		return E_NOMEM;
	j.keeps = a->by_channel ? j.keys + key_floats : NULL;
	j.gates = (float(*)[2])(j.keys + key_floats + keep_floats);
	cpu_for(b, n_keys, (size_t)a->k_dim * 4, prepare_keys, &j);
	cpu_for(b, n_gates, a->by_channel ? (size_t)a->k_dim * 64 : 64, prepare_gates, &j);
	int n_blocks = DIV_UP(a->v_dim, ROWS);
	size_t work = (size_t)a->n_tok / (size_t)MAX(a->n_seq, 1) * ROWS * (size_t)a->k_dim;
	cpu_for(b, a->n_seq * a->n_v_heads * n_blocks, work, run_rows, &j);
	return OK;
}

/* --- convolution ------------------------------------------------------------------- */

bool cpu_causal_conv_fast_can(const struct causal_conv_args *a)
{
	bool can = !a->is_gated;
	for (int32_t i = 0; i < a->n_parts; i++)
		can &= a->part[i].dim % CHANNELS == 0 && !a->low[i];
	return can;
}

struct conv_job {
	const struct causal_conv_args *a;
	const struct cpu_isa *isa;
	int n_channels;
};

/* Copy the states of 16 channels, from c on, to or from windows. */
static void take_window(const float *state, int n, float (*window)[CHANNELS])
{
	for (int c = 0; c < CHANNELS; c++)
		for (int i = 0; i < n; i++)
			window[i][c] = state[c * n + i];
}

static void keep_window(float *state, int n, float (*window)[CHANNELS])
{
	for (int c = 0; c < CHANNELS; c++)
		for (int i = 0; i < n; i++)
			state[c * n + i] = window[i][c];
}

static void channels(const struct conv_job *j, int b, int c)
{
	const struct causal_conv_args *a = j->a;
	const struct head_view *part = a->part;
	const struct seq_states *s = &a->states;
	int n = a->width - 1, in = c, t = a->first_tok[b], end = a->first_tok[b + 1];
	size_t slot = (size_t)j->n_channels * (size_t)n, at = (size_t)c * (size_t)n;
	float window[CPU_CONV_MAX][CHANNELS] = {{0}};
	struct cpu_conv conv = {.width = a->width, .y_row = (size_t)j->n_channels};
	for (; in >= part->n_heads * part->dim; part++)
		in -= part->n_heads * part->dim;
	conv.x_row = (size_t)part->row;
	if (a->bias)
		memcpy(conv.bias, a->bias + c, sizeof conv.bias);
	for (int k = 0; k < CHANNELS; k++)
		for (int i = 0; i < a->width; i++)
			conv.weight[i][k] =
				a->weight[(size_t)(c + k) * (size_t)a->width + (size_t)i];
	if (s->from[b] >= 0)
		take_window(a->state + (size_t)s->from[b] * slot + at, n, window);
	while (t < end) {
		bool saves = s->save[b] >= 0 && s->save_at[b] >= t && s->save_at[b] < end;
		int until = saves ? s->save_at[b] + 1 : end;
		conv.n_tok = until - t;
		conv.x = (const float *)part->p + head_view_at(part, t, in);
		conv.y = (float *)a->y + (size_t)t * conv.y_row + c;
		j->isa->conv(&conv, window);
		if (saves)
			keep_window(a->state + (size_t)s->save[b] * slot + at, n, window);
		t = until;
	}
	if (s->to[b] >= 0)
		keep_window(a->state + (size_t)s->to[b] * slot + at, n, window);
}

static void run_channels(void *arg, int begin, int end)
{
	const struct conv_job *j = arg;
	int n_blocks = j->n_channels / CHANNELS;
	for (int i = begin; i < end; i++)
		channels(j, i / n_blocks, i % n_blocks * CHANNELS);
}

enum status cpu_causal_conv_fast(struct backend *b, const struct causal_conv_args *a)
{
	struct conv_job j = {a, ((struct cpu *)b)->isa, causal_conv_channels(a)};
	size_t work = (size_t)a->n_tok / (size_t)MAX(a->n_seq, 1) * CHANNELS * 8;
	cpu_for(b, a->n_seq * (j.n_channels / CHANNELS), work, run_channels, &j);
	return OK;
}
