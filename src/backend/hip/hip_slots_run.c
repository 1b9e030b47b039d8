/* SPDX-License-Identifier: Apache-2.0
 *
 * moe_experts with experts in slots. The router's choice is copied to the host. Experts that are
 * in slots are computed first, and each other one when it has been read.
 *
 * Few tokens: gate and up of a pair need its own expert only, and down needs all of its
 * token. So up is launched in parts, and down once. Tokens whose experts do not fit the
 * slots together run in groups; the kernels give a token the same bits in any group.
 *
 * Many tokens: the host sorts the pairs by expert, as moe_align does, but lists only experts that
 * are in slots. up and down run for one such list after another. Each expert is read once for all
 * tokens of a batch.
 *
 * Launches are queued, so a slot may be released as soon as its kernels are launched: the next
 * copy to the slot comes later in the stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_slots.h"
#include "base/alloc.h"
#include "kernels/linear/tile_gemm_host.h"

/* Memory that grows to what a step needs, and is kept. */
struct hip_slots_scratch {
	int32_t *p;
	size_t n;
};

struct slots_step {
	struct hip *h;
	const struct moe_experts_args *a;
	const struct hip_experts_way *way;
	const struct hip_slots_layer *layer;
	struct expert_memory *memory;
	struct fail fail;
	/* On the host; numbers of experts are the layer's in id, the store's in used. */
	int32_t *id, *predicted; /* (T, U) */
	int32_t n_predicted;  /* 0: nothing is predicted */
	int32_t *used;    /* (E) */
	int32_t *mark;    /* (E + 1) zeros between uses */
	int32_t *end;     /* (E + 2) end of each expert's pairs in `sorted` */
	int32_t *sorted;  /* (T n_slots) pairs by expert */
	int32_t *pairs;   /* blocks, as in moe_tile_launch */
	int32_t *block_expert;
};

/* Takes arrays from one piece of scratch. There are as many blocks as moe_experts_work
 * has room for. */
static void take_scratch(struct slots_step *s, int32_t n_slots)
{
	struct hip_slots *all = s->layer->of;
	size_t n_e = (size_t)s->layer->experts->n + 2, n_tok = (size_t)s->a->n_tok;
	size_t n_id = n_tok * (size_t)s->a->n_used, n_pairs = n_tok * (size_t)n_slots;
	size_t blocks = s->way->is_tile ? n_pairs + n_e * 64 : 0;
	size_t n = 2 * n_id + 3 * n_e + n_pairs + 2 * blocks;
	if (!all->scratch)
		all->scratch = xcalloc(1, sizeof *all->scratch);
	if (all->scratch->n < n) {
		all->scratch->p = xrealloc(all->scratch->p, n * sizeof(int32_t));
		all->scratch->n = n;
	}
	s->id = all->scratch->p;
	s->predicted = s->id + n_id;
	s->used = s->predicted + n_id;
	s->mark = s->used + n_e;
	s->end = s->mark + n_e;
	s->sorted = s->end + n_e;
	s->pairs = s->sorted + n_pairs;
	s->block_expert = s->pairs + blocks;
	memset(s->mark, 0, n_e * sizeof *s->mark);
}

void hip_slots_scratch_free(struct hip_slots *s)
{
	if (s->scratch)
		free(s->scratch->p);
	free(s->scratch);
}

/* Lists the experts of tokens [t0, t1), ascending, each once, by their numbers in the layer. */
static int32_t list_used(struct slots_step *s, int32_t t0, int32_t t1, int32_t *out)
{
	int32_t n = 0, n_used = s->a->n_used;
	for (int32_t i = t0 * n_used; i < t1 * n_used; i++)
		s->mark[s->id[i]] = 1;
	for (int32_t e = 0; e < s->layer->experts->n; e++) {
		if (s->mark[e])
			out[n++] = e;
		s->mark[e] = 0;
	}
	return n;
}

/* Lists in s->used the experts that tokens [t0, t1) chose, by their numbers in the store. Those
 * in slots come first; returns how many these are. *out_n: number of all. */
static int32_t list_wanted(struct slots_step *s, int32_t t0, int32_t t1, int32_t *out_n)
{
	int32_t n = *out_n = list_used(s, t0, t1, s->used), n_there = 0;
	for (int32_t i = 0; i < n; i++)
		s->used[i] += s->layer->first;
	for (int32_t i = 0; i < n; i++) {
		int32_t e = s->used[i];
		if (!expert_memory_has(s->memory, e))
			continue;
		memmove(s->used + n_there + 1, s->used + n_there,
			(size_t)(i - n_there) * sizeof *s->used);
		s->used[n_there++] = e;
	}
	return n_there;
}

/* Copies the choice to the host and, if it is wanted, the prediction of the next layer's choice. */
static enum status fetch_choice(struct slots_step *s)
{
	struct backend *b = &s->h->base;
	const struct moe_ahead *ahead = s->a->ahead;
	size_t n = (size_t)s->a->n_tok * (size_t)s->a->n_used;
	bool is_wanted = ahead && expert_memory_wants(s->memory);
	enum status st = hip_download(b, s->id, s->a->id, n * sizeof *s->id);
	if (st == OK && is_wanted)
		st = hip_moe_router(b, &ahead->router);
	if (st == OK && is_wanted)
		st = hip_download(b, s->predicted, ahead->router.id, n * sizeof *s->predicted);
	if (st == OK)
		st = hip_sync(b, &s->fail);
	const struct hip_experts *next = is_wanted ? ahead->experts->device : NULL;
	s->n_predicted = next ? (int32_t)n : 0;
	for (int32_t i = 0; i < s->n_predicted; i++)
		s->predicted[i] += next->slots->first;
	return st;
}

/* Begins the predicted reads, once those of this layer's experts have begun. */
static void prefetch(struct slots_step *s)
{
	if (s->n_predicted)
		expert_memory_prefetch(s->memory, s->predicted, s->n_predicted);
	s->n_predicted = 0;
}

/* --- few tokens --------------------------------------------------------------------- */

/* Gate and up of the pairs of tokens [t0, t1) whose experts are marked: runs of neighbours
 * in a token are one launch. */
static enum status up_marked(struct slots_step *s, struct moe_launch l, int32_t t0,
			     int32_t t1)
{
	enum status st = OK;
	int32_t n_used = s->a->n_used;
	for (int32_t t = t0; t < t1 && st == OK; t++) {
		const int32_t *id = s->id + t * n_used;
		for (int32_t u = 0, n; u < n_used && st == OK; u += n + 1) {
			for (n = 0; u + n < n_used && s->mark[id[u + n]]; n++)
				;
			if (n == 0)
				continue;
			struct moe_launch part = l;
			size_t pair = (size_t)(t - t0) * (size_t)n_used + (size_t)u;
			part.id += pair;
			part.h += pair * (size_t)l.ffn;
			if (l.of_pairs) {
				part.gate_bias += pair * (size_t)l.ffn;
				part.up_bias += pair * (size_t)l.ffn;
			}
			part.x += (size_t)(t - t0) * (size_t)l.dim;
			part.n_tok = 1;
			part.n_used = part.n_slots = n;
			part.shared_router.q = NULL;
			st = hip_experts_up(s->h, s->way, part);
		}
	}
	return st;
}

/* Gate and up of the shared expert, which has the slot after the others. */
static enum status up_shared(struct slots_step *s, struct moe_launch l)
{
	if (l.n_slots == l.n_used)
		return OK;
	l.id = NULL;
	l.n_used = 0;
	l.n_slots = 1;
	return hip_experts_up(s->h, s->way, l);
}

/* Gate and up of n wanted experts. The first n_there are in slots; the others follow one by one
 * when they have been read. *held: how many are held, also after a failure. */
static enum status up_as_they_come(struct slots_step *s, const struct moe_launch *l,
				   int32_t t0, int32_t n_there, int32_t n, int32_t *held)
{
	int32_t first = s->layer->first, t1 = t0 + l->n_tok;
	enum status st = OK;
	*held = expert_memory_ask(s->memory, s->used, n, n);
	prefetch(s);
	for (int32_t i = 0; i < n_there && st == OK; i++) {
		st = expert_memory_wait(s->memory, s->used[i], &s->fail);
		s->mark[s->used[i] - first] = 1;
	}
	if (st == OK && n_there == n)
		st = hip_experts_up(s->h, s->way, *l);
	else if (st == OK)
		st = up_shared(s, *l);
	if (st == OK && n_there < n)
		st = up_marked(s, *l, t0, t1);
	for (int32_t i = 0; i < n_there; i++)
		s->mark[s->used[i] - first] = 0;
	for (int32_t i = n_there; i < n && st == OK; i++) {
		if (i == *held)
			*held += expert_memory_ask(s->memory, s->used + i, n - i, n);
		profile_enter(s->h->base.profile, PROFILE_IO);
		st = expert_memory_wait(s->memory, s->used[i], &s->fail);
		s->mark[s->used[i] - first] = 1;
		if (st == OK)
			st = up_marked(s, *l, t0, t1);
		s->mark[s->used[i] - first] = 0;
	}
	return st;
}

/* Compute tokens [t0, t0 + l.n_tok), whose experts all fit into the slots. */
static enum status run_group(struct slots_step *s, const struct moe_launch *l, int32_t t0)
{
	int32_t n, held = 0, n_there = list_wanted(s, t0, t0 + l->n_tok, &n);
	enum status st = up_as_they_come(s, l, t0, n_there, n, &held);
	if (st == OK)
		st = hip_experts_down(s->h, s->way, *l);
	expert_memory_release(s->memory, s->used, held);
	return st;
}

/* How many tokens from t0 on have experts that all fit into the slots; at least 1. */
static int32_t count_group(struct slots_step *s, int32_t t0, int32_t most)
{
	int32_t n = 0, n_tok = 0, room = expert_memory_n_slots(s->memory);
	int32_t n_used = s->a->n_used;
	for (; t0 + n_tok < s->a->n_tok && n_tok < most; n_tok++) {
		for (int32_t u = 0; u < n_used; u++) {
			int32_t *mark = &s->mark[s->id[(t0 + n_tok) * n_used + u]];
			n += *mark == 0;
			*mark = 1;
		}
		if (n > room && n_tok > 0)
			break;
	}
	memset(s->mark, 0, (size_t)s->layer->experts->n * sizeof *s->mark);
	return n_tok;
}

static enum status run_groups(struct slots_step *s, struct moe_launch l)
{
	enum status st = OK;
	for (int32_t t = 0; t < s->a->n_tok && st == OK; t += l.n_tok) {
		l.n_tok = count_group(s, t, HIP_MAX_GRID_Y / l.n_slots);
		st = run_group(s, &l, t);
		hip_experts_step(&l);
	}
	return st;
}

/* --- many tokens -------------------------------------------------------------------- */

/* Sorts the pairs of a batch by expert, the shared one last. A pair is t * n_slots + slot. */
static void sort_pairs(struct slots_step *s, const struct moe_launch *l, const int32_t *id)
{
	int32_t n_e = s->layer->experts->n + 1, n_slots = l->n_slots;
	memset(s->end, 0, ((size_t)n_e + 1) * sizeof *s->end);
	for (int32_t p = 0; p < l->n_tok * n_slots; p++) {
		int32_t u = p % n_slots;
		s->end[(u < l->n_used ? id[p / n_slots * l->n_used + u] : n_e - 1) + 1]++;
	}
	for (int32_t e = 0; e < n_e; e++)
		s->end[e + 1] += s->end[e];
	for (int32_t p = 0; p < l->n_tok * n_slots; p++) {
		int32_t u = p % n_slots;
		int32_t e = u < l->n_used ? id[p / n_slots * l->n_used + u] : n_e - 1;
		s->sorted[s->end[e]++] = p; /* afterwards end[e] is the end of e's pairs */
	}
}

/* Append the blocks of expert e to the list, which has n_blocks. */
static int32_t add_blocks(struct slots_step *s, int32_t block_m, int32_t e, int32_t n_blocks)
{
	int32_t first = e ? s->end[e - 1] : 0, n = s->end[e] - first;
	for (int32_t i = 0; i < n; i += block_m, n_blocks++) {
		s->block_expert[n_blocks] = e;
		for (int32_t j = 0; j < block_m; j++)
			s->pairs[n_blocks * block_m + j] =
				i + j < n ? s->sorted[first + i + j] : -1;
	}
	return n_blocks;
}

static enum status run_blocks(struct slots_step *s, const struct hip_experts_tiles *t,
			      int32_t n_blocks)
{
	struct hip_experts_tiles part = *t;
	struct backend *b = &s->h->base;
	size_t n = (size_t)n_blocks;
	if (n == 0)
		return OK;
	enum status st = hip_upload(b, t->l.pairs, s->pairs,
				    n * (size_t)t->l.block_m * sizeof *s->pairs);
	if (st == OK)
		st = hip_upload(b, t->l.block_expert, s->block_expert,
				n * sizeof *s->block_expert);
	part.l.max_blocks = n_blocks;
	return st == OK ? hip_experts_blocks(s->h, &part) : st;
}

/* Moves those of the held experts used[0 .. n) that have been read to the front. If there is
 * none, it waits for one. */
static enum status next_ones(struct slots_step *s, int32_t *used, int32_t n, int32_t *out_n)
{
	int32_t n_now = 0;
	for (int32_t i = 0; i < n; i++) {
		int32_t e = used[i];
		if (!expert_memory_is_there(s->memory, e))
			continue;
		used[i] = used[n_now];
		used[n_now++] = e;
	}
	*out_n = MAX(n_now, 1);
	profile_enter(s->h->base.profile, PROFILE_IO);
	enum status st = OK;
	for (int32_t i = 0; i < *out_n && st == OK; i++)
		st = expert_memory_wait(s->memory, used[i], &s->fail);
	return st;
}

/* A hip_experts_batch_fn. */
static enum status run_batch(void *ctx, const struct hip_experts_tiles *t)
{
	struct slots_step *s = ctx;
	const struct moe_launch *l = &t->l.m;
	int32_t t0 = (int32_t)((l->id - s->a->id) / l->n_used), n, at = 0, held = 0;
	bool is_shared_left = l->n_slots > l->n_used;
	enum status st = OK;
	sort_pairs(s, l, s->id + t0 * l->n_used);
	list_wanted(s, t0, t0 + l->n_tok, &n);
	while (at < n && st == OK) {
		int32_t now = 0, n_blocks = 0;
		held += expert_memory_ask(s->memory, s->used + held, n - held, n);
		prefetch(s);
		st = next_ones(s, s->used + at, held - at, &now);
		for (int32_t i = 0; i < now && st == OK; i++)
			n_blocks = add_blocks(s, t->l.block_m,
					      s->used[at + i] - s->layer->first, n_blocks);
		if (is_shared_left)
			n_blocks = add_blocks(s, t->l.block_m, s->layer->experts->n, n_blocks);
		is_shared_left = false;
		if (st == OK)
			st = run_blocks(s, t, n_blocks);
		if (st != OK)
			break;
		expert_memory_release(s->memory, s->used + at, now);
		at += now;
	}
	expert_memory_release(s->memory, s->used + at, held - at);
	return st;
}

/* --- the operation ------------------------------------------------------------------ */

enum status hip_slots_run(struct hip *h, const struct moe_experts_args *a,
			  const struct hip_experts_way *way, struct moe_launch l)
{
	const struct hip_experts *x = a->experts->device;
	struct slots_step s = {.h = h, .a = a, .way = way, .layer = x->slots,
			       .memory = x->slots->of->all.memory};
	struct expert_memory_stats before, after;
	profile_enter(h->base.profile, PROFILE_IO);
	take_scratch(&s, l.n_slots);
	enum status st = fetch_choice(&s);
	if (st != OK)
		return st;
	expert_memory_stats(s.memory, &before);
	int32_t n = list_used(&s, 0, a->n_tok, s.used);
	backend_experts_use(&x->slots->of->all, x->slots->i, h->n_begun, s.used, n);
	st = way->is_tile ? hip_experts_batches(h, a, way->legs, l, run_batch, &s)
			  : run_groups(&s, l);
	expert_memory_stats(s.memory, &after);
	profile_bytes(h->base.profile, PROFILE_IO, (double)(after.n_bytes - before.n_bytes));
	if (st == E_IO)
		snprintf(h->base.refusal, sizeof h->base.refusal, "%.199s", s.fail.text);
	return st;
}
