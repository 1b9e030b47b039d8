/* SPDX-License-Identifier: Apache-2.0
 *
 * What engine.c and engine_seq.c share. Thread: engine.
 */
#pragma once
#include "engine/draft_model.h"
#include "engine/engine_draft.h"
#include "kv/histories.h"
#include "kv/spaces.h"
#include "kv/states.h"

/* The arrays of struct engine_batch for the code that fills them: those of
 * step_ids.h, and n_ctx. */
struct batch_arrays {
	int32_t *token, *position, *seq_of, *slot, *logit_rows; /* (max_batch_tok) */
	int32_t *hidden;            /* (max_batch_tok) */
	int32_t *rope_position;     /* (max_batch_tok, 3) */
	int32_t *block_position;    /* (max_batch_tok, 3) */
	int32_t *last_seen; /* (max_batch_tok) */
	int32_t *lora;              /* (max_batch_tok) */
	float *lora_scale;          /* (max_batch_tok) */
	int32_t *page_table;        /* (max_seqs, max_pages_per_seq) */
	float *inv_t;               /* (max_batch_tok) */
	int32_t *n_ctx, *first_tok; /* (max_seqs), (max_seqs + 1) */
	int32_t *before;            /* (max_seqs, ENGINE_BEFORE) */
	struct {
		int32_t *from, *to, *save, *save_at; /* (max_seqs) */
	} states;
};

struct engine {
	struct engine_graph graph;
	struct draft_model *beside; /* drafts for the graph; NULL: no other model does */
	struct kvcache *kv;
	struct spaces *spaces;  /* the spaces of kv */
	struct states *states;  /* NULL: the model has no recurrent state */
	struct histories *histories; /* NULL: the tokens of ended sequences are not remembered */
	struct engine_disk *disk; /* NULL: nothing is kept on disk */
	int32_t *n_gone; /* (pages + slots) for engine_available, 0 in between */
	int checkpoint_every;
	int n_ctx, max_seqs, max_batch_tok, max_pages_per_seq;
	/* One step's batch; the arrays are taken once, for the largest, in one block
	 * that begins at arrays.token. */
	struct engine_batch batch;
	struct batch_arrays arrays;
	const struct engine_image_rules *image_rules; /* NULL: no prompt has images */
	struct engine_view *views; /* images in the batch */
	int n_view_room;
	int32_t *logits_before; /* (B) logit rows of the slices before this one */
	float *logits;          /* (max_batch_tok, n_out) */
	/* (R) from the graph's top; NULL: all logits are in `logits` */
	const struct logits_top *top;
	bool *is_fetched;       /* (max_batch_tok) rows of logits, where top is not NULL */
	uint64_t step_no;
	struct engine_stats stats;
	enum status head_st; /* what the head that drafts came to in the last step */
	struct fail head_fail;
	bool drafts_are_off; /* engine_draft_stop */
};

#define HIDDEN_NONE UINT64_MAX

struct engine_seq {
	int length;             /* tokens in the cache */
	int n_pages;            /* pages held: those of `length` tokens, or more */
	/* The page that holds the last token is partial and another sequence is its
	 * writer: room must be reserved (and the page copied) before a step. */
	bool tail_is_borrowed;
	kvcache_prefix prefix;  /* the prefix that ends with the last full page */
	const struct engine_image *images; /* (n_images), its prompt's */
	int n_images;
	int n_found;            /* tokens whose pages were found when the sequence began */
	/* name of its space of the cache, space_n bytes; NULL: everybody's */
	char *space;
	size_t space_n;
	/* state: the slot of the recurrent state after `length` tokens; -1: the state is all
	 * zeros. Forks and checkpoints may share that slot. A step then writes the new state to
	 * another slot, `next`, which is taken when room for the step is reserved. */
	int32_t state, next;
	/* A step with drafts leaves the state after all of them in this slot, and the state
	 * before the first in `next`; -1: not reserved. */
	int32_t ahead;
	bool stays_in_memory;   /* see struct engine_prompt */
	int lora;               /* the same … */
	float lora_scale;       /* … and this */
	bool is_lost;           /* a step failed after it began to change the state */
	int32_t save;           /* slot that this step saves to, -1: none … */
	int save_length;        /* … when the sequence has so many tokens */
	/* The checkpoint that the sequence made last, and its length; then the length at the last
	 * checkpoint that stays. */
	kvcache_prefix checkpoint;
	int checkpoint_length, kept_length;
	int checkpoint_every;   /* checkpoints so many tokens apart stay … */
	int turn_at, n_prompt;  /* … and at these two ends of pages; 0: none */
	int leave_at;           /* … and here (engine_seq_leave_state); 0: nowhere */
	bool stays;             /* the last checkpoint was made at leave_at */
	uint64_t step_no;       /* last step that the sequence was in */
	int n_draft;            /* draft tokens of that step which may still be confirmed … */
	int draft_seq;          /* … its index in that step … */
	int32_t draft_tok;      /* … and the first draft token among the tokens */
	/* The row of logits of step hidden_step_no behind its last token in the cache. */
	int32_t hidden_row;
	uint64_t hidden_step_no; /* HIDDEN_NONE: not known */
	/* What the model that drafts has read: the first n_read tokens, and n_drafted tokens at
	 * drafted_at, which may be others than came. It knows the first n_words tokens. */
	int n_read, n_words, drafted_at, n_drafted;
	bool has_gap; /* a head that drafts lacks keys of some of its tokens */
	int32_t drafted[ENGINE_DRAFT_MAX];
	int32_t pages[];        /* (max_pages_per_seq) */
};

/* engine_image.c. The word of a token in the keys of the KV cache. It is the token itself.
 * In a page with an image it is a negative number made of the image's hash. */
int32_t engine_image_word(const struct engine *e, const struct engine_seq *s, int at,
			  int32_t token);
/* The token of such a word at place `at` of s, whose images are known. */
int32_t engine_image_token(const struct engine *e, const struct engine_seq *s, int at,
			   int32_t word);
/* The words of a whole prompt, (n). *own: memory that the caller frees; NULL if the prompt has no
 * images, so that its tokens are the words. */
const int32_t *engine_image_words(const struct engine *e, const struct engine_prompt *p,
				  int32_t **own);
/* How many tokens come before the first image that only one of two prompts has there. */
int engine_image_common(const struct engine_prompt *a, const struct engine_prompt *b);
/* Puts token `at` of s into the batch as its token t: its position on all axes, and which
 * tokens it sees. */
void engine_image_place(struct engine *e, const struct engine_seq *s, int at, int t);
/* Notes in the batch which of s's next n tokens, the batch's from tok on, are of images. */
void engine_image_note(struct engine *e, const struct engine_seq *s, int tok, int n);

/* A page of the cache for new tokens; there must be one. */
int32_t engine_new_page(struct engine *e);
/* Tokens that s can hold without another page. */
int engine_seq_capacity(const struct engine *e, const struct engine_seq *s);
/* True if s has a slot to leave its state in. If that slot became shared since room was reserved,
 * this takes another. */
bool engine_seq_has_slot(struct engine *e, struct engine_seq *s);
/* Decides where the states of a slice of n tokens are read, left and saved. */
void engine_seq_plan_states(struct engine *e, struct engine_seq *s, int n);
/* s ends: remembers its tokens, to explain what later prompts miss. */
void engine_miss_remember(struct engine *e, const struct engine_seq *s);
/* engine_seq_plan_states for a slice with drafts, of which n tokens come before the
 * first draft token. */
void engine_seq_plan_draft(struct engine *e, struct engine_seq *s, int n);
/* Takes the state through the first n draft tokens of the last step. Call it before
 * engine_seq_append. */
void engine_seq_keep_draft(struct engine *e, struct engine_seq *s, int n);
/* Call it after the step and before engine_seq_append. has_run: the step succeeded. */
void engine_seq_end_states(struct engine *e, struct engine_seq *s, bool has_run);
/* Notes that tokens (n) are in the cache now, and publishes the pages that they filled. */
void engine_seq_append(struct engine *e, struct engine_seq *s,
		       const int32_t *tokens, int n);
