/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's rules.
 *
 * Pace. Every stream decodes in every step, so the time between two tokens is the time
 * of a step. Prompt tokens make a step longer. Beside running streams two limits hold
 * them back, whatever the number and length of the waiting prompts: prefill_chunk, and
 * the number that fits into step_target at the latest measured cost. The cost is
 * measured because it varies. A token deep in a long prompt costs many times the first,
 * and a token on a CPU costs a hundred times one on a GPU.
 *
 * Every step with a prompt also reads weights that the streams alone do not need, such
 * as other experts. Sometimes these reads take most of step_target. Keeping to
 * step_target would then make prompts several times as slow, and gain the streams
 * nothing. Such a step may last long enough to be worth its reads (WORTH).
 *
 * Without streams, prefill may fill the step, so that one read of the experts serves
 * many tokens. Such a step lasts a second at most, because a new request waits for its
 * end.
 *
 * Order. First come, first served, for slots, pages and prefill tokens alike. If the
 * first in line does not fit, those behind it wait. Otherwise small prompts could
 * overtake a long one for ever.
 *
 * Priority. A request with a lower number stands before those with higher ones, running or
 * not. Where it lacks a slot or pages, the last of those give up all their pages, as many of them
 * as it takes. So the request waits for one step. If all of them together are too few they go on,
 * until others end. Those with higher numbers may wait for ever.
 *
 * Background. These requests stand last, and a step that has any other request computes none of
 * them. So a request waits at most for the step that runs when it comes. Background prompts push
 * older ones out of the prefix cache. A background sequence keeps its pages until they are wanted.
 *
 * Admission. A sequence gets the pages of its whole prompt when it starts, so prefill
 * never stops for lack of pages. Beside running sequences, more pages must be free: one
 * for each of them, and some for the newcomer's first output. Otherwise the newcomer
 * would be preempted at the next page border, and its prefill would be wasted.
 *
 * Preemption (in batch.c) follows the same order: the last sequence gives up all its pages. So
 * the first always goes on, and the scheduler never stands still.
 */
#include "sched/policy.h"

/* Output tokens that a newcomer must have room for beside others. More would waste pages;
 * with fewer it would soon be preempted again. 64 are a few seconds of a stream. */
#define GROWTH_TOK 64

/* Prompt tokens of a step before their cost is known (FIRST), and at least (MIN): the
 * weights are read for one token as for sixteen, so fewer would waste the step. */
#define CHUNK_FIRST 32
#define CHUNK_MIN 16

/* In a step without streams, up to ALONE_MIN prompt tokens are always allowed. More may
 * take ALONE_US. */
#define ALONE_MIN 512
#define ALONE_US 1000000

/* Of a step's time, prompt tokens get at least this many times what the step costs
 * without them. */
#define WORTH 4

/* The Kalman filter's assumptions, as fractions. DRIFT: how much the costs of a step and
 * of a token change from one step to the next, as contexts grow and streams join. NOISE
 * and MOST_OFF: the usual and the largest error of one measured step. */
#define DRIFT 0.1
#define NOISE 0.1
#define MOST_OFF 0.25

static int min(int a, int b)
{
	return a < b ? a : b;
}

void policy_plan(const struct policy_limits *l, const struct policy_seq *seqs,
		 int n, int *out_n_tok)
{
	int left = l->max_batch_tok, n_decoding = 0;
	for (int i = 0; i < n; i++)
		n_decoding += seqs[i].is_decoding;
	for (int i = 0; i < n; i++) {
		out_n_tok[i] = seqs[i].is_decoding && left > 0;
		left -= out_n_tok[i];
	}
	/* Tokens that a grammar has forced: few, so all of them in one step. */
	for (int i = 0; i < n; i++) {
		if (out_n_tok[i] == 0 || !seqs[i].is_decoding)
			continue;
		int more = min(seqs[i].n_pending - 1, left);
		out_n_tok[i] += more;
		left -= more;
	}
	if (n_decoding > 0)
		left = min(left, l->prefill_chunk);
	else if (l->alone_chunk > 0)
		left = min(left, l->alone_chunk);
	for (int i = 0; i < n; i++) {
		if (seqs[i].is_decoding)
			continue;
		out_n_tok[i] = min(seqs[i].n_pending, left);
		left -= out_n_tok[i];
	}
}

static double square(double d)
{
	return d * d;
}

/* The first step cannot tell the two costs apart: an eighth goes to the step, with a large
 * variance. Then a Kalman filter follows both costs. It can separate them only as far as n
 * changes, which is why steps alternate in length. A step that was held up by something
 * else counts as at most a quarter longer than expected. */
void policy_cost_note(struct policy_cost *c, int n, int64_t us)
{
	double lasted = (double)us;
	if (c->tok_us <= 0) {
		*c = (struct policy_cost){.step_us = lasted / 8,
					  .tok_us = lasted * 7 / 8 / n,
					  .step_var = square(lasted / 8),
					  .tok_var = square(lasted / 8 / n)};
		return;
	}
	c->is_short = !c->is_short;
	double expected = c->step_us + c->tok_us * n;
	double off = lasted - expected;
	if (off > MOST_OFF * expected)
		off = MOST_OFF * expected;
	c->step_var += square(DRIFT * c->step_us);
	c->tok_var += square(DRIFT * c->tok_us);
	double step = c->step_var + n * c->both_var, tok = c->both_var + n * c->tok_var;
	double all = step + n * tok + square(NOISE * expected);
	c->step_us += off * step / all;
	c->tok_us += off * tok / all;
	c->step_var -= step * step / all;
	c->both_var -= step * tok / all;
	c->tok_var -= tok * tok / all;
	/* Neither cost may fall to nothing, whatever the noise says. */
	if (c->step_us < expected / 64)
		c->step_us = expected / 64;
	if (c->tok_us < expected / (64 * n))
		c->tok_us = expected / (64 * n);
}

int policy_chunk(int max, int64_t target_us, const struct policy_cost *c)
{
	if (target_us <= 0)
		return max;
	if (c->tok_us <= 0)
		return min(max, CHUNK_FIRST);
	double us = (double)target_us - c->step_us;
	if (us < WORTH * c->step_us)
		us = WORTH * c->step_us;
	double n = us / c->tok_us * (c->is_short ? 2.0 / 3 : 1);
	return n >= max ? max : n <= CHUNK_MIN ? min(max, CHUNK_MIN) : (int)n;
}

/* At this depth attention costs about as much as all other work of a token (as in
 * kv/evict.c). The cost of a token is mostly known from short prompts and the beginnings of
 * long ones. */
#define DEEP 16384.0
#define UNKNOWN_US 1000.0 /* cost of a prompt token before any was computed */

/* Does not alternate between two lengths: these steps are measured, but have no close limit. */
int policy_alone_chunk(int max, const struct policy_cost *c)
{
	if (max <= ALONE_MIN || c->tok_us <= 0)
		return min(max, ALONE_MIN);
	double n = (ALONE_US - c->step_us) / c->tok_us;
	return n >= max ? max : n <= ALONE_MIN ? ALONE_MIN : (int)n;
}

int64_t policy_patience(const struct policy_cost *c, int n)
{
	/* A short prompt's cost may all have been put on the step, and none on its tokens. */
	double each = c->tok_us > 0 ? c->tok_us + c->step_us / ALONE_MIN : UNKNOWN_US;
	double us = each * n * (1 + n / (2 * DEEP));
	return us > 1e6 ? (int64_t)us : 1000000;
}

int policy_slots(int max_seqs, int max_batch_tok)
{
	int slots = min(max_seqs, max_batch_tok - 1);
	return slots > 1 ? slots : 1;
}

int policy_pages(int n_tok, int page_size)
{
	return n_tok / page_size + (n_tok % page_size != 0);
}

bool policy_admits(const struct policy_capacity *capacity, int n_need_tok,
		   int n_growth_tok)
{
	int need = policy_pages(n_need_tok, capacity->page_size);
	if (capacity->n_running > 0)
		need += capacity->n_running +
			policy_pages(min(n_growth_tok, GROWTH_TOK),
				     capacity->page_size);
	return need <= capacity->pages_free;
}
