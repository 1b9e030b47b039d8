/* SPDX-License-Identifier: Apache-2.0
 *
 * Languages of texts, by Brzozowski's derivatives ("Derivatives of Regular Expressions",
 * 1964). The derivative of a language by a character is again a term: the rest of the
 * texts that begin with that character. Intersection and complement therefore cost no
 * more than alternation, and a repetition count stays a number.
 *
 * Terms are normalized as they are made: flat, sorted, without duplicates. A language
 * then has few different derivatives, and its automaton is finite.
 */
#include "grammar/grammar_lang_private.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "base/work.h"

#define MAX_TERMS 400000
#define MAX_DEPTH 4000 /* nesting of terms in a derivative */

struct lang_pool *lang_pool_create(void)
{
	struct lang_pool *p = xcalloc(1, sizeof *p);
	p->n_buckets = 1u << 12;
	p->buckets = xcalloc(p->n_buckets, sizeof *p->buckets);
	u64map_init(&p->derivatives, 256);
	lang_term(p, (struct term){.kind = TERM_NONE});
	lang_term(p, (struct term){.kind = TERM_EMPTY, .is_nullable = true});
	lang_term(p, (struct term){.kind = TERM_NOT, .a = LANG_NONE, .is_nullable = true,
				   .len_max = GRAMMAR_NO_MAX});
	return p;
}

void lang_pool_destroy(struct lang_pool *p)
{
	if (!p)
		return;
	free(p->terms);
	free(p->buckets);
	free(p->kids);
	free(p->ranges);
	u64map_deinit(&p->derivatives);
	free(p);
}

void lang_work(struct lang_pool *p, size_t n)
{
	p->n_work += n;
	work_spend(WORK_REGEX, 8 * n);
}

bool lang_is_over(const struct lang_pool *p)
{
	return p->n_work > LANG_MAX_WORK || p->n >= MAX_TERMS || work_is_over();
}

/* --- terms ----------------------------------------------------------------- */

static uint32_t hash_term(const struct lang_pool *p, const struct term *t)
{
	uint32_t head[4] = {t->kind, t->min, t->max, t->b};
	uint64_t h = hash_bytes(1, head, sizeof head);
	if (t->kind == TERM_CLASS)
		h = hash_bytes(h, p->ranges + t->a, t->b * sizeof *p->ranges);
	else if (t->kind == TERM_ALT || t->kind == TERM_AND)
		h = hash_bytes(h, p->kids + t->a, t->b * sizeof *p->kids);
	else
		h = hash_bytes(h, &t->a, sizeof t->a);
	return (uint32_t)(h ^ h >> 32);
}

static bool is_same(const struct lang_pool *p, const struct term *x, const struct term *y)
{
	if (x->kind != y->kind || x->b != y->b || x->min != y->min || x->max != y->max)
		return false;
	if (x->kind == TERM_CLASS)
		return memcmp(p->ranges + x->a, p->ranges + y->a,
			      x->b * sizeof *p->ranges) == 0;
	if (x->kind == TERM_ALT || x->kind == TERM_AND)
		return memcmp(p->kids + x->a, p->kids + y->a,
			      x->b * sizeof *p->kids) == 0;
	return x->a == y->a;
}

static void grow_buckets(struct lang_pool *p)
{
	p->n_buckets *= 4;
	p->buckets = xrealloc(p->buckets, p->n_buckets * sizeof *p->buckets);
	memset(p->buckets, 0, p->n_buckets * sizeof *p->buckets);
	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t h = hash_term(p, &p->terms[i]) % p->n_buckets;
		p->terms[i].chain = p->buckets[h];
		p->buckets[h] = i + 1;
	}
}

/* The number of this term. An equal term that exists already is reused. */
lang lang_term(struct lang_pool *p, struct term t)
{
	uint32_t h = hash_term(p, &t);
	lang_work(p, 1);
	for (uint32_t i = p->buckets[h % p->n_buckets]; i; i = p->terms[i - 1].chain)
		if (is_same(p, &p->terms[i - 1], &t))
			return i - 1;
	/* The first terms stand in for those that are refused. */
	if (lang_is_over(p) && p->n > LANG_ANY)
		return LANG_NONE;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 256;
		p->terms = xrealloc(p->terms, p->cap * sizeof *p->terms);
	}
	t.chain = p->buckets[h % p->n_buckets];
	p->terms[p->n++] = t;
	p->buckets[h % p->n_buckets] = p->n;
	if (p->n > 2 * p->n_buckets)
		grow_buckets(p);
	return p->n - 1;
}

lang lang_class(struct lang_pool *p, const struct grammar_range *r, size_t n)
{
	if (n == 0)
		return LANG_NONE;
	if (p->n_ranges + n > p->cap_ranges) {
		p->cap_ranges = (uint32_t)MAX(2u * p->cap_ranges, p->n_ranges + n + 64);
		p->ranges = xrealloc(p->ranges, p->cap_ranges * sizeof *p->ranges);
	}
	struct grammar_range *own = p->ranges + p->n_ranges;
	memcpy(own, r, n * sizeof *own);
	n = range_normalize(own, n);
	if (n == 0)
		return LANG_NONE;
	struct term t = {.kind = TERM_CLASS, .a = p->n_ranges, .b = (uint32_t)n,
			 .len_min = 1, .len_max = 1};
	uint32_t before = p->n;
	lang out = lang_term(p, t);
	if (p->n > before)
		p->n_ranges += (uint32_t)n;
	return out;
}

lang lang_text(struct lang_pool *p, struct str utf8)
{
	lang out = LANG_EMPTY;
	uint32_t *cps = xmalloc((utf8.n + 1) * sizeof *cps);
	size_t n = 0;
	for (size_t i = 0; i < utf8.n;)
		i += utf8_decode((struct str){utf8.p + i, utf8.n - i}, &cps[n++]);
	for (; n > 0; n--) {
		struct grammar_range r = {cps[n - 1], cps[n - 1]};
		out = lang_cat(p, lang_class(p, &r, 1), out);
	}
	free(cps);
	return out;
}

static struct term with_flags(const struct lang_pool *p, struct term t, lang of)
{
	t.has_begin |= p->terms[of].has_begin;
	t.has_place |= p->terms[of].has_place;
	t.is_boolean |= p->terms[of].is_boolean;
	return t;
}

/* Sequences nest to the right: cat(a, cat(b, c)). */
static lang cat_sequence(struct lang_pool *p, lang a, lang b)
{
	struct grammar_parts items = {0};
	for (; p->terms[a].kind == TERM_CAT; a = p->terms[a].b)
		grammar_parts_add(&items, p->terms[a].a);
	b = lang_cat(p, a, b);
	while (items.n > 0)
		b = lang_cat(p, items.p[--items.n], b);
	free(items.p);
	return b;
}

lang lang_cat(struct lang_pool *p, lang a, lang b)
{
	struct term x = p->terms[a];
	if (a == LANG_NONE || b == LANG_NONE)
		return LANG_NONE;
	if (a == LANG_EMPTY || (a == LANG_ANY && b == LANG_ANY))
		return b;
	if (b == LANG_EMPTY)
		return a;
	if (x.kind == TERM_CAT)
		return cat_sequence(p, a, b);
	const struct term *y = &p->terms[b];
	struct term t = {.kind = TERM_CAT, .a = a, .b = b,
			 .is_nullable = x.is_nullable && y->is_nullable,
			 .len_min = lang_add(x.len_min, y->len_min),
			 .len_max = lang_add(x.len_max, y->len_max)};
	t = with_flags(p, with_flags(p, t, a), b);
	return lang_term(p, t);
}

lang lang_repeat(struct lang_pool *p, lang a, uint32_t min, uint32_t max)
{
	struct term x = p->terms[a];
	if (x.is_nullable)
		min = 0;
	if (a == LANG_NONE)
		return min == 0 ? LANG_EMPTY : LANG_NONE;
	if (max == 0 || a == LANG_EMPTY)
		return LANG_EMPTY;
	if (min == 1 && max == 1)
		return a;
	if (a == LANG_ANY || (x.kind == TERM_REPEAT && x.min == 0 &&
			      x.max == GRAMMAR_NO_MAX))
		return a;
	/* "any character, any number of times" has one form: LANG_ANY */
	if (x.kind == TERM_CLASS && min == 0 && max == GRAMMAR_NO_MAX &&
	    a == lang_length(p, 1, 1))
		return LANG_ANY;
	struct term t = {.kind = TERM_REPEAT, .a = a, .min = min, .max = max,
			 .is_nullable = min == 0,
			 .len_min = lang_mul(x.len_min, min),
			 .len_max = lang_mul(x.len_max, max)};
	return lang_term(p, with_flags(p, t, a));
}

lang lang_length(struct lang_pool *p, uint32_t min, uint32_t max)
{
	static const struct grammar_range all = {0, 0x10FFFF};
	if (min == 0 && max == GRAMMAR_NO_MAX)
		return LANG_ANY;
	if (min > max)
		return LANG_NONE;
	return lang_repeat(p, lang_class(p, &all, 1), min, max);
}

lang lang_not(struct lang_pool *p, lang a)
{
	const struct term *x = &p->terms[a];
	if (x->kind == TERM_NOT)
		return x->a;
	struct term t = {.kind = TERM_NOT, .a = a, .is_nullable = !x->is_nullable,
			 .is_boolean = true, .len_min = x->is_nullable,
			 .len_max = GRAMMAR_NO_MAX};
	return lang_term(p, with_flags(p, t, a));
}

/* --- alternation and intersection ------------------------------------------- */

struct kids {
	lang *p;
	size_t n, cap;
};

static void add_kid(struct kids *to, lang l)
{
	if (to->n == to->cap) {
		to->cap = to->cap ? 2 * to->cap : 16;
		to->p = xrealloc(to->p, to->cap * sizeof *to->p);
	}
	to->p[to->n++] = l;
}

static int by_number(const void *a, const void *b)
{
	lang x = *(const lang *)a, y = *(const lang *)b;
	return (x > y) - (x < y);
}

/* Collects the kids: opens nested lists of the same kind, sorts, removes duplicates. */
static void flatten(struct lang_pool *p, enum term_kind kind, const lang *of, size_t n,
		    struct kids *out)
{
	for (size_t i = 0; i < n; i++) {
		const struct term *t = &p->terms[of[i]];
		for (uint32_t k = 0; t->kind == kind && k < t->b; k++)
			add_kid(out, p->kids[t->a + k]);
		if (t->kind != kind)
			add_kid(out, of[i]);
	}
	size_t kept = 0;
	if (out->n > 1)
		qsort(out->p, out->n, sizeof *out->p, by_number);
	for (size_t i = 0; i < out->n; i++)
		if (kept == 0 || out->p[kept - 1] != out->p[i])
			out->p[kept++] = out->p[i];
	out->n = kept;
	lang_work(p, 1 + kept / 4);
}

/* Merges all classes among the kids into one class. */
static void join_classes(struct lang_pool *p, enum term_kind kind, struct kids *k)
{
	lang first = LANG_NONE;
	size_t kept = 0, n_classes = 0;
	for (size_t i = 0; i < k->n; i++)
		n_classes += p->terms[k->p[i]].kind == TERM_CLASS;
	if (n_classes < 2)
		return;
	struct grammar_range *r = NULL;
	size_t n = 0;
	for (size_t i = 0; i < k->n; i++) {
		struct term t = p->terms[k->p[i]];
		if (t.kind != TERM_CLASS) {
			k->p[kept++] = k->p[i];
			continue;
		}
		const struct grammar_range *own = p->ranges + t.a;
		struct grammar_range *neg = xmalloc((t.b + 2) * sizeof *neg);
		size_t n_own = t.b;
		/* A & B = not (not A or not B), so an intersection collects complements. */
		if (kind == TERM_AND)
			n_own = range_negate(own, t.b, neg);
		else
			memcpy(neg, own, t.b * sizeof *neg);
		r = xrealloc(r, (n + n_own + 1) * sizeof *r);
		memcpy(r + n, neg, n_own * sizeof *r);
		n += n_own;
		free(neg);
	}
	if (kind == TERM_AND) {
		struct grammar_range *neg = xmalloc((n + 2) * sizeof *neg);
		n = n ? range_normalize(r, n) : 0;
		n = range_negate(r, n, neg);
		first = lang_class(p, neg, n);
		free(neg);
	} else {
		first = lang_class(p, r, n);
	}
	free(r);
	k->n = kept;
	if (first != LANG_NONE || kind == TERM_AND)
		add_kid(k, first);
	if (k->n > 1)
		qsort(k->p, k->n, sizeof *k->p, by_number);
}

static lang make_list(struct lang_pool *p, enum term_kind kind, const struct kids *k)
{
	bool is_and = kind == TERM_AND;
	struct term t = {.kind = kind, .a = p->n_kids, .b = (uint32_t)k->n,
			 .is_boolean = is_and, .is_nullable = is_and,
			 .len_min = is_and ? 0 : GRAMMAR_NO_MAX,
			 .len_max = is_and ? GRAMMAR_NO_MAX : 0};
	if (p->n_kids + k->n > p->cap_kids) {
		p->cap_kids = (uint32_t)MAX(2u * p->cap_kids, p->n_kids + k->n + 64);
		p->kids = xrealloc(p->kids, p->cap_kids * sizeof *p->kids);
	}
	memcpy(p->kids + p->n_kids, k->p, k->n * sizeof *k->p);
	for (size_t i = 0; i < k->n; i++) {
		const struct term *x = &p->terms[k->p[i]];
		t = with_flags(p, t, k->p[i]);
		if (is_and) {
			t.is_nullable &= x->is_nullable;
			t.len_min = MAX(t.len_min, x->len_min);
			t.len_max = MIN(t.len_max, x->len_max);
		} else {
			t.is_nullable |= x->is_nullable;
			t.len_min = MIN(t.len_min, x->len_min);
			t.len_max = MAX(t.len_max, x->len_max);
		}
	}
	if (is_and && t.len_min > t.len_max)
		return LANG_NONE;
	uint32_t before = p->n;
	lang out = lang_term(p, t);
	if (p->n > before)
		p->n_kids += (uint32_t)k->n;
	return out;
}

lang lang_list(struct lang_pool *p, enum term_kind kind, const lang *of, size_t n)
{
	bool is_and = kind == TERM_AND;
	lang zero = is_and ? LANG_NONE : LANG_ANY; /* a kid of this value decides the result */
	lang unit = is_and ? LANG_ANY : LANG_NONE; /* a kid of this value changes nothing */
	struct kids k = {0};
	flatten(p, kind, of, n, &k);
	size_t kept = 0;
	bool is_zero = false, has_empty = false, is_nullable = true;
	for (size_t i = 0; i < k.n; i++) {
		is_zero |= k.p[i] == zero;
		has_empty |= k.p[i] == LANG_EMPTY;
		is_nullable &= p->terms[k.p[i]].is_nullable ||
			       p->terms[k.p[i]].has_place || p->terms[k.p[i]].has_begin;
		if (k.p[i] != unit)
			k.p[kept++] = k.p[i];
	}
	k.n = kept;
	lang out;
	if (!is_zero && !(is_and && has_empty))
		join_classes(p, kind, &k);
	for (size_t i = 0; i < k.n; i++)
		is_zero |= k.p[i] == zero; /* an intersection of disjoint classes */
	if (is_zero)
		out = zero;
	else if (is_and && has_empty && !is_nullable)
		out = LANG_NONE;
	else if (is_and && has_empty)
		out = LANG_EMPTY;
	else if (k.n == 0)
		out = unit;
	else if (k.n == 1)
		out = k.p[0];
	else
		out = make_list(p, kind, &k);
	free(k.p);
	return out;
}

lang lang_alt_of(struct lang_pool *p, const lang *of, size_t n)
{
	return lang_list(p, TERM_ALT, of, n);
}

lang lang_alt(struct lang_pool *p, lang a, lang b)
{
	lang both[2] = {a, b};
	return lang_list(p, TERM_ALT, both, 2);
}

lang lang_and(struct lang_pool *p, lang a, lang b)
{
	lang both[2] = {a, b};
	return lang_list(p, TERM_AND, both, 2);
}

/* --- derivatives -------------------------------------------------------------- */

static bool has_char(const struct lang_pool *p, const struct term *class, uint32_t cp)
{
	for (uint32_t i = 0; i < class->b; i++)
		if (cp >= p->ranges[class->a + i].lo && cp <= p->ranges[class->a + i].hi)
			return true;
	return false;
}

static lang derive_list(struct lang_pool *p, const struct term *t, uint32_t cp)
{
	lang *of = xmalloc((t->b + 1) * sizeof *of);
	for (uint32_t i = 0; i < t->b; i++)
		of[i] = lang_derive(p, p->kids[t->a + i], cp);
	lang out = lang_list(p, t->kind, of, t->b);
	free(of);
	return out;
}

static lang derive(struct lang_pool *p, const struct term *t, uint32_t cp)
{
	switch ((enum term_kind)t->kind) {
	case TERM_CLASS:
		return has_char(p, t, cp) ? LANG_EMPTY : LANG_NONE;
	case TERM_CAT: {
		lang head = lang_cat(p, lang_derive(p, t->a, cp), t->b);
		return p->terms[t->a].is_nullable
			       ? lang_alt(p, head, lang_derive(p, t->b, cp)) : head;
	}
	case TERM_ALT:
	case TERM_AND:
		return derive_list(p, t, cp);
	case TERM_NOT:
		return lang_not(p, lang_derive(p, t->a, cp));
	case TERM_REPEAT: {
		uint32_t max = t->max == GRAMMAR_NO_MAX ? t->max : t->max - 1;
		lang rest = lang_repeat(p, t->a, t->min ? t->min - 1 : 0, max);
		return lang_cat(p, lang_derive(p, t->a, cp), rest);
	}
	default:
		return LANG_NONE;
	}
}

lang lang_derive(struct lang_pool *p, lang l, uint32_t cp)
{
	uint64_t key = (uint64_t)l << 21 | cp, known;
	if (l == LANG_NONE || l == LANG_EMPTY)
		return LANG_NONE;
	if (l == LANG_ANY)
		return LANG_ANY;
	if (u64map_get(&p->derivatives, key, &known))
		return (lang)known;
	lang_work(p, 4);
	if (p->depth == MAX_DEPTH)
		p->n_work = LANG_MAX_WORK + 1;
	if (lang_is_over(p))
		return LANG_NONE;
	struct term t = p->terms[l]; /* a copy, because making terms moves the array */
	p->depth++;
	lang out = derive(p, &t, cp);
	p->depth--;
	u64map_put(&p->derivatives, key, out);
	return out;
}

/* --- questions ------------------------------------------------------------------ */

bool lang_matches(struct lang_pool *p, lang l, struct str utf8)
{
	for (size_t i = 0; i < utf8.n && l != LANG_NONE && l != LANG_ANY;) {
		uint32_t cp;
		i += utf8_decode((struct str){utf8.p + i, utf8.n - i}, &cp);
		l = lang_derive(p, l, cp);
	}
	return p->terms[l].is_nullable;
}

void lang_lengths(const struct lang_pool *p, lang l, uint32_t *min, uint32_t *max)
{
	*min = p->terms[l].len_min;
	*max = p->terms[l].len_max;
}

size_t lang_union(const struct lang_pool *p, lang l, lang *out, size_t cap)
{
	const struct term *t = &p->terms[l];
	size_t n = t->kind == TERM_ALT ? t->b : 1;
	for (size_t i = 0; i < MIN(n, cap); i++)
		out[i] = t->kind == TERM_ALT ? p->kids[t->a + i] : l;
	return n;
}

bool lang_is_class(const struct lang_pool *p, lang l, lang *class)
{
	const struct term *t = &p->terms[l];
	*class = t->kind == TERM_REPEAT ? t->a : l;
	return p->terms[*class].kind == TERM_CLASS;
}

/* --- narrower languages ----------------------------------------------------------- */

struct narrowing {
	bool has_avoid;
	uint32_t avoid; /* a character that no text may have */
	uint32_t rounds; /* maximal rounds of repetitions without a limit */
};

static lang narrow(struct lang_pool *p, lang l, const struct narrowing *how);

static lang narrow_sequence(struct lang_pool *p, lang l, const struct narrowing *how)
{
	struct grammar_parts items = {0};
	for (; p->terms[l].kind == TERM_CAT; l = p->terms[l].b)
		grammar_parts_add(&items, p->terms[l].a);
	lang out = narrow(p, l, how);
	while (items.n > 0)
		out = lang_cat(p, narrow(p, items.p[--items.n], how), out);
	free(items.p);
	return out;
}

static lang narrow_class(struct lang_pool *p, lang l, uint32_t avoid)
{
	const struct grammar_range one = {avoid, avoid};
	struct grammar_range others[3];
	lang rest = lang_class(p, others, range_negate(&one, 1, others));
	return lang_and(p, l, rest);
}

static lang narrow(struct lang_pool *p, lang l, const struct narrowing *how)
{
	struct term t = p->terms[l];
	lang out = LANG_NONE;
	switch ((enum term_kind)t.kind) {
	case TERM_CLASS:
		return how->has_avoid ? narrow_class(p, l, how->avoid) : l;
	case TERM_CAT:
		return narrow_sequence(p, l, how);
	case TERM_ALT:
		for (uint32_t i = 0; i < t.b; i++)
			out = lang_alt(p, out, narrow(p, p->kids[t.a + i], how));
		return out;
	case TERM_REPEAT:
		return lang_repeat(p, narrow(p, t.a, how), t.min,
				   t.max == GRAMMAR_NO_MAX ? MAX(t.min, how->rounds)
							   : t.max);
	case TERM_NOT: {
		/* Of the texts of a complement, keep those made of permitted characters. */
		lang ok = narrow(p, lang_length(p, 1, 1), how);
		return lang_and(p, l, lang_repeat(p, ok, 0, how->rounds));
	}
	default:
		return l;
	}
}

lang lang_avoid(struct lang_pool *p, lang l, uint32_t cp)
{
	const struct narrowing how = {true, cp, GRAMMAR_NO_MAX};
	if (p->terms[l].kind == TERM_AND) {
		lang ok = narrow(p, LANG_ANY, &how);
		return lang_and(p, l, ok);
	}
	return narrow(p, l, &how);
}

lang lang_shorten(struct lang_pool *p, lang l, uint32_t max)
{
	for (uint32_t rounds = max; rounds >= 16 && !p->terms[l].is_boolean; rounds /= 2) {
		const struct narrowing how = {.rounds = rounds};
		lang out = narrow(p, l, &how);
		if (p->terms[out].len_max <= max)
			return out;
	}
	return LANG_NONE;
}
