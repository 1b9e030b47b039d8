/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws one token when only the best 128 of the vocabulary are known.
 *
 * The full vector of logits is large, may lie on a device, and is rarely needed. Greedy
 * decoding and a small top_k need only the best tokens. A nucleus (top_p) or min_p
 * nearly always ends among them. A plain draw falls outside as rarely as the model
 * wants. But a request must get the same answer either way, so a token is taken only
 * with proof:
 *
 *   order   No unknown token is better than the last known one. Bans, a grammar and
 *           penalties only lower logits. A bias above 0 or a penalty below 0 could
 *           raise an unknown logit, and then nothing is proved. Otherwise the known
 *           tokens that are still at least as good as the last one was are the best of
 *           all, in order.
 *   mass    The unknown mass is the sum over all tokens minus the known mass, up to the
 *           sum's error. With lowered logits it is anything between 0 and that. If
 *           top_p cuts at the same token for both ends, that token is the cut.
 *   draw    From a proved set the generator draws as usual. A plain draw walks all
 *           tokens by id. It certainly falls on a known token if it falls there both
 *           with all unknown mass before that token and with none.
 *
 * softmax.h computes each weight by the same function, one by one, so weights have the
 * same bits on both ways.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sampler/sampler_private.h"
#include "sampler/softmax.h"

/* Relative difference of sums computed in another order. */
#define SLACK 1e-9

/* The best tokens, with bias, penalties and bans applied. */
struct best {
	const struct sampler_top *t;
	struct cand c[SAMPLER_BEST_MAX]; /* candidates, best first */
	float w[SAMPLER_BEST_MAX];       /* weights of c; c[0] has weight 1 */
	int n;        /* the first n of c are certainly the best of all tokens */
	bool is_less; /* tokens outside of c may have been lowered too */
};

struct range {
	double lo, hi;
};

float sampler_inv_t(const struct sampler_params *p)
{
	return p->temperature < GREEDY_BELOW ? 1 : 1 / p->temperature;
}

static int sampler_top_find(const struct sampler_top *t, int32_t id)
{
	for (int i = 0; i < t->n; i++)
		if (t->id[i] == id)
			return i;
	return -1;
}

/* --- order ------------------------------------------------------------------------- */

static bool add_bias(const struct sampler *s, struct best *b)
{
	for (int i = 0; i < s->p.n_bias; i++) {
		const struct logit_bias *bias = &s->p.bias[i];
		int at = sampler_top_find(b->t, bias->id);
		if (at >= 0)
			b->c[at].w += bias->bias;
		else if (bias->bias > 0 && sampler_in_range(s, bias->id))
			return false;
	}
	return true;
}

static bool add_penalties(const struct sampler *s, struct best *b)
{
	const struct sampler_params *p = &s->p;
	uint64_t at;
	if (s->n_seen == 0)
		return true;
	if (p->repetition_penalty < 1 || p->presence_penalty < 0 ||
	    p->frequency_penalty < 0)
		return false;
	for (int i = 0; i < b->t->n; i++)
		if (u64map_get(&s->seen_of, (uint64_t)b->c[i].id, &at))
			b->c[i].w = sampler_penalize(p, &s->seen[at], b->c[i].w);
	return true;
}

static void add_bans(const struct sampler_bans *bans, struct best *b)
{
	for (int i = 0; i < bans->n_banned; i++) {
		int at = sampler_top_find(b->t, bans->banned[i]);
		if (at >= 0)
			b->c[at].w = -INFINITY;
	}
	for (int i = 0; bans->allowed && i < b->t->n; i++)
		if (!(bans->allowed[b->c[i].id / 64] >> (b->c[i].id % 64) & 1))
			b->c[i].w = -INFINITY;
}

/* Finds the certain prefix of b->c; false: not even the best token is certain. */
static bool order(const struct sampler *s, const struct sampler_bans *bans,
		  struct best *b)
{
	const struct sampler_top *t = b->t;
	struct cand last = {t->logit[t->n - 1], t->id[t->n - 1]};
	for (int i = 0; i < t->n; i++)
		b->c[i] = (struct cand){t->logit[i], t->id[i]};
	b->is_less = s->p.n_bias > 0 || s->n_seen > 0 || bans->allowed ||
		     bans->n_banned > 0;
	if (b->is_less) {
		/* the same adjustments in the same order as adjust() in sampler.c */
		if (!add_bias(s, b) || !add_penalties(s, b))
			return false;
		add_bans(bans, b);
		for (int i = 0; i < t->n; i++)
			if (!(b->c[i].w < INFINITY))
				return false;
		qsort(b->c, (size_t)t->n, sizeof *b->c, cand_by_rank);
	}
	for (b->n = 0; b->n < t->n && !cand_is_better(last, b->c[b->n]); b->n++)
		;
	return b->n > 0 && b->c[0].w > -INFINITY;
}

/* --- mass -------------------------------------------------------------------------- */

/* Computes the weights of b->c. Returns the range of the mass of all other tokens. */
static struct range sampler_top_weigh(const struct sampler *s, struct best *b, double *out_known)
{
	const struct sampler_top *t = b->t;
	float raw[SAMPLER_BEST_MAX], inv_t = 1 / s->p.temperature;
	double before = softmax_weights(t->logit, t->n, t->max, inv_t, raw);
	/* t's sums are relative to its largest logit, which may have been lowered since */
	double scale = exp(((double)t->max - b->c[0].w) * inv_t);
	double lo = t->sum_t * (1 - SAMPLER_SUM_ERROR) - before;
	double hi = t->sum_t * (1 + SAMPLER_SUM_ERROR) - before;
	for (int i = 0; i < t->n; i++)
		b->w[i] = b->c[i].w;
	*out_known = softmax_weights(b->w, t->n, b->c[0].w, inv_t, b->w);
	return (struct range){b->is_less ? 0 : fmax(0, lo) * scale, fmax(0, hi) * scale};
}

/* How many of b->c remain after top_p and min_p; 0: this is uncertain. */
static int cut(const struct sampler *s, const struct best *b, struct range sum)
{
	const struct sampler_params *p = &s->p;
	struct range need = {p->top_p * sum.lo * (1 - SLACK), p->top_p * sum.hi * (1 + SLACK)};
	double acc = 0;
	int n = b->n, n_lo = 0;
	bool is_end = false; /* tokens after b->c[n - 1] are below min_p */
	for (int i = 0; i < n && !is_end && p->min_p > 0; i++) {
		is_end = b->w[i] < MIN(p->min_p, 1) * (1 - 1e-6f);
		if (b->w[i] < MIN(p->min_p, 1))
			n = i;
	}
	if (p->top_p >= 1)
		return is_end ? n : 0;
	for (int i = 0; i < n; i++) {
		acc += b->w[i];
		if (n_lo == 0 && acc >= need.lo)
			n_lo = i + 1;
		if (acc >= need.hi)
			return n_lo == i + 1 ? n_lo : 0;
	}
	return is_end && (n_lo == 0 || n_lo == n) ? n : 0;
}

/* --- draw -------------------------------------------------------------------------- */

/* Draws one of the first n of b->c. */
static int32_t sample_first(struct sampler *s, struct best *b, int n, bool cuts_p)
{
	float w[SAMPLER_BEST_MAX], max = b->c[0].w;
	sampler_reserve_cands(s, n);
	memcpy(s->cands, b->c, (size_t)n * sizeof *s->cands);
	qsort(s->cands, (size_t)n, sizeof *s->cands, cand_by_id);
	for (int i = 0; i < n; i++)
		w[i] = s->cands[i].w;
	softmax_weights(w, n, max, 1 / s->p.temperature, w);
	for (int i = 0; i < n; i++)
		s->cands[i].w = w[i];
	return sampler_draw_cands(s, n, cuts_p);
}

/* Draws from the whole vocabulary. Succeeds only if the draw certainly falls on a token
 * of b->c. Otherwise restores the generator and returns false. */
static bool sample_any(struct sampler *s, struct best *b, struct range unknown,
		     struct range sum, int32_t *out)
{
	uint64_t rng[4];
	memcpy(rng, s->rng, sizeof rng);
	double u = sampler_unit(s), acc = 0;
	struct range target = {u * sum.lo * (1 - SLACK), u * sum.hi * (1 + SLACK)};
	struct cand *c = b->c;
	for (int i = 0; i < b->t->n; i++)
		c[i].w = b->w[i];
	qsort(c, (size_t)b->t->n, sizeof *c, cand_by_id);
	for (int i = 0; i < b->t->n; i++) {
		double after = acc + c[i].w;
		if ((acc + unknown.hi) * (1 + SLACK) <= target.lo &&
		    target.hi < after * (1 - SLACK)) {
			*out = c[i].id;
			return true;
		}
		acc = after;
	}
	memcpy(s->rng, rng, sizeof rng);
	return false;
}

static bool sample_best(struct sampler *s, struct best *b, int32_t *out)
{
	const struct sampler_params *p = &s->p;
	bool has_k = p->top_k > 0 && p->top_k < s->n_vocab, has_p = p->top_p < 1;
	double known;
	if (has_k) {
		if (p->top_k > b->n)
			return false;
		*out = sample_first(s, b, p->top_k, has_p);
		return true;
	}
	struct range unknown = sampler_top_weigh(s, b, &known);
	struct range sum = {known + unknown.lo, known + unknown.hi};
	if (!has_p && p->min_p <= 0)
		return sample_any(s, b, unknown, sum, out);
	int n = cut(s, b, sum);
	if (n > 0)
		*out = sample_first(s, b, n, false);
	return n > 0;
}

/* --- the token --------------------------------------------------------------------- */

/* at: index of the token among the best. */
static void add_logprobs(const struct sampler_top *t, int at, int n_top,
			 struct sampled *out)
{
	double log_sum = t->max + log(t->sum);
	out->logprob = (float)(t->logit[at] - log_sum);
	out->n_top = MIN(MIN(n_top, SAMPLER_TOP_MAX), t->n);
	for (int i = 0; i < out->n_top; i++)
		out->top[i] = (struct token_logprob){t->id[i],
						     (float)(t->logit[i] - log_sum)};
}

bool sampler_next_top(struct sampler *s, const struct sampler_top *t,
		      const struct sampler_bans *bans, struct sampled *out,
		      enum status *out_st)
{
	struct best b = {.t = t};
	int32_t id;
	*out_st = E_BACKEND;
	if (isnan(t->sum))
		return true;
	/* DRY and XTC cannot be computed from the best tokens alone */
	if (sampler_has_dry(&s->p) || sampler_has_xtc(&s->p))
		return false;
	/* a small vocabulary is cheap to sample as a whole */
	if (t->n < 1 || t->n > SAMPLER_BEST_MAX || t->n >= s->n_vocab || !order(s, bans, &b))
		return false;
	id = b.c[0].id;
	if (s->p.temperature >= GREEDY_BELOW && !sample_best(s, &b, &id))
		return false;
	*out_st = OK;
	out->id = id;
	out->logprob = 0;
	out->n_top = 0;
	if (s->p.n_top_logprobs >= 0)
		add_logprobs(t, sampler_top_find(t, id), s->p.n_top_logprobs, out);
	sampler_add_output(s, id);
	return true;
}

bool sampler_force_top(struct sampler *s, const struct sampler_top *t, int32_t id,
		       struct sampled *out, enum status *out_st)
{
	int at = sampler_top_find(t, id);
	*out_st = E_BACKEND;
	if (isnan(t->sum))
		return true;
	if (s->p.n_top_logprobs >= 0 && at < 0)
		return false;
	*out_st = OK;
	*out = (struct sampled){.id = id};
	if (s->p.n_top_logprobs >= 0)
		add_logprobs(t, at, s->p.n_top_logprobs, out);
	sampler_add_output(s, id);
	return true;
}
