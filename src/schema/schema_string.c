/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of a schema: lengths, patterns, formats. A pattern speaks about the
 * string's characters; between the quotes they are written as JSON has them.
 */
#include <stdio.h>

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
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"

static const struct format {
	const char *name, *regex;
} formats[] = {
	{"date", DATE},
	{"time", TIME},
	{"date-time", DATE "T" TIME},
	{"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
	{"email", "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}@" LABEL
		  "(?:\\." LABEL "){1,3}"},
	{"ipv4", OCTET "(?:\\." OCTET "){3}"},
};

/* The characters between the quotes, escapes included: half of a surrogate pair is
 * never written. */
static grammar_part any_char(struct schema_reader *x)
{
	static const char regex[] =
		"[^\"\\\\\\x00-\\x1F]|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9A-CEFa-cef]" HEX
		"{3}|[Dd][0-7]" HEX "{2}|[Dd][89ABab]" HEX "{2}\\\\u[Dd][C-Fc-f]" HEX
		"{2}))";
	static const struct grammar_regex_opts o = {0};
	struct grammar_regex re = {0};
	uint32_t rule;
	if (schema_rule(x, "character of a string", &rule)) {
		schema_check(x, grammar_build_regex(x->b, STR(regex), &o, &re, x->fail));
		grammar_build_set_rule(x->b, rule, re.part);
	}
	return grammar_build_ref(x->b, rule);
}

static grammar_part quoted(struct schema_reader *x, grammar_part inner)
{
	grammar_part quote = grammar_build_lit(x->b, STR("\""));
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
		grammar_part inner =
			grammar_build_repeat(x->b, any_char(x), min, max);
		grammar_build_set_rule(x->b, rule, quoted(x, inner));
	}
	return grammar_build_ref(x->b, rule);
}

grammar_part schema_any_string(struct schema_reader *x)
{
	return string_of_length(x, 0, GRAMMAR_NO_MAX);
}

static const char *format_regex(struct schema_reader *x, const struct json_node *at)
{
	struct str s = STR("");
	schema_check(x, json_read_str(at, &s, x->fail));
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (str_is(s, formats[i].name))
			return formats[i].regex;
	schema_refuse(x, at, "asks for the format \"%.*s\", which is not supported",
		      (int)MIN(s.n, 60), s.p);
	return NULL;
}

/* The one pattern or format of the list, as a regex; where has its keyword. */
static bool read_regex(struct schema_reader *x, const struct schema_list *l,
		       struct str *out, bool *is_search,
		       const struct json_node **where)
{
	bool has = false;
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		static const char *const keys[] = {"pattern", "format"};
		for (int k = 0; k < 2; k++) {
			const struct json_node *at =
				schema_get(x, l->p[i].at, keys[k]);
			struct str s = STR("");
			if (!at->v || x->st != OK)
				continue;
			if (k == 0)
				schema_check(x, json_read_str(at, &s, x->fail));
			else
				s = str_of(format_regex(x, at) ?: "");
			if (has && !(str_eq(s, *out) && *is_search == (k == 0)))
				schema_refuse(x, at, "is a second pattern or format "
					      "of one string, which is not supported");
			has = true;
			*out = s;
			*is_search = k == 0;
			*where = at;
		}
	}
	return has && x->st == OK;
}

/* Lengths beside a pattern are held to when the pattern implies them, or is one class
 * repeated so that they can be its count. */
static grammar_part with_regex(struct schema_reader *x, struct str regex,
			       const struct grammar_regex_opts *o,
			       const struct json_node *at, int64_t min, int64_t max)
{
	struct grammar_regex re;
	struct fail f = {0};
	if (grammar_build_regex(x->b, regex, o, &re, &f) != OK) {
		schema_refuse(x, at, "cannot be held to: %s", f.text);
		return 0;
	}
	if (re.min >= min && re.max <= max)
		return re.part;
	if (!re.is_class) {
		schema_refuse(x, at, "beside \"minLength\" or \"maxLength\" is not "
			      "supported, unless it implies them");
		return 0;
	}
	return grammar_build_repeat(x->b, re.body, (uint32_t)MAX(min, re.min),
				    (uint32_t)MIN(max, re.max));
}

/* False, with the fault said, where they are beyond what can be counted. */
static bool read_lengths(struct schema_reader *x, const struct schema_list *l,
			 int64_t *min, int64_t *max)
{
	*min = 0;
	*max = GRAMMAR_NO_MAX;
	schema_read_min(x, l, "minLength", min);
	schema_read_max(x, l, "maxLength", max);
	if (*min > GRAMMAR_MAX_REPEAT ||
	    (*max > GRAMMAR_MAX_REPEAT && *max < GRAMMAR_NO_MAX))
		schema_refuse(x, l->p[0].at, "has a \"minLength\" or \"maxLength\" "
			      "above %d", GRAMMAR_MAX_REPEAT);
	return x->st == OK;
}

grammar_part schema_string(struct schema_reader *x, const struct schema_list *l)
{
	int64_t min, max;
	struct str regex;
	struct grammar_regex_opts o = {.is_json = true};
	const struct json_node *at;
	if (!read_lengths(x, l, &min, &max))
		return 0;
	if (read_regex(x, l, &regex, &o.is_search, &at))
		return quoted(x, with_regex(x, regex, &o, at, min, max));
	return string_of_length(x, (uint32_t)min, (uint32_t)max);
}

grammar_part schema_bare_string(struct schema_reader *x, const struct schema_list *l,
				char avoid, bool *out_free)
{
	int64_t min, max;
	struct str regex;
	struct grammar_regex_opts o = {.avoid = avoid};
	const struct grammar_range not = {(uint8_t)avoid, (uint8_t)avoid};
	const struct json_node *at;
	*out_free = false;
	if (!read_lengths(x, l, &min, &max))
		return 0;
	if (read_regex(x, l, &regex, &o.is_search, &at))
		return with_regex(x, regex, &o, at, min, max);
	*out_free = min == 0 && max == GRAMMAR_NO_MAX;
	if (min > max)
		return grammar_build_alt(x->b, NULL, 0);
	return grammar_build_repeat(x->b, grammar_build_class(x->b, &not, 1, true),
				    (uint32_t)min, (uint32_t)max);
}
