/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the next token from logits. Equal parameters, seed and logits give the same
 * token on every machine. Thread: one at a time.
 *
 * Order, as in vLLM: logit_bias; repetition, presence and frequency penalties; DRY;
 * temperature; top_k; top_p; min_p; XTC; draw. Log-probabilities are those of the raw
 * logits, before all of these. Among equal logits the lower id wins, so top_k keeps
 * exactly k tokens.
 */
#pragma once
#include "base/buf.h"

#define SAMPLER_TOP_MAX 20 /* OpenAI's bound on top_logprobs */

struct logit_bias {
	int32_t id;
	float bias; /* -100..100 added to the logit */
};

/* A token that may begin a breaker, and the tokens that complete it. DRY does not match
 * text across a breaker. */
struct sampler_breaker {
	int32_t head, n_tail;
	const int32_t *tail;
};

/* DRY lowers the logit of a token that would continue a repetition (sampler_dry.c). */
struct sampler_dry {
	float multiplier;       /* 0: off */
	float base;             /* below 1: off */
	int32_t allowed_length; /* longest repetition, in tokens, that is not penalized */
	int32_t last_n;         /* newest tokens of prompt and output to search; -1: all; 0: off */
	const struct sampler_breaker *breakers; /* sorted by first token; outlive the sampler */
	int n_breakers;
};

/* XTC, "exclude top choices". With the given probability, drops all tokens that reach the
 * threshold except the least likely of them. Applies after top_k, top_p and min_p; not in
 * greedy decoding. */
struct sampler_xtc {
	float probability; /* 0..1; 0: off */
	float threshold;   /* 0..1; above 0.5: off */
};

struct sampler_params {
	float temperature;        /* below 1e-5: greedy; the lowest id wins a tie */
	float top_p;              /* (0, 1]; 1: off */
	float min_p;              /* [0, 1]; 0: off */
	int32_t top_k;            /* 0 or less: off */
	float repetition_penalty; /* above 0; 1: off; counts prompt and output tokens */
	float presence_penalty;   /* -2..2; counts output tokens */
	float frequency_penalty;  /* -2..2; counts output tokens */
	struct sampler_dry dry;
	struct sampler_xtc xtc;
	uint64_t seed;
	const struct logit_bias *bias; /* must outlive the sampler */
	int n_bias;
	int n_top_logprobs; /* -1: no log-probabilities; 0: only the chosen token's */
};

struct token_logprob {
	int32_t id;
	float logprob;
};

struct sampled {
	int32_t id;
	float logprob; /* valid when n_top_logprobs >= 0 */
	int n_top;     /* sorted, best first */
	struct token_logprob top[SAMPLER_TOP_MAX];
	int32_t rank;  /* set by sampler_score; 1 is the best token */
};

struct sampler;
/* Ids out of range (bias, prompt, banned) are ignored. */
struct sampler *sampler_create(const struct sampler_params *p, int32_t n_vocab);
void sampler_destroy(struct sampler *s);
/* Adds prompt tokens, which count for the repetition penalty and DRY. */
void sampler_add_prompt(struct sampler *s, const int32_t *ids, size_t n);
/* Adds an output token, which counts for the penalties. sampler_next does this itself. */
void sampler_add_output(struct sampler *s, int32_t id);
/* Draws the next token. Ids in `banned` cannot be drawn (EOS before min_tokens).
 * E_BACKEND: a logit is NaN or +inf, or none is finite, so a kernel is broken. E_INVAL:
 * the client's bans, bias and penalties leave no token or no finite logit. After an error
 * nothing has changed, including the random generator. */
enum status sampler_next(struct sampler *s, const float *logits /* (V) */,
			 const int32_t *banned, int n_banned,
			 struct sampled *out) MUST_USE;
/* Takes id as the next token, whatever its logit. Log-probabilities are set as usual.
 * E_BACKEND as in sampler_next. */
enum status sampler_force(struct sampler *s, const float *logits, int32_t id,
			  struct sampled *out) MUST_USE;
/* Like sampler_next, among the ids whose bits are set in allowed, (V) bits; NULL: all
 * ids. */
enum status sampler_next_allowed(struct sampler *s, const float *logits /* (V) */,
				 const uint64_t *allowed, const int32_t *banned,
				 int n_banned, struct sampled *out) MUST_USE;

/* --- from the best alone ---------------------------------------------------------- */

#define SAMPLER_BEST_MAX 128
#define SAMPLER_SUM_ERROR 1e-5 /* relative error of sum and sum_t */

/* Summary of logits that lie elsewhere, such as in GPU memory: the best n of them, best
 * first (lower id first if equal), and two sums over all V logits. */
struct sampler_top {
	int n;
	const int32_t *id;
	const float *logit;
	float max;
	float sum;   /* sum of exp(x - max); NaN: a logit is NaN, or max is not finite */
	float sum_t; /* sum of exp((x - max) * sampler_inv_t) */
};

/* Further constraints on the token; see sampler_next and sampler_next_allowed. */
struct sampler_bans {
	const uint64_t *allowed;
	const int32_t *banned;
	int n_banned;
};

/* 1 / temperature; 1 for greedy decoding. */
float sampler_inv_t(const struct sampler_params *p);
/* Draws from the best tokens only, if they prove what sampler_next_allowed would draw
 * from all logits. True: *out and *out_st are set as that function would
 * (log-probabilities within SAMPLER_SUM_ERROR), and the generator has advanced. False:
 * not proved, and nothing has changed. */
bool sampler_next_top(struct sampler *s, const struct sampler_top *t,
		      const struct sampler_bans *b, struct sampled *out,
		      enum status *out_st);
/* Like sampler_force, from the best tokens only; false: not proved. */
bool sampler_force_top(struct sampler *s, const struct sampler_top *t, int32_t id,
		       struct sampled *out, enum status *out_st);

/* Sets the log-probability and rank of out->id, and the n_top best tokens. Draws nothing.
 * E_BACKEND as above. */
enum status sampler_score(const float *logits, int32_t n_vocab, int n_top,
			  struct sampled *out) MUST_USE;
/* Log-softmax of one id over (V) logits, in double. */
double sampler_logprob(const float *logits, int32_t n_vocab, int32_t id);
/* The seed of choice i of a request. Choice 0 keeps the request's seed, so n = 1 gives
 * the same answer as the first choice of n > 1. */
uint64_t sampler_seed_of_choice(uint64_t seed, int i);
