/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens in, logits out, for several sequences at once. Thread: engine (every
 * call), except engine_create and the const getters marked any.
 *
 * A sequence is a page table over the paged KV cache and a count of tokens whose keys and
 * values are in it. A step runs the model once over slices: some tokens of some sequences,
 * one to decode, many to prefill. Full pages are shared by prefix, by the hash of all tokens
 * up to their end. What others see of a shared page is never written.
 *
 * Models with recurrent layers also have a state a sequence, in a slot (states.h). It
 * is saved at some ends of pages (checkpoints, in a bounded store; engine_seq.c says
 * which); a known prefix is shared up to its last checkpoint. A state is written in place,
 * so after a step that failed (E_BACKEND) its sequences are lost.
 */
#pragma once
#include "backend/backend.h"
#include "engine/engine_image.h"
#include "engine/engine_moves.h"
#include "engine/engine_opts.h"
#include "kv/miss.h"

struct engine;
struct engine_seq;

/* One step's input to the model; built by engine.c, read by graph.c and fakes.
 * Letters as in kernels/README.md. */
struct engine_batch {
	int n_tok;                /* T */
	int n_seq;                /* B */
	const int32_t *token;     /* (T) */
	const int32_t *position;  /* (T) */
	const int32_t *seq_of;    /* (T) index into 0..B-1 */
	const int32_t *slot;      /* (T) page * page_size + offset: where K, V go */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	const int32_t *n_ctx;     /* (B) tokens in the cache after this step */
	const int32_t *first_tok; /* (B+1) slice b is tokens first_tok[b].. */
	int max_pages_per_seq;
	const int32_t *logit_rows; /* (R) token indices whose logits are wanted */
	const float *inv_t;        /* (R) 1 / temperature, for logits_top.sum_t */
	int n_logit_rows;
	const int32_t *before; /* (B, ENGINE_BEFORE) the tokens before the slice, the last first;
				* a number below 0 stands for none, or for a token of an image */
	bool has_drafts; /* some of the tokens are draft tokens: replay may follow */
	int32_t least_ctx; /* engine_set_least_ctx */
	struct seq_states states; /* (B) each; only where the graph has n_states */
	/* (T) for each token, where to read the hidden state of the token before it (enum
	 * engine_hidden). NULL unless the graph has a draft function. */
	const int32_t *hidden;
	const int32_t *rope_position; /* (T, 3) time, height, width: equal but in images */
	/* (T, 3) the same of the first token of its block (engine_graph.block_ratio) */
	const int32_t *block_position;
	const int32_t *last_seen; /* (T) a token sees up to its own position, or to the end of
				   * its image */
	/* (T) index of each token's adapter in engine_opts.loras, or -1; and its factor */
	const int32_t *lora;
	const float *lora_scale;
	bool has_lora; /* false: no token has one, and these are not read */
	const struct engine_view *views; /* (n_views) images in the step */
	int n_views;
};

enum { ENGINE_BEFORE = MODEL_MAX_NGRAM - 1 };

/* Hidden states that a graph with draft keeps: of the rows of logits of the last forward,
 * then of all its tokens, then of the rows of the last draft token. */
enum engine_hidden {
	ENGINE_HIDDEN_ROWS = 64, /* most rows of the first kind, and of the last kind */
};

/* Called with what the router of layer i_layer chose for the tokens of a step, all in host
 * memory: logits (with their bias), id, weight, bias. x is NULL. Returns true if it changed id
 * and weight, with which the experts then run. */
typedef bool (*engine_watch_fn)(void *ctx, int i_layer, const struct moe_router_args *a);

/* The model as a sequence of operations: made by an architecture (model/archs.def), or by
 * a test. Owned by the engine after engine_create_with. */
struct engine_graph {
	void *ctx;
	int32_t n_vocab, max_ctx;
	int32_t n_out;    /* numbers of a row that forward writes; 0: n_vocab logits */
	int32_t block_ratio; /* positions of a block of an indexer; 0: block_position is not read */
	int32_t n_states; /* slots of recurrent state; 0: the model has none */
	/* A token has the same bits in every step of at most so many tokens; 0: in all. */
	int32_t few_tok;
	/* In contexts of up to so many positions, one recording of a step with drafts serves
	 * any number of streams above one. 0: such steps are not recorded, or one for each
	 * number of streams. */
	int32_t alone_ctx;
	/* logits: host memory (R, V), written before return, unless top says where. */
	enum status (*forward)(void *ctx, const struct engine_batch *b,
			       float *logits, struct fail *fail);
	/* If the logits of the last forward are not in the host's memory: top gives the best of
	 * each row, (R), and fetch copies all of row i, (V). top is NULL, or returns NULL, if
	 * forward has written them. Valid until the next forward. */
	const struct logits_top *(*top)(void *ctx);
	enum status (*fetch)(void *ctx, int32_t i, float *logits);
	/* Draft the token after each token of b, one of each sequence, from its hidden state: ids
	 * (B). At most ENGINE_HIDDEN_ROWS. It takes the place of the last forward's logits. NULL:
	 * the model has no layer for it (enum model_mtp), or it was not asked for. */
	enum status (*draft)(void *ctx, const struct engine_batch *b, int32_t *ids,
			     struct fail *fail);
	void (*destroy)(void *ctx);
	/* Copy a page's keys and values in every layer, in order with the forwards before and
	 * after this call. NULL: the graph keeps none. */
	enum status (*copy_page)(void *ctx, int32_t dst, int32_t src);
	/* Takes recurrent states through draft tokens that were right (struct engine_replay),
	 * before the next forward. The last forward had has_drafts. NULL: with recurrent states no
	 * draft tokens can be verified. */
	enum status (*replay)(void *ctx, const struct engine_replay *r);
	/* Bytes of a page and of a state in all layers, and copies of them to and from host
	 * memory, done on return unless it is pinned. NULL: they cannot be copied. */
	size_t page_bytes, state_bytes;
	enum status (*move)(void *ctx, const struct engine_move *m);
	/* Pinned host memory for move; NULL: there is none. And waits for loads from it. */
	void *(*alloc_pinned)(void *ctx, size_t n_bytes);
	void (*free_pinned)(void *ctx, void *p);
	enum status (*move_wait)(void *ctx);
	/* As engine_watch_routers. NULL: the graph has no routers. */
	void (*watch_routers)(void *ctx, engine_watch_fn fn, void *fn_ctx);
	const struct weight *embed; /* for a head that drafts (eagle.h): the table of tokens, … */
	const float *taps; /* … inputs of layers */
};

/* The backend's memory as it is now. */
void engine_memory(struct backend *b, struct memory_have *out);
/* What engine_create would do with the memory, without taking any. It fails like engine_create if
 * the model does not fit. */
enum status engine_plan(struct model *m, struct backend *b, const struct engine_opts *o,
			struct memory_plan *out, struct fail *fail) MUST_USE;
/* The same beside what the ledger lists, which gets the bytes of this model and of its backend.
 * Sets o's have and beside itself. l NULL: there is nothing else. */
enum status engine_plan_beside(struct model *m, struct backend *b, const struct engine_opts *o,
			       struct memory_ledger *l, struct memory_plan *out,
			       struct fail *fail) MUST_USE;
/* Checks every tensor the architecture needs and takes all memory. */
enum status engine_create(struct model *m, struct backend *b,
			  const struct engine_opts *o, struct engine **out,
			  struct fail *fail) MUST_USE;
/* Like engine_create, around a given graph with n_pages of KV bookkeeping. E_INVAL
 * when o->n_ctx is above the graph's; on failure the graph stays the caller's. */
enum status engine_create_with(const struct engine_graph *g,
			       const struct engine_opts *o, int n_pages,
			       struct engine **out) MUST_USE;
/* Not the model, not the backend: the caller frees them. NULL is fine. */
void engine_destroy(struct engine *e);

int engine_n_ctx(const struct engine *e);      /* thread: any */
int engine_n_vocab(const struct engine *e);    /* thread: any */
int engine_page_size(const struct engine *e);  /* thread: any */
int engine_max_seqs(const struct engine *e);   /* thread: any */
int engine_max_batch_tok(const struct engine *e); /* thread: any */
int engine_pages_total(const struct engine *e); /* thread: any */
/* Pages that are available now: free ones, and cached ones that nobody holds. */
int engine_pages_free(const struct engine *e);

/* Start a sequence for a prompt: cached pages of its longest known prefix (at
 * most n - 1 tokens, whole pages) are shared; *out_n_cached tokens need no
 * prefill. Takes no new page. */
struct engine_seq *engine_seq_create(struct engine *e, const int32_t *prompt,
				     int n, int *out_n_cached);
/* Make room for n_tok more tokens after those in the cache. E_NO_PAGES (and nothing
 * taken) when there are not enough pages; E_CTX_LEN beyond engine_n_ctx. */
enum status engine_seq_reserve(struct engine *e, struct engine_seq *s, int n_tok) MUST_USE;
/* engine_seq_reserve for a slice with drafts. A model with recurrent state then needs one more
 * slot; E_NO_PAGES also if there is no such slot. */
enum status engine_seq_reserve_draft(struct engine *e, struct engine_seq *s,
				     int n_tok) MUST_USE;
/* A prompt for engine_seq_create_in. Its pages are found in one space of the cache only, and its
 * own pages are kept in that space only. */
struct engine_prompt {
	const int32_t *tokens; /* (n) */
	int n;
	struct str space;      /* its name; empty: the space of everybody */
	int turn_at;           /* tokens before the user's last words; 0: not known */
	const struct engine_image *images; /* in order; borrowed until it and its forks end */
	int n_images;
	bool stays_in_memory; /* its pages do not go to kv_dir */
	/* 1 + index of its adapter in engine_opts.loras, and the factor of what that adds; 0: none.
	 * Keys and values depend on both, so each pair has a space of its own. */
	int lora;
	float lora_scale;
};
struct engine_seq *engine_seq_create_in(struct engine *e, const struct engine_prompt *p,
					int *out_n_cached);
/* Tokens that two prompts begin with alike, as far as one can take over the other's pages:
 * whole pages, fewer than each has tokens. 0 where no pages are kept. */
int engine_common(const struct engine *e, const struct engine_prompt *a,
		  const struct engine_prompt *b);
/* Has s stop after `at` tokens (whole pages) and leave its recurrent state, if it has one, for a
 * sequence that begins alike. s remembers only the next such place: ask before each step. */
void engine_seq_leave_state(const struct engine *e, struct engine_seq *s, int at);
int engine_seq_length(const struct engine_seq *s); /* tokens in the cache */
/* Why no more of prompt p was found for s, which was just created for it. */
struct engine_miss {
	struct miss miss;
	const int32_t *other; /* (n_other) the history that is most alike; NULL: none. Valid */
	int n_other;          /* until a sequence is destroyed */
};
void engine_seq_miss(struct engine *e, const struct engine_seq *s,
		     const struct engine_prompt *p, struct engine_miss *out);
/* How many of the next n tokens a slice should take. A state is then kept near the user's last
 * words, and where engine_seq_leave_state says. Without recurrent state: all. */
int engine_seq_cut(const struct engine *e, const struct engine_seq *s, int n);
/* If tokens of an image see each other, a step must not end within an image. Returns how many of
 * the next n tokens a slice may take, or up to `most` if an image begins with the next token. */
int engine_seq_whole(const struct engine *e, const struct engine_seq *s, int n, int most);
/* A second sequence with the same first tokens: full pages are shared; the last
 * partial page is shared too until the fork reserves room, then copied. What s has
 * reserved stays with s. For n > 1. */
enum status engine_seq_fork(struct engine *e, const struct engine_seq *s,
			    struct engine_seq **out) MUST_USE;
/* To measure what a long cache costs: appends n tokens (whole pages) as copies of the sequence's
 * own pages, so keys and values have wrong positions. The sequence has whole pages only, and room
 * (engine_seq_reserve). States stay. E_INVAL with a prefix cache. */
enum status engine_seq_repeat(struct engine *e, struct engine_seq *s, int n) MUST_USE;
/* What is available if the first i of these n sequences end: out[i], of (n + 1). */
struct engine_available {
	int pages;
	int slots; /* of recurrent state, one for a new sequence; 1 if the model has none */
};
void engine_available(struct engine *e, struct engine_seq *const *seqs, int n,
		      struct engine_available *out);
/* Give the pages back (kept as cache when prefix_cache). NULL is fine. */
void engine_seq_destroy(struct engine *e, struct engine_seq *s);

struct engine_slice {
	struct engine_seq *seq; /* each sequence at most once a step */
	const int32_t *tokens;  /* the next n tokens of seq */
	int n;
	int n_logits;           /* logits of the last n_logits tokens, 0..n */
	float inv_t;            /* 1 / temperature, for engine_top; 0: 1 */
	/* The last so many of the n tokens are draft tokens. The sequence grows only by the tokens
	 * before them, and by the draft tokens that engine_seq_confirm names afterwards. */
	int n_draft;
};

/* Run the model over the slices (reserved before). On OK the sequences are n
 * tokens longer. On failure none is changed: E_INVAL for a slice that breaks the
 * rules above or a token outside the vocabulary, E_CTX_LEN, E_NO_PAGES for room not
 * reserved, E_IO for experts that cannot be read (expert_memory), E_BACKEND. */
enum status engine_step(struct engine *e, const struct engine_slice *slices,
			int n_slices, struct fail *fail) MUST_USE;
/* Tokens that a step with drafts may have at most, so that each has the bits it would
 * have alone. 0: this model cannot verify drafts, since its state cannot go back. */
enum { ENGINE_DRAFT_TOK = 32 }; /* engine_draft_room never returns more */
int engine_draft_room(const struct engine *e);
/* The first n draft tokens for s in the last step were right: these tokens are in the cache. A
 * recurrent state is taken through them now. Call it before the next step. */
void engine_seq_confirm(struct engine *e, struct engine_seq *s, const int32_t *tokens,
			int n);
/* Logits (n_logits, V) of slice i of the last step, oldest token first; valid until
 * the next step. They may have to be copied from the device. NULL: that failed, and the next step
 * returns the error. */
const float *engine_logits(struct engine *e, int i_slice);
/* The best logits and the sums of the slice's last row of logits (there must be one),
 * which is all that most choices need. NULL: the logits are on the host, so engine_logits
 * costs no copy. */
const struct logits_top *engine_top(const struct engine *e, int i_slice);
/* The same for row i_row of the slice's n_logits: its logits (V), and the best. */
const float *engine_logits_row(struct engine *e, int i_slice, int i_row);
const struct logits_top *engine_top_row(const struct engine *e, int i_slice, int i_row);

/* Have fn called within engine_step, after the router of each layer with experts, in the
 * layers' order; NULL: no more. For comparing backends: such a step waits for each of them
 * and is not recorded. */
void engine_watch_routers(struct engine *e, engine_watch_fn fn, void *ctx);

struct engine_stats {
	int64_t prefix_query_tok, prefix_hit_tok; /* tokens of all prompts, and those found */
	int checkpoints; /* of recurrent state, now … */
	int checkpoints_max; /* … and slots, those of running sequences included */
};
void engine_stats(const struct engine *e, struct engine_stats *out);
