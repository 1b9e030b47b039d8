/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes which tokens may come next, in microseconds for a vocabulary of 150,000.
 *
 * The direct way walks the vocabulary's trie with a set of configs at each node and skips
 * the subtree of a dead set. Within a string nearly nothing is dead, so this walk takes a
 * millisecond or more. Its result does not depend on the string's place in the document,
 * until a token extends past the string's end. Therefore two things are cached for each
 * config (leaf frame, caller):
 *
 *   known     The tokens that stay within the rule or end exactly at its end. One walk with
 *             an unknown caller finds them. The grammar keeps them for all sequences; the
 *             key is the rule's frames (the leaf and its parents).
 *   popped    The trie nodes at which the rule was left. Below them, each request walks on
 *             with its true caller: a few hundred nodes after a string's closing quote.
 *
 * Repetition counts are part of the frames. Counts that are further from the minimum and
 * the maximum than the longest token is long are equivalent and share one entry. A string
 * of 1 to 1000 characters thus has as many masks as the longest token has bytes, not
 * 1000.
 *
 * Literal leaves accept few tokens, such as the many possible keys of an object. If there
 * are many, caching each would not pay: they are walked together as one set.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "grammar/grammar_private.h"

#define CACHE_BYTES (24u << 20) /* limit per grammar: enough for a thousand dense masks */
#define CACHE_BUCKETS 1024
#define SPARSE_MAX 2048 /* tokens; up to this number a list is smaller and faster than bits */
#define NARROW_MAX 4    /* maximum of literal leaves that are looked up one by one */
#define WIDE_MAX 8      /* maximum of other leaves; with more, walks one by one cost too much */

struct mask_entry {
	struct mask_entry *chain;        /* next entry in the same bucket */
	struct mask_entry *newer, *older;
	uint64_t hash;
	uint32_t *key;
	size_t n_key;
	size_t n_bytes;
	const struct grammar_vocab *v;
	int32_t *ids; /* list of tokens if they are few, else NULL and `bits` is set */
	uint64_t *bits;
	size_t n_ids, n_words;
	uint32_t *popped; /* trie nodes in ascending order */
	size_t n_popped;
};

struct mask_cache {
	struct mask_entry *buckets[CACHE_BUCKETS];
	struct mask_entry *newest, *oldest;
	size_t n_bytes;
};

static void entry_free(struct mask_entry *e)
{
	free(e->key);
	free(e->ids);
	free(e->bits);
	free(e->popped);
	free(e);
}

void mask_cache_destroy(struct mask_cache *c)
{
	if (!c)
		return;
	while (c->newest) {
		struct mask_entry *e = c->newest;
		c->newest = e->older;
		entry_free(e);
	}
	free(c);
}

size_t grammar_size(struct grammar *g)
{
	pthread_mutex_lock(&g->lock);
	size_t n = g->n_bytes + (g->cache ? sizeof *g->cache + g->cache->n_bytes : 0);
	pthread_mutex_unlock(&g->lock);
	return n;
}

static void unlink_age(struct mask_cache *c, struct mask_entry *e)
{
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void link_newest(struct mask_cache *c, struct mask_entry *e)
{
	e->newer = NULL;
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
}

static void evict(struct mask_cache *c)
{
	while (c->n_bytes > CACHE_BYTES && c->oldest != c->newest) {
		struct mask_entry *e = c->oldest;
		struct mask_entry **at = &c->buckets[e->hash % CACHE_BUCKETS];
		while (*at != e)
			at = &(*at)->chain;
		*at = e->chain;
		unlink_age(c, e);
		c->n_bytes -= e->n_bytes;
		entry_free(e);
	}
}

/* --- the walk ------------------------------------------------------------ */

static void add_tokens(struct grammar_state *s, int32_t token)
{
	for (; token >= 0; token = s->v->next_same[token]) {
		if (s->n_ids == s->cap_ids) {
			s->cap_ids = s->cap_ids ? 2 * s->cap_ids : 1024;
			s->ids = xrealloc(s->ids, s->cap_ids * sizeof *s->ids);
		}
		s->ids[s->n_ids++] = token;
	}
}

static void add_popped(struct grammar_state *s, uint32_t i)
{
	if (s->n_popped == s->cap_popped) {
		s->cap_popped = s->cap_popped ? 2 * s->cap_popped : 256;
		s->popped = xrealloc(s->popped, s->cap_popped * sizeof *s->popped);
	}
	s->popped[s->n_popped++] = i;
}

/* Walks the trie below node `from`, with the automaton in state `set`. Appends the tokens
 * found to s->ids. Appends to s->popped the nodes at which the automaton left an unknown
 * caller's rule. */
static void walk(struct grammar_state *s, uint32_t from, uint32_t set)
{
	const struct trie_node *t = s->v->nodes;
	uint32_t end = t[from].end;
	s->path[t[from].depth] = set;
	for (uint32_t i = from + 1; i < end && !s->is_over;) {
		uint32_t before = s->path[t[i].depth - 1];
		const uint32_t *table = s->sets[before].next;
		uint32_t next = table ? table[t[i].byte] : SET_UNKNOWN;
		if (next == SET_UNKNOWN)
			next = grammar_set_step(s, before, t[i].byte);
		if (next == SET_DEAD) {
			i = t[i].end;
			continue;
		}
		s->path[t[i].depth] = next;
		if (t[i].token >= 0)
			add_tokens(s, t[i].token);
		if (s->sets[next].is_popped)
			add_popped(s, i);
		i++;
	}
}

/* --- entries ------------------------------------------------------------- */

/* Maps a repetition count to the representative of all counts that no token can tell
 * apart. */
static uint32_t clamp_count(const struct grammar_state *s, const struct grammar_node *x,
			    uint32_t count)
{
	uint32_t far = (uint32_t)s->v->max_bytes + 2;
	if (s->g->nodes[x->at].is_nullable)
		/* rounds may be empty, so a token's length does not bound their number */
		return count;
	if (count < x->min)
		return x->min - count > far ? x->min - far : count;
	bool is_far = x->max == GRAMMAR_NO_MAX || x->max - count > far;
	return is_far ? x->min : count;
}

/* Appends to key the frames of the rule, from the leaf upward. */
static void make_key(const struct grammar_state *s, uint32_t leaf, struct buf *key)
{
	for (uint32_t i = leaf; i; i = s->frames[i].parent) {
		const struct frame *f = &s->frames[i];
		const struct grammar_node *x = &s->g->nodes[f->node];
		uint32_t part[2] = {f->node, f->value};
		if (x->kind == NODE_REPEAT)
			part[1] = clamp_count(s, x, f->value);
		buf_add(key, part, sizeof part);
	}
}

/* Makes the frames that a key of make_key describes. */
static uint32_t frames_of(struct grammar_state *s, const uint32_t *key, size_t n)
{
	uint32_t parent = 0;
	for (size_t i = n; i >= 2; i -= 2)
		parent = grammar_frame(s, key[i - 2], key[i - 1], parent);
	return parent;
}

static void *copy_of(const void *p, size_t n)
{
	void *copy = xmalloc(n + 1);
	if (n)
		memcpy(copy, p, n);
	return copy;
}

static void set_bits(uint64_t *bits, size_t n_words, const int32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t word = (size_t)ids[i] / 64;
		if (word < n_words)
			bits[word] |= (uint64_t)1 << (ids[i] % 64);
	}
}

/* Walks the whole vocabulary from the frames of key. NULL: a limit was hit. */
static struct mask_entry *make_entry(struct grammar_state *s, const struct buf *key)
{
	size_t n_key = key->n / sizeof(uint32_t);
	grammar_set_begin(s);
	grammar_set_add(s, frames_of(s, (const uint32_t *)key->p, n_key),
			OUTER_UNKNOWN);
	uint32_t set = grammar_set_end(s);
	s->n_ids = s->n_popped = 0;
	walk(s, 0, set);
	if (s->is_over)
		return NULL;
	struct mask_entry *e = xcalloc(1, sizeof *e);
	e->v = s->v;
	e->key = copy_of(key->p, key->n);
	e->n_key = n_key;
	e->n_ids = s->n_ids;
	e->n_popped = s->n_popped;
	e->popped = copy_of(s->popped, s->n_popped * sizeof *s->popped);
	e->n_bytes = sizeof *e + key->n + e->n_popped * sizeof *e->popped;
	if (e->n_ids <= SPARSE_MAX) {
		e->ids = copy_of(s->ids, s->n_ids * sizeof *s->ids);
		e->n_bytes += e->n_ids * sizeof *e->ids;
	} else {
		e->n_words = ((size_t)s->v->n_ids + 63) / 64;
		e->bits = xcalloc(e->n_words, sizeof *e->bits);
		set_bits(e->bits, e->n_words, s->ids, s->n_ids);
		e->n_bytes += e->n_words * sizeof *e->bits;
	}
	return e;
}

/* Finds or makes the entry of a leaf. The caller holds the grammar's lock. */
static struct mask_entry *find_entry(struct grammar_state *s, uint32_t leaf)
{
	struct buf key = {0};
	make_key(s, leaf, &key);
	size_t n_key = key.n / sizeof(uint32_t);
	uint64_t h = hash_bytes(0, key.p, key.n);
	if (!s->g->cache)
		s->g->cache = xcalloc(1, sizeof *s->g->cache);
	struct mask_cache *c = s->g->cache;
	struct mask_entry *e = c->buckets[h % CACHE_BUCKETS];
	while (e && !(e->hash == h && e->v == s->v && e->n_key == n_key &&
		      memcmp(e->key, key.p, key.n) == 0))
		e = e->chain;
	if (e) {
		unlink_age(c, e);
		link_newest(c, e);
	} else if ((e = make_entry(s, &key))) {
		e->hash = h;
		e->chain = c->buckets[h % CACHE_BUCKETS];
		c->buckets[h % CACHE_BUCKETS] = e;
		link_newest(c, e);
		c->n_bytes += e->n_bytes;
		evict(c);
	}
	buf_deinit(&key);
	return e;
}

/* --- masks --------------------------------------------------------------- */

static void add_config(struct grammar_state *s, struct grammar_config c, uint64_t *bits,
		       size_t n_words)
{
	const struct mask_entry *e = find_entry(s, c.leaf);
	if (!e)
		return;
	if (e->bits)
		for (size_t i = 0; i < MIN(n_words, e->n_words); i++)
			bits[i] |= e->bits[i];
	else
		set_bits(bits, n_words, e->ids, e->n_ids);
	if (e->n_popped == 0 || c.outer == OUTER_END)
		return;
	grammar_set_begin(s);
	grammar_set_leave(s, c.outer);
	uint32_t after = grammar_set_end(s);
	if (after == SET_DEAD)
		return;
	s->n_ids = 0;
	for (size_t i = 0; i < e->n_popped; i++)
		walk(s, e->popped[i], after);
	set_bits(bits, n_words, s->ids, s->n_ids);
}

static bool is_narrow(const struct grammar_state *s, struct grammar_config c)
{
	return s->g->nodes[s->frames[c.leaf].node].kind == NODE_LIT;
}

static void compute(struct grammar_state *s, uint64_t *bits, size_t n_words)
{
	uint32_t at = s->sets[s->now].at, n = s->sets[s->now].n, n_narrow = 0;
	for (uint32_t i = 0; i < n; i++)
		n_narrow += is_narrow(s, s->confs[at + i]);
	bool joins_narrow = n_narrow > NARROW_MAX, joins_all = n - n_narrow > WIDE_MAX;
	struct grammar_config *rest_of = xmalloc((n + 1) * sizeof *rest_of);
	uint32_t n_rest = 0;
	pthread_mutex_lock(&s->g->lock);
	for (uint32_t i = 0; i < n && !s->is_over; i++) {
		struct grammar_config c = s->confs[at + i];
		if (joins_all || (joins_narrow && is_narrow(s, c)) ||
		    s->frames[c.outer].depth >= GRAMMAR_MAX_DEPTH / 2)
			rest_of[n_rest++] = c;
		else
			add_config(s, c, bits, n_words);
	}
	pthread_mutex_unlock(&s->g->lock);
	grammar_set_begin(s);
	for (uint32_t i = 0; i < n_rest; i++)
		grammar_set_add(s, rest_of[i].leaf, rest_of[i].outer);
	free(rest_of);
	uint32_t rest = grammar_set_end(s);
	if (rest == SET_DEAD)
		return;
	s->n_ids = 0;
	walk(s, 0, rest);
	set_bits(bits, n_words, s->ids, s->n_ids);
}

enum status grammar_state_mask(struct grammar_state *s, uint64_t *allowed,
			       size_t n_words)
{
	grammar_state_begin_call(s);
	for (int i = 0; i < RECENT_MASKS; i++) {
		const struct recent_mask *r = &s->recent[i];
		if (r->set == s->now && r->n_words == n_words) {
			memcpy(allowed, r->bits, n_words * sizeof *allowed);
			return OK;
		}
	}
	memset(allowed, 0, n_words * sizeof *allowed);
	compute(s, allowed, n_words);
	if (s->is_over || s->now == SET_DEAD)
		return E_LIMIT;
	struct recent_mask *r = &s->recent[s->i_recent];
	s->i_recent = (s->i_recent + 1) % RECENT_MASKS;
	r->bits = xrealloc(r->bits, n_words * sizeof *r->bits);
	memcpy(r->bits, allowed, n_words * sizeof *allowed);
	r->n_words = n_words;
	r->set = s->now;
	return OK;
}
