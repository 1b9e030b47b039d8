/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts, fast way. The pairs (token, expert) are sorted by expert, and each expert's
 * pairs are divided into tiles. A run is consecutive tiles of one expert; its weights
 * stay in a core's cache while the tiles pass:
 *
 *   work   offset (E+1) | pair (T*U): t*U+u, by expert | tiles | runs
 *   h      (T*U, F) in the order of `pair`
 *
 * Gate and up go over runs x blocks of F. Down goes over blocks of D, and within a block
 * over the tiles in order. So a token's experts are added to y by rising id, whatever the
 * other tokens chose, and no two threads write the same y.
 *
 * Experts that do not stay in memory (cpu_experts.h) are read in waves of consecutive experts, as
 * many as half the slots hold. Gate and up of an expert run once it has been read. Down waits for
 * the whole wave and goes in order, so the bits are the same.
 */
#include "backend/cpu/cpu_moe.h"

#include <stdio.h>

#include "backend/cpu/cpu_experts.h"
#include "backend/cpu/cpu_fast.h"
#include "base/alloc.h"

enum { ROWS = CPU_PANEL_ROWS, UNIT_BLOCKS = 4, DOWN_BLOCKS = 8, DOWN_BLOCKS_MANY = 16 };

struct tile {
	int32_t expert, first, n; /* sorted pairs first .. first + n - 1 */
};

struct expert_run {
	int32_t tile, n;
};

struct moe_fast_job {
	struct backend *b;
	const struct moe_experts_args *a;
	const int32_t *pair;
	struct tile *tiles;
	struct expert_run *runs;
	int n_tiles, n_runs;
	size_t n_pairs;
	int blocks, down_blocks; /* row blocks in a unit of gate and up; of down */
	struct cpu_way in, out;      /* way of gate and up; way of down */
	size_t x_bytes, h_bytes; /* bytes of an input; x_bytes 0: all pairs share one input */
	char *x_tiles, *h_tiles;
	/* The part of the work that comes next. */
	const int *order;            /* (n_order) runs, for gate and up; NULL: in order */
	int run0, run1, tile0;       /* runs [run0, run1) of the wave, and its first tile */
};

bool cpu_moe_fast_can(const struct backend *b, const struct experts *e)
{
	for (int32_t i = 0; i < e->n; i++) {
		struct cpu_way gate = cpu_way_of(b, &e->gate[i]);
		if (gate.path == CPU_PATH_TILE ||
		    !cpu_way_is_same(gate, cpu_way_of(b, &e->gate[0])) ||
		    !cpu_way_is_same(gate, cpu_way_of(b, &e->up[i])) ||
		    cpu_way_of(b, &e->down[i]).path == CPU_PATH_TILE ||
		    !cpu_way_is_same(cpu_way_of(b, &e->down[i]),
				     cpu_way_of(b, &e->down[0])))
			return false;
	}
	return e->n > 0;
}

/* Divide the sorted pairs into tiles and runs. There are at most E + T U / 6 of each.
 * They take five numbers, which fit after the pairs (moe_experts_work). Both products use
 * the same tiles. */
static void cut(struct moe_fast_job *j)
{
	const int32_t *end = j->a->work; /* end of each expert's pairs */
	int32_t n_experts = j->a->experts->n, *behind;
	struct cpu_way widest = j->in.planes > j->out.planes ? j->in : j->out;
	j->pair = cpu_moe_sort(j->b, j->a, &behind);
	j->tiles = (struct tile *)behind;
	for (int32_t e = 0, first = 0; e < n_experts; first = end[e++]) {
		struct cpu_split s = cpu_split_of(widest, end[e] - first);
		for (int i = 0; i < s.n_tiles; i++)
			j->tiles[j->n_tiles++] = (struct tile){
				e, first + i * s.per, cpu_split_count(&s, i)};
	}
	j->runs = (struct expert_run *)(j->tiles + j->n_tiles);
	for (int t = 0; t < j->n_tiles; t++) {
		struct expert_run *last = j->n_runs ? &j->runs[j->n_runs - 1] : NULL;
		if (last && last->n < CPU_TILES &&
		    j->tiles[last->tile].expert == j->tiles[t].expert)
			last->n++;
		else
			j->runs[j->n_runs++] = (struct expert_run){t, 1};
	}
}

static void prepare_inputs(void *arg, int begin, int end)
{
	const struct moe_fast_job *j = arg;
	int32_t k = j->a->experts->gate[0].k;
	for (int i = begin; i < end; i++) {
		const struct tile *t = &j->tiles[i];
		const float *x[CPU_TOK];
		for (int p = 0; p < t->n; p++)
			x[p] = (const float *)j->a->x +
			       (size_t)(j->pair[t->first + p] / j->a->n_used) *
				       (size_t)k;
		cpu_fast_prepare(j->b, j->in, k, x, t->n,
				 j->x_tiles + (size_t)t->first * j->x_bytes);
	}
}

static void prepare_hidden(void *arg, int begin, int end)
{
	const struct moe_fast_job *j = arg;
	int32_t k = j->a->experts->down[0].k;
	for (int i = begin; i < end; i++) {
		const struct tile *t = &j->tiles[j->tile0 + i];
		const float *h[CPU_TOK];
		for (int p = 0; p < t->n; p++)
			h[p] = (const float *)j->a->h +
			       (size_t)(t->first + p) * (size_t)k;
		cpu_fast_prepare(j->b, j->out, k, h, t->n,
				 j->h_tiles + (size_t)t->first * j->h_bytes);
	}
}

/* The inputs of a run's tiles; each input has `bytes` bytes. */
static struct cpu_tiles tiles_of(const struct moe_fast_job *j, const struct expert_run *run,
				 const char *inputs, size_t bytes)
{
	const struct tile *t = &j->tiles[run->tile];
	struct cpu_tiles tiles = {.at = inputs + (size_t)t->first * bytes, .n = run->n};
	for (int i = 0; i < run->n; i++)
		tiles.n_x[i] = t[i].n;
	return tiles;
}

/* Adds what adapters add to the gate or up of a tile's pairs, in rows from n0 on. */
static void add_lora(const struct moe_fast_job *j, const struct tile *t, int which, int32_t n0,
		     int n_rows, float (*sums)[ROWS])
{
	for (int p = 0; p < t->n; p++) {
		const float *more = cpu_lora_high(j->a, j->pair[t->first + p], which);
		for (int r = 0; more && r < n_rows; r++)
			sums[p][r] += more[n0 + r];
	}
}

/* Compute h from rows of gate g and up u, from row n0 on. */
static void activate(const struct moe_fast_job *j, const struct tile *t, int32_t n0,
		     float (*g)[ROWS], float (*u)[ROWS])
{
	const struct experts *e = j->a->experts;
	int32_t f = e->gate[t->expert].n;
	int n_rows = MIN(ROWS, f - n0);
	size_t at = (size_t)t->expert * (size_t)f + (size_t)n0;
	if (j->a->lora) {
		add_lora(j, t, MOE_LORA_GATE, n0, n_rows, g);
		add_lora(j, t, MOE_LORA_UP, n0, n_rows, u);
	}
	if (!e->gate_bias && !e->up_bias) {
		float *h = (float *)j->a->h + (size_t)t->first * (size_t)f + n0;
		for (int p = 0; p < t->n; p++, h += f)
			((struct cpu *)j->b)->isa->act_mul(&e->act, g[p], u[p],
							  (size_t)n_rows, h);
		return;
	}
	for (int r = 0; r < n_rows; r += 4) {
		int n = MIN(4, n_rows - r);
		vec4 g_bias = bias4(e->gate_bias, at + (size_t)r, n);
		vec4 u_bias = bias4(e->up_bias, at + (size_t)r, n);
		for (int p = 0; p < t->n; p++) {
			float *h = (float *)j->a->h +
				   (size_t)(t->first + p) * (size_t)f + n0 + r;
			vec4 v = act_mul4(&e->act, vec4_load(g[p] + r) + g_bias,
					   vec4_load(u[p] + r) + u_bias);
			memcpy(h, &v, sizeof(float) * (size_t)n);
		}
	}
}

static void gate_up(const struct moe_fast_job *j, const struct expert_run *run,
		    const struct cpu_tiles *x,
		    int32_t block)
{
	const struct experts *e = j->a->experts;
	const struct tile *t = &j->tiles[run->tile];
	float g[CPU_TILES][CPU_TOK][ROWS], u[CPU_TILES][CPU_TOK][ROWS];
	cpu_fast_block(j->b, j->in, &e->gate[t->expert], block, x, g);
	cpu_fast_block(j->b, j->in, &e->up[t->expert], block, x, u);
	for (int i = 0; i < run->n; i++)
		activate(j, &t[i], block * ROWS, g[i], u[i]);
}

static void run_gate_up(void *arg, int begin, int end)
{
	const struct moe_fast_job *j = arg;
	int32_t n_blocks = cpu_fast_blocks(&j->a->experts->gate[0]);
	int per_run = DIV_UP(n_blocks, j->blocks);
	for (int i = begin; i < end; i++) {
		int at = i / per_run;
		const struct expert_run *run = &j->runs[j->order ? j->order[at] : at];
		int32_t block = i % per_run * j->blocks;
		int32_t last = MIN(block + j->blocks, n_blocks);
		struct cpu_tiles x = tiles_of(j, run, j->x_tiles, j->x_bytes);
		for (; block < last; block++)
			gate_up(j, run, &x, block);
	}
}

static void add_down(const struct moe_fast_job *j, const struct tile *t, int32_t n0,
		     float (*sums)[ROWS])
{
	const struct weight *w = &j->a->experts->down[t->expert];
	const float *bias = j->a->experts->down_bias;
	size_t at = (size_t)t->expert * (size_t)w->n + (size_t)n0;
	int n_rows = MIN(ROWS, w->n - n0);
	for (int p = 0; p < t->n; p++) {
		int32_t pair = j->pair[t->first + p];
		float *y = j->a->y + (size_t)(pair / j->a->n_used) * (size_t)w->n + n0;
		vec4 factor = vec4_all(j->a->weight[pair]);
		int r = 0;
		for (; r + 4 <= n_rows; r += 4) {
			vec4 sum = vec4_load(sums[p] + r);
			if (bias)
				sum += vec4_load(bias + at + r);
			vec4_store(y + r, vec4_load(y + r) + factor * sum);
		}
		for (; r < n_rows; r++)
			y[r] += j->a->weight[pair] *
				(sums[p][r] + (bias ? bias[at + (size_t)r] : 0));
	}
}

/* Prefetch rows of y, which are far apart, while the sums are computed. Inlined, because
 * GCC treats a function that only prefetches as having no effect, and removes calls to
 * it. */
VEC4_INLINE void fetch_y(const struct moe_fast_job *j, const struct tile *t, int32_t n0)
{
	size_t n = (size_t)j->a->experts->down[t->expert].n;
	for (int p = 0; p < t->n; p++) {
		int32_t tok = j->pair[t->first + p] / j->a->n_used;
		__builtin_prefetch((float *)j->a->y + (size_t)tok * n + n0, 1, 2);
	}
}

static void down(const struct moe_fast_job *j, const struct expert_run *run,
		 const struct cpu_tiles *h,
		 int32_t block)
{
	const struct tile *t = &j->tiles[run->tile];
	float sums[CPU_TILES][CPU_TOK][ROWS];
	for (int i = 0; i < run->n; i++)
		fetch_y(j, &t[i], block * ROWS);
	cpu_fast_block(j->b, j->out, &j->a->experts->down[t->expert], block, h, sums);
	for (int i = 0; i < run->n; i++)
		add_down(j, &t[i], block * ROWS, sums[i]);
}

static void run_down(void *arg, int begin, int end)
{
	const struct moe_fast_job *j = arg;
	int32_t n_blocks = cpu_fast_blocks(&j->a->experts->down[0]);
	for (int i = begin; i < end; i++) {
		int32_t first = i * j->down_blocks;
		int32_t last = MIN(first + j->down_blocks, n_blocks);
		for (int r = j->run0; r < j->run1; r++) {
			struct cpu_tiles h = tiles_of(j, &j->runs[r], j->h_tiles,
						      j->h_bytes);
			for (int32_t block = first; block < last; block++)
				down(j, &j->runs[r], &h, block);
		}
	}
}

/* Row blocks in a unit of down. A unit goes from expert to expert. Large units read long
 * runs of each weight and, with many tokens, read the inputs fewer times (64 tokens an
 * expert: 16 blocks are 15 % faster than 4). Yet each thread should get some units. */
static int down_blocks(const struct moe_fast_job *j, int32_t n_blocks)
{
	int share = n_blocks / (4 * pool_threads(((struct cpu *)j->b)->pool));
	int most = j->n_tiles > j->n_runs ? DOWN_BLOCKS_MANY : DOWN_BLOCKS;
	return MIN(MAX(share, 1), most);
}

static int units(int32_t n_blocks, int blocks)
{
	return DIV_UP(n_blocks, blocks);
}

/* Gate and up of n runs. */
static void run_up(struct moe_fast_job *j, const int *order, int n)
{
	const struct weight *gate = &j->a->experts->gate[0];
	size_t a_run = j->n_pairs / (size_t)j->n_runs;
	profile_enter(j->b->profile, PROFILE_GATE_UP);
	j->order = order;
	cpu_for(j->b, n * units(cpu_fast_blocks(gate), j->blocks),
		2 * a_run * (size_t)(ROWS * j->blocks) * (size_t)gate->k / 8, run_gate_up, j);
}

/* Down of runs [run0, run1), whose h is complete. */
static void run_down_of(struct moe_fast_job *j, int run0, int run1)
{
	const struct weight *w = &j->a->experts->down[0];
	const struct expert_run *last = &j->runs[run1 - 1];
	size_t a_tile = j->n_pairs / (size_t)j->n_tiles;
	profile_enter(j->b->profile, PROFILE_DOWN);
	j->run0 = run0;
	j->run1 = run1;
	j->tile0 = j->runs[run0].tile;
	int n_tiles = last->tile + last->n - j->tile0;
	cpu_for(j->b, n_tiles, a_tile * (size_t)w->k / 8, prepare_hidden, j);
	size_t n_pairs = a_tile * (size_t)n_tiles;
	cpu_for(j->b, units(cpu_fast_blocks(w), j->down_blocks),
		n_pairs * (size_t)(ROWS * j->down_blocks) * (size_t)w->k / 8, run_down, j);
}

/* --- experts in slots --------------------------------------------------------------- */

static int32_t expert_of(const struct moe_fast_job *j, int run)
{
	return j->tiles[j->runs[run].tile].expert;
}

/* Compute runs [run0, run1), whose experts are held: gate and up of each expert when it has been
 * read, then down. order: scratch, twice as many. */
static enum status run_wave(struct moe_fast_job *j, const struct cpu_expert_layer *l,
			    int run0, int run1, int *order, struct fail *fail)
{
	struct expert_memory *m = cpu_experts_memory(l);
	int n_left = run1 - run0, n_now;
	int *left = order, *now = order + n_left; /* both (run1 - run0) */
	for (int i = 0; i < n_left; i++)
		left[i] = run0 + i;
	while (n_left > 0) {
		int n_later = 0;
		n_now = 0;
		for (int i = 0; i < n_left; i++) {
			int32_t e = l->first + expert_of(j, left[i]);
			if (!expert_memory_is_there(m, e)) {
				left[n_later++] = left[i];
				continue;
			}
			cpu_experts_attach(l, e);
			now[n_now++] = left[i];
		}
		n_left = n_later;
		if (n_now > 0) {
			run_up(j, now, n_now);
			continue;
		}
		profile_enter(j->b->profile, PROFILE_IO);
		enum status st = expert_memory_wait(m, l->first + expert_of(j, left[0]), fail);
		if (st != OK)
			return st;
	}
	run_down_of(j, run0, run1);
	return OK;
}

/* The experts of all runs, ascending, each once. */
static int32_t list_used(const struct moe_fast_job *j, int32_t *out)
{
	int32_t n = 0;
	for (int r = 0; r < j->n_runs; r++)
		if (n == 0 || out[n - 1] != expert_of(j, r))
			out[n++] = expert_of(j, r);
	return n;
}

/* The experts that a step uses of one layer, by their numbers in the store. */
struct waves {
	const struct cpu_expert_layer *l;
	int32_t used[MOE_ROUTER_MAX_EXPERTS], n;
	int32_t held, most; /* experts of the first wave; of any wave at most */
	struct expert_memory_stats before;
};

/* Begins the reads of the first wave, and then those of predicted experts. */
static void begin_waves(struct moe_fast_job *j, struct waves *w)
{
	struct expert_memory *m = cpu_experts_memory(w->l);
	profile_enter(j->b->profile, PROFILE_IO);
	expert_memory_stats(m, &w->before);
	w->n = list_used(j, w->used);
	w->most = MAX(expert_memory_n_slots(m) / 2, 1);
	cpu_experts_use(w->l, j->b, w->used, w->n);
	w->held = expert_memory_ask(m, w->used, w->n, w->most);
	cpu_experts_prefetch(w->l, j->b, j->a->ahead);
	profile_enter(j->b->profile, PROFILE_GATE_UP);
}

/* Runs all waves. order: scratch, (2 n_runs). */
static enum status run_waves(struct moe_fast_job *j, struct waves *w, int *order)
{
	const struct cpu_expert_layer *l = w->l;
	struct expert_memory *m = cpu_experts_memory(l);
	struct fail fail = {0};
	int32_t *used = w->used, n = w->n, at = 0, held = w->held, most = w->most, next = 0;
	enum status st = OK;
	struct expert_memory_stats after;
	profile_enter(j->b->profile, PROFILE_IO);
	for (int run0 = 0, run1 = 0; at < n && st == OK; run0 = run1) {
		next = expert_memory_ask(m, used + at + held, n - at - held, most);
		while (run1 < j->n_runs && l->first + expert_of(j, run1) <= used[at + held - 1])
			run1++;
		st = run_wave(j, l, run0, run1, order, &fail);
		profile_enter(j->b->profile, PROFILE_IO);
		expert_memory_release(m, used + at, held);
		at += held;
		held = next;
	}
	expert_memory_stats(m, &after);
	profile_bytes(j->b->profile, PROFILE_IO, (double)(after.n_bytes - w->before.n_bytes));
	if (st != OK) {
		expert_memory_release(m, used + at, held);
		snprintf(j->b->refusal, sizeof j->b->refusal, "%.199s", fail.text);
	}
	return st;
}

/* --- the operation ------------------------------------------------------------------ */

static bool take_scratch(struct moe_fast_job *j, bool is_shared, int **out_order)
{
	const struct experts *e = j->a->experts;
	size_t n_x = is_shared ? 1 : j->n_pairs;
	size_t x_bytes = cpu_fast_input_bytes(j->b, j->in, e->gate[0].k);
	j->x_bytes = is_shared ? 0 : x_bytes;
	j->h_bytes = cpu_fast_input_bytes(j->b, j->out, e->down[0].k);
	size_t n_inputs = n_x * x_bytes + j->n_pairs * j->h_bytes;
	n_inputs = (n_inputs + 63) & ~(size_t)63;
	j->x_tiles = cpu_scratch(j->b, n_inputs + 2 * (size_t)j->n_runs * sizeof(int));
	if (!j->x_tiles)
		return false;
	j->h_tiles = j->x_tiles + n_x * x_bytes;
	*out_order = (int *)(void *)(j->x_tiles + n_inputs);
	return true;
}

enum status cpu_moe_fast(struct backend *b, const struct moe_experts_args *a)
{
	const struct weight *gate = &a->experts->gate[0], *w = &a->experts->down[0];
	struct moe_fast_job j = {.b = b, .a = a, .in = cpu_way_of(b, gate),
			.out = cpu_way_of(b, w),
			.n_pairs = (size_t)a->n_tok * (size_t)a->n_used};
	struct waves waves; /* large: it is not cleared */
	int *order;
	if (j.n_pairs == 0)
		return OK;
	cut(&j);
	waves.l = cpu_experts_of(b, a->experts);
	if (waves.l)
		begin_waves(&j, &waves);
	bool is_shared = a->n_tok == 1 && (size_t)j.n_tiles == j.n_pairs;
	if (!take_scratch(&j, is_shared, &order)) {
		if (waves.l)
			expert_memory_release(cpu_experts_memory(waves.l), waves.used, waves.held);
		return E_NOMEM;
	}
	j.blocks = j.n_tiles == j.n_runs ? 1 : UNIT_BLOCKS;
	j.down_blocks = down_blocks(&j, cpu_fast_blocks(w));
	size_t a_tile = j.n_pairs / (size_t)j.n_tiles;
	cpu_for(b, is_shared ? 1 : j.n_tiles, a_tile * (size_t)gate->k / 8, prepare_inputs,
		&j);
	enum status st = waves.l ? run_waves(&j, &waves, order) : OK;
	if (!waves.l) {
		run_up(&j, NULL, j.n_runs);
		run_down_of(&j, 0, j.n_runs);
	}
	return st == OK && a->lora ? cpu_lora_down(b, a, j.pair) : st;
}
