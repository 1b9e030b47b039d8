/* SPDX-License-Identifier: Apache-2.0
 *
 * Which experts stay in memory. A pure policy: it reads no clock and no file.
 *
 * Experts of all layers have one numbering, i_layer * E + e. Each use of an expert in a
 * step adds to its score, and scores decay: a use counts half after EXPERT_HALF_LIFE
 * steps. If all slots are full, the expert with the lowest score leaves (of equals: the one in
 * the lowest slot). Plain LRU would be of no use: decoding passes the layers in turn, so the
 * expert that was used longest ago is the one that is needed next.
 *
 * An expert that is held never leaves. Thread: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { EXPERT_HALF_LIFE = 256 };

struct expert_slots;

struct expert_take {
	int32_t slot;
	int32_t left; /* the expert that had to leave; -1: none */
	bool is_hit;  /* true: the expert was in a slot already */
};

/* n_slots at least 1. Scores start from `scores` (n_experts); NULL: from zero. */
struct expert_slots *expert_slots_create(int32_t n_experts, int32_t n_slots,
					 const float *scores);
void expert_slots_destroy(struct expert_slots *s);
/* A step begins: uses before it count for less. */
void expert_slots_step(struct expert_slots *s);
/* Expert e is used in this step. */
void expert_slots_use(struct expert_slots *s, int32_t e);
/* Give expert e a slot and hold it there. False: every slot holds another held expert. */
bool expert_slots_take(struct expert_slots *s, int32_t e, struct expert_take *out);
/* Ends the hold of e. It stays in its slot until the slot is needed. */
void expert_slots_release(struct expert_slots *s, int32_t e);
/* The bytes in e's slot are invalid: the slot becomes empty. Ends a hold of e too. */
void expert_slots_drop(struct expert_slots *s, int32_t e);
/* The slot of e; -1: it has none. */
int32_t expert_slots_find(const struct expert_slots *s, int32_t e);
/* The current scores, (n_experts), to keep for a later start. */
void expert_slots_scores(const struct expert_slots *s, float *out);
/* The n_slots experts of the highest scores above zero, best first, into out. Returns how
 * many there are. */
int32_t expert_slots_best(const struct expert_slots *s, int32_t *out);
