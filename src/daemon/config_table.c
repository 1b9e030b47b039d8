/* SPDX-License-Identifier: Apache-2.0
 *
 * Every value begins as a text. The file, flags, defaults and the bounds of ranges all
 * reach struct config through config_set alone. So the parser accepts whatever the example
 * file shows.
 */
#include "daemon/config_table.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/near.h"

const struct config_row config_rows[] = {
#define SECTION(title) {.section = title},
#define KEY(name_, type_, dflt_, min_, max_, help_) \
	{NULL, #name_, dflt_, min_, max_, "", help_, type_, \
	 offsetof(struct config, name_)},
#define CHOICE(name_, dflt_, choices_, help_) \
	{NULL, #name_, dflt_, "", "", choices_, help_, CHOICES, \
	 offsetof(struct config, name_)},
#include "daemon/config.def"
#undef SECTION
#undef KEY
#undef CHOICE
};
const int config_n_rows = ARRAY_LEN(config_rows);
_Static_assert(ARRAY_LEN(config_rows) <= CONFIG_ROWS_MAX, "raise it");

/* --- keys ------------------------------------------------------------------- */

static bool is_key(const struct config_row *r, struct str key)
{
	if (r->section || strlen(r->name) != key.n)
		return false;
	for (size_t i = 0; i < key.n; i++)
		if (r->name[i] != (key.p[i] == '-' ? '_' : key.p[i]))
			return false;
	return true;
}

const struct config_row *config_find(struct str key)
{
	for (int i = 0; i < config_n_rows; i++)
		if (is_key(&config_rows[i], key))
			return &config_rows[i];
	return NULL;
}

const char *config_nearest(struct str key)
{
	struct near n;
	near_begin(&n, key);
	for (int i = 0; i < config_n_rows; i++)
		if (!config_rows[i].section)
			near_try(&n, config_rows[i].name);
	return n.best;
}

/* --- text to value ------------------------------------------------------------ */

static const struct unit {
	enum config_type type;
	const char *name;
	int64_t factor;
} units[] = {
	{INT, "", 1},
	{SIZE, "", 1},
	{SIZE, "K", INT64_C(1) << 10},
	{SIZE, "M", INT64_C(1) << 20},
	{SIZE, "G", INT64_C(1) << 30},
	{SIZE, "T", INT64_C(1) << 40},
	{TIME, "", 1000000},
	{TIME, "ms", 1000},
	{TIME, "s", 1000000},
	{TIME, "m", INT64_C(60) * 1000000},
	{TIME, "h", INT64_C(3600) * 1000000},
	{TIME, "d", INT64_C(86400) * 1000000},
};

static bool parse_number(enum config_type type, const char *text, int64_t *out)
{
	if (!isdigit((unsigned char)text[0]))
		return false;
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (errno)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (units[i].type == type && strcmp(units[i].name, end) == 0)
			return !__builtin_mul_overflow((int64_t)n,
						       units[i].factor, out);
	return false;
}

static bool parse_bool(const char *text, bool *out)
{
	static const char *const words[] = {"no", "yes", "off", "on",
					    "false", "true", "0", "1"};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(words[i], text) == 0) {
			*out = i % 2;
			return true;
		}
	}
	return false;
}

/* choices: words separated by single spaces. */
static bool is_choice(const char *choices, const char *text)
{
	for (const char *p = choices; *p;) {
		size_t n = strcspn(p, " ");
		if (str_is((struct str){p, n}, text))
			return true;
		p += n + (p[n] == ' ');
	}
	return false;
}

/* The choice that text spells: "yes", "no", "0" and the like do, too, for "on" and "off". */
static const char *choice_of(const char *choices, const char *text)
{
	bool is_on;
	if (is_choice(choices, text) || !parse_bool(text, &is_on))
		return text;
	const char *word = is_on ? "on" : "off";
	return is_choice(choices, word) ? word : text;
}

/* Splits "a, b" into items in the arena. */
static struct config_list split_list(struct arena *a, const char *text)
{
	size_t n = 1;
	for (const char *p = text; *p; p++)
		n += *p == ',';
	const char **items = arena_alloc(a, n * sizeof *items);
	int used = 0;
	for (const char *p = text; *p;) {
		p += strspn(p, ", \t");
		size_t len = strcspn(p, ","), cut = len;
		while (cut > 0 && isspace((unsigned char)p[cut - 1]))
			cut--;
		if (cut > 0)
			items[used++] = arena_str(a, (struct str){p, cut}).p;
		p += len;
	}
	return (struct config_list){items, used};
}

static void *field_of(struct config *c, const struct config_row *r)
{
	return (char *)c + r->offset;
}

/* What a value of this type must look like, for error texts. */
static const char *expectation(enum config_type type)
{
	switch (type) {
	case INT: return "a whole number";
	case REAL: return "a number such as 0.7";
	case SIZE: return "a size such as 512K, 16M or 4G";
	case TIME: return "a time such as 500ms, 30s, 5m or 1h";
	case BOOL: return "on or off";
	case TEXT: case LIST: case CHOICES: break;
	}
	return "a text";
}

/* May the value be "auto"? It stands for 0, and for NAN where the value is a REAL. */
static bool has_auto(const struct config_row *r)
{
	return strcmp(r->dflt, "auto") == 0;
}

static enum status set_number(struct config *c, const struct config_row *r,
			      const char *text, const char *place,
			      struct fail *fail)
{
	int64_t n = 0, min, max;
	bool is_auto = has_auto(r) && strcmp(text, "auto") == 0;
	if (!is_auto && !parse_number(r->type, text, &n))
		return fail_set(fail, E_CONFIG, "%s: \"%s\" is not %s%s", place, text,
				expectation(r->type), has_auto(r) ? ", or auto" : "");
	bool has_range = parse_number(r->type, r->min, &min) &&
			 parse_number(r->type, r->max, &max);
	assert(has_range);
	if (!is_auto && (n < min || n > max))
		return fail_set(fail, E_CONFIG, "%s: %s is out of range, %s to %s",
				place, text, r->min, r->max);
	*(int64_t *)field_of(c, r) = n;
	return OK;
}

/* Digits with a point or without, as in 0.95. */
static bool parse_real(const char *text, double *out)
{
	char *end;
	if (!*text || text[strspn(text, "0123456789.")] != '\0')
		return false;
	*out = strtod(text, &end);
	return end != text && *end == '\0';
}

static enum status set_real(struct config *c, const struct config_row *r, const char *text,
			    const char *place, struct fail *fail)
{
	double v = NAN, min = 0, max = 0;
	bool is_auto = has_auto(r) && strcmp(text, "auto") == 0;
	if (!is_auto && !parse_real(text, &v))
		return fail_set(fail, E_CONFIG, "%s: \"%s\" is not %s%s", place, text,
				expectation(REAL), has_auto(r) ? ", or auto" : "");
	bool has_range = parse_real(r->min, &min) && parse_real(r->max, &max);
	assert(has_range);
	if (v < min || v > max)
		return fail_set(fail, E_CONFIG, "%s: %s is out of range, %s to %s", place, text,
				r->min, r->max);
	*(double *)field_of(c, r) = v;
	return OK;
}

enum status config_set(struct config *c, const struct config_row *r,
		       const char *text, const char *place, struct fail *fail)
{
	void *field = field_of(c, r);
	switch (r->type) {
	case INT: case SIZE: case TIME:
		return set_number(c, r, text, place, fail);
	case REAL:
		return set_real(c, r, text, place, fail);
	case BOOL:
		if (!parse_bool(text, field))
			return fail_set(fail, E_CONFIG, "%s: \"%s\" is not %s",
					place, text, expectation(BOOL));
		return OK;
	case LIST:
		*(struct config_list *)field = split_list(&c->arena, text);
		return OK;
	case CHOICES:
		text = choice_of(r->choices, text);
		if (!is_choice(r->choices, text))
			return fail_set(fail, E_CONFIG,
					"%s: \"%s\" is not one of: %s", place, text,
					r->choices);
		/* fall through */
	case TEXT:
		*(const char **)field = arena_strdup(&c->arena, text);
		return OK;
	}
	return OK;
}

void config_set_defaults(struct config *c)
{
	for (int i = 0; i < config_n_rows; i++) {
		const struct config_row *r = &config_rows[i];
		if (r->section)
			continue;
		enum status s = config_set(c, r, r->dflt, r->name, NULL);
		assert(s == OK); /* else a default in config.def is out of its own range */
	}
}

/* --- models ------------------------------------------------------------------- */

#define OWN "model model_name aliases lora mmproj draft_model"
#define PER_MODEL                                                                        \
	"model aliases lora mmproj draft_model tool_format chat_template "               \
	"chat_template_kwargs reasoning "                                                \
	"images audio temperature top_p top_k min_p strict_tools mmap lm_head exact "    \
	"expert_memory ctx max_seqs max_batch_tokens prefill_chunk step_target "         \
	"speculative mtp_vocab kv_cache kv_type page_size prefix_cache "                 \
	"state_checkpoints max_output_tokens image_tokens image_cache audio_cache "      \
	"sleep_after sleep_keep"

bool config_is_per_model(const struct config_row *r) { return is_choice(PER_MODEL, r->name); }
bool config_is_own(const struct config_row *r) { return is_choice(OWN, r->name); }

void config_clear_own(struct config *c)
{
	for (int i = 0; i < config_n_rows; i++) {
		const struct config_row *r = &config_rows[i];
		if (r->section || !config_is_own(r))
			continue;
		assert(!*r->dflt && (r->type == TEXT || r->type == LIST));
		if (r->type == LIST)
			*(struct config_list *)field_of(c, r) = (struct config_list){0};
		else
			*(const char **)field_of(c, r) = "";
	}
}

void config_copy(struct config *to, const struct config *from, const struct config_row *r)
{
	static const size_t sizes[] = {
		[TEXT] = sizeof(const char *), [CHOICES] = sizeof(const char *),
		[LIST] = sizeof(struct config_list), [INT] = sizeof(int64_t),
		[SIZE] = sizeof(int64_t), [TIME] = sizeof(int64_t), [REAL] = sizeof(double),
		[BOOL] = sizeof(bool)};
	memcpy(field_of(to, r), (const char *)from + r->offset, sizes[r->type]);
}

/* --- value to text ---------------------------------------------------------------- */

static void add_quoted(struct buf *out, const char *text)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
	if (*text && text[strspn(text, bare)] == '\0') {
		buf_add_z(out, text);
		return;
	}
	buf_add_c(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_add_c(out, '\\');
		buf_add_c(out, *text);
	}
	buf_add_c(out, '"');
}

/* n in the largest unit that divides it: 120 s are 2m, 90 s are 90s. */
static void add_number(struct buf *out, enum config_type type, int64_t n)
{
	const struct unit *best = NULL;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		const struct unit *u = &units[i];
		if (u->type == type && n % u->factor == 0 &&
		    (!best || u->factor >= best->factor))
			best = u;
	}
	assert(best); /* some unit always fits: every TIME is parsed to whole milliseconds */
	if (n == 0)
		buf_add_c(out, '0');
	else
		buf_addf(out, "%lld%s", (long long)(n / best->factor), best->name);
}

void config_value_format(const struct config *c, const struct config_row *r,
			 struct buf *out)
{
	const void *field = field_of((struct config *)c, r);
	const struct config_list *list = field;
	struct buf joined = {0};
	switch (r->type) {
	case INT: case SIZE: case TIME:
		if (has_auto(r) && *(const int64_t *)field == 0)
			buf_add_z(out, "auto");
		else
			add_number(out, r->type, *(const int64_t *)field);
		break;
	case REAL:
		if (isnan(*(const double *)field))
			buf_add_z(out, "auto");
		else
			buf_addf(out, "%g", *(const double *)field);
		break;
	case BOOL:
		buf_add_z(out, *(const bool *)field ? "on" : "off");
		break;
	case TEXT: case CHOICES:
		add_quoted(out, *(const char *const *)field);
		break;
	case LIST:
		for (int i = 0; i < list->n; i++)
			buf_addf(&joined, "%s%s", i ? ", " : "", list->items[i]);
		add_quoted(out, buf_str(&joined).p);
		buf_deinit(&joined);
		break;
	}
}
