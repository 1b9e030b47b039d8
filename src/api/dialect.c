/* SPDX-License-Identifier: Apache-2.0 */
#include "api/dialect.h"

void dialect_set(json_t *object, const char *key, json_t *v)
{
	json_object_set_new_nocheck(object, key, v);
}

void dialect_set_str(json_t *object, const char *key, struct str s)
{
	dialect_set(object, key, json_stringn_nocheck(s.p, s.n));
}

void dialect_copy(json_t *object, const char *key, const struct json_node *from,
		  const char *from_key)
{
	struct json_node at = json_read_get(from, from_key);
	if (at.v)
		json_object_set_nocheck(object, key, (json_t *)at.v);
}

json_t *dialect_message(const char *role, struct str text)
{
	json_t *m = json_object();
	dialect_set_str(m, "role", str_of(role));
	dialect_set_str(m, "content", text);
	return m;
}

enum status dialect_fail_type(const struct json_node *type, struct str kind,
			      struct fail *fail)
{
	kind = json_read_clip(kind, 40);
	return json_read_fail(type, fail, "is \"%.*s\": this model reads text only",
			      (int)kind.n, kind.p);
}
