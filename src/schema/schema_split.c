/* SPDX-License-Identifier: Apache-2.0
 *
 * Divides the values of one place into groups. No value is in two groups. So values that must
 * differ can be written: each is of another group. A group is a schema. Values are told apart
 *
 *   where they are listed   by the value; a group has several
 *   strings                 by the characters that follow their common beginning
 *   numbers                 by ranges between the bounds
 *   arrays, objects         by the value of one item or property
 */
#include <math.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_SPLIT_DEPTH 3
#define MAX_PLACE 4      /* an array is told apart by one of so many items */
#define MAX_BEGINNING 40 /* bytes of a common beginning */
#define MAX_NODES 200

/* --- strings ---------------------------------------------------------------------- */

/* Each group has letters that begin about equally many words, and a digit or two. The last has
 * all other characters, too. */
static const char *const letters[SCHEMA_GROUPS] = {
	"^(?:[abABkK0]|$)", "^[cC1]", "^[dD2eE]", "^[fgFG3hH]", "^[iIjJlL4]",
	"^[mnMN5]", "^[oO6pP]", "^[qQrR7tT]", "^[sS8]", "^(?:[u-zU-Z9]|[^A-Za-z0-9])"};

/* Texts that begin alike. */
struct beginning {
	struct str text;
	lang rest;    /* what may follow */
	bool is_over; /* cannot be divided further: nothing follows, or `text` is long */
};

struct tree {
	struct schema_reader *x;
	struct beginning p[MAX_NODES];
	size_t n, n_parts; /* n_parts: of the last that was divided */
};

static void add_beginning(struct tree *t, struct str before, struct str c, lang rest,
			  bool is_over)
{
	struct buf text = {0};
	if (t->n == MAX_NODES)
		return;
	buf_add_str(&text, before);
	buf_add_str(&text, c);
	t->p[t->n++] = (struct beginning){arena_str(&t->x->arena, buf_str(&text)), rest,
					  is_over || text.n > MAX_BEGINNING};
	buf_deinit(&text);
}

/* Replaces a beginning by all that are longer by a character. */
static void divide(struct tree *t, size_t i)
{
	struct schema_reader *x = t->x;
	struct beginning b = t->p[i];
	memmove(t->p + i, t->p + i + 1, (--t->n - i) * sizeof *t->p);
	schema_work(x, 5000);
	t->n_parts = t->n;
	if (lang_matches(x->langs, b.rest, STR("")))
		add_beginning(t, b.text, STR(""), LANG_EMPTY, true);
	for (char c = ' '; c <= '~' && !lang_is_over(x->langs); c++) {
		lang rest = lang_derive(x->langs, b.rest, (uint32_t)c);
		if (rest != LANG_NONE)
			add_beginning(t, b.text, (struct str){&c, 1}, rest, false);
	}
	t->n_parts = t->n - t->n_parts;
}

static void add_quoted(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		buf_addf(out, is_char_of(text.p[i], "\\^$.|?*+()[]{}/-") ? "\\%c" : "%c",
			 text.p[i]);
}

/* The patterns of up to SCHEMA_GROUPS groups of the beginnings. The last beginning that was
 * divided is at the end, and its parts share the groups that others leave. */
static size_t patterns_of(struct tree *t, const char **out)
{
	size_t n = MIN(t->n, (size_t)SCHEMA_GROUPS);
	size_t n_own = t->n - t->n_parts < n ? t->n - t->n_parts : 0;
	struct buf text[SCHEMA_GROUPS] = {0};
	for (size_t i = 0; i < t->n; i++) {
		size_t shared = i < n_own ? 0 : (i - n_own) * (n - n_own) / (t->n - n_own);
		struct buf *to = &text[i < n_own ? i : n_own + shared];
		buf_add_z(to, to->n ? "|" : "^(?:");
		add_quoted(to, t->p[i].text);
		if (t->p[i].rest == LANG_EMPTY)
			buf_add_c(to, '$');
	}
	for (size_t g = 0; g < n; g++) {
		buf_add_c(&text[g], ')');
		out[g] = arena_str(&t->x->arena, buf_str(&text[g])).p;
		buf_deinit(&text[g]);
	}
	return n;
}

size_t schema_split_names(struct schema_reader *x, lang l, const char **out)
{
	if (l == LANG_NONE)
		return 0;
	if (l == LANG_ANY) {
		memcpy(out, letters, sizeof letters);
		return SCHEMA_GROUPS;
	}
	struct tree *t = xcalloc(1, sizeof *t);
	t->x = x;
	add_beginning(t, STR(""), STR(""), l, false);
	for (int round = 0; round < MAX_BEGINNING && t->n < SCHEMA_GROUPS && x->st == OK; round++) {
		size_t i = 0;
		while (i < t->n && t->p[i].is_over)
			i++;
		if (i == t->n)
			break;
		divide(t, i);
	}
	size_t n = lang_is_over(x->langs) ? 0 : patterns_of(t, out);
	free(t);
	return n;
}

static json_t *split_strings(struct schema_reader *x, const struct schema_list *l)
{
	const char *patterns[SCHEMA_GROUPS];
	json_t *out = json_array();
	size_t n = schema_split_names(x, schema_string_lang(x, l), patterns);
	for (size_t g = 0; g < n; g++)
		json_array_append_new(out, json_pack("{ssss}", "type", "string", "pattern",
						     patterns[g]));
	return out;
}

/* --- numbers ----------------------------------------------------------------------- */

static json_t *number_of(json_wide v)
{
	char text[JSON_WIDE_BYTES];
	return json_digits_new(str_of(json_digits_of_wide(v, text)));
}

/* The lower end of each range, the first without one. The nearer to `from`, the denser. */
static size_t edges_of(const struct schema_bounds *b, bool is_integer, json_wide *out)
{
	static const int steps[SCHEMA_GROUPS] = {0, 0, 1, 2, 3, 4, 5, 10, 100, 1000};
	bool has_lo = b->int_lo >= -JSON_WIDE_MAX, has_hi = b->int_hi <= JSON_WIDE_MAX;
	size_t n = 1;
	if (has_lo && has_hi && (is_integer || b->int_hi - b->int_lo >= SCHEMA_GROUPS)) {
		json_wide width = (b->int_hi - b->int_lo) / SCHEMA_GROUPS + 1;
		json_wide v = b->int_lo + width;
		for (; n < SCHEMA_GROUPS && v <= b->int_hi; v += width)
			out[n++] = v;
		return n;
	}
	for (int i = 1; i < SCHEMA_GROUPS && !(has_lo && has_hi); i++)
		if (has_hi)
			out[n++] = b->int_hi - steps[SCHEMA_GROUPS - i];
		else
			out[n++] = (has_lo ? b->int_lo : 0) + steps[i];
	return n;
}

/* Ranges of numbers whose bounds are near to each other, by fractions of their distance. */
static json_t *split_narrow(const struct schema_bounds *b)
{
	json_t *out = json_array(), *before = NULL;
	double step = (b->hi - b->lo) / SCHEMA_GROUPS, unit = pow(10, floor(log10(step)) - 2);
	for (int i = 1; i <= SCHEMA_GROUPS; i++) {
		json_t *range = json_pack("{ss}", "type", "number");
		char text[40];
		snprintf(text, sizeof text, "%.12g", round((b->lo + i * step) / unit) * unit);
		json_t *edge = i < SCHEMA_GROUPS ? json_digits_new(str_of(text)) : NULL;
		if (before)
			json_object_set(range, "minimum", before);
		if (edge)
			json_object_set(range, "exclusiveMaximum", edge);
		json_array_append_new(out, range);
		json_decref(before);
		before = edge;
	}
	json_decref(before);
	return out;
}

static json_t *split_numbers(struct schema_reader *x, const struct schema_list *l, int types)
{
	struct schema_bounds b = schema_number_bounds(x, l);
	json_wide edges[SCHEMA_GROUPS];
	bool is_integer = !(types & TYPE_FRACTION);
	bool is_narrow = b.hi - b.lo < SCHEMA_GROUPS && b.hi > b.lo;
	if (!is_integer && is_narrow)
		return split_narrow(&b);
	size_t n = edges_of(&b, is_integer, edges);
	json_t *out = json_array();
	for (size_t i = 0; i < n; i++) {
		json_t *range = json_pack("{ss}", "type", "number");
		if (i > 0)
			json_object_set_new(range, "minimum", number_of(edges[i]));
		if (i + 1 < n)
			json_object_set_new(range, "exclusiveMaximum", number_of(edges[i + 1]));
		json_array_append_new(out, range);
	}
	return out;
}

/* --- lists of values ----------------------------------------------------------------- */

static json_t *split_values(const json_t *const *values, size_t n)
{
	size_t n_groups = MIN(n, (size_t)SCHEMA_GROUPS);
	json_t *out = json_array(), *seen = json_array();
	for (size_t i = 0; i < n; i++) {
		bool is_new = true;
		for (size_t k = 0; k < json_array_size(seen) && is_new; k++)
			is_new = !json_digits_equal(json_array_get(seen, k), values[i]);
		if (is_new)
			json_array_append(seen, (json_t *)(uintptr_t)values[i]);
	}
	n = json_array_size(seen);
	for (size_t g = 0; g < n_groups; g++) {
		json_t *some = json_array();
		for (size_t i = 0; i < n; i++)
			if (i * n_groups / n == g)
				json_array_append(some, json_array_get(seen, i));
		if (json_array_size(some))
			json_array_append_new(out, json_pack("{so}", "enum", some));
		else
			json_decref(some);
	}
	json_decref(seen);
	return out;
}

/* --- arrays and objects --------------------------------------------------------------- */

static json_t *split_at(struct schema_reader *x, const struct schema_list *l, int depth);

/* By the item that tells most arrays apart. */
static json_t *split_arrays(struct schema_reader *x, const struct schema_list *l, int depth)
{
	json_t *best = NULL, *out = json_array();
	size_t at = 0;
	for (size_t i = 0; i < MAX_PLACE && x->st == OK; i++) {
		struct schema_list item = {0};
		schema_add_for_item(x, l, i, &item);
		json_t *groups = item.is_never ? json_array() : split_at(x, &item, depth + 1);
		if (best && json_array_size(groups) <= json_array_size(best)) {
			json_decref(groups);
			continue;
		}
		json_decref(best);
		best = groups;
		at = i;
		if (json_array_size(groups) == SCHEMA_GROUPS)
			break;
	}
	for (size_t g = 0; g < json_array_size(best); g++) {
		json_t *items = json_array();
		for (size_t i = 0; i < at; i++)
			json_array_append_new(items, json_true());
		json_array_append(items, json_array_get(best, g));
		json_array_append_new(out, json_pack("{sssosi}", "type", "array", "prefixItems",
						     items, "minItems", (int)at + 1));
	}
	json_decref(best);
	return out;
}

struct finding {
	struct schema_reader *x;
	int depth;
	const char *key;
	json_t *groups;
	bool is_required;
};

/* Keeps the property that tells most objects apart; required ones come first. */
static void try_key(void *ctx, const char *name, bool is_required, struct schema_list *value)
{
	struct finding *f = ctx;
	if (f->is_required && (!is_required || json_array_size(f->groups) == SCHEMA_GROUPS))
		return;
	json_t *groups =
		value->is_never ? json_array() : split_at(f->x, value, f->depth + 1);
	size_t n = json_array_size(groups), n_old = json_array_size(f->groups);
	bool is_better = n > 1 && (n > n_old || (is_required && !f->is_required));
	if (f->groups && !is_better) {
		json_decref(groups);
		return;
	}
	json_decref(f->groups);
	f->groups = groups;
	f->key = name;
	f->is_required = is_required;
}

static json_t *split_objects(struct schema_reader *x, const struct schema_list *l, int depth)
{
	struct finding f = {.x = x, .depth = depth};
	json_t *out = json_array();
	schema_each_name(x, l, try_key, &f);
	for (size_t g = 0; g < json_array_size(f.groups); g++)
		json_array_append_new(out, json_pack("{sss[s]s{sO}}", "type", "object",
						     "required", f.key, "properties", f.key,
						     json_array_get(f.groups, g)));
	json_decref(f.groups);
	if (!json_array_size(out))
		json_array_append_new(out, json_pack("{ss}", "type", "object"));
	return out;
}

/* --- the whole --------------------------------------------------------------------- */

/* Adds the schemas of one kind of values to the groups, each to another one. */
static void spread(json_t *groups, size_t *io_at, json_t *own)
{
	for (size_t g = 0; g < json_array_size(own); g++) {
		size_t to = (*io_at + g) % SCHEMA_GROUPS;
		while (json_array_size(groups) <= to)
			json_array_append_new(groups, json_array());
		json_array_append(json_array_get(groups, to), json_array_get(own, g));
	}
	*io_at += json_array_size(own);
	json_decref(own);
}

static json_t *split_at(struct schema_reader *x, const struct schema_list *l, int depth)
{
	const json_t **values;
	size_t n, at = 0;
	json_t *groups = json_array(), *out;
	int types = depth < MAX_SPLIT_DEPTH && x->st == OK ? schema_types(x, l) : 0;
	schema_work(x, 2000);
	if (types && schema_values(x, l, types, &values, &n)) {
		json_decref(groups);
		return split_values(values, n);
	}
	if (types & TYPE_STRING)
		spread(groups, &at, split_strings(x, l));
	if (types & TYPE_NUMBER)
		spread(groups, &at, split_numbers(x, l, types));
	if (types & TYPE_OBJECT)
		spread(groups, &at, split_objects(x, l, depth));
	if (types & TYPE_ARRAY)
		spread(groups, &at, split_arrays(x, l, depth));
	if (types & TYPE_BOOL)
		spread(groups, &at, json_pack("[{sb},{sb}]", "const", 1, "const", 0));
	if (types & TYPE_NULL)
		spread(groups, &at, json_pack("[{sn}]", "const"));
	out = json_array();
	for (size_t g = 0; g < json_array_size(groups); g++)
		json_array_append_new(out, json_pack("{sO}", "anyOf", json_array_get(groups, g)));
	json_decref(groups);
	return out;
}

json_t *schema_split(struct schema_reader *x, const struct schema_list *l)
{
	/* One list has the same groups each time: so recursive schemas end. */
	struct buf key = {0};
	buf_add_z(&key, "split");
	for (size_t i = 0; i < l->n; i++) {
		buf_add(&key, &l->p[i].at->v, sizeof l->p[i].at->v);
		buf_add_c(&key, (char)l->p[i].done);
	}
	json_t *out = schema_made(x, buf_str(&key));
	if (!out)
		out = schema_remember(x, buf_str(&key), split_at(x, l, 0));
	buf_deinit(&key);
	return out;
}
