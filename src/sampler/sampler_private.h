/* SPDX-License-Identifier: Apache-2.0
 *
 * What sampler.c and sampler_top.c share. Thread: one at a time.
 */
#pragma once
#include "base/map.h"
#include "sampler/sampler.h"

#define GREEDY_BELOW 1e-5f
#define HEAP_MAX 1024 /* a larger top_k is faster with quickselect */

struct cand {
	float w;
	int32_t id;
};

/* A token of prompt or output, for the penalties. */
struct tokens_seen {
	int32_t id;
	int32_t n_output;
};

struct dry_hit {
	int32_t id, length; /* a token; the length of the repetition that it would continue */
};

struct dry_state {
	int32_t *ids, *z; /* (n) prompt and output, oldest first; Z values, newest first */
	size_t n, cap;
	struct dry_hit *hits;
	size_t n_hits, cap_hits;
};

struct sampler {
	struct sampler_params p;
	int32_t n_vocab;
	uint64_t rng[4];

	struct u64map seen_of; /* id to index into seen */
	struct tokens_seen *seen;
	size_t n_seen, cap_seen;

	struct dry_state dry;

	float *scratch;            /* (V) adjusted logits, then weights */
	struct cand *cands, *work; /* gathered by id; quickselect's copy */
	int32_t cap_cands;
};

static inline bool cand_is_better(struct cand a, struct cand b)
{
	return (a.w > b.w) | ((a.w == b.w) & (a.id < b.id));
}

static inline bool sampler_in_range(const struct sampler *s, int32_t id)
{
	return id >= 0 && id < s->n_vocab;
}

/* --- sampler_dry.c --- */
bool sampler_has_dry(const struct sampler_params *p);
void sampler_dry_push(struct sampler *s, const int32_t *ids, size_t n);
void sampler_dry_deinit(struct sampler *s);
/* Lowers the logits x (V) of tokens that would continue a repetition. */
void sampler_dry_apply(struct sampler *s, float *x);

/* --- sampler.c --- */
static inline bool sampler_has_xtc(const struct sampler_params *p)
{
	return p->xtc.probability > 0 && p->xtc.threshold <= 0.5f &&
	       p->temperature >= GREEDY_BELOW;
}
int cand_by_rank(const void *a, const void *b); /* for qsort */
int cand_by_id(const void *a, const void *b);

/* Logit x of t after the penalties. */
float sampler_penalize(const struct sampler_params *p, const struct tokens_seen *t, float x);
/* Makes room for n candidates in cands and work. */
void sampler_reserve_cands(struct sampler *s, int32_t n);
/* The generator's next number, in [0, 1). */
double sampler_unit(struct sampler *s);
/* Draws one of cands[0..n), which are sorted by id and have their weights. Before the draw
 * cuts them at top_p of their own mass (only with cuts_p), then at min_p. */
int32_t sampler_draw_cands(struct sampler *s, int32_t n, bool cuts_p);
