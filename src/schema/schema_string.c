/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of a schema: lengths, patterns, formats. A pattern constrains the string's
 * characters. Between the quotes these characters are written in JSON's form.
 */
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define DATE \
	"(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])" \
	"|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))" \
	"|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])" \
	"|(?:[2468][048]|[13579][26])00)-02-29)"
#define TIME \
	"(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?" \
	"(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define HEX "[0-9a-fA-F]"
/* no two adjacent hyphens: "xn--" begins a name in another alphabet */
#define LABEL "[A-Za-z0-9]{1,16}(?:-[A-Za-z0-9]{1,16})?"
#define HOST LABEL "(?:\\." LABEL "){0,2}\\.[A-Za-z]{2,12}"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define EMAIL "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}@" HOST
#define H "[0-9a-fA-F]{1,4}"
#define IPV6 \
	"(?:(?:" H ":){7}" H "|(?:" H ":){1,6}:|(?:" H ":){1,6}:" H \
	"|(?:" H ":){1,5}(?::" H "){2}|(?:" H ":){1,4}(?::" H "){3}" \
	"|(?:" H ":){1,3}(?::" H "){4}|(?:" H ":){1,2}(?::" H "){5}" \
	"|" H ":(?::" H "){6}|::(?:" H "(?::" H "){0,6})?)"
#define CLOCK "(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S)"
#define DURATION \
	"P(?:\\d{1,4}W|T" CLOCK "|(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?" \
	"|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)(?:T" CLOCK ")?)"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX "{2})"
/* A relative reference's first part has no colon: text before a colon would be a scheme. */
#define PART "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%" HEX "{2})"
#define TAIL "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define URI \
	"(?:(?:https?|wss?|ftp)://" HOST "(?::[1-9]\\d{0,3})?(?:/" PCHAR "*)*" TAIL \
	"|urn:[a-z0-9]{2,20}:" PCHAR "+|mailto:" EMAIL ")"
#define REFERENCE "(?:" URI "|(?:/" PCHAR "+|" PART "+)(?:/" PCHAR "*)*" TAIL ")"
#define POINTER "(?:/(?:[ -.0-}]|~[01])*)*"

/* Regexes of formats. Each is narrow: every reader of the format accepts these texts. */
static const struct string_format {
	const char *name, *regex;
} formats[] = {
	{"date", DATE}, {"time", TIME}, {"date-time", DATE "T" TIME},
	{"duration", DURATION},
	{"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
	{"email", EMAIL}, {"idn-email", EMAIL},
	{"hostname", HOST}, {"idn-hostname", HOST},
	{"ipv4", OCTET "(?:\\." OCTET "){3}"}, {"ip-address", OCTET "(?:\\." OCTET "){3}"},
	{"ipv6", IPV6},
	{"uri", URI}, {"iri", URI}, {"url", URI},
	{"uri-reference", REFERENCE}, {"iri-reference", REFERENCE},
	{"uri-template", "(?:" PCHAR "|[/?#]|\\{[A-Za-z0-9_]+\\})*"},
	{"json-pointer", POINTER},
	{"relative-json-pointer", "(?:0|[1-9]\\d{0,3})(?:#|" POINTER ")"},
	{"regex", "\\^?(?:(?:[A-Za-z0-9_ ,:;=@#%&~<>/-]|\\.|\\\\[dwsDWS.]"
		  "|\\[(?:a-z|A-Z|0-9|_)+\\])[*+?]?)*\\$?"},
};

/* Any character between the quotes, escapes included. Half a surrogate pair is never
 * written. */
static grammar_part any_char(struct schema_reader *x)
{
	static const char regex[] =
		"[^\"\\\\\\x00-\\x1F]|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9A-CEFa-cef]" HEX
		"{3}|[Dd][0-7]" HEX "{2}|[Dd][89ABab]" HEX "{2}\\\\u[Dd][C-Fc-f]" HEX
		"{2}))";
	grammar_part part = 0;
	uint32_t rule;
	if (schema_rule(x, "character of a string", &rule)) {
		schema_check(x, grammar_build_regex(x->b, STR(regex), &part, x->fail));
		grammar_build_set_rule(x->b, rule, part);
	}
	return grammar_build_ref(x->b, rule);
}

static grammar_part quoted(struct schema_reader *x, grammar_part inner)
{
	grammar_part quote =
		grammar_build_lit(x->b, x->relaxed ? x->relaxed->mark : STR("\""));
	grammar_part seq[3] = {quote, inner, quote};
	return grammar_build_seq(x->b, seq, 3);
}

static grammar_part string_of_length(struct schema_reader *x, uint32_t min,
				     uint32_t max)
{
	char name[64];
	uint32_t rule;
	snprintf(name, sizeof name, "string of %u to %u characters", min, max);
	if (schema_rule(x, name, &rule)) {
		bool is_any = min == 0 && max == GRAMMAR_NO_MAX;
		grammar_part part =
			x->relaxed && is_any ? schema_relaxed_text(x)
			: quoted(x, x->relaxed ? schema_relaxed_chars(x, min, max)
					     : grammar_build_repeat(x->b, any_char(x),
								    min, max));
		grammar_build_set_rule(x->b, rule, part);
	}
	return grammar_build_ref(x->b, rule);
}

grammar_part schema_any_string(struct schema_reader *x)
{
	return string_of_length(x, 0, GRAMMAR_NO_MAX);
}

/* --- languages ----------------------------------------------------------------- */

const char *schema_format(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (str_is(name, formats[i].name))
			return formats[i].regex;
	return NULL;
}

/* The draft of the document: 3 to 7, 2019 or later. */
static int draft_of(const struct schema_reader *x)
{
	struct json_node at = json_read_get(&x->root, "$schema");
	const char *uri = json_is_string(at.v) ? json_string_value(at.v) : "";
	const char *draft = strstr(uri, "draft-0");
	return draft ? draft[7] - '0' : 2019;
}

const char *schema_format_outline(const struct schema_reader *x, struct str name)
{
	/* since: the first draft with this format; all later drafts have it, too */
	static const struct {
		int since;
		const char *name, *regex;
	} outlines[] = {
		{4, "date-time", ":"}, {4, "email", "@"}, {4, "ipv6", ":"}, {4, "uri", ":"},
		{4, "hostname", "^[A-Za-z0-9._-]*$"}, {4, "ipv4", "^[0-9.]*$"},
		{7, "date", "^[0-9W-]{7,10}$"}, {7, "time", ":"}, {7, "iri", ":"},
		{2019, "uuid", HEX "{8}-?" HEX "{4}"}, {2019, "duration", "[Pp]"},
	};
	for (size_t i = 0; i < ARRAY_LEN(outlines); i++)
		if (str_is(name, outlines[i].name) && draft_of(x) >= outlines[i].since)
			return outlines[i].regex;
	return NULL;
}

static bool read_regex(struct schema_reader *x, const struct json_node *at,
		       struct str regex, bool is_search, lang *out)
{
	struct fail why = {0};
	if (lang_regex(x->langs, regex, is_search, out, &why) == OK)
		return true;
	schema_refuse(x, at, "cannot be held to: %s", why.text);
	return false;
}

bool schema_pattern(struct schema_reader *x, const struct json_node *at, lang *out)
{
	struct str s = STR("");
	uint32_t known;
	schema_check(x, json_read_need_str(at, &s, x->fail));
	if (x->st != OK)
		return false;
	if (strmap_get(&x->regexes, s, &known)) {
		*out = known;
		return true;
	}
	if (!read_regex(x, at, s, true, out))
		return false;
	strmap_put(&x->regexes, arena_str(&x->arena, s), *out);
	return true;
}

static lang format_lang(struct schema_reader *x, const struct json_node *at)
{
	struct str s = STR("");
	lang out = LANG_ANY;
	schema_check(x, json_read_str(at, &s, x->fail));
	const char *regex = x->st == OK ? schema_format(s) : NULL;
	if (regex)
		read_regex(x, at, str_of(regex), false, &out);
	x->n_narrowed += regex != NULL;
	return out;
}

/* The strings among a list of JSON values. */
static lang values_lang(struct schema_reader *x, const json_t *values)
{
	size_t n = 0;
	lang *of = xmalloc((json_array_size(values) + 1) * sizeof *of);
	for (size_t i = 0; i < json_array_size(values); i++) {
		const json_t *v = json_array_get(values, i);
		if (json_is_string(v))
			of[n++] = lang_text(x->langs, json_read_view(v));
	}
	lang out = lang_alt_of(x->langs, of, n);
	free(of);
	return out;
}

/* The strings that pattern, format and negations of one schema permit. */
static lang keywords_lang(struct schema_reader *x, const struct json_node *schema)
{
	const struct json_node *pattern = schema_get(x, schema, "pattern");
	const struct json_node *not = schema_get(x, schema, SCHEMA_NOT_PATTERN);
	const struct json_node *format = schema_get(x, schema, "format");
	const json_t *values = json_object_get(schema->v, SCHEMA_NOT_VALUES);
	lang out = LANG_ANY, l = LANG_ANY;
	if (pattern->v && schema_pattern(x, pattern, &l))
		out = lang_and(x->langs, out, l);
	if (not->v && schema_pattern(x, not, &l))
		out = lang_and(x->langs, out, lang_not(x->langs, l));
	if (format->v)
		out = lang_and(x->langs, out, format_lang(x, format));
	if (json_array_size(values))
		out = lang_and(x->langs, out,
			       lang_not(x->langs, values_lang(x, values)));
	return out;
}

/* Reads minLength and maxLength. False: a minimum cannot be counted; the error is
 * recorded. A maximum above a million counts as a million. */
static bool read_lengths(struct schema_reader *x, const struct schema_list *l,
			 int64_t *min, int64_t *max)
{
	*min = 0;
	*max = GRAMMAR_NO_MAX;
	schema_read_min(x, l, "minLength", min);
	schema_read_max(x, l, "maxLength", max);
	if (*min > GRAMMAR_MAX_REPEAT)
		schema_refuse(x, l->p[0].at, "has a \"minLength\" above %d",
			      GRAMMAR_MAX_REPEAT);
	if (*max > GRAMMAR_MAX_REPEAT && *max < GRAMMAR_NO_MAX)
		*max = GRAMMAR_MAX_REPEAT;
	return x->st == OK;
}

/* Texts up to this length are counted exactly, even with a pattern. */
#define COUNTED 256
/* Texts of counted words up to this length are counted exactly. */
#define WORDS 64
#define MAX_SPLIT 8

/* The texts of l with min to max characters. Uses the repetition counts of l itself if
 * possible. For a large max it keeps texts with few repetitions. Otherwise intersects l
 * with a language of all texts of these lengths. */
static lang of_length(struct schema_reader *x, lang l, uint32_t min, uint32_t max)
{
	uint32_t own_min, own_max;
	lang class, parts[MAX_SPLIT];
	lang_lengths(x->langs, l, &own_min, &own_max);
	if (min > own_max || max < own_min)
		return LANG_NONE;
	if (own_min >= min && own_max <= max)
		return l;
	if (lang_is_class(x->langs, l, &class))
		return lang_repeat(x->langs, class, MAX(min, own_min),
				   MIN(max, own_max));
	size_t n = lang_union(x->langs, l, parts, MAX_SPLIT);
	for (size_t i = 0; n > 1 && n <= MAX_SPLIT && i < n; i++)
		parts[i] = of_length(x, parts[i], min, max);
	if (n > 1 && n <= MAX_SPLIT)
		return lang_alt_of(x->langs, parts, n);
	if (own_max > max && own_min >= min && max >= WORDS) {
		lang words = lang_budget(x->langs, l, max);
		x->n_narrowed += words != LANG_NONE;
		if (words != LANG_NONE)
			return words;
	}
	if (own_max > max && max > COUNTED) {
		x->n_narrowed++;
		lang shorter = lang_shorten(x->langs, l, max);
		if (shorter != LANG_NONE && own_min >= min)
			return shorter;
		max = MAX(COUNTED, min);
	}
	return lang_and(x->langs, l, lang_length(x->langs, min,
						 own_max <= max ? GRAMMAR_NO_MAX : max));
}

/* The strings that all schemas of the list permit. *out_free: they constrain at most the
 * length. */
static lang list_lang(struct schema_reader *x, const struct schema_list *l, int64_t *min,
		      int64_t *max, bool *out_free)
{
	lang out = LANG_ANY;
	if (!read_lengths(x, l, min, max))
		return LANG_NONE;
	for (size_t i = 0; i < l->n && x->st == OK; i++)
		out = lang_and(x->langs, out, keywords_lang(x, l->p[i].at));
	*out_free = out == LANG_ANY;
	return *out_free ? out : of_length(x, out, (uint32_t)*min, (uint32_t)*max);
}

/* The grammar of the language. A fault is that of the schema at `at`. */
static grammar_part part_of_lang(struct schema_reader *x, const struct json_node *at, lang l,
				 bool is_json)
{
	grammar_part out = 0;
	struct fail why = {0};
	if (x->st == OK && lang_part(x->langs, l, x->b, is_json, &out, &why) != OK)
		schema_refuse(x, at, "has a pattern that cannot be held to beside the "
			      "rest: %s", why.text);
	return x->st == OK ? out : 0;
}

grammar_part schema_quoted(struct schema_reader *x, const struct json_node *at, lang l)
{
	if (x->relaxed)
		l = lang_avoid(x->langs, l, (uint8_t)x->relaxed->text[0]);
	return quoted(x, part_of_lang(x, at, l, !x->relaxed));
}

lang schema_string_lang(struct schema_reader *x, const struct schema_list *l)
{
	int64_t min, max;
	bool is_free = false;
	return list_lang(x, l, &min, &max, &is_free);
}

grammar_part schema_string(struct schema_reader *x, const struct schema_list *l)
{
	int64_t min, max;
	bool is_free = false;
	lang of = list_lang(x, l, &min, &max, &is_free);
	if (x->st != OK)
		return 0;
	if (is_free)
		return string_of_length(x, (uint32_t)min, (uint32_t)max);
	return schema_quoted(x, l->p[0].at, of);
}

grammar_part schema_bare_string(struct schema_reader *x, const struct schema_list *l,
				char avoid, bool *out_free)
{
	int64_t min, max;
	bool is_any = false;
	const struct grammar_range not = {(uint8_t)avoid, (uint8_t)avoid};
	*out_free = false;
	lang of = list_lang(x, l, &min, &max, &is_any);
	if (x->st != OK)
		return 0;
	if (!is_any)
		return part_of_lang(x, l->p[0].at,
			       lang_avoid(x->langs, of, (uint8_t)avoid), false);
	*out_free = min == 0 && max == GRAMMAR_NO_MAX;
	if (min > max)
		return grammar_build_alt(x->b, NULL, 0);
	return grammar_build_repeat(x->b, grammar_build_class(x->b, &not, 1, true),
				    (uint32_t)min, (uint32_t)max);
}

/* --- names ---------------------------------------------------------------------- */

#define MAX_NAMES_DEPTH 24

static lang names_at(struct schema_reader *x, const struct json_node *at, int depth);

static lang names_of(struct schema_reader *x, const struct json_node *of, bool is_all,
		     int depth)
{
	lang out = is_all ? LANG_ANY : LANG_NONE;
	for (size_t i = 0; i < json_array_size(of->v); i++) {
		lang l = names_at(x, schema_item(x, of, i), depth + 1);
		out = is_all ? lang_and(x->langs, out, l) : lang_alt(x->langs, out, l);
	}
	return out;
}

static lang names_at(struct schema_reader *x, const struct json_node *at, int depth)
{
	static const char *const others[] = {"oneOf", "if", "$dynamicRef", "$recursiveRef"};
	if (json_is_boolean(at->v))
		return json_is_true(at->v) ? LANG_ANY : LANG_NONE;
	struct schema_item item = {.at = at};
	const struct schema_list one = {.p = &item, .n = 1, .cap = 1};
	const struct json_node *values = schema_get(x, at, "enum");
	const struct json_node *ref = schema_get(x, at, "$ref");
	const struct json_node *any = schema_get(x, at, "anyOf");
	const struct json_node *not = schema_get(x, at, "not");
	const json_t *fixed = json_object_get(at->v, "const");
	int64_t min, max;
	bool is_free;
	schema_work(x, 100);
	if (!json_is_object(at->v) || depth > MAX_NAMES_DEPTH)
		schema_refuse(x, at, "must be a schema of names");
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (json_object_get(at->v, others[i]))
			schema_refuse(x, at, "uses \"%s\" for names, which is not "
				      "supported", others[i]);
	if (x->st != OK || !(schema_type(x, at) & TYPE_STRING))
		return LANG_NONE;
	lang out = list_lang(x, &one, &min, &max, &is_free);
	if (is_free)
		out = lang_length(x->langs, (uint32_t)min, (uint32_t)max);
	if (values->v)
		out = lang_and(x->langs, out, values_lang(x, values->v));
	if (fixed) {
		lang is = json_is_string(fixed)
				  ? lang_text(x->langs, json_read_view(fixed)) : LANG_NONE;
		out = lang_and(x->langs, out, is);
	}
	if (any->v)
		out = lang_and(x->langs, out, names_of(x, any, false, depth));
	out = lang_and(x->langs, out,
		       names_of(x, schema_get(x, at, "allOf"), true, depth));
	if (ref->v && (ref = schema_resolve(x, ref)))
		out = lang_and(x->langs, out, names_at(x, ref, depth + 1));
	size_t n_narrowed = x->n_narrowed;
	if (not->v)
		out = lang_and(x->langs, out,
			       lang_not(x->langs, names_at(x, not, depth + 1)));
	if (not->v && x->n_narrowed > n_narrowed)
		schema_refuse(x, not, "uses a format or a long maxLength, which cannot be "
			      "held to here");
	return x->st == OK ? out : LANG_NONE;
}

lang schema_names(struct schema_reader *x, const struct json_node *at)
{
	return names_at(x, at, 0);
}
