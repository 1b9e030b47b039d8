/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a client's JSON into template values. Thread: any, each with an arena of its own.
 */
#pragma once
#include <jansson.h>

#include "jinja/jinja.h"

/* All strings and keys of the result are TRUST_USER. Recurses as deep as v is nested;
 * json_read_parse bounds the depth. */
struct jinja_value *value_of_json(struct arena *a, const json_t *v);

/* Set a variable or a field that this program, not a client, named. */
void value_set(struct arena *a, struct jinja_value *dict, const char *key,
	       struct jinja_value *v);
void value_set_str(struct arena *a, struct jinja_value *dict, const char *key,
		   struct str s, enum trust trust);
/* The object that a call's arguments spell. One that max_tokens cut off is closed: agents
 * send their history back as it came. NULL: the text begins no object. */
json_t *value_read_args(struct str text);
