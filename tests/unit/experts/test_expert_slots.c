/* SPDX-License-Identifier: Apache-2.0
 *
 * Which experts stay, and how that compares with LRU and with Belady's optimum.
 */
#include "experts/expert_slots.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "tests/bench/expert_sim.h"
#include "tests/tap.h"

static struct expert_take take(struct expert_slots *s, int32_t e)
{
	struct expert_take t;
	expert_slots_use(s, e);
	if (!expert_slots_take(s, e, &t))
		t.slot = -2;
	return t;
}

static void test_holds(void)
{
	struct expert_slots *s = expert_slots_create(8, 2, NULL);
	struct expert_take t;
	expert_slots_step(s);
	ok(!take(s, 3).is_hit && take(s, 3).is_hit, "what was taken is there");
	is_int(take(s, 5).left, -1, "an empty slot drives nobody out");
	ok(!expert_slots_take(s, 6, &t), "of held experts none leaves");
	is_int(expert_slots_find(s, 6), -1, "and the other has no slot");
	expert_slots_release(s, 5);
	t = take(s, 6);
	is_int(t.left, 5, "the one that nobody holds leaves, though it scores as much");
	is_int(expert_slots_find(s, 5), -1, "and is gone");
	is_int(expert_slots_find(s, 3), 0, "the held one stays");
	expert_slots_drop(s, 6);
	is_int(expert_slots_find(s, 6), -1, "dropped contents are gone");
	is_int(take(s, 7).left, -1, "and their slot is empty");
	expert_slots_destroy(s);
}

static void test_scores(void)
{
	struct expert_slots *s = expert_slots_create(4, 2, NULL);
	float scores[4];
	int32_t best[2];
	for (int i = 0; i < 3; i++) {
		take(s, 0);
		expert_slots_release(s, 0);
	}
	take(s, 1);
	expert_slots_release(s, 1);
	is_int(take(s, 2).left, 1, "of two the less used one leaves, not the older one");
	expert_slots_release(s, 2);
	for (int i = 0; i < 4 * EXPERT_HALF_LIFE; i++)
		expert_slots_step(s);
	take(s, 1);
	expert_slots_release(s, 1);
	is_int(expert_slots_find(s, 2), -1, "one use long ago counts less than three");
	is_int(take(s, 3).left, 0, "but three long ago less than one now");
	expert_slots_release(s, 3);
	expert_slots_scores(s, scores);
	is_near(scores[0], 3.0 / 16, 1e-6, "a use counts half after a half-life");
	is_int(expert_slots_best(s, best), 2, "the best fill the slots");
	is_int(best[0], 1, "best first");
	/* the unit is scaled down many times: the order stays */
	for (int i = 0; i < 100 * EXPERT_HALF_LIFE; i++)
		expert_slots_step(s);
	take(s, 2);
	expert_slots_scores(s, scores);
	ok(scores[2] >= 1 && scores[2] < 1.001 && scores[0] < 1e-20,
	   "after a hundred half-lives only the new use counts");
	expert_slots_destroy(s);
	float bad[4] = {NAN, -1, INFINITY, 0.5f};
	s = expert_slots_create(4, 4, bad);
	is_int(expert_slots_best(s, best), 1, "scores that are no numbers count nothing");
	is_int(best[0], 3, "the others do");
	expert_slots_destroy(s);
}

static void test_belady_by_hand(void)
{
	/* With two slots, 0 1 2 0 1 2: Belady keeps 0 when 2 comes (1 is used later), then
	 * hits 0, misses 1 (2 leaves or 0), and hits one of the last two: 2 of 6. */
	const int32_t uses[] = {0, 1, 2, 0, 1, 2};
	struct expert_trace t = {.n_experts = 3};
	for (int i = 0; i < 6; i++)
		expert_trace_add(&t, &uses[i], 1, true);
	is_int(expert_sim_hits(&t, EXPERT_POLICY_BELADY, 2, 0), 2, "Belady: 2 of 6");
	is_int(expert_sim_hits(&t, EXPERT_POLICY_LRU, 2, 0), 0, "LRU: none");
	is_int(expert_sim_hits(&t, EXPERT_POLICY_LRU, 3, 0), 3, "LRU with room: 3");
	is_int(expert_sim_hits(&t, EXPERT_POLICY_LRU, 3, 3), 3, "of the last three");
	is_int(expert_trace_uses(&t, 3), 3, "which are three uses");
	expert_trace_deinit(&t);
	/* A group of three through two slots, twice: the parts pass. */
	const int32_t group[] = {2, 0, 1, 0};
	t = (struct expert_trace){.n_experts = 3};
	expert_trace_add(&t, group, 4, true);
	expert_trace_add(&t, group, 4, true);
	is_int(t.n_uses, 6, "an expert is in a group once");
	for (int p = 0; p < EXPERT_POLICY_COUNT; p++)
		is_int(expert_sim_hits(&t, (enum expert_policy)p, 2, 1), 2,
		       "%s: a group larger than the slots finds what is there",
		       expert_policy_name((enum expert_policy)p));
	expert_trace_deinit(&t);
}

/* Eight layers of one expert each, with room for four: three of four predictions are right. */
static void test_ahead(void)
{
	struct expert_trace t = {.n_experts = 8};
	size_t n_reads;
	for (int32_t i = 0; i < 1600; i++) {
		int32_t e = i % 8;
		if (i % 8)
			expert_trace_predict(&t, i % 4 == 1 ? (e + 3) % 8 : e);
		expert_trace_add(&t, &e, 1, i % 8 == 0);
	}
	size_t plain = expert_sim_hits(&t, EXPERT_POLICY_OURS, 4, 800);
	size_t hits = expert_sim_ahead(&t, 4, 800, 0, &n_reads);
	ok(hits > plain + 150, "right predictions save waits: %zu hits, without %zu", hits, plain);
	ok(n_reads > 800 - plain, "at the price of wrong reads: %zu, without %zu", n_reads,
	   800 - plain);
	size_t cautious = expert_sim_ahead(&t, 4, 800, 10, &n_reads);
	ok(cautious < hits && cautious >= plain, "where these cost much they are left: %zu",
	   cautious);
	expert_trace_deinit(&t);
	t = (struct expert_trace){.n_experts = 8};
	for (int32_t i = 0; i < 1600; i++) {
		int32_t e = i % 8;
		expert_trace_predict(&t, (e + 4) % 8);
		expert_trace_add(&t, &e, 1, i % 8 == 0);
	}
	plain = expert_sim_hits(&t, EXPERT_POLICY_OURS, 4, 800);
	hits = expert_sim_ahead(&t, 4, 800, 0, &n_reads);
	is_int(hits, plain, "wrong predictions are not read");
	is_int(n_reads, 800 - plain, "so nothing more is");
	expert_trace_deinit(&t);
}

static double unit(uint64_t *seed)
{
	*seed += 0x9E3779B97F4A7C15u;
	return (double)(hash_bytes(0, seed, sizeof *seed) >> 11) * 0x1p-53;
}

/* Layers in turn, each choosing 2 of 16 with the weights 1 / rank: Zipf's law. */
static void make_zipf(struct expert_trace *t, int n_steps)
{
	enum { LAYERS = 6, E = 16, USED = 2 };
	uint64_t seed = 7;
	t->n_experts = LAYERS * E;
	double sum = 0;
	for (int e = 1; e <= E; e++)
		sum += 1.0 / e;
	for (int i = 0; i < n_steps * LAYERS; i++) {
		int32_t ids[USED];
		for (int u = 0; u < USED; u++) {
			double x = unit(&seed) * sum;
			int e = 0;
			while (e + 1 < E && (x -= 1.0 / (e + 1)) > 0)
				e++;
			ids[u] = i % LAYERS * E + e;
		}
		expert_trace_add(t, ids, USED, i % LAYERS == 0);
	}
}

static void test_zipf(void)
{
	struct expert_trace t = {0};
	make_zipf(&t, 400);
	size_t before = 0;
	for (int share = 10; share <= 100; share += 15) {
		int32_t slots = t.n_experts * share / 100;
		size_t ours = expert_sim_hits(&t, EXPERT_POLICY_OURS, slots, 0);
		size_t lru = expert_sim_hits(&t, EXPERT_POLICY_LRU, slots, 0);
		size_t best = expert_sim_hits(&t, EXPERT_POLICY_BELADY, slots, 0);
		ok(ours <= best && lru <= best, "%d %%: nobody beats Belady", share);
		ok(ours >= lru, "%d %%: %zu hits, LRU %zu, Belady %zu", share, ours, lru,
		   best);
		ok(ours >= before, "%d %%: more room, no fewer hits", share);
		before = ours;
	}
	is_int(expert_sim_hits(&t, EXPERT_POLICY_OURS, t.n_experts, 0), before,
	       "with room for all, only first uses miss");
	expert_trace_deinit(&t);
}

int main(void)
{
	test_holds();
	test_scores();
	test_belady_by_hand();
	test_ahead();
	test_zipf();
	return tap_done();
}
