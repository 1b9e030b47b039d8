/* SPDX-License-Identifier: Apache-2.0
 *
 *   forced   (first | other) again* close
 *   a call   (first | other | again), and in a list what is behind it
 *
 * where each is `open name mid arguments end` for one of the tools. Tags that are special
 * tokens must be written as those tokens (GRAMMAR_SPECIAL). But where the parser has seen a
 * call begin, it knows the opening only as text: there the opening is accepted as a token
 * or as text.
 */
#include "chat/toolgrammar.h"

#include <stdlib.h>

#include "json/json_digits.h"
#include "schema/schema.h"
#include "base/alloc.h"

struct maker {
	const struct tool_format *f;
	const struct toolgrammar_specials *specials;
	struct grammar_build *b;
	const struct tools *t;
	struct json_node list;
	bool is_forced, holds_all;
	size_t n_work;      /* work done for all schemas so far */
	grammar_part *args; /* one part for each tool, shared by all ways to write a call */
	struct fail *fail;
};

/* --- words --------------------------------------------------------------- */

static struct str special_at(const struct toolgrammar_specials *s, struct str text)
{
	struct str best = {0};
	for (size_t i = 0; i < s->n; i++)
		if (s->p[i].n > best.n && str_starts(text, s->p[i]))
			best = s->p[i];
	return best;
}

/* Appends the text with its special tokens marked, except the first *io_plain of them. */
static void mark(const struct toolgrammar_specials *s, struct str text, int *io_plain,
		 struct buf *out)
{
	for (size_t i = 0; i < text.n;) {
		struct str rest = {text.p + i, text.n - i};
		struct str special = special_at(s, rest);
		if (special.n && (*io_plain)-- <= 0)
			buf_add_c(out, GRAMMAR_SPECIAL);
		buf_add(out, rest.p, MAX(special.n, (size_t)1));
		i += MAX(special.n, (size_t)1);
	}
}

static void toolgrammar_flush(struct maker *m, struct buf *text, int *io_plain,
			      struct grammar_parts *to)
{
	struct buf marked = {0};
	mark(m->specials, buf_str(text), io_plain, &marked);
	if (text->n)
		grammar_parts_add(to, grammar_build_lit(m->b, buf_str(&marked)));
	buf_clear(text);
	buf_deinit(&marked);
}

/* A grammar part of a format's words, see toolformat.h. has_begun: the first special token
 * is spelled as text. */
static grammar_part words(struct maker *m, const char *s, bool has_begun)
{
	static const struct grammar_range alnum[] = {
		{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
	struct grammar_parts parts = {0};
	struct buf text = {0};
	int n_plain = has_begun;
	for (; *s; s++) {
		struct str one = {s, 1};
		grammar_part one_part;
		if (*s != ' ' && *s != '\n' && *s != '#' &&
		    *s != '@') {
			buf_add_c(&text, *s == '\t' ? ' ' : *s);
			continue;
		}
		toolgrammar_flush(m, &text, &n_plain, &parts);
		if (*s == '#')
			one_part = grammar_build_class(m->b, alnum, 3, false);
		else if (*s == '@')
			one_part = grammar_build_repeat(
				m->b, grammar_build_class(m->b, alnum, 1, false), 1, 3);
		else
			one_part = grammar_build_opt(m->b, grammar_build_lit(m->b, one));
		grammar_parts_add(&parts, one_part);
	}
	toolgrammar_flush(m, &text, &n_plain, &parts);
	grammar_part out = grammar_build_seq(m->b, parts.p, parts.n);
	free(parts.p);
	buf_deinit(&text);
	return out;
}

/* A call's opening: as tokens, or with its first special token as the text that a parser saw. */
static grammar_part opening(struct maker *m, const char *s)
{
	grammar_part both[2] = {words(m, s, false), words(m, s, true)};
	return m->is_forced || m->specials->n == 0
		       ? both[0]
		       : grammar_build_alt(m->b, both, 2);
}

/* --- arguments ----------------------------------------------------------- */

static struct schema_tags tags_of(struct maker *m)
{
	const struct tool_tags *a = &m->f->args;
	struct str end = str_of(a->end);
	return (struct schema_tags){
		.before_key = words(m, a->before_key, false),
		.before_value = words(m, a->before_value, false),
		.before_text = words(m, a->before_text ? a->before_text : a->before_value, false),
		.value_end = words(m, a->end, false),
		.end = a->end,
		.is_special = special_at(m->specials, end).n == end.n,
		.strips_newlines = tool_states[a->value].strips_newlines,
		.is_text = tools_is_string,
	};
}

/* Parameters between tags, of any names and values. */
static grammar_part any_tagged(struct maker *m, const struct schema_tags *tags)
{
	static const struct grammar_range not[] = {
		{0, 0x20}, {'<', '<'}, {'>', '>'}, {0x7F, 0x7F}};
	grammar_part key = grammar_build_repeat(
		m->b, grammar_build_class(m->b, not, 4, true), 1, 200);
	grammar_part newline = grammar_build_opt(m->b, grammar_build_lit(m->b, STR("\n")));
	grammar_part before[2] = {tags->before_value, tags->before_text};
	grammar_part one[5] = {tags->before_key, key, grammar_build_alt(m->b, before, 2),
			       schema_tagged_text(m->b, tags), newline};
	return grammar_build_repeat(m->b, grammar_build_seq(m->b, one, 5), 0,
				    GRAMMAR_NO_MAX);
}

/* Makes the arguments of a format that writes relaxed objects. */
static enum status make_relaxed(struct maker *m, struct grammar_build *b,
			      const struct json_node *schema, grammar_part *out,
			      struct fail *fail)
{
	const char *text = m->f->relaxed_mark;
	struct buf spelled = {0};
	int n_plain = 0;
	mark(m->specials, str_of(text), &n_plain, &spelled);
	const struct schema_relaxed relaxed = {.mark = buf_str(&spelled), .text = text};
	enum status st = schema_build_relaxed(b, schema, &relaxed, &m->n_work, out, fail);
	buf_deinit(&spelled);
	return st;
}

static enum status make_args(struct maker *m, struct grammar_build *b,
			     const struct json_node *schema, bool is_held,
			     grammar_part *out, struct fail *fail)
{
	static const struct json_node any;
	bool is_tagged = m->f->args.before_key != NULL;
	struct schema_tags tags = {0};
	if (is_tagged)
		tags = tags_of(m);
	/* A tool without a schema takes no arguments. */
	if (!schema->v) {
		bool is_bare = is_tagged || m->f->is_python;
		*out = grammar_build_lit(b, is_bare ? STR("") : STR("{}"));
		return OK;
	}
	if (m->f->is_python)
		return schema_build_python(b, is_held ? schema : &any, &m->n_work, out, fail);
	if (m->f->relaxed_mark)
		return make_relaxed(m, b, is_held ? schema : &any, out, fail);
	if (!is_tagged)
		return schema_build(b, is_held ? schema : &any, true, &m->n_work, out,
				    fail);
	if (is_held)
		return schema_build_tagged(b, schema, &tags, &m->n_work, out, fail);
	*out = any_tagged(m, &tags);
	return OK;
}

/* Can halod keep this schema? Tried in a grammar of its own: a part that fails leaves half
 * of its rules behind. */
static bool can_hold(struct maker *m, const struct json_node *schema)
{
	struct maker alone = *m;
	struct grammar *g = NULL;
	grammar_part part;
	alone.b = grammar_build_create();
	uint32_t root = grammar_build_rule(alone.b, STR("arguments"));
	enum status st = make_args(&alone, alone.b, schema, true, &part, NULL);
	if (st == OK) {
		grammar_build_set_rule(alone.b, root, part);
		st = grammar_build_finish(alone.b, root, &g, NULL);
	}
	m->n_work = alone.n_work;
	grammar_unref(g);
	grammar_build_destroy(alone.b);
	return st == OK;
}

static enum status add_args(struct maker *m, int i)
{
	struct json_node tool = json_read_item(&m->list, (size_t)i);
	struct json_node fn = json_read_get(&tool, "function");
	struct json_node schema = json_read_get(&fn, "parameters");
	enum tools_strict strict = m->t->strict[i];
	bool is_asked = strict == STRICT_YES || m->is_forced;
	bool is_held = is_asked || (m->holds_all && strict != STRICT_NO &&
				    schema.v && can_hold(m, &schema));
	return make_args(m, m->b, &schema, is_held, &m->args[i], m->fail);
}

/* --- calls --------------------------------------------------------------- */

static bool is_callable(const struct maker *m, int i)
{
	return !m->t->forced.p || str_eq(m->t->forced, m->t->parse.tools[i].name);
}

static grammar_part call_part(struct maker *m, const struct tool_way *w)
{
	struct grammar_parts alts = {0};
	grammar_part mid = w->open && !w->open[0] ? opening(m, w->mid)
						  : words(m, w->mid, false);
	for (int i = 0; i < m->t->parse.n_tools; i++) {
		if (!is_callable(m, i))
			continue;
		grammar_part one[3] = {
			grammar_build_lit(m->b, m->t->parse.tools[i].name), mid,
			m->args[i]};
		grammar_parts_add(&alts, grammar_build_seq(m->b, one, 3));
	}
	grammar_part whole[3] = {opening(m, w->open),
				 grammar_build_alt(m->b, alts.p, alts.n),
				 words(m, w->end, false)};
	free(alts.p);
	return grammar_build_seq(m->b, whole, 3);
}

static grammar_part forced_part(struct maker *m)
{
	const struct tool_format *f = m->f;
	bool has_more = f->again.open && !m->t->parse.one_call;
	grammar_part ways[2] = {call_part(m, &f->first)};
	size_t n = 1;
	if (f->other.open)
		ways[n++] = call_part(m, &f->other);
	grammar_part whole[3] = {
		grammar_build_alt(m->b, ways, n),
		has_more ? grammar_build_repeat(m->b, call_part(m, &f->again), 0,
						GRAMMAR_NO_MAX)
			 : words(m, "", false),
		words(m, f->close ?: "", false)};
	return grammar_build_seq(m->b, whole, 3);
}

static grammar_part any_part(struct maker *m)
{
	const struct tool_format *f = m->f;
	const struct tool_way *all[3] = {&f->first, &f->other, &f->again};
	grammar_part ways[3], behind[2];
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i]->open)
			ways[n++] = call_part(m, all[i]);
	behind[0] = words(m, f->close ?: "", false);
	behind[1] = words(m, ",", false);
	grammar_part whole[2] = {
		grammar_build_alt(m->b, ways, n),
		f->close ? grammar_build_alt(m->b, behind, 2) : behind[0]};
	return grammar_build_seq(m->b, whole, 2);
}

static enum status toolgrammar_make(struct maker *m, struct grammar **out)
{
	int n = m->t->parse.n_tools;
	enum status st = OK;
	m->b = grammar_build_create();
	m->args = xcalloc((size_t)n + 1, sizeof *m->args);
	for (int i = 0; i < n && st == OK; i++)
		if (is_callable(m, i))
			st = add_args(m, i);
	if (st == OK) {
		uint32_t root = grammar_build_rule(m->b, STR("calls"));
		grammar_build_set_rule(m->b, root, m->is_forced ? forced_part(m)
								: any_part(m));
		st = grammar_build_finish(m->b, root, out, m->fail);
		if (st == E_INVAL)
			json_read_fail(&m->list, m->fail, "cannot be called: a schema "
				       "allows no arguments that could be written");
	}
	if (st == E_LIMIT && m->fail && !m->fail->param[0])
		snprintf(m->fail->param, sizeof m->fail->param, "tools");
	grammar_build_destroy(m->b);
	free(m->args);
	return st;
}

/* The cache's key: all that the grammar depends on. */
static char *key_of(const struct maker *m)
{
	const struct toolparse_opts *o = &m->t->parse;
	struct buf key = {0};
	buf_addf(&key, "tools %d %d %d %.*s ", m->is_forced, m->holds_all, o->one_call,
		 (int)m->t->forced.n, m->t->forced.p ? m->t->forced.p : "");
	json_digits_write(m->list.v, false, &key);
	return buf_take(&key);
}

static enum status get_grammar(const struct chat_model *model, struct maker *m,
			       struct grammar **out)
{
	char *key = key_of(m);
	enum status st = OK;
	*out = grammarcache_get(model->grammars, str_of(key));
	if (!*out) {
		st = toolgrammar_make(m, out);
		if (st == OK)
			grammarcache_put(model->grammars, str_of(key), *out);
	}
	free(key);
	return st;
}

enum status toolgrammar_forced(const struct chat_model *model, const struct json_node *tools,
			       const struct tools *t, struct str begun, struct arena *a,
			       struct grammar **out, struct str *out_begun,
			       struct fail *fail)
{
	struct maker m = {.f = model->tool_format, .specials = &model->specials, .t = t,
			  .list = *tools, .is_forced = true, .fail = fail};
	struct buf b = {0};
	int n_plain = 0;
	mark(m.specials, begun, &n_plain, &b);
	*out_begun = arena_str(a, buf_str(&b));
	buf_deinit(&b);
	return get_grammar(model, &m, out);
}

enum status toolgrammar_call(const struct chat_model *model, const struct json_node *tools,
			     const struct tools *t, bool is_needed,
			     struct grammar **out, struct fail *fail)
{
	struct maker m = {.f = model->tool_format, .specials = &model->specials, .t = t,
			  .list = *tools, .holds_all = model->strict_tools, .fail = fail};
	for (int i = 0; i < t->parse.n_tools; i++)
		is_needed |= t->strict[i] == STRICT_YES ||
			     (m.holds_all && t->strict[i] != STRICT_NO);
	*out = NULL;
	return is_needed ? get_grammar(model, &m, out) : OK;
}

/* --- special tokens ------------------------------------------------------ */

static bool is_in_way(const struct tool_way *w, struct str s)
{
	return w->open && (str_find(str_of(w->open), s, 0) >= 0 ||
			   str_find(str_of(w->mid), s, 0) >= 0 ||
			   str_find(str_of(w->end), s, 0) >= 0);
}

static bool is_in_words(const struct tool_format *f, struct str s)
{
	const struct tool_tags *a = &f->args;
	if (a->before_key && (str_find(str_of(a->before_key), s, 0) >= 0 ||
			      str_find(str_of(a->before_value), s, 0) >= 0 ||
			      (a->before_text && str_find(str_of(a->before_text), s, 0) >= 0) ||
			      str_find(str_of(a->end), s, 0) >= 0))
		return true;
	if ((f->relaxed_mark && str_find(str_of(f->relaxed_mark), s, 0) >= 0) ||
	    (f->close && str_find(str_of(f->close), s, 0) >= 0))
		return true;
	return is_in_way(&f->first, s) || is_in_way(&f->other, s) ||
	       is_in_way(&f->again, s);
}

void toolgrammar_find_specials(const struct tokenizer *t, const struct tool_format *f,
			       struct arena *a, struct toolgrammar_specials *out)
{
	enum { MAX_SPECIALS = 16 };
	*out = (struct toolgrammar_specials){
		.p = arena_alloc(a, MAX_SPECIALS * sizeof *out->p)};
	for (int32_t i = 0; f && i < tokenizer_n_ids(t) && out->n < MAX_SPECIALS; i++) {
		struct str s = tokenizer_bytes(t, i);
		if (s.n > 0 && tokenizer_is_special(t, i) && is_in_words(f, s))
			out->p[out->n++] = s;
	}
}
