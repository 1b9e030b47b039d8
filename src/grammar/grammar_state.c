/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a text through its grammar with a pushdown automaton. All possible derivations
 * are followed at once, and the automaton is made deterministic on demand.
 *
 *   frame   One thing left to do: the next kid of a sequence, or the next round of a
 *           repetition with its count. It lies on top of its parent in the same rule. The
 *           frame at the end of a rule has parent 0.
 *   CALL    What the caller of a rule has left to do, on top of its own caller. A tail
 *           call pushes nothing, so right recursion does not nest.
 *   config  A leaf frame (a literal at an offset, a class at a row) and its CALL: one way
 *           to read the next byte.
 *   set     All configs that are possible after the same bytes: the automaton's state.
 *
 * Frames and sets are interned: equal ones have equal numbers. A set remembers where each
 * byte led, so the second time is a table lookup. A rule's frames do not know their
 * caller. All callers of a rule can thus share the masks within it (grammar_mask.c).
 *
 * Limits. Repetitions are counts, not copies. The nesting of CALLs is bounded. A branch
 * is entered only if it can be completed within that bound (node.need), so the bound
 * makes no dead ends. An ambiguous grammar can have many configs at once. The numbers of
 * configs and frames and the work of one call are bounded too. Beyond these bounds the
 * call fails with E_LIMIT rather than allow too much.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "grammar/grammar_private.h"

#define LEAVE (UINT32_MAX - 1)

#define FRAMES_MAX (1u << 18)
#define SETS_MAX (1u << 15)
#define CONFS_MAX (1u << 19)
#define SET_CONFS_MAX 8192 /* configs in one set */
#define TABLES_MAX 8192
#define BUDGET 500000 /* tasks of one call; they take up to twenty milliseconds */
#define ACCEPT_PIECE ((size_t)GRAMMAR_ACCEPT_BYTES)
/* If the tables are larger than this, the next call sweeps them first. */
#define FRAMES_SOFT (1u << 15)
#define SETS_SOFT (1u << 12)
#define TABLES_SOFT 768 /* tables of next sets, each of 1 KiB */
#define CONFS_SOFT (1u << 16)
#define BUCKETS_FRAMES (1u << 13)
#define BUCKETS_SETS (1u << 11)

static uint32_t grammar_state_mix(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t h = (a * 0x9E3779B97F4A7C15u) ^ (b * 0xC2B2AE3D27D4EB4Fu) ^
		     (c * 0x165667B19E3779F9u);
	h ^= h >> 29;
	h *= 0xBF58476D1CE4E5B9u;
	return (uint32_t)(h >> 32);
}

/* --- frames -------------------------------------------------------------- */

uint32_t grammar_frame(struct grammar_state *s, uint32_t node, uint32_t value,
		       uint32_t parent)
{
	uint32_t h = grammar_state_mix(node, value, parent) % s->n_frame_buckets;
	for (uint32_t i = s->frame_buckets[h]; i; i = s->frames[i].chain) {
		const struct frame *f = &s->frames[i];
		if (f->node == node && f->value == value && f->parent == parent)
			return i;
	}
	if (s->n_frames == FRAMES_MAX) {
		s->is_over = true;
		return FRAME_FIRST;
	}
	if (s->n_frames == s->cap_frames) {
		s->cap_frames *= 2;
		s->frames = xrealloc(s->frames, s->cap_frames * sizeof *s->frames);
	}
	uint16_t depth = node == FRAME_CALL
				 ? (uint16_t)(s->frames[parent].depth + 1) : 0;
	s->frames[s->n_frames] = (struct frame){node, value, parent,
						s->frame_buckets[h], depth};
	s->frame_buckets[h] = s->n_frames;
	return s->n_frames++;
}

/* --- tasks: the way from a byte to the next leaves ----------------------- */

static bool is_seen(struct grammar_state *s, const struct task *t)
{
	if (2 * s->n_seen >= s->cap_seen) {
		struct seen_task *old = s->seen;
		uint32_t n_old = s->cap_seen;
		s->cap_seen *= 2;
		s->seen = xcalloc(s->cap_seen, sizeof *s->seen);
		s->n_seen = 0;
		for (uint32_t i = 0; i < n_old; i++)
			if (old[i].stamp == s->stamp)
				is_seen(s, &old[i].t);
		free(old);
	}
	uint32_t i = grammar_state_mix(t->node, t->parent, t->outer) & (s->cap_seen - 1);
	for (; s->seen[i].stamp == s->stamp; i = (i + 1) & (s->cap_seen - 1)) {
		const struct task *x = &s->seen[i].t;
		if (x->node == t->node && x->parent == t->parent &&
		    x->outer == t->outer)
			return true;
	}
	s->seen[i] = (struct seen_task){*t, s->stamp};
	s->n_seen++;
	return false;
}

static void grammar_state_push(struct grammar_state *s, uint32_t node, uint32_t parent,
			       uint32_t outer)
{
	struct task t = {node, parent, outer};
	if (is_seen(s, &t))
		return;
	if (--s->budget < 0)
		s->is_over = true;
	if (s->n_tasks == s->cap_tasks) {
		s->cap_tasks = s->cap_tasks ? 2 * s->cap_tasks : 256;
		s->tasks = xrealloc(s->tasks, s->cap_tasks * sizeof *s->tasks);
	}
	s->tasks[s->n_tasks++] = t;
}

static void add_leaf(struct grammar_state *s, uint32_t leaf, uint32_t outer)
{
	if (s->n_confs - s->first_conf >= SET_CONFS_MAX || s->n_confs >= CONFS_MAX) {
		s->is_over = true;
		return;
	}
	if (s->n_confs == s->cap_confs) {
		s->cap_confs *= 2;
		s->confs = xrealloc(s->confs, s->cap_confs * sizeof *s->confs);
	}
	s->confs[s->n_confs++] = (struct grammar_config){leaf, outer};
}

/* Continues a repetition after `count` rounds. */
static void repeat(struct grammar_state *s, uint32_t node, uint32_t count,
		   uint32_t parent, uint32_t outer)
{
	const struct grammar_node *x = &s->g->nodes[node];
	if (count >= x->min)
		grammar_state_push(s, LEAVE, parent, outer);
	if (count >= x->max)
		return;
	/* without a maximum, all counts from the minimum on are equivalent */
	uint32_t next = x->max == GRAMMAR_NO_MAX ? MIN(count + 1, x->min) : count + 1;
	/* after the last round there is nothing to remember */
	uint32_t rest = next == x->max ? parent : grammar_frame(s, node, next, parent);
	grammar_state_push(s, x->at, rest, outer);
}

/* Enters kid i of a sequence; the rest of the sequence becomes its parent frame. */
static void go_on(struct grammar_state *s, uint32_t node, uint32_t i,
		  uint32_t parent, uint32_t outer)
{
	const struct grammar_node *x = &s->g->nodes[node];
	uint32_t rest = i + 1 < x->n ? grammar_frame(s, node, i + 1, parent) : parent;
	grammar_state_push(s, s->g->kids[x->at + i], rest, outer);
}

static void leave(struct grammar_state *s, uint32_t parent, uint32_t outer)
{
	if (parent) {
		struct frame f = s->frames[parent];
		if (s->g->nodes[f.node].kind == NODE_SEQ)
			go_on(s, f.node, f.value, f.parent, outer);
		else
			repeat(s, f.node, f.value, f.parent, outer);
	} else if (outer == OUTER_END) {
		s->may_end = true;
	} else if (outer == OUTER_UNKNOWN) {
		s->is_popped = true;
	} else {
		struct frame f = s->frames[outer];
		grammar_state_push(s, LEAVE, f.value, f.parent);
	}
}

/* Enters a rule. A flat rule, such as one character, needs no CALL. With a CALL, its
 * cached mask would cover tokens only up to the end of that rule. */
static void enter_rule(struct grammar_state *s, uint32_t part, uint32_t parent,
		       uint32_t outer)
{
	if (parent && !s->g->nodes[part].is_flat) {
		outer = grammar_frame(s, FRAME_CALL, parent, outer);
		parent = 0;
	}
	grammar_state_push(s, part, parent, outer);
}

static void grammar_state_enter(struct grammar_state *s, uint32_t node, uint32_t parent,
				uint32_t outer)
{
	const struct grammar_node *x = &s->g->nodes[node];
	if (s->frames[outer].depth + x->need > GRAMMAR_MAX_DEPTH)
		return;
	switch ((enum node_kind)x->kind) {
	case NODE_LIT:
		if (x->n == 0)
			grammar_state_push(s, LEAVE, parent, outer);
		else
			add_leaf(s, grammar_frame(s, node, 0, parent), outer);
		break;
	case NODE_CLASS:
		add_leaf(s, grammar_frame(s, node, x->at, parent), outer);
		break;
	case NODE_SEQ:
		if (x->n == 0)
			grammar_state_push(s, LEAVE, parent, outer);
		else
			go_on(s, node, 0, parent, outer);
		break;
	case NODE_ALT:
		for (uint32_t i = 0; i < x->n; i++)
			grammar_state_push(s, s->g->kids[x->at + i], parent, outer);
		break;
	case NODE_REPEAT:
		repeat(s, node, 0, parent, outer);
		break;
	case NODE_REF:
		enter_rule(s, s->g->rules[x->at], parent, outer);
		break;
	}
}

static void run_tasks(struct grammar_state *s)
{
	while (s->n_tasks > 0 && !s->is_over) {
		struct task t = s->tasks[--s->n_tasks];
		if (t.node == LEAVE)
			leave(s, t.parent, t.outer);
		else
			grammar_state_enter(s, t.node, t.parent, t.outer);
	}
	s->n_tasks = 0;
}

/* --- sets ---------------------------------------------------------------- */

void grammar_set_begin(struct grammar_state *s)
{
	s->first_conf = s->n_confs;
	s->may_end = false;
	s->is_popped = false;
	s->n_seen = 0;
	if (++s->stamp == 0) { /* the stamp wrapped around: an old equal stamp must not count as
			        * current */
		memset(s->seen, 0, s->cap_seen * sizeof *s->seen);
		s->stamp = 1;
	}
}

void grammar_set_add(struct grammar_state *s, uint32_t leaf, uint32_t outer)
{
	add_leaf(s, leaf, outer);
}

void grammar_set_leave(struct grammar_state *s, uint32_t outer)
{
	grammar_state_push(s, LEAVE, 0, outer);
	run_tasks(s);
}

static int by_config(const void *a, const void *b)
{
	const struct grammar_config *x = a, *y = b;
	if (x->leaf != y->leaf)
		return x->leaf < y->leaf ? -1 : 1;
	return (x->outer > y->outer) - (x->outer < y->outer);
}

/* The only byte that all configs of the set accept; -1: there are several. */
static int16_t only_byte(const struct grammar_state *s, uint32_t at, uint32_t n)
{
	int16_t only = -1;
	for (uint32_t i = 0; i < n; i++) {
		const struct frame *f = &s->frames[s->confs[at + i].leaf];
		const struct grammar_node *x = &s->g->nodes[f->node];
		int16_t b = x->kind == NODE_LIT
				    ? (uint8_t)s->g->text[x->at + f->value]
				    : s->g->row_only[f->value];
		if (b < 0 || (i > 0 && b != only))
			return -1;
		only = b;
	}
	return only;
}

static uint32_t add_set(struct grammar_state *s, uint32_t n, uint32_t h)
{
	uint32_t at = s->first_conf, bucket = h % s->n_set_buckets;
	if (s->n_sets == SETS_MAX) {
		s->is_over = true;
		return SET_DEAD;
	}
	if (s->n_sets == s->cap_sets) {
		s->cap_sets *= 2;
		s->sets = xrealloc(s->sets, s->cap_sets * sizeof *s->sets);
	}
	s->sets[s->n_sets] = (struct set){
		.at = at, .n = n, .hash = h, .chain = s->set_buckets[bucket],
		.may_end = s->may_end, .is_popped = s->is_popped,
		.only = only_byte(s, at, n), .only_next = SET_UNKNOWN,
	};
	s->set_buckets[bucket] = s->n_sets;
	return s->n_sets++;
}

uint32_t grammar_set_end(struct grammar_state *s)
{
	struct grammar_config *c = s->confs + s->first_conf;
	uint32_t n = s->n_confs - s->first_conf, kept = 0;
	if (s->is_over || (n == 0 && !s->may_end && !s->is_popped)) {
		s->n_confs = s->first_conf;
		return SET_DEAD;
	}
	if (n > 1)
		qsort(c, n, sizeof *c, by_config);
	uint32_t h = (uint32_t)s->may_end << 1 | s->is_popped;
	for (uint32_t i = 0; i < n; i++) {
		if (kept > 0 && by_config(&c[kept - 1], &c[i]) == 0)
			continue;
		c[kept++] = c[i];
		h = grammar_state_mix(h, c[i].leaf, c[i].outer);
	}
	s->n_confs = s->first_conf + kept;
	for (uint32_t i = s->set_buckets[h % s->n_set_buckets]; i;
	     i = s->sets[i].chain) {
		const struct set *x = &s->sets[i];
		if (x->hash == h && x->n == kept && x->may_end == s->may_end &&
		    x->is_popped == s->is_popped &&
		    (kept == 0 ||
		     memcmp(s->confs + x->at, c, kept * sizeof *c) == 0)) {
			s->n_confs = s->first_conf;
			return i;
		}
	}
	return add_set(s, kept, h);
}

/* Lets one config read a byte. */
static void read_byte(struct grammar_state *s, struct grammar_config c, uint8_t byte)
{
	struct frame f = s->frames[c.leaf];
	const struct grammar_node *x = &s->g->nodes[f.node];
	uint32_t next = ROW_DONE;
	if (x->kind == NODE_LIT) {
		if ((uint8_t)s->g->text[x->at + f.value] != byte)
			return;
		if (f.value + 1 < x->n)
			next = f.value + 1;
		else
			next = 0;
	} else {
		next = s->g->rows[f.value].next[byte];
		if (next == ROW_DEAD)
			return;
		if (next == ROW_DONE)
			next = 0;
	}
	if (next)
		add_leaf(s, grammar_frame(s, f.node, next, f.parent), c.outer);
	else
		grammar_state_push(s, LEAVE, f.parent, c.outer);
}

static uint32_t compute_step(struct grammar_state *s, uint32_t set, uint8_t byte)
{
	uint32_t at = s->sets[set].at, n = s->sets[set].n;
	grammar_set_begin(s);
	s->budget -= n / 4;
	if (s->budget < 0)
		s->is_over = true;
	for (uint32_t i = 0; i < n && !s->is_over; i++)
		read_byte(s, s->confs[at + i], byte);
	run_tasks(s);
	return grammar_set_end(s);
}

uint32_t grammar_set_step(struct grammar_state *s, uint32_t set, uint8_t byte)
{
	struct set *x = &s->sets[set];
	if (x->n == 0 || (x->only >= 0 && x->only != byte))
		return SET_DEAD;
	if (x->only >= 0) {
		if (x->only_next != SET_UNKNOWN)
			return x->only_next;
		uint32_t next = compute_step(s, set, byte);
		if (!s->is_over)
			s->sets[set].only_next = next;
		return next;
	}
	if (!x->next) {
		if (s->n_tables == TABLES_MAX) {
			s->is_over = true;
			return SET_DEAD;
		}
		s->n_tables++;
		x->next = xmalloc(256 * sizeof *x->next);
		memset(x->next, 0xff, 256 * sizeof *x->next);
	}
	uint32_t *slot = &x->next[byte];
	if (*slot == SET_UNKNOWN) {
		uint32_t next = compute_step(s, set, byte);
		if (s->is_over)
			return SET_DEAD;
		*slot = next; /* valid even if compute_step moved the sets: the table has its own
			       * memory */
	}
	return *slot;
}

/* --- life ---------------------------------------------------------------- */

static void make_tables(struct grammar_state *s)
{
	s->cap_frames = 256;
	s->frames = xcalloc(s->cap_frames, sizeof *s->frames);
	s->n_frames = FRAME_FIRST;
	/* A cached mask does not know how deep its rule is nested. It assumes half the
	 * maximal depth; masks of deeper places are not cached. */
	s->frames[OUTER_UNKNOWN].depth = GRAMMAR_MAX_DEPTH / 2;
	s->n_frame_buckets = BUCKETS_FRAMES;
	s->frame_buckets = xcalloc(s->n_frame_buckets, sizeof *s->frame_buckets);
	s->cap_sets = 64;
	s->sets = xcalloc(s->cap_sets, sizeof *s->sets);
	s->n_sets = 1;
	s->n_set_buckets = BUCKETS_SETS;
	s->set_buckets = xcalloc(s->n_set_buckets, sizeof *s->set_buckets);
	s->cap_confs = 256;
	s->confs = xmalloc(s->cap_confs * sizeof *s->confs);
	s->n_confs = 0;
	s->n_tables = 0;
	for (int i = 0; i < RECENT_MASKS; i++)
		s->recent[i].set = SET_DEAD;
}

static void free_tables(struct grammar_state *s)
{
	for (uint32_t i = 0; i < s->n_sets; i++)
		free(s->sets[i].next);
	free(s->frames);
	free(s->frame_buckets);
	free(s->sets);
	free(s->set_buckets);
	free(s->confs);
}

/* Copies only the current set, with its frames, into fresh tables. A frame has a higher
 * number than its parent and its value. So one pass from the last frame to the first marks
 * the frames in use, and one pass back copies them. */
static void sweep(struct grammar_state *s)
{
	struct grammar_state old = *s;
	struct set now = old.sets[old.now];
	uint32_t *to = xcalloc(old.n_frames, sizeof *to);
	make_tables(s);
	for (uint32_t i = 0; i < now.n; i++) {
		to[old.confs[now.at + i].leaf] = 1;
		to[old.confs[now.at + i].outer] = 1;
	}
	for (uint32_t i = old.n_frames - 1; i >= FRAME_FIRST; i--) {
		if (!to[i])
			continue;
		to[old.frames[i].parent] = 1;
		if (old.frames[i].node == FRAME_CALL)
			to[old.frames[i].value] = 1;
	}
	to[OUTER_END] = OUTER_END;
	to[OUTER_UNKNOWN] = OUTER_UNKNOWN;
	for (uint32_t i = FRAME_FIRST; i < old.n_frames; i++) {
		const struct frame *f = &old.frames[i];
		if (to[i])
			to[i] = grammar_frame(s, f->node,
					      f->node == FRAME_CALL ? to[f->value]
								    : f->value,
					      to[f->parent]);
	}
	grammar_set_begin(s);
	for (uint32_t i = 0; i < now.n; i++)
		add_leaf(s, to[old.confs[now.at + i].leaf],
			 to[old.confs[now.at + i].outer]);
	s->may_end = now.may_end;
	s->now = grammar_set_end(s);
	free_tables(&old);
	free(to);
}

void grammar_state_begin_call(struct grammar_state *s)
{
	s->is_over = false;
	s->budget = BUDGET;
	if (s->n_frames > FRAMES_SOFT || s->n_sets > SETS_SOFT ||
	    s->n_tables > TABLES_SOFT || s->n_confs > CONFS_SOFT)
		sweep(s);
}

struct grammar_state *grammar_state_create(struct grammar *g,
					   const struct grammar_vocab *v)
{
	struct grammar_state *s = xcalloc(1, sizeof *s);
	s->g = grammar_ref(g);
	s->v = v;
	s->cap_seen = 256;
	s->seen = xcalloc(s->cap_seen, sizeof *s->seen);
	s->path = xmalloc(((size_t)v->max_bytes + 2) * sizeof *s->path);
	s->budget = BUDGET;
	make_tables(s);
	grammar_set_begin(s);
	grammar_state_push(s, g->root, 0, OUTER_END);
	run_tasks(s);
	s->now = grammar_set_end(s);
	return s;
}

void grammar_state_destroy(struct grammar_state *s)
{
	if (!s)
		return;
	free_tables(s);
	free(s->tasks);
	free(s->seen);
	free(s->ids);
	free(s->popped);
	free(s->path);
	for (int i = 0; i < RECENT_MASKS; i++)
		free(s->recent[i].bits);
	grammar_unref(s->g);
	free(s);
}

static enum status accept_piece(struct grammar_state *s, struct str bytes)
{
	grammar_state_begin_call(s);
	uint32_t set = s->now;
	for (size_t i = 0; i < bytes.n && set != SET_DEAD; i++)
		set = grammar_set_step(s, set, (uint8_t)bytes.p[i]);
	if (s->is_over || s->now == SET_DEAD)
		return E_LIMIT;
	if (set == SET_DEAD)
		return E_INVAL;
	s->now = set;
	return OK;
}

enum status grammar_state_accept(struct grammar_state *s, struct str bytes)
{
	enum status st = OK;
	/* read in pieces, so that the tables can be swept in between */
	for (size_t at = 0; at < bytes.n && st == OK; at += ACCEPT_PIECE) {
		struct str piece = {bytes.p + at, MIN(bytes.n - at, ACCEPT_PIECE)};
		st = accept_piece(s, piece);
	}
	return st;
}

bool grammar_state_may_end(const struct grammar_state *s)
{
	return s->sets[s->now].may_end;
}

bool grammar_state_must_end(const struct grammar_state *s)
{
	return s->sets[s->now].may_end && s->sets[s->now].n == 0;
}

void grammar_state_forced(struct grammar_state *s, size_t max, struct buf *out)
{
	grammar_state_begin_call(s);
	uint32_t set = s->now;
	for (size_t i = 0; i < max; i++) {
		const struct set *x = &s->sets[set];
		if (x->may_end || x->only < 0)
			return;
		char c = (char)x->only;
		set = grammar_set_step(s, set, (uint8_t)c);
		if (set == SET_DEAD)
			return;
		buf_add_c(out, c);
	}
}
