/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns languages into parts of a grammar. Terms of a plain regex are written as they
 * stand, with their counts. An intersection or a complement becomes an automaton. Each
 * derivative is a rule that reads one character and continues with the next rule. A
 * derivative that is plain again ends the automaton there.
 *
 * The alphabet is divided into a few groups of characters that no class of the term tells
 * apart. One character of each group is enough to derive by.
 */
#include "grammar/grammar_lang_private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define MAX_STATES 20000
#define MAX_CUTS 20000

struct lang_writer {
	struct lang_pool *p;
	struct grammar_build *b;
	bool is_json;
	struct u64map parts; /* part of each plain term written so far */
	int depth;
	const char *over;
};

static grammar_part write_term(struct lang_writer *w, lang l);

/* --- plain terms ------------------------------------------------------------- */

static grammar_part write_class(struct lang_writer *w, const struct term *t)
{
	const struct grammar_range *r = w->p->ranges + t->a;
	return w->is_json ? grammar_build_json_class(w->b, r, t->b)
			  : grammar_build_class(w->b, r, t->b, false);
}

/* The only character of a class, if it is written as itself; else 0. */
static uint32_t plain_char(const struct lang_writer *w, lang l)
{
	const struct term *t = &w->p->terms[l];
	if (t->kind != TERM_CLASS || t->b != 1)
		return 0;
	const struct grammar_range *r = &w->p->ranges[t->a];
	bool is_escaped = w->is_json && (r->lo < 0x20 || r->lo == '"' || r->lo == '\\');
	return r->lo == r->hi && !is_escaped ? r->lo : 0;
}

static void add_utf8(struct buf *out, uint32_t cp)
{
	char c[4];
	size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
	for (size_t i = n; i-- > 1; cp >>= 6)
		c[i] = (char)(0x80 | (cp & 0x3F));
	c[0] = (char)(lead[n] | cp);
	buf_add(out, c, n);
}

static grammar_part write_cat(struct lang_writer *w, lang l)
{
	struct grammar_parts seq = {0};
	struct buf text = {0};
	bool is_last = false;
	while (!is_last) {
		struct term t = w->p->terms[l];
		is_last = t.kind != TERM_CAT;
		lang head = is_last ? l : t.a;
		uint32_t cp = plain_char(w, head);
		if (cp)
			add_utf8(&text, cp);
		if (text.n && (!cp || is_last)) {
			grammar_parts_add(&seq,
					  grammar_build_lit(w->b, buf_str(&text)));
			buf_clear(&text);
		}
		if (!cp)
			grammar_parts_add(&seq, write_term(w, head));
		l = t.b;
	}
	grammar_part out = grammar_build_seq(w->b, seq.p, seq.n);
	free(seq.p);
	buf_deinit(&text);
	return out;
}

static grammar_part write_alt(struct lang_writer *w, const struct term *t)
{
	grammar_part *alts = xmalloc((t->b + 1) * sizeof *alts);
	for (uint32_t i = 0; i < t->b; i++)
		alts[i] = write_term(w, w->p->kids[t->a + i]);
	grammar_part out = grammar_build_alt(w->b, alts, t->b);
	free(alts);
	return out;
}

static grammar_part write_any(struct lang_writer *w)
{
	const struct term all = w->p->terms[lang_length(w->p, 1, 1)];
	return grammar_build_repeat(w->b, write_class(w, &all), 0, GRAMMAR_NO_MAX);
}

/* --- automata ------------------------------------------------------------------ */

struct automaton {
	struct grammar_range *intervals; /* the code points between two cuts */
	uint32_t *group;                 /* [interval]: its group */
	size_t n_intervals;
	uint32_t *first;                 /* [group]: one interval of the group */
	size_t n_groups;
	lang *states;
	uint32_t *rules;
	size_t n, cap;
	struct u64map index; /* term to state number */
};

struct lang_found {
	lang *classes;
	size_t n, cap;
	struct u64map seen;
};

static void find_classes(struct lang_writer *w, lang l, struct lang_found *f, int depth)
{
	while (depth < 5000) {
		const struct term *t = &w->p->terms[l];
		if (u64map_put(&f->seen, l, 1))
			return;
		if (t->kind == TERM_CLASS) {
			if (f->n == f->cap) {
				f->cap = f->cap ? 2 * f->cap : 32;
				f->classes = xrealloc(f->classes,
						      f->cap * sizeof *f->classes);
			}
			f->classes[f->n++] = l;
		}
		if (t->kind == TERM_ALT || t->kind == TERM_AND)
			for (uint32_t i = 0; i < t->b; i++)
				find_classes(w, w->p->kids[w->p->terms[l].a + i], f,
					     depth + 1);
		if (t->kind == TERM_CAT)
			find_classes(w, t->a, f, depth + 1);
		if (t->kind != TERM_CAT && t->kind != TERM_NOT && t->kind != TERM_REPEAT)
			return;
		l = t->kind == TERM_CAT ? t->b : t->a;
	}
	w->over = "its groups are nested too deeply";
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Divides the alphabet into intervals that lie inside or outside of each class as a
 * whole. */
static void cut_alphabet(struct lang_writer *w, const struct lang_found *f, struct automaton *a)
{
	size_t n = 0, cap = 2, kept = 0;
	for (size_t i = 0; i < f->n; i++)
		cap += 2u * w->p->terms[f->classes[i]].b;
	uint32_t *cuts = xmalloc(cap * sizeof *cuts);
	cuts[n++] = 0;
	cuts[n++] = 0x110000;
	for (size_t i = 0; i < f->n; i++) {
		const struct term *t = &w->p->terms[f->classes[i]];
		for (uint32_t k = 0; k < t->b; k++) {
			cuts[n++] = w->p->ranges[t->a + k].lo;
			cuts[n++] = w->p->ranges[t->a + k].hi + 1;
		}
	}
	qsort(cuts, n, sizeof *cuts, by_value);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || cuts[kept - 1] != cuts[i])
			cuts[kept++] = cuts[i];
	a->n_intervals = kept - 1;
	a->intervals = xcalloc(kept, sizeof *a->intervals);
	for (size_t i = 0; i + 1 < kept; i++)
		a->intervals[i] = (struct grammar_range){cuts[i], cuts[i + 1] - 1};
	free(cuts);
	if (kept > MAX_CUTS)
		w->over = "it has too many ranges of characters";
}

static bool is_in(const struct lang_writer *w, lang class, uint32_t cp)
{
	const struct term *t = &w->p->terms[class];
	const struct grammar_range *r = w->p->ranges + t->a;
	uint32_t lo = 0, hi = t->b;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (r[mid].hi < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->b && r[lo].lo <= cp;
}

/* Puts intervals that belong to the same classes into one group. */
static void group_alphabet(struct lang_writer *w, const struct lang_found *f, struct automaton *a)
{
	struct strmap groups;
	char *all = xmalloc(a->n_intervals * (f->n + 1));
	strmap_init(&groups, 64);
	a->group = xcalloc(a->n_intervals + 1, sizeof *a->group);
	a->first = xcalloc(a->n_intervals + 1, sizeof *a->first);
	for (size_t i = 0; i < a->n_intervals; i++) {
		char *sign = all + i * (f->n + 1);
		uint32_t g;
		for (size_t k = 0; k < f->n; k++)
			sign[k] = is_in(w, f->classes[k], a->intervals[i].lo);
		sign[f->n] = 0;
		lang_work(w->p, f->n / 4);
		struct str key = {sign, f->n};
		if (!strmap_get(&groups, key, &g)) {
			g = (uint32_t)a->n_groups++;
			a->first[g] = (uint32_t)i;
			strmap_put(&groups, key, g);
		}
		a->group[i] = g;
	}
	strmap_deinit(&groups);
	free(all);
}

static uint32_t state_of(struct lang_writer *w, struct automaton *a, lang l)
{
	uint64_t known;
	if (u64map_get(&a->index, l, &known))
		return (uint32_t)known;
	if (a->n == MAX_STATES) {
		w->over = "it needs too many states";
		return 0;
	}
	if (a->n == a->cap) {
		a->cap = a->cap ? 2 * a->cap : 64;
		a->states = xrealloc(a->states, a->cap * sizeof *a->states);
		a->rules = xrealloc(a->rules, a->cap * sizeof *a->rules);
	}
	a->states[a->n] = l;
	a->rules[a->n] = grammar_build_rule(w->b, STR("characters of a string"));
	u64map_put(&a->index, l, a->n);
	return (uint32_t)a->n++;
}

/* A part that reads a character of the groups leading to term `to` and continues with its
 * rule. */
static grammar_part write_step(struct lang_writer *w, struct automaton *a, const lang *to,
			       lang next)
{
	struct grammar_range *r = xmalloc((a->n_intervals + 1) * sizeof *r);
	size_t n = 0;
	lang_work(w->p, a->n_intervals / 8);
	for (size_t i = 0; i < a->n_intervals; i++)
		if (to[a->group[i]] == next)
			r[n++] = a->intervals[i];
	n = range_normalize(r, n);
	grammar_part pair[2];
	pair[0] = w->is_json ? grammar_build_json_class(w->b, r, n)
			     : grammar_build_class(w->b, r, n, false);
	uint32_t state = state_of(w, a, next); /* may grow the array of rules */
	pair[1] = grammar_build_tail(w->b, a->rules[state]);
	free(r);
	return grammar_build_seq(w->b, pair, 2);
}

static grammar_part write_state(struct lang_writer *w, struct automaton *a, lang l)
{
	if (!w->p->terms[l].is_boolean)
		return write_term(w, l);
	lang *to = xmalloc((a->n_groups + 1) * sizeof *to);
	struct grammar_parts alts = {0};
	for (size_t g = 0; g < a->n_groups; g++)
		to[g] = lang_derive(w->p, l, a->intervals[a->first[g]].lo);
	lang_work(w->p, a->n_groups * a->n_groups / 16);
	for (size_t g = 0; g < a->n_groups && !w->over; g++) {
		bool is_new = to[g] != LANG_NONE;
		for (size_t k = 0; k < g && is_new; k++)
			is_new = to[k] != to[g];
		if (is_new)
			grammar_parts_add(&alts, write_step(w, a, to, to[g]));
	}
	if (w->p->terms[l].is_nullable)
		grammar_parts_add(&alts, grammar_build_lit(w->b, STR("")));
	grammar_part out = grammar_build_alt(w->b, alts.p, alts.n);
	free(alts.p);
	free(to);
	return out;
}

/* True if `of` clearly contains all texts of `other`. `of` must start with a repeated
 * class that has all characters of `other` and permits all its lengths. */
static bool holds(struct lang_writer *w, lang of, lang other)
{
	struct term t = w->p->terms[of];
	bool is_plain = !w->p->terms[other].is_boolean;
	if (t.kind == TERM_CAT && w->p->terms[t.b].is_nullable)
		t = w->p->terms[t.a];
	if (t.kind != TERM_REPEAT || w->p->terms[t.a].kind != TERM_CLASS || !is_plain ||
	    w->p->terms[other].len_min < t.min || w->p->terms[other].len_max > t.max)
		return false;
	struct lang_found f = {0};
	u64map_init(&f.seen, 64);
	find_classes(w, other, &f, 0);
	uint64_t any; /* all texts: no class stands for their characters */
	bool is_held = !u64map_get(&f.seen, LANG_ANY, &any);
	for (size_t i = 0; i < f.n && is_held; i++)
		is_held = lang_alt(w->p, t.a, f.classes[i]) == t.a;
	u64map_deinit(&f.seen);
	free(f.classes);
	return is_held;
}

/* Simplifies an intersection: drops each kid that contains another kid. */
static lang drop_held(struct lang_writer *w, lang l)
{
	struct term t = w->p->terms[l];
	struct grammar_parts kept = {0};
	if (t.kind != TERM_AND)
		return l;
	for (uint32_t i = 0; i < t.b; i++) {
		lang kid = w->p->kids[t.a + i];
		bool is_held = false;
		for (uint32_t k = 0; k < t.b && !is_held; k++)
			is_held = k != i && holds(w, kid, w->p->kids[t.a + k]) &&
				  (k < i || !holds(w, w->p->kids[t.a + k], kid));
		if (!is_held)
			grammar_parts_add(&kept, kid);
	}
	l = lang_list(w->p, TERM_AND, kept.p, kept.n);
	free(kept.p);
	return l;
}

static grammar_part write_automaton(struct lang_writer *w, lang l)
{
	struct automaton a = {0};
	struct lang_found f = {0};
	l = drop_held(w, l);
	if (!w->p->terms[l].is_boolean)
		return write_term(w, l);
	u64map_init(&a.index, 64);
	u64map_init(&f.seen, 64);
	find_classes(w, l, &f, 0);
	if (!w->over)
		cut_alphabet(w, &f, &a);
	if (!w->over)
		group_alphabet(w, &f, &a);
	grammar_part out = 0;
	if (!w->over) {
		state_of(w, &a, l);
		out = grammar_build_ref(w->b, a.rules[0]);
	}
	for (size_t i = 0; i < a.n; i++) {
		bool is_fine = !w->over && !lang_is_over(w->p);
		grammar_part part = is_fine ? write_state(w, &a, a.states[i])
					    : grammar_build_lit(w->b, STR(""));
		grammar_build_set_rule(w->b, a.rules[i], part);
	}
	u64map_deinit(&a.index);
	u64map_deinit(&f.seen);
	free(f.classes);
	free(a.intervals);
	free(a.group);
	free(a.first);
	free(a.states);
	free(a.rules);
	return out;
}

/* --- the whole ------------------------------------------------------------------- */

static grammar_part write_new(struct lang_writer *w, lang l)
{
	struct term t = w->p->terms[l];
	switch ((enum term_kind)t.kind) {
	case TERM_NONE:
		return grammar_build_alt(w->b, NULL, 0);
	case TERM_EMPTY:
		return grammar_build_lit(w->b, STR(""));
	case TERM_CLASS:
		return write_class(w, &t);
	case TERM_CAT:
		return write_cat(w, l);
	case TERM_ALT:
		return write_alt(w, &t);
	case TERM_REPEAT:
		return grammar_build_repeat(w->b, write_term(w, t.a), t.min, t.max);
	default:
		return l == LANG_ANY ? write_any(w) : write_automaton(w, l);
	}
}

static grammar_part write_term(struct lang_writer *w, lang l)
{
	uint64_t known;
	if (u64map_get(&w->parts, l, &known))
		return (grammar_part)known;
	if (++w->depth > 2000)
		w->over = "its groups are nested too deeply";
	if (w->over)
		return 0;
	grammar_part out = write_new(w, l);
	w->depth--;
	u64map_put(&w->parts, l, out);
	return out;
}

enum status lang_part(struct lang_pool *p, lang l, struct grammar_build *b, bool is_json,
		      grammar_part *out, struct fail *fail)
{
	struct lang_writer w = {.p = p, .b = b, .is_json = is_json};
	u64map_init(&w.parts, 64);
	*out = write_term(&w, l);
	u64map_deinit(&w.parts);
	if (lang_is_over(p))
		w.over = "it needs too much work";
	if (w.over)
		return fail_set(fail, E_LIMIT, "%s", w.over);
	return OK;
}
