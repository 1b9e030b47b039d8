/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits to the next token. Pure: same parameters, seed and logits give the
 * same token on every machine. Thread: one at a time.
 *
 * Order (as vLLM): logit_bias, repetition / presence / frequency penalties, DRY,
 * temperature, top_k, top_p, min_p, XTC, draw. Log-probabilities are of the raw logits, before
 * all of that. Ties are broken by the lower id: top_k keeps exactly k.
 */
#pragma once
#include "base/buf.h"

#define SAMPLER_TOP_MAX 20 /* OpenAI's bound on top_logprobs */

struct logit_bias {
	int32_t id;
	float bias; /* -100..100 added to the logit */
};

/* A token that may begin text which stops DRY from looking further back, and the tokens
 * that must follow for it to be there. */
struct sampler_breaker {
	int32_t head, n_tail;
	const int32_t *tail;
};

/* DRY: a token that would go on with a repetition is lowered (sampler_dry.c). */
struct sampler_dry {
	float multiplier;       /* 0: off */
	float base;             /* below 1: off */
	int32_t allowed_length; /* tokens that may repeat */
	int32_t last_n;         /* tokens of prompt and output to look at; -1: all; 0: off */
	const struct sampler_breaker *breakers; /* by head; outlive the sampler */
	int n_breakers;
};

/* XTC, "exclude top choices": with a probability, of the tokens that reach a threshold
 * all but the least likely are left out. Of what top_k, top_p and min_p leave; not where
 * it is greedy. */
struct sampler_xtc {
	float probability; /* 0..1; 0: off */
	float threshold;   /* 0..1; above 0.5: off */
};

struct sampler_params {
	float temperature;        /* below 1e-5: greedy; the lowest id wins a tie */
	float top_p;              /* (0, 1]; 1: off */
	float min_p;              /* [0, 1]; 0: off */
	int32_t top_k;            /* 0 or less: off */
	float repetition_penalty; /* > 0; 1: off; prompt and output tokens */
	float presence_penalty;   /* -2..2; output tokens */
	float frequency_penalty;  /* -2..2; output tokens */
	struct sampler_dry dry;
	struct sampler_xtc xtc;
	uint64_t seed;
	const struct logit_bias *bias; /* outlives the sampler */
	int n_bias;
	int n_top_logprobs; /* -1: no log-probabilities; 0: the token's own */
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
	int32_t rank;  /* of sampler_score: 1 is the best */
};

struct sampler;
/* Ids out of range (bias, prompt, banned) are ignored. */
struct sampler *sampler_create(const struct sampler_params *p, int32_t n_vocab);
void sampler_destroy(struct sampler *s);
/* Tokens of the prompt, for the repetition penalty and DRY. */
void sampler_add_prompt(struct sampler *s, const int32_t *ids, size_t n);
/* An output token that counts for the penalties; sampler_next calls it itself. */
void sampler_add_output(struct sampler *s, int32_t id);
/* Ids in `banned` cannot be drawn (eos before min_tokens). E_BACKEND when
 * the logits hold a NaN, +inf or no finite value: a broken kernel is not a token.
 * E_INVAL when bans, bias and penalties leave no token, or logits no longer finite:
 * the client's doing. Nothing has changed then, the generator included. */
enum status sampler_next(struct sampler *s, const float *logits /* (V) */,
			 const int32_t *banned, int n_banned,
			 struct sampled *out) MUST_USE;
/* Take id as the next token whatever the logits say; its log-probabilities are told
 * as of any other. E_BACKEND as above. */
enum status sampler_force(struct sampler *s, const float *logits, int32_t id,
			  struct sampled *out) MUST_USE;
/* The same among the ids whose bits are set in allowed, (V) bits; NULL: all. */
enum status sampler_next_allowed(struct sampler *s, const float *logits /* (V) */,
				 const uint64_t *allowed, const int32_t *banned,
				 int n_banned, struct sampled *out) MUST_USE;

/* --- from the best alone ---------------------------------------------------------- */

#define SAMPLER_BEST_MAX 128
#define SAMPLER_SUM_ERROR 1e-5 /* of sum and sum_t, relative */

/* What is known of logits that lie elsewhere: the best n of them, best first (of equals
 * the lower id), at most SAMPLER_BEST_MAX, and two sums over all V. */
struct sampler_top {
	int n;
	const int32_t *id;
	const float *logit;
	float max;
	float sum;   /* of exp(x - max); a NaN: there is a NaN among them, or no finite max */
	float sum_t; /* of exp((x - max) * sampler_inv_t) */
};

/* What else is not to be drawn; see sampler_next and sampler_next_allowed. */
struct sampler_bans {
	const uint64_t *allowed;
	const int32_t *banned;
	int n_banned;
};

/* 1 / temperature; 1 where it is greedy. */
float sampler_inv_t(const struct sampler_params *p);
/* The next token where t proves which one sampler_next_allowed would draw from all
 * logits: that token, its log-probabilities (theirs within SAMPLER_SUM_ERROR), the
 * generator moved on; *out_st as that returns it. False: t does not prove it, and nothing
 * has changed. */
bool sampler_next_top(struct sampler *s, const struct sampler_top *t,
		      const struct sampler_bans *b, struct sampled *out,
		      enum status *out_st);
/* As sampler_force, in the same way. */
bool sampler_force_top(struct sampler *s, const struct sampler_top *t, int32_t id,
		       struct sampled *out, enum status *out_st);

/* What these logits say of out->id: its log-probability, its rank, and the best n_top. Draws
 * nothing. E_BACKEND as above. */
enum status sampler_score(const float *logits, int32_t n_vocab, int n_top,
			  struct sampled *out) MUST_USE;
/* Log-softmax of one id over (V) logits, in double. */
double sampler_logprob(const float *logits, int32_t n_vocab, int32_t id);
/* The seed of choice i of a request: choice 0 keeps the seed as it is, so that
 * n = 1 and the first of n > 1 answer alike. */
uint64_t sampler_seed_of_choice(uint64_t seed, int i);
