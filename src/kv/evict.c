/* SPDX-License-Identifier: Apache-2.0
 *
 *   worth = cost / bytes / (age + YOUNG)
 *
 * The chance that an item is asked for again falls about as 1 / age, as with most things that
 * people and agents come back to. So worth is the expected saving for each byte. An age below
 * YOUNG says nothing: an agent's turn takes that long.
 */
#include "kv/evict.h"

#include "base/alloc.h"

#define YOUNG 60.0    /* seconds */
#define DEEP  16384.0 /* after so many tokens attention costs as much as the weights */

/* Without this state a prompt resumes at the state before it, and states lie about a quarter
 * of the prompt apart (engine_seq.c). So a state saves computing that quarter, with or
 * without pages beside it. */
static int32_t computed_from(const struct evict_item *x)
{
	return x->state_tok ? MIN(x->first_tok, x->state_tok - x->state_tok / 4)
			    : x->first_tok;
}

/* What it costs to compute the item's tokens again, counted in tokens at a prompt's beginning. */
static double computing_cost(const struct evict_item *x)
{
	double first = computed_from(x), n = x->n_tok - first, middle = first + n / 2;
	return n * (1 + middle / DEEP);
}

static double worth(const struct evict_item *x, int64_t now_s)
{
	double age = now_s > x->used_s ? (double)(now_s - x->used_s) : 0;
	return computing_cost(x) / (double)(x->bytes > 0 ? x->bytes : 1) / (age + YOUNG);
}

int evict_choose(const struct evict_item *items, int n, int64_t now_s)
{
	int best = -1;
	for (int i = 0; i < n; i++) {
		const struct evict_item *x = &items[i], *b = best < 0 ? 0 : &items[best];
		bool is_less = b && worth(x, now_s) < worth(b, now_s);
		if (!b || (x->is_needed == b->is_needed ? is_less : b->is_needed))
			best = i;
	}
	return best;
}
