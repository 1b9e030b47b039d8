/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns parts into a grammar. Parts are kept as written: repetition counts stay numbers,
 * and rules stay rules. A grammar is thus as large as its text. Compiling is a few linear
 * passes over the parts:
 *
 *   nullable   Finds the parts that can be empty.
 *   need       Finds how deep rules must nest to write each part. Parts are settled in
 *              ascending order of need (Knuth's generalisation of Dijkstra's algorithm),
 *              so each part is settled once. A part that can never be written gets
 *              NEED_NEVER and is never entered, so no text leads into a dead end. A tail
 *              call (the last thing its rule does) does not nest.
 *   flat       Finds the rules that are no more than a few characters.
 *   left       Refuses rules that begin with themselves: they would never read a byte.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hex.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/work.h"
#include "grammar/grammar_private.h"

#define MAX_PART_DEPTH 1000 /* nesting of parts, which costs stack frames */
#define MAX_EMPTY_REPEAT 64 /* maximum of a repetition of a nullable part: each round is one more
			     * alternative */
#define FLAT_MAX 16         /* maximum of parts or rounds in a rule that is written in place */
#define MAX_SHARED 48       /* nested branchings in a choice with shared beginnings */

struct rule {
	char *name;
	grammar_part part;
	bool is_set;
};

struct grammar_build {
	struct grammar_node *nodes;
	uint16_t *depth;
	uint32_t n, cap;
	uint32_t *kids;
	uint32_t n_kids, cap_kids;
	struct buf text;
	struct rule *rules;
	uint32_t n_rules, cap_rules;
	struct row_pool rows;
	struct strmap classes; /* ranges to the part that reads one of them */
	struct arena keys;     /* of classes */
	const char *over; /* text that names the first limit exceeded; NULL: none */
};

struct grammar_build *grammar_build_create(void)
{
	struct grammar_build *b = xcalloc(1, sizeof *b);
	row_pool_init(&b->rows);
	strmap_init(&b->classes, 64);
	arena_init(&b->keys);
	grammar_build_lit(b, STR("")); /* over a limit: part 0 stands in for the missing part */
	return b;
}

void grammar_build_destroy(struct grammar_build *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->n_rules; i++)
		free(b->rules[i].name);
	free(b->rules);
	free(b->nodes);
	free(b->depth);
	free(b->kids);
	buf_deinit(&b->text);
	row_pool_deinit(&b->rows);
	strmap_deinit(&b->classes);
	arena_deinit(&b->keys);
	free(b);
}

/* --- parts --------------------------------------------------------------- */

void grammar_parts_add(struct grammar_parts *to, grammar_part part)
{
	if (to->n == to->cap) {
		to->cap = to->cap ? 2 * to->cap : 8;
		to->p = xrealloc(to->p, to->cap * sizeof *to->p);
	}
	to->p[to->n++] = part;
}

static void spend(struct grammar_build *b, size_t units)
{
	if (!work_spend(WORK_GRAMMAR, units))
		b->over = "it takes too much work";
}

static grammar_part grammar_build_add(struct grammar_build *b, struct grammar_node node,
				      uint16_t depth)
{
	if (b->n == GRAMMAR_MAX_NODES)
		b->over = "it has too many parts";
	if (depth > MAX_PART_DEPTH)
		b->over = "its parts are nested too deeply";
	spend(b, 20); /* with its share of the analysis */
	if (b->over && b->n > 0)
		return 0;
	if (b->n == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 256;
		b->nodes = xrealloc(b->nodes, b->cap * sizeof *b->nodes);
		b->depth = xrealloc(b->depth, b->cap * sizeof *b->depth);
	}
	b->nodes[b->n] = node;
	b->depth[b->n] = depth;
	return b->n++;
}

grammar_part grammar_build_lit(struct grammar_build *b, struct str bytes)
{
	struct grammar_node node = {.kind = NODE_LIT, .at = (uint32_t)b->text.n,
			    .n = (uint32_t)bytes.n};
	if (b->text.n + bytes.n > 64u * GRAMMAR_MAX_TEXT)
		b->over = "its texts are too long";
	else
		buf_add_str(&b->text, bytes);
	return grammar_build_add(b, node, 0);
}

/* The part for n normalized ranges. Equal ranges are one part: automata ask for the same
 * few classes in each of their states. */
static grammar_part class_of(struct grammar_build *b, const struct grammar_range *r, size_t n)
{
	struct str key = {(const char *)r, n * sizeof *r};
	uint32_t known;
	if (strmap_get(&b->classes, key, &known))
		return known;
	struct grammar_node node = {.kind = NODE_CLASS, .at = row_pool_class(&b->rows, r, n)};
	spend(b, b->rows.n_work / 3); /* a row's step takes about 3 ns */
	if (b->rows.is_full)
		b->over = "it has too many classes";
	grammar_part out = grammar_build_add(b, node, 0);
	strmap_put(&b->classes, arena_str(&b->keys, key), out);
	return out;
}

grammar_part grammar_build_class(struct grammar_build *b,
				 const struct grammar_range *r, size_t n,
				 bool is_negated)
{
	struct grammar_range *own = xmalloc((n + 1) * sizeof *own);
	struct grammar_range *not_own = xmalloc((n + 2) * sizeof *not_own);
	if (n)
		memcpy(own, r, n * sizeof *own);
	n = range_normalize(own, n);
	if (is_negated)
		n = range_negate(own, n, not_own);
	spend(b, n / 2);
	grammar_part out = class_of(b, is_negated ? not_own : own, n);
	free(own);
	free(not_own);
	return out;
}

static grammar_part add_list(struct grammar_build *b, enum node_kind kind,
			     const grammar_part *parts, size_t n)
{
	struct grammar_node node = {.kind = kind, .at = b->n_kids, .n = (uint32_t)n};
	uint16_t depth = 0;
	if (b->n_kids + n > 4u * GRAMMAR_MAX_NODES)
		b->over = "it has too many parts";
	spend(b, 5 * n);
	if (b->over)
		return 0;
	if (b->n_kids + n > b->cap_kids) {
		b->cap_kids = (uint32_t)MAX(2u * b->cap_kids, b->n_kids + n + 64);
		b->kids = xrealloc(b->kids, b->cap_kids * sizeof *b->kids);
	}
	for (size_t i = 0; i < n; i++) {
		assert(parts[i] < b->n);
		b->kids[b->n_kids++] = parts[i];
		depth = MAX(depth, b->depth[parts[i]]);
	}
	return grammar_build_add(b, node, (uint16_t)(depth + 1));
}

grammar_part grammar_build_seq(struct grammar_build *b, const grammar_part *parts,
			       size_t n)
{
	return n == 1 ? parts[0] : add_list(b, NODE_SEQ, parts, n);
}

grammar_part grammar_build_alt(struct grammar_build *b, const grammar_part *parts,
			       size_t n)
{
	return n == 1 ? parts[0] : add_list(b, NODE_ALT, parts, n);
}

grammar_part grammar_build_repeat(struct grammar_build *b, grammar_part part,
				  uint32_t min, uint32_t max)
{
	struct grammar_node node = {.kind = NODE_REPEAT, .at = part, .min = min, .max = max};
	if (min > GRAMMAR_MAX_REPEAT ||
	    (max != GRAMMAR_NO_MAX && max > GRAMMAR_MAX_REPEAT))
		b->over = "it repeats something more than a million times";
	if (min > max)
		return grammar_build_alt(b, NULL, 0);
	if (min == 1 && max == 1)
		return part;
	return grammar_build_add(b, node, (uint16_t)(b->depth[part] + 1));
}

grammar_part grammar_build_opt(struct grammar_build *b, grammar_part part)
{
	return grammar_build_repeat(b, part, 0, 1);
}

uint32_t grammar_build_rule(struct grammar_build *b, struct str name)
{
	if (b->n_rules == GRAMMAR_MAX_NODES / 4) {
		b->over = "it has too many rules";
		return 0;
	}
	if (b->n_rules == b->cap_rules) {
		b->cap_rules = b->cap_rules ? 2 * b->cap_rules : 64;
		b->rules = xrealloc(b->rules, b->cap_rules * sizeof *b->rules);
	}
	b->rules[b->n_rules] = (struct rule){.name = xstrndup(name.p, name.n)};
	return b->n_rules++;
}

void grammar_build_set_rule(struct grammar_build *b, uint32_t rule,
			    grammar_part part)
{
	b->rules[rule].part = part;
	b->rules[rule].is_set = true;
}

grammar_part grammar_build_ref(struct grammar_build *b, uint32_t rule)
{
	return grammar_build_add(b, (struct grammar_node){.kind = NODE_REF, .at = rule}, 0);
}

grammar_part grammar_build_tail(struct grammar_build *b, uint32_t rule)
{
	return grammar_build_add(b, (struct grammar_node){.kind = NODE_REF, .at = rule,
							  .is_tail = true}, 0);
}

/* --- numbers of the notations -------------------------------------------- */

bool grammar_read_hex(struct str s, size_t *at, int n, uint32_t *out)
{
	uint32_t v = 0;
	for (int i = 0; i < n; i++) {
		int d = *at + (size_t)i < s.n ? hex_digit(s.p[*at + (size_t)i]) : -1;
		if (d < 0)
			return false;
		v = v << 4 | (uint32_t)d;
	}
	*at += (size_t)n;
	*out = v;
	return true;
}

bool grammar_read_count(struct str s, size_t *at, uint32_t *out)
{
	size_t i = *at;
	uint32_t v = 0;
	for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		v = MIN(v * 10 + (uint32_t)(s.p[i] - '0'), 10u * GRAMMAR_MAX_REPEAT);
	if (i == *at)
		return false;
	*at = i;
	*out = v;
	return true;
}

/* --- choices ------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	const struct str *x = a, *y = b;
	int c = memcmp(x->p, y->p, MIN(x->n, y->n));
	return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* A choice among sorted, distinct texts. Their first `from` bytes are equal and are left
 * out. */
static grammar_part grammar_build_choose(struct grammar_build *b, const struct str *t, size_t n,
					 size_t from, int n_branchings)
{
	/* among sorted texts, the first and the last have the shortest common beginning */
	size_t common = from;
	while (common < t[0].n && common < t[n - 1].n &&
	       t[0].p[common] == t[n - 1].p[common])
		common++;
	grammar_part head = grammar_build_lit(
		b, (struct str){t[0].p + from, common - from});
	if (n == 1)
		return head;
	grammar_part *alts = xmalloc(n * sizeof *alts);
	size_t n_alts = 0;
	for (size_t i = 0, end; i < n; i = end) {
		end = i + 1;
		if (t[i].n == common) {
			alts[n_alts++] = grammar_build_lit(b, STR(""));
			continue;
		}
		while (n_branchings < MAX_SHARED && end < n &&
		       t[end].p[common] == t[i].p[common])
			end++;
		alts[n_alts++] =
			grammar_build_choose(b, t + i, end - i, common, n_branchings + 1);
	}
	grammar_part both[2] = {head, grammar_build_alt(b, alts, n_alts)};
	free(alts);
	return common > from ? grammar_build_seq(b, both, 2) : both[1];
}

grammar_part grammar_build_choice(struct grammar_build *b, struct str *texts,
				  size_t n)
{
	size_t kept = 0;
	if (n == 0)
		return grammar_build_alt(b, NULL, 0);
	qsort(texts, n, sizeof *texts, by_bytes);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !str_eq(texts[kept - 1], texts[i]))
			texts[kept++] = texts[i];
	return grammar_build_choose(b, texts, kept, 0, 0);
}

enum status grammar_create_choice(const struct str *texts, size_t n,
				  struct grammar **out, struct fail *fail)
{
	for (size_t i = 0; i < n; i++)
		if (utf8_check(texts[i]) >= 0)
			return fail_set(fail, E_INVAL, "choice %zu is not UTF-8", i);
	struct grammar_build *b = grammar_build_create();
	struct str *own = xmalloc((n + 1) * sizeof *own);
	if (n)
		memcpy(own, texts, n * sizeof *own);
	uint32_t root = grammar_build_rule(b, STR("root"));
	grammar_build_set_rule(b, root, grammar_build_choice(b, own, n));
	enum status st = grammar_build_finish(b, root, out, fail);
	free(own);
	grammar_build_destroy(b);
	return st;
}

/* --- analysis ------------------------------------------------------------ */

/* For each node, the parts that use it. Nodes are the parts by number, then the rules.
 * The users of a rule are the parts that refer to it. */
struct uses {
	uint32_t *at, *by; /* users of node i: by[at[i]] .. by[at[i + 1] - 1] */
};

static const uint32_t *kids_of(const struct grammar_build *b, uint32_t i,
			       uint32_t *out_n)
{
	const struct grammar_node *x = &b->nodes[i];
	*out_n = 0;
	if (x->kind == NODE_SEQ || x->kind == NODE_ALT) {
		*out_n = x->n;
		return x->n ? b->kids + x->at : NULL;
	}
	if (x->kind == NODE_REPEAT)
		*out_n = 1;
	return &x->at;
}

static struct uses find_uses(const struct grammar_build *b)
{
	size_t n_keys = (size_t)b->n + b->n_rules;
	struct uses u = {.at = xcalloc(n_keys + 2, sizeof *u.at)};
	uint32_t *fill = u.at + 1; /* shifted by one: pass 2 leaves the starts in `at` */
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < b->n; i++) {
			uint32_t n, rule = b->n + b->nodes[i].at;
			const uint32_t *kids = kids_of(b, i, &n);
			const uint32_t *keys = n ? kids : &rule;
			if (b->nodes[i].kind == NODE_REF)
				n = 1;
			for (uint32_t k = 0; k < n; k++) {
				if (pass == 0)
					fill[keys[k] + 1]++;
				else
					u.by[fill[keys[k]]++] = i;
			}
		}
		if (pass == 0) {
			for (size_t k = 1; k < n_keys + 2; k++)
				u.at[k] += u.at[k - 1];
			u.by = xmalloc((u.at[n_keys + 1] + 1) * sizeof *u.by);
		}
	}
	return u;
}

/* For each part, the rules whose body is that part. Most parts are no rule's body. */
struct heads {
	uint32_t *first, *next; /* first: [parts], next: [rules]; rule number + 1, 0: none */
};

static struct heads find_heads(const struct grammar_build *b)
{
	struct heads h = {xcalloc(b->n + 1, sizeof *h.first),
			  xcalloc(b->n_rules + 1, sizeof *h.next)};
	for (uint32_t r = 0; r < b->n_rules; r++) {
		h.next[r] = h.first[b->rules[r].part];
		h.first[b->rules[r].part] = r + 1;
	}
	return h;
}

struct analysis {
	struct uses uses;
	struct heads heads;
	uint32_t *left;  /* [parts]: number of kids of a sequence that are not settled yet */
	uint32_t *queue; /* settled parts whose users are not told yet */
	uint32_t n_queue;
};

/* One pass of the analysis. A settled part tells its users, and they may become settled
 * in turn. */
typedef void (*on_settled)(struct grammar_build *b, struct analysis *a,
			   uint32_t user, uint32_t kid);

static void tell_users(struct grammar_build *b, struct analysis *a, uint32_t i,
		       on_settled tell)
{
	const struct uses *u = &a->uses;
	for (uint32_t k = u->at[i]; k < u->at[i + 1]; k++)
		tell(b, a, u->by[k], i);
	for (uint32_t r = a->heads.first[i]; r; r = a->heads.next[r - 1])
		for (uint32_t k = u->at[b->n + r - 1]; k < u->at[b->n + r]; k++)
			tell(b, a, u->by[k], i);
}

static void set_left(const struct grammar_build *b, struct analysis *a)
{
	for (uint32_t i = 0; i < b->n; i++)
		a->left[i] = b->nodes[i].kind == NODE_SEQ ? b->nodes[i].n : 1;
	a->n_queue = 0;
}

static void settle_nullable(struct grammar_build *b, struct analysis *a, uint32_t i)
{
	if (b->nodes[i].is_nullable)
		return;
	b->nodes[i].is_nullable = true;
	a->queue[a->n_queue++] = i;
}

static void tell_nullable(struct grammar_build *b, struct analysis *a,
			  uint32_t user, uint32_t kid)
{
	(void)kid;
	if (b->nodes[user].kind != NODE_SEQ || --a->left[user] == 0)
		settle_nullable(b, a, user);
}

static void find_nullable(struct grammar_build *b, struct analysis *a)
{
	set_left(b, a);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct grammar_node *x = &b->nodes[i];
		if ((x->kind == NODE_LIT && x->n == 0) ||
		    (x->kind == NODE_SEQ && x->n == 0) ||
		    (x->kind == NODE_REPEAT && x->min == 0))
			settle_nullable(b, a, i);
	}
	for (uint32_t at = 0; at < a->n_queue; at++)
		tell_users(b, a, a->queue[at], tell_nullable);
	/* A repetition of a nullable part may stop early, so its minimum becomes 0. */
	for (uint32_t i = 0; i < b->n; i++) {
		struct grammar_node *x = &b->nodes[i];
		if (x->kind != NODE_REPEAT || !b->nodes[x->at].is_nullable)
			continue;
		x->min = 0;
		if (x->max != GRAMMAR_NO_MAX && x->max > MAX_EMPTY_REPEAT)
			b->over = "it repeats what may be empty, more than 64 times";
	}
}

static void settle_need(struct grammar_build *b, struct analysis *a, uint32_t i,
			uint16_t need)
{
	if (b->nodes[i].need != NEED_NEVER)
		return;
	b->nodes[i].need = need;
	a->queue[a->n_queue++] = i;
}

/* Parts are settled in order of rising need. The last kid of a sequence to settle thus
 * has the largest need, the first kid of an alternation the smallest. A reference nests
 * one rule deeper, so it waits for the next round. */
static void tell_need(struct grammar_build *b, struct analysis *a, uint32_t user,
		      uint32_t kid)
{
	uint16_t need = b->nodes[kid].need;
	if (b->nodes[user].kind == NODE_REF && !b->nodes[user].is_tail)
		return;
	if (b->nodes[user].kind != NODE_SEQ || --a->left[user] == 0)
		settle_need(b, a, user, need);
}

static void tell_need_refs(struct grammar_build *b, struct analysis *a,
			   uint32_t user, uint32_t kid)
{
	if (b->nodes[user].kind == NODE_REF && !b->nodes[user].is_tail)
		settle_need(b, a, user, (uint16_t)(b->nodes[kid].need + 1));
}

static void find_need(struct grammar_build *b, struct analysis *a)
{
	set_left(b, a);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct grammar_node *x = &b->nodes[i];
		bool is_leaf = x->kind == NODE_LIT ||
			       (x->kind == NODE_CLASS && x->at >= ROW_FIRST) ||
			       (x->kind == NODE_SEQ && x->n == 0) ||
			       (x->kind == NODE_REPEAT && x->min == 0);
		b->nodes[i].need = NEED_NEVER;
		if (is_leaf)
			settle_need(b, a, i, 0);
	}
	uint32_t told = 0;
	for (int need = 0; need < NEED_MAX && told < a->n_queue; need++) {
		uint32_t round = told;
		for (; told < a->n_queue; told++)
			tell_users(b, a, a->queue[told], tell_need);
		uint32_t end = a->n_queue;
		for (; round < end; round++)
			tell_users(b, a, a->queue[round], tell_need_refs);
	}
}

static void settle_flat(struct grammar_build *b, struct analysis *a, uint32_t i)
{
	if (b->nodes[i].is_flat)
		return;
	b->nodes[i].is_flat = true;
	a->queue[a->n_queue++] = i;
}

static void tell_flat(struct grammar_build *b, struct analysis *a, uint32_t user,
		      uint32_t kid)
{
	const struct grammar_node *x = &b->nodes[user];
	(void)kid;
	if (x->kind == NODE_REPEAT ? x->max <= FLAT_MAX
	    : x->kind == NODE_REF ? true
	    : x->n <= FLAT_MAX && --a->left[user] == 0)
		settle_flat(b, a, user);
}

static void find_flat(struct grammar_build *b, struct analysis *a)
{
	for (uint32_t i = 0; i < b->n; i++)
		a->left[i] = b->nodes[i].n;
	a->n_queue = 0;
	for (uint32_t i = 0; i < b->n; i++)
		if (b->nodes[i].kind == NODE_LIT || b->nodes[i].kind == NODE_CLASS)
			settle_flat(b, a, i);
	for (uint32_t at = 0; at < a->n_queue; at++)
		tell_users(b, a, a->queue[at], tell_flat);
}

/* --- left recursion ------------------------------------------------------ */

enum { WHITE, GREY, BLACK };

struct visit {
	uint32_t node, kid;
};

/* Gives the k-th part that can be read first when part i is entered. False: there are not
 * that many. */
static bool first_of(const struct grammar_build *b, uint32_t i, uint32_t k,
		     uint32_t *out)
{
	const struct grammar_node *x = &b->nodes[i];
	uint32_t n;
	if (x->kind == NODE_REF) {
		*out = b->rules[x->at].part;
		return k == 0;
	}
	const uint32_t *kids = kids_of(b, i, &n);
	if (k >= n || (x->kind == NODE_REPEAT && x->max == 0))
		return false;
	*out = kids[k];
	return x->kind != NODE_SEQ || k == 0 || b->nodes[kids[k - 1]].is_nullable;
}

/* Finds a rule that can begin with itself. Returns n_rules if there is none. */
static uint32_t find_left_recursion(const struct grammar_build *b)
{
	uint8_t *color = xcalloc(b->n, 1);
	struct visit *stack = xmalloc((b->n + 1) * sizeof *stack);
	uint32_t found = b->n_rules;
	for (uint32_t i = 0; i < b->n && found == b->n_rules; i++) {
		uint32_t n = 0, next;
		if (color[i] != WHITE)
			continue;
		stack[n++] = (struct visit){i, 0};
		color[i] = GREY;
		while (n > 0) {
			struct visit *at = &stack[n - 1];
			if (!first_of(b, at->node, at->kid++, &next)) {
				color[at->node] = BLACK;
				n--;
			} else if (color[next] == WHITE) {
				color[next] = GREY;
				stack[n++] = (struct visit){next, 0};
			} else if (color[next] == GREY) {
				/* ends: every cycle contains a reference */
				while (b->nodes[stack[n - 1].node].kind != NODE_REF)
					n--;
				found = b->nodes[stack[n - 1].node].at;
				break;
			}
		}
	}
	free(color);
	free(stack);
	return found;
}

/* --- the grammar --------------------------------------------------------- */

static enum status grammar_build_check(struct grammar_build *b, uint32_t root, struct fail *fail)
{
	if (b->over)
		return fail_set(fail, E_LIMIT, "the grammar is too large: %s", b->over);
	for (uint32_t r = 0; r < b->n_rules; r++)
		if (!b->rules[r].is_set)
			return fail_at(fail, E_INVAL, b->rules[r].name,
				       "the rule `%.80s` is not defined",
				       b->rules[r].name);
	uint32_t left = find_left_recursion(b);
	if (left < b->n_rules)
		return fail_at(fail, E_INVAL, b->rules[left].name,
			       "the rule `%.80s` begins with itself, so it never ends",
			       b->rules[left].name);
	if (b->nodes[b->rules[root].part].need == NEED_NEVER)
		return fail_at(fail, E_INVAL, b->rules[root].name,
			       "nothing can be written by the rule `%.80s`",
			       b->rules[root].name);
	return OK;
}

static void analyse(struct grammar_build *b)
{
	struct analysis a = {
		.uses = find_uses(b),
		.heads = find_heads(b),
		.left = xmalloc((b->n + 1) * sizeof *a.left),
		.queue = xmalloc((b->n + 1) * sizeof *a.queue),
	};
	find_nullable(b, &a);
	find_need(b, &a);
	find_flat(b, &a);
	free(a.uses.at);
	free(a.uses.by);
	free(a.heads.first);
	free(a.heads.next);
	free(a.left);
	free(a.queue);
}

static int16_t only_byte(const struct row *row)
{
	int16_t only = -1;
	for (int i = 0; i < 256; i++) {
		if (row->next[i] == ROW_DEAD)
			continue;
		if (only >= 0)
			return -1;
		only = (int16_t)i;
	}
	return only;
}

/* Moves the builder's arrays into the new grammar. */
static struct grammar *make_grammar(struct grammar_build *b, uint32_t root)
{
	struct grammar *g = xcalloc(1, sizeof *g);
	atomic_init(&g->refs, 1);
	pthread_mutex_init(&g->lock, NULL);
	g->nodes = b->nodes;
	g->n_nodes = b->n;
	g->kids = b->kids;
	size_t n_text = b->text.n;
	g->text = buf_take(&b->text);
	g->rows = b->rows.rows;
	g->row_only = xmalloc(b->rows.n * sizeof *g->row_only);
	for (uint32_t i = ROW_FIRST; i < b->rows.n; i++)
		g->row_only[i] = only_byte(&g->rows[i]);
	g->rules = xmalloc((b->n_rules + 1) * sizeof *g->rules);
	for (uint32_t r = 0; r < b->n_rules; r++)
		g->rules[r] = b->rules[r].part;
	g->root = g->rules[root];
	g->n_bytes = sizeof *g + b->n * sizeof *g->nodes + b->n_kids * sizeof *g->kids +
		     n_text + b->rows.n * (sizeof *g->rows + sizeof *g->row_only) +
		     b->n_rules * sizeof *g->rules;
	b->nodes = NULL;
	b->kids = NULL;
	b->rows.rows = NULL;
	b->over = "it is finished";
	return g;
}

enum status grammar_build_finish(struct grammar_build *b, uint32_t root,
				 struct grammar **out, struct fail *fail)
{
	if (!b->over)
		analyse(b);
	enum status st = grammar_build_check(b, root, fail);
	if (st == OK)
		*out = make_grammar(b, root);
	return st;
}

struct grammar *grammar_ref(struct grammar *g)
{
	if (g)
		atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
	return g;
}

void grammar_unref(struct grammar *g)
{
	if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) > 1)
		return;
	mask_cache_destroy(g->cache);
	pthread_mutex_destroy(&g->lock);
	free(g->nodes);
	free(g->kids);
	free(g->text);
	free(g->rows);
	free(g->row_only);
	free(g->rules);
	free(g);
}
