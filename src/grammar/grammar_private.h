/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled grammar, as grammar_build.c makes it and grammar_state.c runs it.
 * Nobody else includes this.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "grammar/grammar_build.h"

enum node_kind { NODE_LIT, NODE_CLASS, NODE_SEQ, NODE_ALT, NODE_REPEAT, NODE_REF };

struct grammar_node {
	uint8_t kind;
	bool is_nullable;
	bool is_tail;      /* REF: nothing of its rule stands behind it */
	bool is_flat;      /* no more than some characters: as a rule, written in place */
	uint16_t need;     /* rules within rules that it takes to write it; NEED_NEVER */
	uint32_t at;       /* LIT: in text; CLASS: first row; SEQ, ALT: in kids;
	                      REPEAT: the body; REF: the rule */
	uint32_t n;        /* LIT: bytes; SEQ, ALT: kids */
	uint32_t min, max; /* REPEAT */
};
#define NEED_MAX 256
#define NEED_NEVER UINT16_MAX

/* A class is an automaton over the bytes of UTF-8. */
struct row {
	uint16_t next[256]; /* another row, or: */
};
#define ROW_DEAD 0
#define ROW_DONE 1
#define ROW_FIRST 2

struct mask_cache;

struct grammar {
	_Atomic int refs;
	struct grammar_node *nodes;
	uint32_t n_nodes;
	uint32_t *kids;
	char *text;
	struct row *rows;
	int16_t *row_only; /* the only byte a row goes on by, or -1 */
	uint32_t *rules;   /* their parts */
	uint32_t root;
	size_t n_bytes;    /* of all of the above */

	pthread_mutex_t lock; /* of the cache */
	struct mask_cache *cache;
};

/* --- grammar_class.c: rows of classes --- */
struct row_pool {
	struct row *rows;
	uint32_t n, cap;
	uint32_t *buckets; /* by content */
	uint32_t *chain;
	uint32_t full[4];  /* any 1, 2, 3 continuation bytes */
	bool is_full;
};
void row_pool_init(struct row_pool *p);
void row_pool_deinit(struct row_pool *p);
/* Sorts and joins the ranges in place and takes out what is no character. Returns
 * how many are left. */
size_t range_normalize(struct grammar_range *r, size_t n);
/* All other characters, of n normalized ranges; out has room for n + 2. */
size_t range_negate(const struct grammar_range *r, size_t n,
		    struct grammar_range *out);
/* First row of the class of n normalized ranges. */
uint32_t row_pool_class(struct row_pool *p, const struct grammar_range *r, size_t n);

/* --- grammar_unicode.c: the characters of \p{name}, normalized, to be freed; 0 and NULL
 * where the name is not known. */
size_t grammar_unicode_class(struct str name, struct grammar_range **out);

/* --- grammar_build.c, for the notations: n hexadecimal digits; a repetition count, cut
 * off above all bounds. False where they are not there, and *at is as it was. */
bool grammar_read_hex(struct str s, size_t *at, int n, uint32_t *out);
bool grammar_read_count(struct str s, size_t *at, uint32_t *out);

/* --- grammar_vocab.c: a trie in preorder; node 0 is the root --- */
struct trie_node {
	uint32_t end;  /* behind its last descendant */
	int32_t token; /* -1: none; more of the same bytes by next_same */
	uint16_t depth;
	uint8_t byte;
};
struct grammar_vocab {
	struct trie_node *nodes;
	uint32_t n_nodes;
	int32_t *next_same; /* (n_ids) */
	int32_t n_ids;
	int max_bytes;      /* of a token */
};

/* --- grammar_state.c, for grammar_mask.c ---
 * A frame is what is left to do, on top of its parent; a leaf is a frame about to
 * read a byte. */
struct frame {
	uint32_t node;   /* CALL for a rule's caller */
	uint32_t value;  /* LIT: offset; CLASS: row; SEQ: next kid; REPEAT: how often;
	                    CALL: the frame to go on with */
	uint32_t parent; /* within the rule, 0 at its end; CALL: the outer CALL */
	uint32_t chain;
	uint16_t depth;  /* of CALLs */
};
#define FRAME_CALL UINT32_MAX
/* Outermost: the text's end, and the end of what a cached mask knows. */
#define OUTER_END 0
#define OUTER_UNKNOWN 1
#define FRAME_FIRST 2

struct grammar_config {
	uint32_t leaf, outer;
};

struct set {
	uint32_t at, n;   /* in confs */
	uint32_t hash, chain;
	bool may_end;     /* popped to OUTER_END */
	bool is_popped;   /* popped to OUTER_UNKNOWN */
	int16_t only;     /* the only byte it goes on by, or -1 */
	uint32_t only_next;
	uint32_t *next;   /* [256], made when first asked; SET_UNKNOWN */
};
#define SET_DEAD 0
#define SET_UNKNOWN UINT32_MAX

#define RECENT_MASKS 4
struct recent_mask {
	uint32_t set;
	uint64_t *bits;
	size_t n_words;
};

struct task {
	uint32_t node, parent, outer; /* node LEAVE: parent is done */
};

struct grammar_state {
	struct grammar *g;
	const struct grammar_vocab *v;
	uint32_t now; /* set */

	struct frame *frames;
	uint32_t n_frames, cap_frames, *frame_buckets, n_frame_buckets;
	struct set *sets;
	uint32_t n_sets, cap_sets, *set_buckets, n_set_buckets, n_tables;
	struct grammar_config *confs;
	uint32_t n_confs, cap_confs;

	/* the set in the making */
	struct task *tasks;
	uint32_t n_tasks, cap_tasks;
	struct seen_task {
		struct task t;
		uint32_t stamp;
	} *seen;
	uint32_t n_seen, cap_seen, stamp;
	bool may_end, is_popped, is_over;
	uint32_t first_conf;
	int64_t budget; /* tasks left to the call */

	/* masks */
	int32_t *ids;
	size_t n_ids, cap_ids;
	uint32_t *popped;
	size_t n_popped, cap_popped;
	uint32_t *path; /* (max_bytes + 1) sets */
	struct recent_mask recent[RECENT_MASKS];
	int i_recent;
};

uint32_t grammar_frame(struct grammar_state *s, uint32_t node, uint32_t value,
		       uint32_t parent);
void grammar_set_begin(struct grammar_state *s);
void grammar_set_add(struct grammar_state *s, uint32_t leaf, uint32_t outer);
/* The rule within `outer` is done. */
void grammar_set_leave(struct grammar_state *s, uint32_t outer);
/* SET_DEAD when nothing is in it (what may end is), and with is_over set when a
 * bound was met. */
uint32_t grammar_set_end(struct grammar_state *s);
uint32_t grammar_set_step(struct grammar_state *s, uint32_t set, uint8_t byte);
/* Forget all but the current set when the tables have grown large, and start the
 * call's budget. */
void grammar_state_begin_call(struct grammar_state *s);

/* --- grammar_mask.c --- */
void mask_cache_destroy(struct mask_cache *c);
