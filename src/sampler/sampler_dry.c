/* SPDX-License-Identifier: Apache-2.0
 *
 * DRY, "don't repeat yourself", as in llama.cpp. If the last L tokens occur earlier in the
 * text, the token that followed them there would repeat it. Its logit is lowered by
 *
 *   multiplier * base ^ (L - allowed_length)        for L >= allowed_length
 *
 * L is the length of the longest such match for that token. A match never reaches across a
 * breaker. All matches are found in one pass by Z values of the text read backwards: z[i]
 * is how many tokens from token i on equal those from the newest on.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sampler/sampler_private.h"

bool sampler_has_dry(const struct sampler_params *p)
{
	return p->dry.multiplier != 0 && p->dry.base >= 1 && p->dry.last_n != 0;
}

void sampler_dry_push(struct sampler *s, const int32_t *ids, size_t n)
{
	struct dry_state *d = &s->dry;
	if (!n || !sampler_has_dry(&s->p))
		return;
	if (d->n + n > d->cap) {
		d->cap = MAX(2 * d->cap, d->n + n + 256);
		d->ids = xrealloc(d->ids, d->cap * sizeof *d->ids);
		d->z = xrealloc(d->z, d->cap * sizeof *d->z);
	}
	memcpy(d->ids + d->n, ids, n * sizeof *ids);
	d->n += n;
}

void sampler_dry_deinit(struct sampler *s)
{
	free(s->dry.ids);
	free(s->dry.z);
	free(s->dry.hits);
}

/* The token i places before the newest. */
static int32_t back(const struct dry_state *d, int32_t i)
{
	return d->ids[d->n - 1 - (size_t)i];
}

/* How many tokens the longest breaker that begins with token i has behind it; -1: no
 * breaker begins there. */
static int32_t breaker_at(const struct sampler *s, int32_t i)
{
	const struct sampler_dry *p = &s->p.dry;
	int32_t longest = -1;
	int lo = 0, hi = p->n_breakers;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (p->breakers[mid].head < back(&s->dry, i))
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < p->n_breakers && p->breakers[lo].head == back(&s->dry, i); lo++) {
		const struct sampler_breaker *b = &p->breakers[lo];
		bool is_here = b->n_tail <= i;
		for (int32_t k = 0; k < b->n_tail && is_here; k++)
			is_here = b->tail[k] == back(&s->dry, i - 1 - k);
		if (is_here)
			longest = MAX(longest, b->n_tail);
	}
	return longest;
}

/* The maximal length of a match: it ends at the newest breaker. */
static int32_t match_limit(const struct sampler *s, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		int32_t n_tail = breaker_at(s, i);
		if (n_tail >= 0)
			return i - n_tail;
	}
	return n;
}

static void find_matches(struct dry_state *d, int32_t n)
{
	int32_t from = 0, to = 0; /* the match that reaches furthest back: tokens from..to */
	for (int32_t i = 1; i < n; i++) {
		int32_t z = i < to ? MIN(d->z[i - from], to - i) : 0;
		while (i + z < n && back(d, z) == back(d, i + z))
			z++;
		d->z[i] = z;
		if (i + z > to) {
			from = i;
			to = i + z;
		}
	}
}

static int by_id_and_length(const void *a, const void *b)
{
	const struct dry_hit *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->length < y->length) - (x->length > y->length);
}

static void add_hit(struct dry_state *d, int32_t id, int32_t length)
{
	if (d->n_hits == d->cap_hits) {
		d->cap_hits = d->cap_hits ? 2 * d->cap_hits : 64;
		d->hits = xrealloc(d->hits, d->cap_hits * sizeof *d->hits);
	}
	d->hits[d->n_hits++] = (struct dry_hit){id, length};
}

void sampler_dry_apply(struct sampler *s, float *x)
{
	const struct sampler_dry *p = &s->p.dry;
	struct dry_state *d = &s->dry;
	int64_t window = p->last_n < 0 ? INT32_MAX : p->last_n;
	int32_t n = (int32_t)MIN((int64_t)d->n, window);
	if (n <= p->allowed_length)
		return;
	int32_t limit = match_limit(s, n);
	if (limit < p->allowed_length)
		return;
	find_matches(d, n);
	d->n_hits = 0;
	for (int32_t i = 1; i < n; i++) {
		int32_t length = MIN(d->z[i], limit);
		if (length >= p->allowed_length && sampler_in_range(s, back(d, i - 1)))
			add_hit(d, back(d, i - 1), length);
	}
	if (d->n_hits > 1)
		qsort(d->hits, d->n_hits, sizeof *d->hits, by_id_and_length);
	/* A larger exponent overflows a float (llama.cpp's bound). */
	double most = p->base > 1.000001 ? floor(88.7228391 / log(p->base)) : INFINITY;
	for (size_t i = 0; i < d->n_hits; i++) {
		if (i > 0 && d->hits[i].id == d->hits[i - 1].id)
			continue; /* hits are sorted: the longest match of a token comes first */
		double exponent = fmin(d->hits[i].length - p->allowed_length, most);
		x[d->hits[i].id] -= (float)(p->multiplier * pow(p->base, exponent));
	}
}
