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

static const struct field_rule *find(const char *name)
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
	json_read_path(at, &path);
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

static enum status check(const struct json_node *at, const char *name,
			 enum dialect_column column, struct buf *ignored, struct fail *fail)
{
	const struct field_rule *f = find(name);
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
	json_object_foreach((json_t *)body->v, key, v) {
		struct json_node at = json_read_get(body, key);
		enum status st = check(&at, key, column, ignored, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

void fields_copy(const struct json_node *body, enum dialect_column column,
		 struct dialect_body *to)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].uses[column] == 'C')
			dialect_copy(to, to->chat, fields[i].name, body, fields[i].name);
}
