/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/expert_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/expert_ahead.h"
#include "experts/expert_slots.h"

static const char *const names[] = {"halod", "lru", "belady"};

const char *expert_policy_name(enum expert_policy p)
{
	return names[p];
}

static bool has(const int32_t *p, size_t n, int32_t e)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == e)
			return true;
	return false;
}

void expert_trace_add(struct expert_trace *t, const int32_t *expert, size_t n,
		      bool begins_step)
{
	if (t->n_uses + n > t->cap_uses) {
		t->cap_uses = 2 * t->cap_uses + n;
		t->expert = xrealloc(t->expert, t->cap_uses * sizeof *t->expert);
	}
	if (t->n_groups == t->cap_groups) {
		t->cap_groups = 2 * t->cap_groups + 64;
		t->end = xrealloc(t->end, t->cap_groups * sizeof *t->end);
		t->begins_step = xrealloc(t->begins_step,
					  t->cap_groups * sizeof *t->begins_step);
		t->predicted_end =
			xrealloc(t->predicted_end, t->cap_groups * sizeof *t->predicted_end);
	}
	size_t first = t->n_uses;
	for (size_t i = 0; i < n; i++)
		if (!has(t->expert + first, t->n_uses - first, expert[i]))
			t->expert[t->n_uses++] = expert[i];
	t->end[t->n_groups] = t->n_uses;
	t->predicted_end[t->n_groups] = t->n_predicted;
	t->begins_step[t->n_groups++] = begins_step;
}

void expert_trace_predict(struct expert_trace *t, int32_t expert)
{
	if (t->n_predicted == t->cap_predicted) {
		t->cap_predicted = 2 * t->cap_predicted + 64;
		t->predicted = xrealloc(t->predicted, t->cap_predicted * sizeof *t->predicted);
	}
	t->predicted[t->n_predicted++] = expert;
}

void expert_trace_deinit(struct expert_trace *t)
{
	free(t->predicted);
	free(t->predicted_end);
	free(t->expert);
	free(t->end);
	free(t->begins_step);
	*t = (struct expert_trace){0};
}

static size_t group_begin(const struct expert_trace *t, size_t g)
{
	return g ? t->end[g - 1] : 0;
}

size_t expert_trace_uses(const struct expert_trace *t, size_t first_group)
{
	return t->n_groups ? t->end[t->n_groups - 1] - group_begin(t, first_group) : 0;
}

/* Replays a trace with one policy. Experts of a group that are in memory are held first, so
 * that none of them leaves for another expert of the group. */
struct sim {
	const struct expert_trace *t;
	int32_t n_slots;
	struct expert_slots *ours; /* halod's policy; NULL: the fields below decide */
	bool is_belady;
	size_t *next;    /* (n_uses) index of the next use of the same expert; n_uses: none */
	int64_t *key;    /* (n_experts) the expert with the lowest key leaves */
	int32_t *there;  /* (n_there) experts in slots */
	int32_t n_there;
	bool *is_there, *is_held; /* (n_experts) */
	bool *hit;       /* (n_uses) scratch */
};

static bool is_there(const struct sim *s, int32_t e)
{
	return s->ours ? expert_slots_find(s->ours, e) >= 0 : s->is_there[e];
}

/* Gives expert e a slot. False: all slots are held. */
static bool take_by_key(struct sim *s, int32_t e)
{
	int32_t victim = -1;
	for (int32_t i = 0; i < s->n_there && !s->is_there[e]; i++)
		if (!s->is_held[s->there[i]] &&
		    (victim < 0 || s->key[s->there[i]] < s->key[s->there[victim]]))
			victim = i;
	if (!s->is_there[e]) {
		bool is_full = s->n_there == s->n_slots;
		if (is_full && victim < 0)
			return false;
		if (is_full) {
			s->is_there[s->there[victim]] = false;
			s->there[victim] = s->there[--s->n_there];
		}
		s->there[s->n_there++] = e;
	}
	return s->is_there[e] = s->is_held[e] = true;
}

static bool take(struct sim *s, int32_t e)
{
	struct expert_take out;
	return s->ours ? expert_slots_take(s->ours, e, &out) : take_by_key(s, e);
}

static void release_all(struct sim *s, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		int32_t e = s->t->expert[i];
		if (s->ours)
			expert_slots_release(s->ours, e);
		else
			s->is_held[e] = false;
	}
}

static void note_use(struct sim *s, size_t i)
{
	int32_t e = s->t->expert[i];
	if (s->ours)
		expert_slots_use(s->ours, e);
	else
		s->key[e] = s->is_belady ? -(int64_t)s->next[i] : (int64_t)i;
}

/* Returns the hits of one group; hit: (n_uses) scratch. */
static size_t replay_group(struct sim *s, size_t g, bool *hit)
{
	const struct expert_trace *t = s->t;
	size_t begin = group_begin(t, g), end = t->end[g], n_hits = 0;
	if (s->ours && t->begins_step[g])
		expert_slots_step(s->ours);
	for (size_t i = begin; i < end; i++)
		note_use(s, i);
	for (size_t i = begin; i < end; i++) {
		hit[i] = is_there(s, t->expert[i]) && take(s, t->expert[i]);
		n_hits += hit[i];
	}
	for (size_t i = begin; i < end; i++) {
		if (hit[i] || take(s, t->expert[i]))
			continue;
		release_all(s, begin, end); /* the slots are full of held experts: the group
					     * continues in a new part */
		hit[i] = take(s, t->expert[i]);
	}
	release_all(s, begin, end);
	return n_hits;
}

static size_t *next_uses(const struct expert_trace *t)
{
	size_t *next = xcalloc(t->n_uses + 1, sizeof *next);
	size_t *seen = xcalloc((size_t)t->n_experts, sizeof *seen);
	for (int32_t e = 0; e < t->n_experts; e++)
		seen[e] = t->n_uses;
	for (size_t i = t->n_uses; i-- > 0;) {
		next[i] = seen[t->expert[i]];
		seen[t->expert[i]] = i;
	}
	free(seen);
	return next;
}

static void sim_init(struct sim *s, const struct expert_trace *t, enum expert_policy p,
		     int32_t n_slots)
{
	size_t n = (size_t)t->n_experts;
	*s = (struct sim){.t = t, .n_slots = n_slots, .is_belady = p == EXPERT_POLICY_BELADY};
	if (p == EXPERT_POLICY_OURS)
		s->ours = expert_slots_create(t->n_experts, n_slots, NULL);
	s->next = next_uses(t);
	s->there = xcalloc((size_t)n_slots, sizeof *s->there);
	s->key = xcalloc(n, sizeof *s->key);
	s->is_there = xcalloc(n, sizeof *s->is_there);
	s->is_held = xcalloc(n, sizeof *s->is_held);
	s->hit = xcalloc(t->n_uses + 1, sizeof *s->hit);
}

static void sim_deinit(struct sim *s)
{
	expert_slots_destroy(s->ours);
	free(s->next);
	free(s->there);
	free(s->key);
	free(s->is_there);
	free(s->is_held);
	free(s->hit);
}

size_t expert_sim_hits(const struct expert_trace *t, enum expert_policy p, int32_t n_slots,
		       size_t first_group)
{
	struct sim s;
	size_t n_hits = 0;
	sim_init(&s, t, p, n_slots);
	for (size_t g = 0; g < t->n_groups; g++) {
		size_t n_group = replay_group(&s, g, s.hit);
		n_hits += g >= first_group ? n_group : 0;
	}
	sim_deinit(&s);
	return n_hits;
}

/* --- reading ahead ------------------------------------------------------------------ */

/* Predictions of group g, at most 64: experts that are not in memory. The first n_read are read. */
struct sim_prediction {
	int32_t e[64];
	int n, n_read;
};

static void predict_group(struct sim *s, const struct expert_ahead *policy, size_t g,
			  struct sim_prediction *out)
{
	const struct expert_trace *t = s->t;
	struct expert_take take;
	*out = (struct sim_prediction){.n = 0};
	for (size_t i = g ? t->predicted_end[g - 1] : 0; i < t->predicted_end[g]; i++)
		if (!is_there(s, t->predicted[i]) && out->n < (int)ARRAY_LEN(out->e) &&
		    !has(out->e, (size_t)out->n, t->predicted[i]))
			out->e[out->n++] = t->predicted[i];
	int most = expert_ahead_pays(policy) ? MIN(out->n, s->n_slots / 4) : 0;
	while (out->n_read < most && expert_slots_take(s->ours, out->e[out->n_read], &take))
		out->n_read++;
	for (int i = 0; i < out->n_read; i++)
		expert_slots_release(s->ours, out->e[i]);
}

static int count_right(const struct sim *s, size_t g, const int32_t *predicted, int n)
{
	size_t begin = group_begin(s->t, g);
	int n_right = 0;
	for (int i = 0; i < n; i++)
		n_right += has(s->t->expert + begin, s->t->end[g] - begin, predicted[i]);
	return n_right;
}

size_t expert_sim_ahead(const struct expert_trace *t, int32_t n_slots, size_t first_group,
			double busy, size_t *out_reads)
{
	struct sim s;
	struct expert_ahead policy = {0};
	struct sim_prediction next;
	size_t n_hits = 0, step_uses = 0;
	double wait = 0;
	sim_init(&s, t, EXPERT_POLICY_OURS, n_slots);
	*out_reads = 0;
	for (size_t g = 0; g < t->n_groups; g++) {
		if (t->begins_step[g]) {
			expert_ahead_step(&policy, wait, (int64_t)step_uses);
			wait = 0;
			step_uses = 0;
		}
		predict_group(&s, &policy, g, &next);
		size_t n = t->end[g] - group_begin(t, g), n_group = replay_group(&s, g, s.hit);
		expert_ahead_count(&policy, next.n, count_right(&s, g, next.e, next.n));
		int n_wrong = next.n_read - count_right(&s, g, next.e, next.n_read);
		wait += (double)(n - n_group) + busy * n_wrong;
		step_uses += n;
		if (g < first_group)
			continue;
		n_hits += n_group;
		*out_reads += n - n_group + (size_t)next.n_read;
	}
	sim_deinit(&s);
	return n_hits;
}
