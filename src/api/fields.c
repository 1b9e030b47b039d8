/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fields.h"


#include "base/alloc.h"
#include "base/once.h"

#define MAX_SHOWN 60 /* bytes of an unknown field's name that the log shows */
#define MAX_TOLD 256 /* different unknown fields that are logged */

static const struct field_rule {
	const char *name, *uses, *neutral, *words;
} fields[] = {
#define FIELD(name, uses, neutral, words) {name, uses, neutral, words},
#include "api/fields.def"
#undef FIELD
};

static const struct field_rule *fields_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

/* --- unknown ones ------------------------------------------------------------- */

static struct once told = {
	.max = MAX_TOLD, .max_bytes = MAX_SHOWN, .lock = PTHREAD_MUTEX_INITIALIZER};

void api_set_on_unknown(void (*tell)(const char *field))
{
	once_set(&told, tell);
}

#define MAX_IGNORED 512 /* bytes of what a call's header tells */

/* Header text: printable, and nothing that could end the header or pass for another item. */
static void add_shown(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_add_c(out, s.p[i] > ' ' && s.p[i] < 127 && s.p[i] != ',' ? s.p[i] : '?');
}

void fields_ignore(struct buf *out, const struct json_node *at, struct str kind)
{
	struct buf path = {0}, word = {0};
	if (kind.n) {
		kind = json_read_clip(kind, MAX_SHOWN - 8);
		buf_addf(&word, "type \"%.*s\"", (int)kind.n, kind.p);
	} else {
		buf_add_str(&word, str_of(at->key ? at->key : ""));
	}
	once_tell(&told, buf_str(&word));
	if (out->n < MAX_IGNORED) {
		if (out->n)
			buf_add_z(out, ", ");
		json_read_path(at, &path);
		add_shown(out, json_read_clip(buf_str(&path), 100));
		if (kind.n) {
			buf_add_c(out, '=');
			add_shown(out, kind);
		}
	} else if (!str_ends(buf_str(out), STR(", ..."))) {
		buf_add_z(out, ", ...");
	}
	buf_deinit(&path);
	buf_deinit(&word);
}

/* --- refusals ------------------------------------------------------------------ */

static bool is_neutral(const struct field_rule *f, const json_t *v)
{
	if (json_is_false(v) || (json_is_string(v) && json_string_length(v) == 0))
		return true;
	json_t *list = json_loads(f->neutral, 0, NULL), *item;
	size_t i;
	bool is_in = false;
	json_array_foreach(list, i, item) {
		bool are_numbers = json_is_number(v) && json_is_number(item);
		is_in |= json_equal(item, v) ||
			 (are_numbers && json_number_value(v) == json_number_value(item));
	}
	json_decref(list);
	return is_in;
}

bool fields_is_neutral(const char *name, const json_t *v)
{
	const struct field_rule *f = fields_find(name);
	return f && is_neutral(f, v);
}

/* --- inside ----------------------------------------------------------------------- */

static const struct inside_rule {
	const char *place, *uses, *types, *names;
} insides[] = {
#define INSIDE(place, uses, types, names) {place, uses, types, names},
#include "api/fields_inside.def"
#undef INSIDE
};

/* Is the word in a list with blanks between? */
static bool lists(const char *list, struct str word)
{
	struct str all = str_of(list);
	for (size_t i = 0; i < all.n;) {
		size_t end = i;
		while (end < all.n && all.p[end] != ' ')
			end++;
		if (str_eq((struct str){all.p + i, end - i}, word))
			return true;
		i = end + 1;
	}
	return false;
}

static bool holds(const struct inside_rule *r, struct str place, enum dialect_column column,
		  const json_t *object)
{
	if (r->uses[column] == '-' || !str_is(place, r->place))
		return false;
	const json_t *type = json_object_get(object, "type");
	struct str kind = json_is_string(type) ? json_read_view(type) : STR("none");
	return !r->types[0] || lists(r->types, kind);
}

/* One look at the objects inside of a body. */
struct look {
	enum dialect_column column;
	struct buf place;
	struct buf *ignored;
	struct fail *fail;
};

static enum status look_into(struct look *l, const struct json_node *at);

/* Looks into an object, or into each object of a list. */
static enum status look_at(struct look *l, const struct json_node *at, const char *key)
{
	size_t n = l->place.n;
	enum status st = OK;
	if (n)
		buf_add_c(&l->place, '.');
	buf_add_z(&l->place, key);
	if (json_is_object(at->v))
		st = look_into(l, at);
	if (json_is_array(at->v))
		buf_add_z(&l->place, "[]");
	for (size_t i = 0; st == OK && json_is_array(at->v) && i < json_array_size(at->v); i++) {
		struct json_node item = json_read_item(at, i);
		if (json_is_object(item.v))
			st = look_into(l, &item);
	}
	l->place.n = n;
	return st;
}

static enum status look_at_field(struct look *l, const struct json_node *at, const char *key,
				 char use)
{
	static const struct field_rule nothing = {.neutral = "[[], {}]"};
	if (!use) {
		fields_ignore(l->ignored, at, STR(""));
		return OK;
	}
	if (use == 'R' && !is_neutral(&nothing, at->v))
		return json_read_fail(at, l->fail, "is not supported");
	return use == 'S' ? look_at(l, at, key) : OK;
}

/* Places without a row are not entered, so the table bounds the depth. */
static enum status look_into(struct look *l, const struct json_node *at)
{
	const struct inside_rule *rows[8]; /* more than a place has */
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(insides) && n < ARRAY_LEN(rows); i++)
		if (holds(&insides[i], buf_str(&l->place), l->column, at->v))
			rows[n++] = &insides[i];
	if (n == 0)
		return OK;
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)at->v, key, v) {
		struct json_node field = json_read_get(at, key);
		char use = 0;
		for (size_t i = 0; i < n; i++)
			if (lists(rows[i]->names, str_of(key)))
				use = rows[i]->uses[l->column];
		enum status st = field.v ? look_at_field(l, &field, key, use) : OK;
		if (st != OK)
			return st;
	}
	return OK;
}

/* --- the top -------------------------------------------------------------------------- */

/* f: the row of the field; NULL: there is none. */
static enum status check_field(const struct json_node *at, const struct field_rule *f,
			       enum dialect_column column, struct buf *ignored, struct fail *fail)
{
	if (!f || f->uses[column] == '-') {
		if (at->v)
			fields_ignore(ignored, at, STR(""));
		return OK;
	}
	if (!at->v || f->uses[column] != 'R' || is_neutral(f, at->v))
		return OK;
	return json_read_fail(at, fail, "is not supported%s%s", f->words[0] ? ": " : "",
			      f->words);
}

enum status fields_check(const struct json_node *body, enum dialect_column column,
			 struct buf *ignored, struct fail *fail)
{
	const char *key;
	json_t *v;
	struct look l = {.column = column, .ignored = ignored, .fail = fail};
	enum status st = OK;
	json_object_foreach((json_t *)body->v, key, v) {
		struct json_node at = json_read_get(body, key);
		const struct field_rule *f = fields_find(key);
		st = check_field(&at, f, column, ignored, fail);
		if (st == OK && at.v && f && (f->uses[column] == 'S' || f->uses[column] == 'C'))
			st = look_at(&l, &at, key);
		if (st != OK)
			break;
	}
	buf_deinit(&l.place);
	return st;
}

void fields_copy(const struct json_node *body, enum dialect_column column,
		 struct dialect_body *to)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].uses[column] == 'C')
			dialect_copy(to, to->chat, fields[i].name, body, fields[i].name);
}
