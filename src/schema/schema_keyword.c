/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of keywords: which ones are known, and to which types they apply. Unknown
 * keywords are ignored, as the standard says. The program's log reports each of them
 * once.
 */
#include <stdio.h>

#include "schema/schema_private.h"
#include "base/alloc.h"
#include "base/once.h"

#define MAX_IGNORED 1000 /* maximum of distinct keywords to remember */
#define MAX_SHOWN 60     /* maximal bytes of a keyword to remember */

enum keyword_use {
	USE_NOTE,  /* does not affect validity */
	USE_SHAPE, /* applies to values of every type */
	USE_STRING, USE_NUMBER, USE_ARRAY, USE_OBJECT,
};

static const struct keyword {
	const char *name;
	enum keyword_use use;
} keywords[] = {
	{"type", USE_SHAPE}, {"enum", USE_SHAPE}, {"const", USE_SHAPE},
	{"$ref", USE_SHAPE}, {"$dynamicRef", USE_SHAPE}, {"$recursiveRef", USE_SHAPE},
	{"allOf", USE_SHAPE}, {"anyOf", USE_SHAPE}, {"oneOf", USE_SHAPE},
	{"not", USE_SHAPE}, {"if", USE_SHAPE}, {"then", USE_SHAPE}, {"else", USE_SHAPE},
	{"nullable", USE_SHAPE}, {SCHEMA_NOT_VALUES, USE_SHAPE},
	{"minLength", USE_STRING}, {"maxLength", USE_STRING}, {"pattern", USE_STRING},
	{SCHEMA_NOT_PATTERN, USE_STRING}, {"format", USE_STRING},
	{"minimum", USE_NUMBER}, {"maximum", USE_NUMBER},
	{"exclusiveMinimum", USE_NUMBER}, {"exclusiveMaximum", USE_NUMBER},
	{"multipleOf", USE_NUMBER},
	{"items", USE_ARRAY}, {"prefixItems", USE_ARRAY}, {"additionalItems", USE_ARRAY},
	{"unevaluatedItems", USE_ARRAY}, {"minItems", USE_ARRAY},
	{"maxItems", USE_ARRAY}, {"uniqueItems", USE_ARRAY}, {"contains", USE_ARRAY},
	{"minContains", USE_ARRAY}, {"maxContains", USE_ARRAY},
	{"properties", USE_OBJECT}, {"patternProperties", USE_OBJECT},
	{"required", USE_OBJECT}, {"additionalProperties", USE_OBJECT},
	{"unevaluatedProperties", USE_OBJECT}, {"minProperties", USE_OBJECT},
	{"maxProperties", USE_OBJECT}, {"propertyNames", USE_OBJECT},
	{"dependentRequired", USE_OBJECT}, {"dependentSchemas", USE_OBJECT},
	{"dependencies", USE_OBJECT},
	{"$defs", USE_NOTE}, {"definitions", USE_NOTE}, {"$schema", USE_NOTE},
	{"$id", USE_NOTE}, {"id", USE_NOTE}, {"$anchor", USE_NOTE},
	{"$dynamicAnchor", USE_NOTE}, {"$recursiveAnchor", USE_NOTE},
	{"$vocabulary", USE_NOTE}, {"$comment", USE_NOTE}, {"title", USE_NOTE},
	{"description", USE_NOTE}, {"default", USE_NOTE}, {"example", USE_NOTE},
	{"examples", USE_NOTE}, {"deprecated", USE_NOTE}, {"readOnly", USE_NOTE},
	{"writeOnly", USE_NOTE}, {"discriminator", USE_NOTE},
	{"externalDocs", USE_NOTE}, {"contentMediaType", USE_NOTE},
	{"contentEncoding", USE_NOTE}, {"contentSchema", USE_NOTE}, {"xml", USE_NOTE},
};

static const struct keyword *find_keyword(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
		if (strcmp(keywords[i].name, name) == 0)
			return &keywords[i];
	return NULL;
}

int schema_keyword_types(const char *key)
{
	const struct keyword *k = find_keyword(key);
	switch (k ? k->use : USE_NOTE) {
	case USE_STRING: return TYPE_STRING;
	case USE_NUMBER: return TYPE_NUMBER;
	case USE_ARRAY: return TYPE_ARRAY;
	case USE_OBJECT: return TYPE_OBJECT;
	default: return 0;
	}
}

/* --- what is ignored ---------------------------------------------------------- */

static struct once ignored = {
	.max = MAX_IGNORED, .max_bytes = MAX_SHOWN, .lock = PTHREAD_MUTEX_INITIALIZER};

void schema_set_on_ignored(void (*tell)(const char *keyword))
{
	once_set(&ignored, tell);
}

void schema_check_keywords(struct schema_reader *x, const struct json_node *at)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)at->v, key, v) {
		if (!find_keyword(key) && strncmp(key, "x-", 2) != 0)
			once_tell(&ignored, str_of(key));
		schema_work(x, 1);
	}
	const json_t *format = json_object_get(at->v, "format");
	if (json_is_string(format) && !schema_format(json_read_view(format)) &&
	    strncmp(json_string_value(format), "int", 3) != 0) {
		char name[80];
		snprintf(name, sizeof name, "format: %.60s", json_string_value(format));
		once_tell(&ignored, str_of(name));
	}
}
