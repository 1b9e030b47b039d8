/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings from a file, then from the command line. Both call config_set, with
 * the place that error texts name.
 */
#include "daemon/config.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/near.h"
#include "base/utf8.h"
#include "daemon/config_table.h"

#define FILE_MAX ((size_t)1 << 20)

static enum status fail_unknown(struct fail *fail, const char *where,
				struct str key)
{
	const char *near = config_nearest(key);
	return fail_set(fail, E_CONFIG, "%s: unknown key \"%.*s\"%s%s%s", where,
			(int)MIN(key.n, (size_t)80), key.p,
			near ? "; did you mean " : "", near ? near : "",
			near ? "?" : "");
}

/* --- the file ----------------------------------------------------------------- */

/* Unquotes a value; s begins after the opening quote. */
static enum status unquote(struct str s, const char *where, struct buf *out,
			   struct fail *fail)
{
	size_t i = 0;
	for (; i < s.n && s.p[i] != '"'; i++) {
		if (s.p[i] == '\\') {
			i++;
			if (i == s.n || (s.p[i] != '"' && s.p[i] != '\\'))
				return fail_set(fail, E_CONFIG, "%s: in quotes, "
						"\\ must be followed by \" or \\",
						where);
		}
		buf_add_c(out, s.p[i]);
	}
	if (i == s.n)
		return fail_set(fail, E_CONFIG, "%s: the closing quote is missing",
				where);
	struct str rest = str_trim((struct str){s.p + i + 1, s.n - i - 1});
	if (rest.n > 0 && rest.p[0] != '#')
		return fail_set(fail, E_CONFIG, "%s: text after the closing quote",
				where);
	return OK;
}

/* Appends the value of a line to out, without quotes and comment. */
static enum status parse_value(struct str s, const char *where, struct buf *out,
			       struct fail *fail)
{
	s = str_trim(s);
	if (s.n > 0 && s.p[0] == '"')
		return unquote((struct str){s.p + 1, s.n - 1}, where, out, fail);
	size_t n = 0;
	while (n < s.n &&
	       !(s.p[n] == '#' && (n == 0 || isspace((unsigned char)s.p[n - 1]))))
		n++;
	s = str_trim((struct str){s.p, n});
	if (s.n == 0)
		return fail_set(fail, E_CONFIG,
				"%s: there is no value; an empty one is \"\"", where);
	buf_add_str(out, s);
	return OK;
}

/* What was set where: for each row the line; 0: none. */
struct set_in {
	int line[CONFIG_ROWS_MAX];
};

struct config_reader {
	struct config *config;
	struct config_section *section; /* the one that lines are of; NULL: all models */
	const char *path;
	int line;
	struct set_in *above, *in; /* in: (n_sections) */
	struct fail *fail;
};

static enum status fail_section(struct config_reader *rd, const char *where, struct str line)
{
	return fail_set(rd->fail, E_CONFIG, "%s: %.*s is no section; one is [model NAME]", where,
			(int)MIN(line.n, (size_t)80), line.p);
}

/* Begins a section, "[model NAME]", perhaps with a comment behind it. */
static enum status parse_section(struct config_reader *rd, const char *where, struct str line)
{
	struct config *c = rd->config;
	const char *end = memchr(line.p, ']', line.n);
	size_t n_word = strlen("[model");
	if (!end || !str_starts(line, STR("[model")) || !isspace((unsigned char)line.p[n_word]))
		return fail_section(rd, where, line);
	struct str name = str_trim((struct str){line.p + n_word, (size_t)(end - line.p) - n_word});
	struct str rest = str_trim((struct str){end + 1, line.n - (size_t)(end + 1 - line.p)});
	if (name.n == 0 || (rest.n && rest.p[0] != '#'))
		return fail_section(rd, where, line);
	int n = c->n_sections;
	c->sections = xrealloc(c->sections, (size_t)(n + 1) * sizeof *c->sections);
	rd->in = xrealloc(rd->in, (size_t)(n + 1) * sizeof *rd->in);
	rd->in[n] = (struct set_in){{0}};
	struct config_section *s = rd->section = &c->sections[n];
	*s = (struct config_section){.name = arena_str(&c->arena, name).p,
				     .where = xstrdup(where), .config = xcalloc(1, sizeof *c)};
	arena_init(&s->config->arena);
	config_set_defaults(s->config);
	s->config->model_name = s->name;
	c->n_sections++;
	for (int i = 0; i < n; i++)
		if (strcmp(c->sections[i].name, s->name) == 0)
			return fail_set(rd->fail, E_CONFIG, "%s: [model %s] is there already, %s",
					where, s->name, c->sections[i].where);
	return OK;
}

static enum status parse_pair(struct config_reader *rd, const char *where, struct str line)
{
	ptrdiff_t eq = str_find(line, STR("="), 0);
	if (eq < 0)
		return fail_set(rd->fail, E_CONFIG,
				"%s: not of the form key = value", where);
	struct str key = str_trim((struct str){line.p, (size_t)eq});
	const struct config_row *r = config_find(key);
	if (!r)
		return fail_unknown(rd->fail, where, key);
	if (rd->section && !config_is_per_model(r))
		return fail_set(rd->fail, E_CONFIG, "%s: %s holds for all models: set it above the "
				"first [model NAME]", where, r->name);
	struct set_in *sets = rd->section ? &rd->in[rd->section - rd->config->sections] : rd->above;
	struct config *to = rd->section ? rd->section->config : rd->config;
	int *set_in = &sets->line[r - config_rows];
	if (*set_in)
		return fail_set(rd->fail, E_CONFIG,
				"%s: %s is set already in line %d", where, r->name,
				*set_in);
	*set_in = rd->line;
	struct buf value = {0};
	char *place = xasprintf("%s: %s", where, r->name);
	struct str rest = {line.p + eq + 1, line.n - (size_t)eq - 1};
	enum status s = parse_value(rest, place, &value, rd->fail);
	if (s == OK)
		s = config_set(to, r, buf_str(&value).p, place, rd->fail);
	free(place);
	buf_deinit(&value);
	return s;
}

static enum status parse_line(struct config_reader *rd, struct str line)
{
	line = str_trim(line);
	if (line.n == 0 || line.p[0] == '#')
		return OK;
	char *where = xasprintf("%s:%d", rd->path, rd->line);
	enum status s;
	/* NUL would cut the value as a C string; other bytes that are not UTF-8 would spoil
	 * the log. */
	if (memchr(line.p, 0, line.n) || utf8_check(line) >= 0)
		s = fail_set(rd->fail, E_CONFIG, "%s: this is not text in UTF-8",
			     where);
	else if (line.p[0] == '[')
		s = parse_section(rd, where, line);
	else
		s = parse_pair(rd, where, line);
	free(where);
	return s;
}

/* Reads all lines, so that a user who mends a file sees all its faults at once. All faults
 * but the last are logged here; the last one is returned. */
static enum status load_file(struct config *c, const char *path, struct set_in **out_in,
			     struct fail *fail)
{
	struct fail one;
	struct set_in above = {{0}};
	struct config_reader rd = {.config = c, .path = path, .above = &above, .fail = &one};
	struct buf text = {0};
	enum status all = file_read(path, FILE_MAX, &text, fail);
	if (all != OK && strspn(path, "0123456789") == strlen(path) && *path)
		fail_set(fail, all, "-c %s: no such settings file; for a context of %s tokens use "
			 "--ctx %s", path, path, path);
	struct str rest = buf_str(&text);
	while (rest.n > 0) {
		ptrdiff_t end = str_find(rest, STR("\n"), 0);
		size_t n = end < 0 ? rest.n : (size_t)end;
		rd.line++;
		enum status s = parse_line(&rd, (struct str){rest.p, n});
		if (s != OK && all != OK)
			log_error("%s", fail->text);
		if (s != OK) {
			all = s;
			*fail = one;
		}
		n += end >= 0;
		rest = (struct str){rest.p + n, rest.n - n};
	}
	buf_deinit(&text);
	*out_in = rd.in;
	return all;
}

/* --- the command line ------------------------------------------------------------- */

static const struct {
	const char *flag, *letter;
	enum config_action action;
} actions[] = {
	{"--check-config", NULL, CONFIG_CHECK},
	{"--print-config", NULL, CONFIG_PRINT},
	{"--help", "-h", CONFIG_HELP},
	{"--version", "-V", CONFIG_VERSION},
};

/* The argument behind argv[i], or NULL: what begins with "--" is the next flag. */
static const char *value_behind(int argc, char *const *argv, int i)
{
	return i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[i + 1] : NULL;
}

/* Takes argv[*i], and its value, if it is one of the flags that are not keys. */
static bool take_special(int argc, char *const *argv, int *i, const char **file,
			 enum config_action *action)
{
	const char *arg = argv[*i];
	for (size_t k = 0; k < ARRAY_LEN(actions); k++) {
		const char *letter = actions[k].letter;
		if (strcmp(arg, actions[k].flag) == 0 ||
		    (letter && strcmp(arg, letter) == 0)) {
			*action = actions[k].action;
			return true;
		}
	}
	if (strcmp(arg, "-c") == 0 || strcmp(arg, "--config") == 0) {
		*file = value_behind(argc, argv, *i);
		*i += *file != NULL;
		*file = *file ? *file : "";
		return true;
	}
	bool has_file = strncmp(arg, "--config=", 9) == 0;
	if (has_file)
		*file = arg + 9;
	return has_file;
}

/* Refuses an argument that does not begin with "--": a short flag, a command, or a model. */
static enum status fail_stray(struct fail *fail, const char *word)
{
	const char *instead = config_foreign(str_of(word));
	if (instead)
		return fail_set(fail, E_CONFIG, "%s: %s", word, instead);
	if (strchr(word, '/') || str_ends(str_of(word), STR(".gguf")) ||
	    (*word != '-' && file_exists(word)))
		return fail_set(fail, E_CONFIG, "%s: neither a flag nor the value of one; "
				"for a model, use --model %s", word, word);
	return fail_set(fail, E_CONFIG, "%s: neither a flag nor the value of one; "
			"halod --help lists the flags", word);
}

/* Refuses an unknown flag, "--key" or "--key=value". */
static enum status fail_flag(struct fail *fail, const char *flag, struct str key)
{
	const char *instead = config_foreign((struct str){flag, key.n + 2});
	if (instead)
		return fail_set(fail, E_CONFIG, "--%.*s: unknown key; %s", (int)key.n,
				key.p, instead);
	struct near n;
	near_begin(&n, (struct str){flag, key.n + 2});
	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		near_try(&n, actions[i].flag);
	if (n.best && !config_nearest(key))
		return fail_set(fail, E_CONFIG, "%s: unknown flag; did you mean %s?", flag, n.best);
	return fail_unknown(fail, flag, key);
}

/* Parses the flag of a key at argv[*i], and marks its row. Moves *i on where the value is the next
 * argument. */
static enum status parse_flag(struct config *c, int argc, char *const *argv, int *i,
			      bool *is_flag, struct fail *fail)
{
	const char *flag = argv[*i];
	struct str arg = str_of(flag);
	if (!str_starts(arg, STR("--")))
		return fail_stray(fail, flag);
	ptrdiff_t eq = str_find(arg, STR("="), 0);
	struct str key = {arg.p + 2, (eq < 0 ? arg.n : (size_t)eq) - 2};
	const struct config_row *r = config_find(key);
	bool is_no = !r && eq < 0 && str_starts(key, STR("no-"));
	if (is_no)
		r = config_find((struct str){key.p + 3, key.n - 3});
	if (!r || (is_no && r->type != BOOL))
		return fail_flag(fail, flag, key);
	const char *value;
	if (eq >= 0)
		value = flag + eq + 1;
	else if (r->type == BOOL)
		value = is_no ? "off" : "on";
	else if ((value = value_behind(argc, argv, *i)))
		++*i;
	else
		return fail_set(fail, E_CONFIG, "%s: its value is missing", flag);
	is_flag[r - config_rows] = true;
	char *place = xasprintf("--%.*s", (int)key.n, key.p);
	enum status s = utf8_check(str_of(value)) < 0 ?
		config_set(c, r, value, place, fail) :
		fail_set(fail, E_CONFIG, "%s: this is not text in UTF-8", place);
	free(place);
	return s;
}

static enum status parse_flags(struct config *c, int argc, char *const *argv,
			       bool *is_flag, struct fail *fail)
{
	enum config_action action;
	const char *file;
	for (int i = 1; i < argc; i++) {
		if (take_special(argc, argv, &i, &file, &action))
			continue;
		enum status s = parse_flag(c, argc, argv, &i, is_flag, fail);
		if (s != OK)
			return s;
	}
	return OK;
}

/* --- both ------------------------------------------------------------------- */

/* Checks what depends on several keys. */
static enum status check_together(const struct config *c, struct fail *fail)
{
	if (c->max_seqs > c->max_batch_tokens)
		return fail_set(fail, E_CONFIG, "max_seqs (%lld) is more than "
				"max_batch_tokens (%lld): each sequence needs a "
				"token in a step", (long long)c->max_seqs,
				(long long)c->max_batch_tokens);
	if (!*c->host && !*c->unix_socket)
		return fail_set(fail, E_CONFIG, "host: an address is needed");
	return OK;
}

/* Gives each section what it has not set itself. in: what they have set. */
static void complete_sections(struct config *c, const struct set_in *in, const bool *is_flag)
{
	for (int i = 0; i < c->n_sections; i++)
		for (int k = 0; k < config_n_rows; k++) {
			const struct config_row *r = &config_rows[k];
			if (!r->section && !config_is_own(r) && (is_flag[k] || !in[i].line[k]))
				config_copy(c->sections[i].config, c, r);
		}
}

static enum status check_sections(const struct config *c, struct fail *fail)
{
	struct fail one;
	for (int i = 0; i < c->n_sections; i++) {
		const struct config_section *s = &c->sections[i];
		if (check_together(s->config, &one) != OK)
			return fail_set(fail, E_CONFIG, "%s: [model %s]: %.400s", s->where, s->name,
					one.text);
	}
	return OK;
}

enum status config_load(struct config *c, int argc, char *const *argv,
			const char *default_file, enum config_action *out_action,
			struct fail *fail)
{
	*c = (struct config){0};
	arena_init(&c->arena);
	config_set_defaults(c);
	enum config_action action = CONFIG_RUN;
	const char *file = NULL;
	/* The file is read before the flags, wherever -c stands. And --help must work even
	 * with a broken file. */
	for (int i = 1; i < argc; i++)
		take_special(argc, argv, &i, &file, &action);
	*out_action = action;
	if (action == CONFIG_HELP || action == CONFIG_VERSION)
		return OK;
	if (file && !*file)
		return fail_set(fail, E_CONFIG, "-c: the name of a file is missing");
	if (!file && file_exists(default_file))
		file = default_file;
	struct set_in *in = NULL;
	bool is_flag[CONFIG_ROWS_MAX] = {false};
	enum status s = file ? load_file(c, file, &in, fail) : OK;
	if (s == OK)
		s = parse_flags(c, argc, argv, is_flag, fail);
	if (s == OK)
		s = check_together(c, fail);
	if (s == OK) {
		complete_sections(c, in, is_flag);
		s = check_sections(c, fail);
	}
	free(in);
	return s;
}

void config_deinit(struct config *c)
{
	for (int i = 0; i < c->n_sections; i++) {
		arena_deinit(&c->sections[i].config->arena);
		free(c->sections[i].config);
		free(c->sections[i].where);
	}
	free(c->sections);
	c->sections = NULL;
	c->n_sections = 0;
	arena_deinit(&c->arena);
}
