/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a schema into lists of schemas, and each list into a rule (schema_private.h).
 *
 *   schema_add      adds a schema to a list and follows $ref and allOf
 *   schema_values   filters the values of enum and const by all schemas of the list
 *   schema_branches turns the first anyOf, oneOf, not or if of the list into
 *                   alternatives: one copy of the list per branch, plus the branch
 *   read_types      writes all other lists: their types, and the keywords of each type
 *
 * A queue of jobs makes the rules, not recursion. Neither a long chain of references nor
 * a cycle thus costs stack.
 */
#include "schema/schema_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/work.h"

/* Limit of work, in steps of some ten nanoseconds. Products of several anyOf or enum must
 * not grow without end. A schema of 100 KB takes a hundredth of this limit. */
#define MAX_WORK 20000000
#define ITEM_WORK 40 /* work of one item, memory included: the limit permits 500,000 items */
#define JOB_WORK 400
#define MAX_REFS 200   /* longest chain of references at one place */
#define MAX_LIST 2000

/* --- faults and nodes ---------------------------------------------------- */

void schema_check(struct schema_reader *x, enum status st)
{
	if (x->st == OK)
		x->st = st;
}

void schema_refuse(struct schema_reader *x, const struct json_node *at,
		   const char *fmt, ...)
{
	char text[240];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (x->st == OK)
		x->st = json_read_fail(at, x->fail, "%s", text);
}

void schema_work(struct schema_reader *x, size_t n)
{
	x->n_work += n;
	bool is_over = !work_spend(WORK_SCHEMA, n) || x->n_work > MAX_WORK;
	if (is_over && x->st == OK)
		x->st = fail_set(x->fail, E_LIMIT,
				 "the schema has too many combinations");
}

bool schema_is_frugal(const struct schema_reader *x)
{
	return x->n_work > MAX_WORK / 4;
}

static const struct json_node *keep_node(struct schema_reader *x, struct json_node n)
{
	struct json_node *copy = arena_alloc(&x->arena, sizeof *copy);
	*copy = n;
	return copy;
}

const struct json_node *schema_get(struct schema_reader *x,
				   const struct json_node *up, const char *key)
{
	return keep_node(x, json_read_get(up, key));
}

const struct json_node *schema_item(struct schema_reader *x,
				    const struct json_node *up, size_t i)
{
	return keep_node(x, json_read_item(up, i));
}

const struct json_node *schema_make(struct schema_reader *x, const struct json_node *up,
				    json_t *v)
{
	if (!x->made)
		x->made = json_array();
	if (!v || json_array_append_new(x->made, v) != 0) {
		schema_refuse(x, up, "cannot be read: it is not as the standard has it");
		v = json_false();
	}
	return keep_node(x, (struct json_node){.v = v, .up = up->up, .key = up->key,
					       .index = up->index});
}

json_t *schema_made(struct schema_reader *x, struct str of)
{
	uint32_t i;
	if (!strmap_get(&x->made_of, of, &i))
		return NULL;
	return json_incref(json_array_get(x->made, i));
}

json_t *schema_remember(struct schema_reader *x, struct str of, json_t *v)
{
	if (!x->made)
		x->made = json_array();
	if (v && json_array_append(x->made, v) == 0)
		strmap_put(&x->made_of, arena_str(&x->arena, of),
			   (uint32_t)json_array_size(x->made) - 1);
	return v;
}

bool schema_rule(struct schema_reader *x, const char *name, uint32_t *out)
{
	struct str key = str_of(name);
	if (strmap_get(&x->rules, key, out))
		return false;
	*out = grammar_build_rule(x->b, key);
	strmap_put(&x->rules, arena_str(&x->arena, key), *out);
	return true;
}

static void read_bound(struct schema_reader *x, const struct schema_list *l,
		       const char *key, bool is_max, int64_t *out)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		struct json_node at = json_read_get(l->p[i].at, key);
		int64_t v = *out;
		schema_check(x, json_read_int(&at, 0, INT64_MAX, &v, x->fail));
		if (at.v)
			*out = is_max ? MIN(*out, v) : MAX(*out, v);
	}
}

void schema_read_max(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out)
{
	read_bound(x, l, key, true, out);
}

void schema_read_min(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out)
{
	read_bound(x, l, key, false, out);
}

/* --- lists --------------------------------------------------------------- */

void schema_add_item(struct schema_reader *x, struct schema_list *to,
		     struct schema_item item)
{
	if (to->n == MAX_LIST) {
		schema_refuse(x, item.at, "is one of too many schemas that must all "
			      "hold at one place");
		return;
	}
	schema_work(x, ITEM_WORK + to->n / 8); /* the caller compared the new item with each old
					        * one */
	if (to->n == to->cap) {
		struct schema_item *old = to->p;
		to->cap = to->cap ? 2 * to->cap : 4;
		to->p = arena_alloc(&x->arena, to->cap * sizeof *to->p);
		if (to->n)
			memcpy(to->p, old, to->n * sizeof *old);
	}
	to->p[to->n++] = item;
}

/* True if the schema is already in the list. A branch that leads back to its own start
 * adds nothing. */
static bool is_there(struct schema_list *to, const struct json_node *at)
{
	for (size_t i = 0; i < to->n; i++) {
		if (to->p[i].at->v != at->v)
			continue;
		to->is_never |= to->p[i].done & ~DONE_DEPENDENT;
		return true;
	}
	return false;
}

static void add_at_depth(struct schema_reader *x, struct schema_list *to,
			 const struct json_node *at, struct schema_item like, int depth)
{
	static const char *const refs[] = {"$ref", "$dynamicRef", "$recursiveRef"};
	if (x->st != OK || json_is_true(at->v))
		return;
	if (json_is_false(at->v)) {
		to->is_never = true;
		return;
	}
	if (!json_is_object(at->v)) {
		schema_refuse(x, at, "must be a schema: an object or a boolean");
		return;
	}
	if (depth > MAX_REFS) {
		schema_refuse(x, at, "refers to itself, or by too many steps");
		return;
	}
	schema_check_keywords(x, at);
	const struct json_node *all = schema_get(x, at, "allOf"), *ref[ARRAY_LEN(refs)];
	bool has_ref = all->v != NULL;
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		ref[i] = schema_get(x, at, refs[i]);
		has_ref |= ref[i]->v != NULL;
	}
	if (!has_ref && is_there(to, at))
		return;
	like.at = at;
	like.done = 0;
	schema_add_item(x, to, like);
	like.parent = (uint32_t)to->n;
	for (size_t i = 0; i < ARRAY_LEN(refs) && x->st == OK; i++) {
		const struct json_node *target =
			ref[i]->v ? schema_resolve(x, ref[i]) : NULL;
		if (target)
			add_at_depth(x, to, target, like, depth + 1);
	}
	size_t n = 0;
	schema_check(x, json_read_list(all, MAX_LIST, &n, x->fail));
	for (size_t i = 0; i < n && x->st == OK; i++)
		add_at_depth(x, to, schema_item(x, all, i), like, depth + 1);
}

void schema_add(struct schema_reader *x, struct schema_list *to,
		const struct json_node *at)
{
	add_at_depth(x, to, at, (struct schema_item){0}, 0);
}

void schema_add_below(struct schema_reader *x, struct schema_list *to,
		      const struct json_node *at, struct schema_item like)
{
	add_at_depth(x, to, at, like, 0);
}

bool schema_is_below(const struct schema_list *l, size_t item, size_t above)
{
	while (item != above && l->p[item].parent)
		item = l->p[item].parent - 1;
	return item == above;
}

static struct str key_of(struct schema_reader *x, const struct schema_list *l)
{
	struct buf key = {0};
	for (size_t i = 0; i < l->n; i++) {
		const struct schema_item *it = &l->p[i];
		const uint8_t flags[] = {it->done, it->is_made, it->is_silent};
		buf_add(&key, &it->at->v, sizeof it->at->v);
		buf_add(&key, &it->parent, sizeof it->parent);
		buf_add(&key, flags, sizeof flags);
	}
	struct str out = arena_str(&x->arena, buf_str(&key));
	buf_deinit(&key);
	return out;
}

grammar_part schema_part(struct schema_reader *x, struct schema_list *list)
{
	if (list->is_never || x->st != OK)
		return grammar_build_alt(x->b, NULL, 0);
	struct str key = key_of(x, list);
	uint32_t rule;
	if (!strmap_get(&x->rules, key, &rule)) {
		struct fail path = {0}; /* the path as an error text would show it */
		if (list->n)
			json_read_fail(list->p[0].at, &path, "x");
		rule = grammar_build_rule(
			x->b, str_of(list->n ? path.param : "any value"));
		strmap_put(&x->rules, key, rule);
		struct schema_job *job = arena_alloc(&x->arena, sizeof *job);
		*job = (struct schema_job){.rule = rule, .list = *list};
		*x->last_job = job;
		x->last_job = &job->next;
		schema_work(x, JOB_WORK);
	}
	return grammar_build_ref(x->b, rule);
}

/* --- enum and const ------------------------------------------------------ */

static bool write_string(const struct schema_relaxed *relaxed, struct str text, bool is_key,
			 struct buf *out)
{
	if (relaxed && is_key)
		return schema_relaxed_add_key(relaxed, text, out);
	if (relaxed)
		return schema_relaxed_add_string(relaxed, text, out);
	buf_add_json(out, text);
	return true;
}

static const char *word_of(const struct schema_reader *x, const json_t *v)
{
	if (json_is_null(v))
		return x->is_python ? "None" : "null";
	if (json_is_true(v))
		return x->is_python ? "True" : "true";
	return x->is_python ? "False" : "false";
}

/* False: the value cannot be written. */
static bool write_value(const struct schema_reader *x, const json_t *v, struct buf *out)
{
	const struct schema_relaxed *relaxed = x->relaxed;
	const char *key;
	json_t *item;
	bool is_first = true, good = true;
	if (json_is_object(v)) {
		buf_add_c(out, '{');
		json_object_foreach((json_t *)v, key, item) {
			buf_add_z(out, is_first ? "" : ", ");
			good &= write_string(relaxed, str_of(key), true, out);
			buf_add_z(out, ": ");
			good &= write_value(x, item, out);
			is_first = false;
		}
		buf_add_c(out, '}');
	} else if (json_is_array(v)) {
		buf_add_c(out, '[');
		for (size_t i = 0; i < json_array_size(v); i++) {
			buf_add_z(out, i ? ", " : "");
			good &= write_value(x, json_array_get(v, i), out);
		}
		buf_add_c(out, ']');
	} else if (json_is_string(v)) {
		good = write_string(relaxed, json_read_view(v), false, out);
	} else if (json_is_number(v)) {
		json_digits_add(v, out);
	} else {
		buf_add_z(out, word_of(x, v));
	}
	return good;
}

int schema_type_of(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT: return TYPE_OBJECT;
	case JSON_ARRAY: return TYPE_ARRAY;
	case JSON_STRING: return TYPE_STRING;
	case JSON_INTEGER: return TYPE_INTEGER;
	case JSON_REAL: return json_digits_is_integer(v) ? TYPE_INTEGER : TYPE_FRACTION;
	case JSON_TRUE: case JSON_FALSE: return TYPE_BOOL;
	case JSON_NULL: return TYPE_NULL;
	}
	return 0;
}

/* The values of the first enum or const in the list; NULL: the list has none. */
static const json_t *find_values(struct schema_reader *x, const struct schema_list *l,
				 const json_t **one)
{
	const json_t *values = NULL;
	*one = NULL;
	for (size_t i = 0; i < l->n && !values && !*one; i++) {
		const struct json_node *at = l->p[i].at;
		*one = json_object_get(at->v, "const");
		values = json_object_get(at->v, "enum");
		if (values && !json_is_array(values))
			schema_refuse(x, schema_get(x, at, "enum"), "must be a list");
	}
	return *one ? *one : values;
}

static enum schema_verdict judge_value(struct schema_reader *x, const struct schema_list *l,
				       const json_t *v)
{
	enum schema_verdict out = VALUE_YES;
	for (size_t i = 0; i < l->n && out != VALUE_NO; i++) {
		enum schema_verdict one = schema_allows(x, l->p[i].at, v);
		out = one == VALUE_YES ? out : one;
	}
	return out;
}

bool schema_values(struct schema_reader *x, const struct schema_list *l, int types,
		   const json_t ***out, size_t *out_n)
{
	const json_t *one, *values = find_values(x, l, &one);
	if (!values || x->st != OK)
		return false;
	size_t n = one ? 1 : json_array_size(values);
	*out = arena_alloc(&x->arena, (n + 1) * sizeof **out);
	*out_n = 0;
	for (size_t i = 0; i < n && x->st == OK; i++) {
		const json_t *v = one ? one : json_array_get(values, i);
		enum schema_verdict is =
			schema_type_of(v) & types ? judge_value(x, l, v) : VALUE_NO;
		if (is == VALUE_UNKNOWN)
			return false;
		if (is == VALUE_YES)
			(*out)[(*out_n)++] = v;
	}
	return true;
}

grammar_part schema_choice(struct schema_reader *x, const json_t *const *values, size_t n)
{
	struct buf text = {0};
	struct str *texts = xcalloc(n + 1, sizeof *texts);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		buf_clear(&text);
		if (write_value(x, values[i], &text))
			texts[kept++] = arena_str(&x->arena, buf_str(&text));
	}
	grammar_part out = grammar_build_choice(x->b, texts, kept);
	free(texts);
	buf_deinit(&text);
	return out;
}

bool schema_texts(struct schema_reader *x, const struct schema_list *l,
		  struct str **out, size_t *out_n)
{
	const json_t **values;
	if (!schema_values(x, l, TYPE_STRING, &values, out_n))
		return false;
	*out = arena_alloc(&x->arena, (*out_n + 1) * sizeof **out);
	for (size_t i = 0; i < *out_n; i++)
		(*out)[i] = json_read_view(values[i]);
	return true;
}

/* --- types --------------------------------------------------------------- */

static int type_named(struct schema_reader *x, const struct json_node *at)
{
	static const struct {
		const char *name;
		int type;
	} names[] = {{"null", TYPE_NULL}, {"boolean", TYPE_BOOL},
		     {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
		     {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
		     {"object", TYPE_OBJECT}, {SCHEMA_FRACTION, TYPE_FRACTION},
		     {"any", TYPE_ALL} /* draft 3 only */};
	struct str s = STR("");
	schema_check(x, json_read_need_str(at, &s, x->fail));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_is(s, names[i].name))
			return names[i].type;
	schema_refuse(x, at, "must be the name of a JSON type");
	return 0;
}

int schema_type(struct schema_reader *x, const struct json_node *schema)
{
	const struct json_node *at = schema_get(x, schema, "type");
	if (!at->v)
		return TYPE_ALL;
	int types = 0;
	size_t n = 0;
	if (!json_is_array(at->v))
		types = type_named(x, at);
	else
		schema_check(x, json_read_list(at, 16, &n, x->fail));
	for (size_t i = 0; i < n && x->st == OK; i++)
		types |= type_named(x, schema_item(x, at, i));
	struct json_node nullable = json_read_get(schema, "nullable");
	bool is_nullable = false;
	schema_check(x, json_read_bool(&nullable, &is_nullable, x->fail));
	return types | (is_nullable ? TYPE_NULL : 0);
}

/* A list without "type" means the types for which it has keywords. */
static int implied_types(const struct schema_list *l)
{
	int types = 0;
	for (size_t i = 0; i < l->n; i++) {
		const char *key;
		json_t *v;
		if (!l->p[i].is_made)
			json_object_foreach((json_t *)l->p[i].at->v, key, v)
				types |= json_is_null(v) ? 0 : schema_keyword_types(key);
	}
	return types ? types : TYPE_ALL;
}

int schema_types(struct schema_reader *x, const struct schema_list *l)
{
	int types = TYPE_ALL;
	bool is_said = false;
	for (size_t i = 0; i < l->n; i++) {
		types &= schema_type(x, l->p[i].at);
		is_said |= json_object_get(l->p[i].at->v, "type") ||
			   json_object_get(l->p[i].at->v, "enum") ||
			   json_object_get(l->p[i].at->v, "const");
	}
	return is_said ? types : types & implied_types(l);
}

/* Adds a word such as `true`, unless a negation excludes this value. */
static void add_word(struct schema_reader *x, const struct schema_list *l,
		     const json_t *word, struct grammar_parts *alts)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *not = json_object_get(l->p[i].at->v, SCHEMA_NOT_VALUES);
		for (size_t k = 0; k < json_array_size(not); k++)
			if (json_equal(json_array_get(not, k), word))
				return;
	}
	grammar_parts_add(alts, grammar_build_lit(x->b, str_of(word_of(x, word))));
}

static grammar_part read_types(struct schema_reader *x, const struct schema_list *l)
{
	struct grammar_parts alts = {0};
	int types = schema_types(x, l);
	if (x->st == OK && types & TYPE_OBJECT)
		grammar_parts_add(&alts, schema_object(x, l));
	if (x->st == OK && types & TYPE_ARRAY)
		grammar_parts_add(&alts, schema_array(x, l));
	if (x->st == OK && types & TYPE_STRING)
		grammar_parts_add(&alts, schema_string(x, l));
	if (x->st == OK && types & TYPE_FRACTION)
		grammar_parts_add(&alts,
				  schema_number(x, l, !(types & TYPE_INTEGER)));
	else if (x->st == OK && types & TYPE_INTEGER)
		grammar_parts_add(&alts, schema_integer(x, l));
	if (types & TYPE_BOOL) {
		add_word(x, l, json_true(), &alts);
		add_word(x, l, json_false(), &alts);
	}
	if (types & TYPE_NULL)
		add_word(x, l, json_null(), &alts);
	grammar_part out =
		x->st == OK ? grammar_build_alt(x->b, alts.p, alts.n) : 0;
	free(alts.p);
	return out;
}

static grammar_part read_job(struct schema_reader *x, const struct schema_list *l)
{
	const json_t **values, *one;
	grammar_part out;
	size_t n;
	/* the values of enum and const, filtered by all other keywords */
	if (schema_values(x, l, schema_types(x, l), &values, &n))
		return schema_choice(x, values, n);
	if (x->st != OK)
		return 0;
	if (schema_branches(x, l, &out))
		return out;
	if (find_values(x, l, &one)) {
		schema_refuse(x, l->p[0].at, "has an \"enum\" or \"const\" beside a keyword "
			      "that its values cannot be judged by");
		return 0;
	}
	return read_types(x, l);
}

/* --- the whole ----------------------------------------------------------- */

static void reader_init(struct schema_reader *x, struct grammar_build *b,
			const struct json_node *root, struct fail *fail)
{
	static const char *const marks[] = {",", ":"};
	grammar_part with_space[2];
	*x = (struct schema_reader){.b = b, .root = *root, .fail = fail};
	x->last_job = &x->jobs;
	arena_init(&x->arena);
	strmap_init(&x->rules, 64);
	strmap_init(&x->regexes, 16);
	strmap_init(&x->made_of, 16);
	x->langs = lang_pool_create();
	for (int i = 0; i < 2; i++) {
		grammar_part seq[2] = {
			grammar_build_lit(x->b, str_of(marks[i])),
			grammar_build_opt(x->b, grammar_build_lit(x->b, STR(" ")))};
		with_space[i] = grammar_build_seq(x->b, seq, 2);
	}
	x->comma = with_space[0];
	x->colon = with_space[1];
}

/* Runs the queue of jobs until all rules are made. */
static enum status reader_end(struct schema_reader *x)
{
	for (; x->jobs && x->st == OK; x->jobs = x->jobs->next) {
		grammar_part part = read_job(x, &x->jobs->list);
		grammar_build_set_rule(x->b, x->jobs->rule, part);
	}
	strmap_deinit(&x->rules);
	strmap_deinit(&x->regexes);
	strmap_deinit(&x->made_of);
	lang_pool_destroy(x->langs);
	schema_ids_destroy(x->ids);
	json_decref(x->made);
	arena_deinit(&x->arena);
	return x->st;
}

/* Makes the grammar part of the root's list. */
typedef grammar_part (*make_fn)(struct schema_reader *x, struct schema_list *l,
				const void *ctx);

static grammar_part make_keywords(struct schema_reader *x, struct schema_list *l,
				  const void *ctx)
{
	return schema_keywords(x, l);
}

static enum status build(struct grammar_build *b, const struct json_node *at,
			 const struct schema_relaxed *relaxed, bool is_object, make_fn make,
			 const void *ctx, size_t *io_work, grammar_part *out, struct fail *fail)
{
	struct schema_reader x;
	struct schema_list list = {0};
	json_t *object = json_pack("{ss}", "type", "object");
	const struct json_node is = {.v = object};
	reader_init(&x, b, at->v ? at : &is, fail);
	x.n_work = *io_work;
	x.relaxed = relaxed;
	x.is_python = make == make_keywords;
	schema_add(&x, &list, &x.root);
	if (is_object && at->v)
		schema_add(&x, &list, &is);
	grammar_part part = x.st == OK ? make(&x, &list, ctx) : 0;
	enum status st = reader_end(&x);
	*io_work = x.n_work;
	if (st == OK)
		*out = part;
	json_decref(object);
	return st;
}

static grammar_part make_json(struct schema_reader *x, struct schema_list *l,
			      const void *ctx)
{
	return schema_part(x, l);
}

static grammar_part make_tagged(struct schema_reader *x, struct schema_list *l,
				const void *ctx)
{
	return schema_tagged(x, l, ctx);
}

enum status schema_build(struct grammar_build *b, const struct json_node *at,
			 bool is_object, size_t *io_work, grammar_part *out,
			 struct fail *fail)
{
	return build(b, at, NULL, is_object, make_json, NULL, io_work, out, fail);
}

enum status schema_build_relaxed(struct grammar_build *b, const struct json_node *at,
			       const struct schema_relaxed *relaxed, size_t *io_work,
			       grammar_part *out, struct fail *fail)
{
	return build(b, at, relaxed, true, make_json, NULL, io_work, out, fail);
}

enum status schema_build_python(struct grammar_build *b, const struct json_node *at,
				size_t *io_work, grammar_part *out, struct fail *fail)
{
	return build(b, at, NULL, true, make_keywords, NULL, io_work, out, fail);
}

enum status schema_build_tagged(struct grammar_build *b, const struct json_node *at,
				const struct schema_tags *tags, size_t *io_work,
				grammar_part *out, struct fail *fail)
{
	return build(b, at, NULL, true, make_tagged, tags, io_work, out, fail);
}

enum status schema_grammar(const struct json_node *at, struct grammar **out,
			   struct fail *fail)
{
	struct grammar_build *b = grammar_build_create();
	uint32_t root = grammar_build_rule(b, STR("schema"));
	grammar_part part;
	size_t work = 0;
	enum status st = schema_build(b, at, false, &work, &part, fail);
	if (st == OK) {
		grammar_build_set_rule(b, root, part);
		st = grammar_build_finish(b, root, out, fail);
	}
	if (st == E_INVAL && fail && strncmp(fail->text, "nothing", 7) == 0)
		json_read_fail(at, fail, "allows no value that halod can write: keywords "
			       "contradict each other, or what they leave is too hard");
	grammar_build_destroy(b);
	return st;
}

enum status schema_grammar_object(struct grammar **out, struct fail *fail)
{
	const struct json_node any = {0};
	return schema_grammar(&any, out, fail);
}
