/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled grammar: grammar_build.c makes it, grammar_state.c and grammar_mask.c run
 * it. Only files of this folder include this header.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "grammar/grammar_build.h"

enum node_kind { NODE_LIT, NODE_CLASS, NODE_SEQ, NODE_ALT, NODE_REPEAT, NODE_REF };

struct grammar_node {
	uint8_t kind;
	bool is_nullable;
	bool is_tail;      /* for REF: the last thing that its rule does */
	bool is_flat;      /* matches only a few characters; as a rule, it is written in place */
	uint16_t need;     /* nesting depth of rules needed to write this node; or NEED_NEVER */
	uint32_t at;       /* LIT: offset in text; CLASS: first row; SEQ, ALT: offset in kids;
			    * REPEAT: the body; REF: the rule */
	uint32_t n;        /* LIT: number of bytes; SEQ, ALT: number of kids */
	uint32_t min, max; /* for REPEAT: number of rounds */
};
#define NEED_MAX 256
#define NEED_NEVER UINT16_MAX

/* A state of a class's automaton over the bytes of UTF-8. */
struct row {
	uint16_t next[256]; /* [byte]: index of the next row, or one of these: */
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
	int16_t *row_only; /* [row]: the only byte that the row accepts; -1: several or none */
	uint32_t *rules;   /* [rule]: the part that is its body */
	uint32_t root;
	size_t n_bytes;    /* memory of all arrays above */

	pthread_mutex_t lock; /* guards the cache */
	struct mask_cache *cache;
};

/* --- grammar_class.c: rows of classes --- */
struct row_pool {
	struct row *rows;
	uint32_t n, cap;
	uint32_t *buckets; /* hash table of rows by content */
	uint32_t *chain;
	uint32_t full[4];  /* rows that accept any 1, 2 or 3 continuation bytes */
	bool is_full;
	size_t n_work; /* units of base/work.h since row_pool_class was called */
};
void row_pool_init(struct row_pool *p);
void row_pool_deinit(struct row_pool *p);
/* Sorts and joins the ranges in place. None begins or ends with a surrogate or behind U+10FFFF:
 * what has only such, which no UTF-8 can write, goes. Returns the new number of ranges. */
size_t range_normalize(struct grammar_range *r, size_t n);
/* Complements n normalized ranges; out has room for n + 2. Returns the number of ranges. */
size_t range_negate(const struct grammar_range *r, size_t n,
		    struct grammar_range *out);
/* The first row of the automaton for n normalized ranges; ROW_DEAD for none. */
uint32_t row_pool_class(struct row_pool *p, const struct grammar_range *r, size_t n);

/* --- grammar_unicode.c: gives the characters of \p{name} as normalized ranges, which the
 * caller frees. An unknown name gives 0 and NULL. */
size_t grammar_unicode_class(struct str name, struct grammar_range **out);

/* --- grammar_build.c: helpers of the notations. grammar_read_hex reads n hexadecimal
 * digits; grammar_read_count reads a repetition count, clipped above all limits. False:
 * no digits here, and *at is unchanged. */
bool grammar_read_hex(struct str s, size_t *at, int n, uint32_t *out);
bool grammar_read_count(struct str s, size_t *at, uint32_t *out);

/* --- grammar_vocab.c: a trie in preorder; node 0 is the root --- */
struct trie_node {
	uint32_t end;  /* index after the last descendant */
	int32_t token; /* token that ends here, more by next_same; -1: none */
	uint16_t depth;
	uint8_t byte;
};
struct grammar_vocab {
	struct trie_node *nodes;
	uint32_t n_nodes;
	int32_t *next_same; /* [id]: next token with the same bytes, or -1 */
	int32_t n_ids;
	int max_bytes;      /* bytes of the longest token */
};

/* --- grammar_state.c, for grammar_mask.c --- A frame is one thing left to do; its parent
 * is what to do after that. A leaf is a frame that will read the next byte. */
struct frame {
	uint32_t node;   /* grammar node; or FRAME_CALL for what the rule's caller has left to do */
	uint32_t value;  /* LIT: byte offset; CLASS: row; SEQ: next kid; REPEAT: rounds done;
			  * CALL: the frame with which the caller continues */
	uint32_t parent; /* frame in the same rule, 0: end of the rule; CALL: the outer CALL */
	uint32_t chain;
	uint16_t depth;  /* number of CALLs below */
};
#define FRAME_CALL UINT32_MAX
/* Outermost callers: the end of the text, and the unknown caller of a cached mask. */
#define OUTER_END 0
#define OUTER_UNKNOWN 1
#define FRAME_FIRST 2

struct grammar_config {
	uint32_t leaf, outer;
};

struct set {
	uint32_t at, n;   /* configs confs[at .. at + n - 1] */
	uint32_t hash, chain;
	bool may_end;     /* a config reached the end of the text */
	bool is_popped;   /* a config left the rule of the unknown caller */
	int16_t only;     /* the only byte that any config accepts; -1: several or none */
	uint32_t only_next;
	uint32_t *next;   /* [256] next sets, made at the first lookup; SET_UNKNOWN: not computed
			   * yet */
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
	uint32_t node, parent, outer; /* node LEAVE: `parent` is done */
};

struct grammar_state {
	struct grammar *g;
	const struct grammar_vocab *v;
	uint32_t now; /* the current set */

	struct frame *frames;
	uint32_t n_frames, cap_frames, *frame_buckets, n_frame_buckets;
	struct set *sets;
	uint32_t n_sets, cap_sets, *set_buckets, n_set_buckets, n_tables;
	struct grammar_config *confs;
	uint32_t n_confs, cap_confs;

	/* the set under construction */
	struct task *tasks;
	uint32_t n_tasks, cap_tasks;
	struct seen_task {
		struct task t;
		uint32_t stamp;
	} *seen;
	uint32_t n_seen, cap_seen, stamp;
	bool may_end, is_popped, is_over;
	uint32_t first_conf;
	int64_t budget; /* tasks that the current call may still run */

	/* scratch memory of grammar_mask.c */
	int32_t *ids;
	size_t n_ids, cap_ids;
	uint32_t *popped;
	size_t n_popped, cap_popped;
	uint32_t *path; /* [max_bytes + 1] sets along the path in the trie */
	struct recent_mask recent[RECENT_MASKS];
	int i_recent;
};

uint32_t grammar_frame(struct grammar_state *s, uint32_t node, uint32_t value,
		       uint32_t parent);
void grammar_set_begin(struct grammar_state *s);
void grammar_set_add(struct grammar_state *s, uint32_t leaf, uint32_t outer);
/* Continues after a finished rule with what its caller `outer` has left to do. */
void grammar_set_leave(struct grammar_state *s, uint32_t outer);
/* Finishes the set under construction. SET_DEAD: the set has no config, though the text
 * may still end here; or, with is_over set, a limit was hit. */
uint32_t grammar_set_end(struct grammar_state *s);
uint32_t grammar_set_step(struct grammar_state *s, uint32_t set, uint8_t byte);
/* Resets the budget for a new call. If the tables have grown large, drops all but the
 * current set first. */
void grammar_state_begin_call(struct grammar_state *s);

/* --- grammar_mask.c --- */
void mask_cache_destroy(struct mask_cache *c);
