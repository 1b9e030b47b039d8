/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/value.h"

#include "json/json_digits.h"
#include "json/json_read.h"
#include "output/toolparse.h"

static struct jinja_value *list_of_json(struct arena *a, const json_t *v)
{
	struct jinja_value *list = jinja_list(a);
	for (size_t i = 0; i < json_array_size(v); i++)
		jinja_list_add(a, list, value_of_json(a, json_array_get(v, i)));
	return list;
}

static struct jinja_value *dict_of_json(struct arena *a, const json_t *v)
{
	struct jinja_value *dict = jinja_dict(a);
	const char *key;
	json_t *item;
	json_object_foreach((json_t *)v, key, item)
		jinja_dict_set(a, dict, str_of(key), TRUST_USER,
			       value_of_json(a, item));
	return dict;
}

static struct jinja_value *number_of_json(struct arena *a, const json_t *v)
{
	struct str digits = json_digits_text(v);
	return digits.p ? jinja_digits(a, json_real_value(v), digits)
			: jinja_float(a, json_real_value(v));
}

struct jinja_value *value_of_json(struct arena *a, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_NULL: break;
	case JSON_TRUE: return jinja_bool(a, true);
	case JSON_FALSE: return jinja_bool(a, false);
	case JSON_INTEGER: return jinja_int(a, json_integer_value(v));
	case JSON_REAL: return number_of_json(a, v);
	case JSON_STRING: return jinja_string(a, json_read_view(v), TRUST_USER);
	case JSON_ARRAY: return list_of_json(a, v);
	case JSON_OBJECT: return dict_of_json(a, v);
	}
	return jinja_none(a);
}

json_t *value_read_args(struct str text)
{
	struct buf closed = {0};
	json_t *v = NULL;
	if (json_read_parse(text, &v, NULL) != OK && toolparse_close(text, &closed) &&
	    json_read_parse(buf_str(&closed), &v, NULL) != OK)
		v = NULL;
	buf_deinit(&closed);
	return v;
}

void value_set(struct arena *a, struct jinja_value *dict, const char *key,
	       struct jinja_value *v)
{
	jinja_dict_set(a, dict, str_of(key), TRUST_TEMPLATE, v);
}

void value_set_str(struct arena *a, struct jinja_value *dict, const char *key,
		   struct str s, enum trust trust)
{
	value_set(a, dict, key, jinja_string(a, s, trust));
}
