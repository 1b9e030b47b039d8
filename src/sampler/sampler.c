/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws one token from a vocabulary of 150,000, without sorting it.
 *
 * top_k, top_p and min_p each keep a prefix of the tokens in the order best first
 * (weight, then lower id). So only the prefix's last token, the cut, must be found.
 * Quickselect finds it in linear time, by count (top_k) or by mass (top_p). A small
 * top_k uses a heap.
 *
 * The draw then walks the kept tokens by ascending id. A recomputed sequence may have
 * logits that differ in the last bit. In sorted order, such a difference would swap
 * neighbours and draw another token. Ids do not move.
 *
 * The passes, for V entries:
 *   softmax_max         NaN check and the maximum
 *   adjust              only with bias, penalties, bans or a grammar: a copy
 *   argmax | heap of k | softmax_weights over all, then gather
 *
 * The gather keeps every token that can be in the nucleus. Z is the sum of all weights.
 * Tokens lighter than (1 - top_p) Z / V weigh at most (1 - top_p) Z together, so the
 * nucleus lies above that weight. Quickselect usually sees a few hundred tokens.
 */
#include "sampler/sampler_private.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sampler/softmax.h"

/* --- generator: xoshiro256**, seeded by splitmix64 ----------------------- */

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static uint64_t rng_next(uint64_t s[4])
{
	uint64_t out = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return out;
}

/* A uniform number in [0, 1) with 53 random bits. */
static double rng_unit(uint64_t s[4])
{
	return (double)(rng_next(s) >> 11) * 0x1p-53;
}

uint64_t sampler_seed_of_choice(uint64_t seed, int i)
{
	if (i == 0)
		return seed;
	uint64_t state = seed + (uint64_t)i * 0xD1B54A32D192ED03u;
	return splitmix64(&state);
}

/* --- life ---------------------------------------------------------------- */

struct sampler *sampler_create(const struct sampler_params *p, int32_t n_vocab)
{
	struct sampler *s = xcalloc(1, sizeof *s);
	uint64_t state = p->seed;
	s->p = *p;
	s->n_vocab = n_vocab;
	for (int i = 0; i < 4; i++)
		s->rng[i] = splitmix64(&state);
	u64map_init(&s->seen_of, 0);
	return s;
}

void sampler_destroy(struct sampler *s)
{
	if (!s)
		return;
	u64map_deinit(&s->seen_of);
	free(s->seen);
	sampler_dry_deinit(s);
	free(s->scratch);
	free(s->cands);
	free(s->work);
	free(s);
}

/* --- penalties ----------------------------------------------------------- */

static struct tokens_seen *seen_add(struct sampler *s, int32_t id)
{
	uint64_t at;
	if (u64map_get(&s->seen_of, (uint64_t)id, &at))
		return &s->seen[at];
	if (s->n_seen == s->cap_seen) {
		s->cap_seen = s->cap_seen ? s->cap_seen * 2 : 64;
		s->seen = xrealloc(s->seen, s->cap_seen * sizeof *s->seen);
	}
	u64map_put(&s->seen_of, (uint64_t)id, s->n_seen);
	s->seen[s->n_seen] = (struct tokens_seen){.id = id};
	return &s->seen[s->n_seen++];
}

static bool has_penalties(const struct sampler_params *p)
{
	return p->repetition_penalty != 1 || p->presence_penalty != 0 ||
	       p->frequency_penalty != 0;
}

void sampler_add_prompt(struct sampler *s, const int32_t *ids, size_t n)
{
	sampler_dry_push(s, ids, n);
	if (s->p.repetition_penalty == 1)
		return;
	for (size_t i = 0; i < n; i++)
		if (sampler_in_range(s, ids[i]))
			seen_add(s, ids[i]);
}

void sampler_add_output(struct sampler *s, int32_t id)
{
	sampler_dry_push(s, &id, 1);
	if (has_penalties(&s->p) && sampler_in_range(s, id))
		seen_add(s, id)->n_output++;
}

float sampler_penalize(const struct sampler_params *p, const struct tokens_seen *t, float x)
{
	if (p->repetition_penalty != 1)
		x = x > 0 ? x / p->repetition_penalty : x * p->repetition_penalty;
	x -= p->frequency_penalty * (float)t->n_output;
	return t->n_output > 0 ? x - p->presence_penalty : x;
}

/* Returns the adjusted logits; without adjustments, the model's own array. */
static const float *adjust(struct sampler *s, const float *logits,
			   const uint64_t *allowed, const int32_t *banned,
			   int n_banned)
{
	if (s->p.n_bias == 0 && n_banned == 0 && s->n_seen == 0 && !allowed &&
	    !sampler_has_dry(&s->p))
		return logits;
	float *x = s->scratch;
	memcpy(x, logits, (size_t)s->n_vocab * sizeof *x);
	for (int i = 0; i < s->p.n_bias; i++)
		if (sampler_in_range(s, s->p.bias[i].id))
			x[s->p.bias[i].id] += s->p.bias[i].bias;
	for (size_t i = 0; i < s->n_seen; i++)
		x[s->seen[i].id] = sampler_penalize(&s->p, &s->seen[i],
						    x[s->seen[i].id]);
	if (sampler_has_dry(&s->p))
		sampler_dry_apply(s, x);
	for (int i = 0; i < n_banned; i++)
		if (sampler_in_range(s, banned[i]))
			x[banned[i]] = -INFINITY;
	for (int32_t i = 0; allowed && i < s->n_vocab; i++)
		x[i] = allowed[i / 64] >> (i % 64) & 1 ? x[i] : -INFINITY;
	return x;
}

/* --- selection ----------------------------------------------------------- */

static void swap(struct cand *a, struct cand *b)
{
	struct cand t = *a;
	*a = *b;
	*b = t;
}

/* Restores the heap order; the worst candidate is on top. */
static void heap_sift(struct cand *h, int n, int at)
{
	for (;;) {
		int worst = at;
		for (int c = 2 * at + 1; c <= 2 * at + 2 && c < n; c++)
			if (cand_is_better(h[worst], h[c]))
				worst = c;
		if (worst == at)
			return;
		swap(&h[at], &h[worst]);
		at = worst;
	}
}

/* The k best of x (n), as a heap. k <= n. */
static void heap_select(const float *x, int32_t n, int k, struct cand *h)
{
	for (int i = 0; i < k; i++)
		h[i] = (struct cand){x[i], i};
	for (int i = k / 2 - 1; i >= 0; i--)
		heap_sift(h, k, i);
	for (int32_t i = k; i < n; i++) {
		/* on equal logits the later id is higher, so it loses */
		if (x[i] > h[0].w) {
			h[0] = (struct cand){x[i], i};
			heap_sift(h, k, 0);
		}
	}
}

int cand_by_rank(const void *a, const void *b)
{
	return cand_is_better(*(const struct cand *)a, *(const struct cand *)b) ? -1 : 1;
}

int cand_by_id(const void *a, const void *b)
{
	return ((const struct cand *)a)->id < ((const struct cand *)b)->id ? -1 : 1;
}

/* The last token of the shortest best-first prefix whose measure (mass or count) reaches
 * `need`. With need <= 0 this is the best token. If all tokens together do not reach
 * `need`, it is the worst. Reorders c. */
static struct cand select_cut(struct cand *c, int32_t n, double need,
			      bool is_mass)
{
	int32_t lo = 0, hi = n;
	/* a fixed sequence of pseudo-random pivots, which suits any order of the tokens */
	uint32_t lcg = 1;
	while (hi - lo > 1) {
		lcg = lcg * 1664525u + 1013904223u;
		swap(&c[lo + (int32_t)((lcg >> 8) % (uint32_t)(hi - lo))], &c[hi - 1]);
		struct cand pivot = c[hi - 1];
		int32_t mid = lo;
		double better = 0;
		/* branch-free, because the comparison is unpredictable */
		for (int32_t i = lo; i < hi - 1; i++) {
			bool is_in = cand_is_better(c[i], pivot);
			double m = is_mass ? c[i].w : 1;
			better += is_in * m;
			swap(&c[i], &c[mid]);
			mid += is_in;
		}
		swap(&c[mid], &c[hi - 1]);
		double with = better + (is_mass ? pivot.w : 1);
		if (need <= better)
			hi = mid > lo ? mid : lo + 1;
		else if (need <= with || mid == hi - 1)
			return pivot;
		else {
			need -= with;
			lo = mid + 1;
		}
	}
	return c[lo];
}

void sampler_reserve_cands(struct sampler *s, int32_t n)
{
	if (n <= s->cap_cands)
		return;
	free(s->cands);
	free(s->work);
	s->cands = xmalloc((size_t)n * sizeof *s->cands);
	s->work = xmalloc((size_t)n * sizeof *s->work);
	s->cap_cands = n;
}

/* Keeps the prefix of cands[0..n) that reaches need; the order by id stays. */
static int32_t keep_prefix(struct sampler *s, int32_t n, double need,
			   bool is_mass)
{
	memcpy(s->work, s->cands, (size_t)n * sizeof *s->work);
	struct cand cut = select_cut(s->work, n, need, is_mass);
	int32_t kept = 0;
	for (int32_t i = 0; i < n; i++) {
		struct cand c = s->cands[i];
		s->cands[kept] = c;
		kept += !cand_is_better(cut, c);
	}
	return kept;
}

/* --- drawing ------------------------------------------------------------- */

static double mass_of(const struct cand *c, int32_t n)
{
	double sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += c[i].w;
	return sum;
}

/* Gathers the k best with their weights, sorted by id, with a heap. */
static void gather_top_k(struct sampler *s, const float *x, float max, int32_t k)
{
	heap_select(x, s->n_vocab, k, s->cands);
	qsort(s->cands, (size_t)k, sizeof *s->cands, cand_by_id);
	for (int32_t i = 0; i < k; i++)
		s->scratch[i] = s->cands[i].w;
	softmax_weights(s->scratch, k, max, 1 / s->p.temperature, s->scratch);
	for (int32_t i = 0; i < k; i++)
		s->cands[i].w = s->scratch[i];
}

/* Gathers the tokens whose weight w (V) reaches `floor`. */
static int32_t gather_above(struct sampler *s, const float *w, float floor)
{
	int32_t n = 0;
	for (int32_t i = 0; i < s->n_vocab; i++) {
		s->cands[n] = (struct cand){w[i], i};
		n += (w[i] >= floor) & (w[i] > 0);
	}
	return n;
}

static int32_t sample_all(struct sampler *s, const float *w, double sum)
{
	double target = rng_unit(s->rng) * sum, acc = 0;
	int32_t last = 0;
	for (int32_t i = 0; i < s->n_vocab; i++) {
		if (w[i] <= 0)
			continue;
		acc += w[i];
		last = i;
		if (acc > target)
			break;
	}
	return last;
}

static int32_t sample_cands(struct sampler *s, int32_t n)
{
	double target = rng_unit(s->rng) * mass_of(s->cands, n), acc = 0;
	for (int32_t i = 0; i < n - 1; i++) {
		acc += s->cands[i].w;
		if (acc > target)
			return s->cands[i].id;
	}
	return s->cands[n - 1].id;
}

/* Gathers the candidates by id with their weights, if top_k is off or too large for the
 * heap. Cuts at top_k, and at top_p unless top_k must come first. */
static int32_t gather_candidates(struct sampler *s, double sum, bool has_k, bool has_p)
{
	const struct sampler_params *p = &s->p;
	float floor = 0;
	if (!has_k) {
		/* slightly below the bound derived at the top of the file, because
		 * weights are rounded */
		floor = (float)((1 - p->top_p) * sum * 0.999 / s->n_vocab);
		floor = MIN(MAX(floor, p->min_p), 1);
	}
	sampler_reserve_cands(s, s->n_vocab);
	int32_t n = gather_above(s, s->scratch, floor);
	if (has_k && n > p->top_k)
		n = keep_prefix(s, n, p->top_k, false);
	if (has_p && !has_k)
		n = keep_prefix(s, n, p->top_p * sum, true);
	return n;
}

/* The best token's weight is exactly 1, so min_p is itself the least weight. */
static int32_t keep_min_p(struct sampler *s, int32_t n)
{
	int32_t kept = 0;
	for (int32_t i = 0; i < n; i++)
		if (s->cands[i].w >= MIN(s->p.min_p, 1))
			s->cands[kept++] = s->cands[i];
	return kept;
}

/* XTC: with its probability, drops the tokens that reach the threshold, except the least
 * likely of them. */
static int32_t exclude_top(struct sampler *s, int32_t n)
{
	double least = s->p.xtc.threshold * mass_of(s->cands, n);
	int32_t n_over = 0, kept = 0;
	struct cand last = {0};
	if (n < 2 || rng_unit(s->rng) > s->p.xtc.probability)
		return n;
	for (int32_t i = 0; i < n; i++) {
		if (s->cands[i].w < least)
			continue;
		if (n_over == 0 || cand_is_better(last, s->cands[i]))
			last = s->cands[i];
		n_over++;
	}
	for (int32_t i = 0; i < n; i++) {
		bool is_over = s->cands[i].w >= least && s->cands[i].id != last.id;
		if (n_over < 2 || !is_over)
			s->cands[kept++] = s->cands[i];
	}
	return kept;
}

double sampler_unit(struct sampler *s)
{
	return rng_unit(s->rng);
}

int32_t sampler_draw_cands(struct sampler *s, int32_t n, bool cuts_p)
{
	if (cuts_p)
		n = keep_prefix(s, n, s->p.top_p * mass_of(s->cands, n), true);
	if (s->p.min_p > 0)
		n = keep_min_p(s, n);
	if (sampler_has_xtc(&s->p))
		n = exclude_top(s, n);
	return sample_cands(s, n);
}

static int32_t sample_distribution(struct sampler *s, const float *x, float max)
{
	const struct sampler_params *p = &s->p;
	bool has_k = p->top_k > 0 && p->top_k < s->n_vocab;
	bool has_p = p->top_p < 1;
	int32_t n;

	if (has_k && p->top_k <= HEAP_MAX) {
		n = p->top_k;
		sampler_reserve_cands(s, n);
		gather_top_k(s, x, max, n);
	} else {
		double sum = softmax_weights(x, s->n_vocab, max,
					     1 / p->temperature, s->scratch);
		if (!has_k && !has_p && p->min_p <= 0 && !sampler_has_xtc(p))
			return sample_all(s, s->scratch, sum);
		n = gather_candidates(s, sum, has_k, has_p);
	}
	return sampler_draw_cands(s, n, has_k && has_p);
}

static int32_t argmax(const float *x, float max)
{
	int32_t i = 0;
	while (x[i] != max)
		i++;
	return i;
}

static void add_logprobs(const float *logits, int32_t n_vocab, int n_top, float max,
			 struct sampled *out)
{
	double log_sum = max + log(softmax_sum(logits, n_vocab, max));
	int k = MIN(MIN(n_top, SAMPLER_TOP_MAX), n_vocab);
	struct cand top[SAMPLER_TOP_MAX];

	out->logprob = (float)(logits[out->id] - log_sum);
	if (k <= 0)
		return;
	heap_select(logits, n_vocab, k, top);
	qsort(top, (size_t)k, sizeof *top, cand_by_rank);
	for (int i = 0; i < k; i++)
		out->top[i] = (struct token_logprob){top[i].id,
						     (float)(top[i].w - log_sum)};
	out->n_top = k;
}

enum status sampler_next(struct sampler *s, const float *logits,
			 const int32_t *banned, int n_banned,
			 struct sampled *out)
{
	return sampler_next_allowed(s, logits, NULL, banned, n_banned, out);
}

enum status sampler_next_allowed(struct sampler *s, const float *logits,
				 const uint64_t *allowed, const int32_t *banned,
				 int n_banned, struct sampled *out)
{
	float raw_max, max;
	if (!softmax_max(logits, s->n_vocab, &raw_max))
		return E_BACKEND;
	if (!s->scratch)
		s->scratch = xmalloc((size_t)s->n_vocab * sizeof *s->scratch);
	const float *x = adjust(s, logits, allowed, banned, n_banned);
	if (x == logits)
		max = raw_max;
	else if (!softmax_max(x, s->n_vocab, &max))
		return E_INVAL;

	out->n_top = 0;
	out->logprob = 0;
	if (s->p.temperature >= GREEDY_BELOW)
		out->id = sample_distribution(s, x, max);
	else
		out->id = argmax(x, max);
	if (s->p.n_top_logprobs >= 0)
		add_logprobs(logits, s->n_vocab, s->p.n_top_logprobs, raw_max, out);
	sampler_add_output(s, out->id);
	return OK;
}

enum status sampler_force(struct sampler *s, const float *logits, int32_t id,
			  struct sampled *out)
{
	float max;
	if (!softmax_max(logits, s->n_vocab, &max))
		return E_BACKEND;
	*out = (struct sampled){.id = id};
	if (s->p.n_top_logprobs >= 0)
		add_logprobs(logits, s->n_vocab, s->p.n_top_logprobs, max, out);
	sampler_add_output(s, id);
	return OK;
}

enum status sampler_score(const float *logits, int32_t n_vocab, int n_top,
			  struct sampled *out)
{
	float max;
	if (!softmax_max(logits, n_vocab, &max))
		return E_BACKEND;
	out->n_top = 0;
	out->rank = 1;
	for (int32_t i = 0; i < n_vocab; i++)
		out->rank += logits[i] > logits[out->id];
	add_logprobs(logits, n_vocab, n_top, max, out);
	return OK;
}

double sampler_logprob(const float *logits, int32_t n_vocab, int32_t id)
{
	double max = -INFINITY, sum = 0;
	for (int32_t i = 0; i < n_vocab; i++)
		max = logits[i] > max ? logits[i] : max;
	for (int32_t i = 0; i < n_vocab; i++)
		sum += exp(logits[i] - max);
	return logits[id] - max - log(sum);
}
