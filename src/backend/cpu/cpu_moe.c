/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts, exact way. The pairs (token, expert) are sorted by expert, by a counting sort.
 * Each expert's pairs are divided into blocks of at most TILE_TOK, so that its weights
 * are decoded once a block:
 *
 *   work   offset (E+1) | pair (T*U): t*U+u, by expert | block: expert, first, n
 *
 * Gate and up run over blocks x tiles of F. Down runs over tiles of D, and within a tile
 * over the blocks in order. So a token's experts are added to y by rising expert id,
 * whatever the other tokens chose, and no two threads write the same y.
 */
#include <assert.h>
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_moe.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"

struct token_block {
	int32_t expert, first, n; /* sorted pairs first .. first + n - 1 */
};

struct moe_job {
	struct backend *b;
	const struct moe_experts_args *a;
	const int32_t *pair;
	struct token_block *blocks;
	int n_blocks;
};

/* The expert after `prev` in order of larger logit, then lower id; prev -1 gives the
 * first. Returns -1 if only NaN is left. */
static int32_t next_best(const float *logit, int32_t n, int32_t prev)
{
	int32_t best = -1;
	for (int32_t e = 0; e < n; e++) {
		if (prev >= 0 && !(logit[e] < logit[prev] ||
				   (logit[e] == logit[prev] && e > prev)))
			continue;
		if (best < 0 ? !isnan(logit[e]) : logit[e] > logit[best])
			best = e;
	}
	return best;
}

static int32_t first_not_in(const int32_t *id, int32_t n)
{
	int32_t e = 0;
	for (int32_t i = 0; i < n; i++)
		if (id[i] == e) {
			e++;
			i = -1;
		}
	return e;
}

/* The numbers by which experts are chosen with is_shifted. */
static void shift(const struct moe_router_args *a, const float *logit, float top, float *out)
{
	int32_t n = a->router->n;
	float sum = 0;
	for (int32_t e = 0; e < n; e++)
		sum += expf(logit[e] - top);
	for (int32_t e = 0; e < n; e++)
		out[e] = expf(logit[e] - top) / sum + a->bias[e];
}

static void cpu_moe_choose(const struct moe_router_args *a, const float *logit, int32_t *id,
			   float *weight)
{
	int32_t n = a->router->n, best = next_best(logit, n, -1);
	float sum = 0, top = best < 0 ? 0 : logit[best], shifted[MOE_ROUTER_MAX_EXPERTS];
	const float *by = a->is_shifted ? shifted : logit;
	if (a->is_shifted)
		shift(a, logit, top, shifted);
	for (int32_t u = 0, last = -1; u < a->n_used; u++) {
		last = u && last < 0 ? -1 : next_best(by, n, last);
		id[u] = last < 0 ? first_not_in(id, u) : last;
		weight[u] = expf(logit[id[u]] - top);
		sum += weight[u];
	}
	if (!a->norm_topk) {
		sum = 0;
		for (int32_t e = 0; e < n; e++)
			sum += expf(logit[e] - top);
	}
	for (int32_t u = 0; u < a->n_used; u++)
		weight[u] /= sum;
}

static float sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}

/* The square root of log(1 + exp(x)). */
static float root_of(float x)
{
	return sqrtf(x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)));
}

static float score_of(const struct moe_router_args *a, float logit)
{
	return a->is_root ? root_of(logit) : sigmoid(logit);
}

static float best_two(const float *v, int32_t n)
{
	int32_t first = next_best(v, n, -1);
	int32_t second = first < 0 ? -1 : next_best(v, n, first);
	return first < 0 ? NAN : second < 0 ? v[first] : v[first] + v[second];
}

/* Set the scores of experts outside the best groups to NaN. */
static void close_groups(const struct moe_router_args *a, float *choice)
{
	int32_t n = a->router->n, size = n / a->n_groups, last = -1;
	float group[MOE_ROUTER_MAX_EXPERTS];
	bool is_open[MOE_ROUTER_MAX_EXPERTS] = {false};
	for (int32_t g = 0; g < a->n_groups; g++)
		group[g] = best_two(choice + g * size, size);
	for (int32_t i = 0; i < a->n_groups_used; i++) {
		last = next_best(group, a->n_groups, last);
		if (last < 0)
			break;
		is_open[last] = true;
	}
	for (int32_t e = 0; e < n; e++)
		if (!is_open[e / size])
			choice[e] = NAN;
}

/* fixed: the token's experts, or NULL. */
static void choose_sigmoid(const struct moe_router_args *a, const float *logit,
			   const int32_t *fixed, int32_t *id, float *weight)
{
	int32_t n = a->router->n;
	float choice[MOE_ROUTER_MAX_EXPERTS], sum = 0;
	for (int32_t e = 0; e < n; e++)
		choice[e] = a->bias ? score_of(a, logit[e]) + a->bias[e] : logit[e];
	if (a->n_groups_used < a->n_groups)
		close_groups(a, choice);
	for (int32_t u = 0, last = -1; u < a->n_used && !fixed; u++) {
		last = u && last < 0 ? -1 : next_best(choice, n, last);
		id[u] = last < 0 ? first_not_in(id, u) : last;
	}
	for (int32_t u = 0; u < a->n_used; u++) {
		id[u] = fixed ? fixed[u] : id[u];
		weight[u] = score_of(a, logit[id[u]]);
		sum += weight[u];
	}
	for (int32_t u = 0; u < a->n_used; u++)
		weight[u] = weight[u] / (a->norm_topk ? sum + 1e-20f : 1) * a->scale;
}

static void choose_tokens(void *arg, int begin, int end)
{
	const struct moe_router_args *a = arg;
	for (int t = begin; t < end; t++) {
		int32_t *id = a->id + (size_t)t * (size_t)a->n_used;
		float *weight = a->weight + (size_t)t * (size_t)a->n_used;
		const float *logit = a->logits + (size_t)t * (size_t)a->router->n;
		const int32_t *fixed = !a->fixed ? NULL : a->fixed + (size_t)a->token[t] *
							       (size_t)a->n_used;
		if (a->is_sigmoid)
			choose_sigmoid(a, logit, fixed, id, weight);
		else
			cpu_moe_choose(a, logit, id, weight);
		for (int32_t u = 0; a->expert_scale && u < a->n_used; u++)
			weight[u] *= a->expert_scale[id[u]];
	}
}

enum status cpu_moe_router(struct backend *b, const struct moe_router_args *a)
{
	assert(a->n_used <= a->router->n && a->router->n <= MOE_ROUTER_MAX_EXPERTS);
	enum status st = a->norm ? cpu_rms_norm(b, a->norm) : OK;
	if (st == OK)
		st = cpu_linear(b, &(struct linear_args){
		.n_tok = a->n_tok, .x = a->x, .n_out = 1,
		.out = {{.w = a->router, .bias = a->logit_bias, .y = a->logits,
			 .is_f32 = true}}});
	if (st != OK)
		return st;
	cpu_for(b, a->n_tok,
		 (size_t)a->router->n * (size_t)(a->n_used + 8),
		 choose_tokens, a);
	return OK;
}

const int32_t *cpu_moe_sort(struct backend *b, const struct moe_experts_args *a,
			    int32_t **behind)
{
	int32_t n_pairs = a->n_tok * a->n_used, n_experts = a->experts->n;
	int32_t *offset = a->work, *pair = offset + n_experts + 1;
	memset(offset, 0, ((size_t)n_experts + 1) * sizeof *offset);
	for (int32_t i = 0; i < n_pairs; i++)
		offset[a->id[i] + 1]++;
	for (int32_t e = 0; e < n_experts; e++)
		offset[e + 1] += offset[e];
	for (int32_t i = 0; i < n_pairs; i++)
		pair[offset[a->id[i]]++] = i; /* afterwards offset[e] is the end of e's pairs */
	*behind = pair + n_pairs;
	int32_t n_read = 0;
	for (int32_t e = 0; e < n_experts; e++)
		n_read += offset[e] > (e ? offset[e - 1] : 0);
	if (b->profile)
		backend_count_experts(b, a->experts, n_read);
	return pair;
}

static void cut(struct moe_job *job)
{
	const struct moe_experts_args *a = job->a;
	const int32_t *end = a->work;
	int32_t *behind;
	job->pair = cpu_moe_sort(job->b, a, &behind);
	job->blocks = (struct token_block *)behind;
	job->n_blocks = 0;
	for (int32_t e = 0, first = 0; e < a->experts->n; first = end[e++])
		for (int32_t i = first; i < end[e]; i += TILE_TOK)
			job->blocks[job->n_blocks++] = (struct token_block){
				e, i, MIN(TILE_TOK, end[e] - i)};
}

static void gate_up(const struct moe_job *job, const struct token_block *b, int32_t f0)
{
	const struct moe_experts_args *a = job->a;
	const struct experts *ex = a->experts;
	const struct weight *gate = &ex->gate[b->expert];
	float g[TILE_TOK][TILE_ROWS], u[TILE_TOK][TILE_ROWS];
	const float *x[TILE_TOK];
	for (int j = 0; j < b->n; j++)
		x[j] = (const float *)a->x +
		       (size_t)(job->pair[b->first + j] / a->n_used) *
			       (size_t)gate->k;
	cpu_tile(gate, f0, x, b->n, g);
	cpu_tile(&ex->up[b->expert], f0, x, b->n, u);
	int n_rows = MIN(TILE_ROWS, gate->n - f0);
	size_t at = (size_t)b->expert * (size_t)gate->n + (size_t)f0;
	vec4 g_bias = bias4(ex->gate_bias, at, n_rows);
	vec4 u_bias = bias4(ex->up_bias, at, n_rows);
	for (int j = 0; j < b->n; j++) {
		int32_t pair = job->pair[b->first + j];
		float *h = (float *)a->h + (size_t)pair * (size_t)gate->n + f0;
		const float *g_more = cpu_lora_high(a, pair, MOE_LORA_GATE);
		const float *u_more = cpu_lora_high(a, pair, MOE_LORA_UP);
		for (int r = 0; g_more && r < n_rows; r++)
			g[j][r] += g_more[f0 + r];
		for (int r = 0; u_more && r < n_rows; r++)
			u[j][r] += u_more[f0 + r];
		vec4 v = act_mul4(&ex->act, vec4_load(g[j]) + g_bias,
				   vec4_load(u[j]) + u_bias);
		for (int r = 0; r < n_rows; r++)
			h[r] = v[r];
	}
}

static void run_gate_up(void *arg, int begin, int end)
{
	const struct moe_job *job = arg;
	int n_tiles = cpu_tiles(job->a->experts->gate[0].n);
	for (int i = begin; i < end; i++)
		gate_up(job, &job->blocks[i / n_tiles], i % n_tiles * TILE_ROWS);
}

static void down(const struct moe_job *job, const struct token_block *b, int32_t d0)
{
	const struct moe_experts_args *a = job->a;
	const struct weight *w = &a->experts->down[b->expert];
	float sums[TILE_TOK][TILE_ROWS];
	const float *h[TILE_TOK];
	for (int j = 0; j < b->n; j++)
		h[j] = (const float *)a->h +
		       (size_t)job->pair[b->first + j] * (size_t)w->k;
	cpu_tile(w, d0, h, b->n, sums);
	int n_rows = MIN(TILE_ROWS, w->n - d0);
	vec4 bias = bias4(a->experts->down_bias,
			  (size_t)b->expert * (size_t)w->n + (size_t)d0, n_rows);
	for (int j = 0; j < b->n; j++) {
		int32_t pair = job->pair[b->first + j];
		float *y = a->y + (size_t)(pair / a->n_used) * (size_t)w->n + d0;
		for (int r = 0; r < n_rows; r++)
			y[r] += a->weight[pair] * (sums[j][r] + bias[r]);
	}
}

static void run_down(void *arg, int begin, int end)
{
	const struct moe_job *job = arg;
	for (int i = begin; i < end; i++)
		for (int j = 0; j < job->n_blocks; j++)
			down(job, &job->blocks[j], i * TILE_ROWS);
}

/* Compute the shared expert for tokens [begin, end). Its activations (S a token) are
 * multiplied by the sigmoid of its router before the down projection. */
static void run_shared(void *arg, int begin, int end)
{
	const struct moe_experts_args *a = arg;
	const struct activation act = experts_shared_act(a->experts);
	size_t n = (size_t)a->experts->shared_gate->n;
	for (int t = begin; t < end; t++) {
		float *h = (float *)a->shared_h + (size_t)t * n;
		float scale = a->experts->shared_router ? sigmoid(a->shared_scale[t]) : 1;
		const float *up = (float *)a->shared_h + ((size_t)a->n_tok + (size_t)t) * n;
		for (size_t i = 0; i < n; i++)
			h[i] = act_mul4(&act, vec4_all(h[i]), vec4_all(up[i]))[0] * scale;
	}
}

static enum status shared_expert(struct backend *b, const struct moe_experts_args *a)
{
	profile_enter(b->profile, PROFILE_SHARED);
	const struct experts *ex = a->experts;
	size_t n = (size_t)ex->shared_gate->n;
	float *h = a->shared_h;
	enum status st = cpu_linear(b, &(struct linear_args){
		.n_tok = a->n_tok, .x = a->x, .n_out = ex->shared_router ? 3 : 2,
		.out = {{.w = ex->shared_gate, .y = h},
			{.w = ex->shared_up, .y = h + (size_t)a->n_tok * n},
			{.w = ex->shared_router, .y = a->shared_scale}}});
	if (st != OK)
		return st;
	cpu_for(b, a->n_tok, n * 8, run_shared, a);
	return cpu_linear(b, &(struct linear_args){
		.n_tok = a->n_tok, .x = h, .n_out = 1,
		.out = {{.w = ex->shared_down, .y = a->y, .adds = true}}});
}

enum status cpu_moe_experts(struct backend *b, const struct moe_experts_args *a)
{
	if (a->router)
		profile_enter(b->profile, PROFILE_ROUTER);
	enum status st = a->router ? cpu_moe_router(b, a->router) : OK;
	if (st != OK)
		return st;
	profile_enter(b->profile, PROFILE_GATE_UP);
	st = a->lora ? cpu_lora_up(b, a) : OK;
	if (st != OK)
		return st;
	if (a->experts->device) {
		st = cpu_moe_fast(b, a);
		return st == OK && a->experts->shared_gate ? shared_expert(b, a) : st;
	}
	struct moe_job job = {.b = b, .a = a};
	const struct weight *gate = &a->experts->gate[0];
	cut(&job);
	size_t n_pairs = (size_t)a->n_tok * (size_t)a->n_used;
	size_t work = TILE_ROWS * n_pairs * (size_t)gate->k * 2;
	if (job.n_blocks > 0) {
		cpu_for(b, job.n_blocks * cpu_tiles(gate->n),
			work / (size_t)job.n_blocks, run_gate_up, &job);
		profile_enter(b->profile, PROFILE_DOWN);
		cpu_for(b, cpu_tiles(gate->k), TILE_ROWS * n_pairs * (size_t)gate->n,
			run_down, &job);
		st = a->lora ? cpu_lora_down(b, a, NULL) : OK;
	}
	return st == OK && a->experts->shared_gate ? shared_expert(b, a) : st;
}
