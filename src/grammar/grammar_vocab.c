/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary as a trie in preorder. A walk is a loop over an array; to skip a
 * subtree, the loop continues at the subtree's end.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "grammar/grammar_private.h"

#define MAX_TOKEN_BYTES 1024 /* longer tokens are never allowed */

struct sorted_token {
	struct str bytes;
	int32_t id;
};

static int by_bytes(const void *a, const void *b)
{
	const struct sorted_token *x = a, *y = b;
	int c = memcmp(x->bytes.p, y->bytes.p, MIN(x->bytes.n, y->bytes.n));
	if (c == 0)
		c = (x->bytes.n > y->bytes.n) - (x->bytes.n < y->bytes.n);
	return c ? c : (x->id > y->id) - (x->id < y->id);
}

struct making {
	struct grammar_vocab *v;
	uint32_t cap;
	uint32_t open[MAX_TOKEN_BYTES + 1]; /* [depth]: nodes on the path from the root to the
					     * last node */
	int depth;
};

static void add_node(struct making *m, uint8_t byte)
{
	struct grammar_vocab *v = m->v;
	if (v->n_nodes == m->cap) {
		m->cap = 2 * m->cap;
		v->nodes = xrealloc(v->nodes, m->cap * sizeof *v->nodes);
	}
	m->open[++m->depth] = v->n_nodes;
	v->nodes[v->n_nodes++] = (struct trie_node){
		.token = -1, .depth = (uint16_t)m->depth, .byte = byte};
}

/* Adds a token. Entries come sorted, so subtrees that are not on the path to this entry are
 * complete. */
static void add_entry(struct making *m, const struct sorted_token *e)
{
	struct grammar_vocab *v = m->v;
	int depth = 0, n = (int)e->bytes.n;
	while (depth < m->depth && depth < n &&
	       v->nodes[m->open[depth + 1]].byte == (uint8_t)e->bytes.p[depth])
		depth++;
	for (; m->depth > depth; m->depth--)
		v->nodes[m->open[m->depth]].end = v->n_nodes;
	while (m->depth < n)
		add_node(m, (uint8_t)e->bytes.p[m->depth]);
	struct trie_node *last = &v->nodes[m->open[m->depth]];
	v->next_same[e->id] = last->token;
	last->token = e->id;
	v->max_bytes = MAX(v->max_bytes, n);
}

struct grammar_vocab *grammar_vocab_create(const struct str *bytes, int32_t n)
{
	struct grammar_vocab *v = xcalloc(1, sizeof *v);
	struct sorted_token *entries = xmalloc(((size_t)n + 1) * sizeof *entries);
	size_t n_entries = 0;
	for (int32_t i = 0; i < n; i++)
		if (bytes[i].n > 0 && bytes[i].n <= MAX_TOKEN_BYTES)
			entries[n_entries++] = (struct sorted_token){bytes[i], i};
	qsort(entries, n_entries, sizeof *entries, by_bytes);

	struct making m = {.v = v, .cap = 1024, .depth = 0};
	v->nodes = xmalloc(m.cap * sizeof *v->nodes);
	v->nodes[0] = (struct trie_node){.token = -1};
	v->n_nodes = 1;
	v->n_ids = n;
	v->next_same = xmalloc(((size_t)n + 1) * sizeof *v->next_same);
	for (size_t i = 0; i < n_entries; i++)
		add_entry(&m, &entries[i]);
	for (; m.depth >= 0; m.depth--)
		v->nodes[m.open[m.depth]].end = v->n_nodes;
	free(entries);
	return v;
}

void grammar_add_token(const struct tokenizer *t, int32_t id, struct buf *out)
{
	if (tokenizer_is_special(t, id))
		buf_add_c(out, GRAMMAR_SPECIAL);
	buf_add_str(out, tokenizer_bytes(t, id));
}

struct grammar_vocab *grammar_vocab_of(const struct tokenizer *t)
{
	int32_t n = tokenizer_n_ids(t);
	struct str *bytes = xcalloc((size_t)n + 1, sizeof *bytes);
	struct arena marked;
	struct buf b = {0};
	arena_init(&marked);
	for (int32_t i = 0; i < n; i++) {
		bool is_special = tokenizer_is_special(t, i);
		bytes[i] = tokenizer_bytes(t, i);
		/* This byte occurs in no text, but byte-level vocabularies have a token
		 * for it. */
		if (!is_special && bytes[i].n &&
		    memchr(bytes[i].p, GRAMMAR_SPECIAL, bytes[i].n))
			bytes[i].n = 0;
		if (bytes[i].n == 0 || !is_special)
			continue;
		buf_clear(&b);
		grammar_add_token(t, i, &b);
		bytes[i] = arena_str(&marked, buf_str(&b));
	}
	struct grammar_vocab *v = grammar_vocab_create(bytes, n);
	free(bytes);
	buf_deinit(&b);
	arena_deinit(&marked);
	return v;
}

void grammar_vocab_destroy(struct grammar_vocab *v)
{
	if (!v)
		return;
	free(v->nodes);
	free(v->next_same);
	free(v);
}
