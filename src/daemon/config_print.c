/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the table of settings for people: the example file and --help.
 */
#include "daemon/config_table.h"

#define COLUMNS 78

/* Append text in lines of at most COLUMNS, each beginning with lead. */
static void add_wrapped(struct buf *out, const char *lead, const char *text)
{
	size_t column = 0;
	while (*text) {
		size_t word = strcspn(text, " ");
		if (column > 0 && column + 1 + word > COLUMNS) {
			buf_add_c(out, '\n');
			column = 0;
		}
		size_t start = out->n;
		buf_add_z(out, column == 0 ? lead : " ");
		buf_add(out, text, word);
		column += out->n - start;
		text += word;
		text += strspn(text, " ");
	}
	buf_add_c(out, '\n');
}

/* Appends a line such as "Default 16M, range 1K to 1G." */
static void add_facts(struct buf *out, const char *lead,
		      const struct config_row *r)
{
	struct buf line = {0};
	buf_addf(&line, "Default %s", *r->dflt ? r->dflt : "empty");
	if (*r->min)
		buf_addf(&line, ", range %s to %s", r->min, r->max);
	if (*r->choices)
		buf_addf(&line, ", one of: %s", r->choices);
	buf_add_c(&line, '.');
	add_wrapped(out, lead, line.p);
	buf_deinit(&line);
}

static bool differs(const struct config *a, const struct config *b, const struct config_row *r)
{
	struct buf one = {0}, other = {0};
	config_value_format(a, r, &one);
	config_value_format(b, r, &other);
	bool is_so = !str_eq(buf_str(&one), buf_str(&other));
	buf_deinit(&one);
	buf_deinit(&other);
	return is_so;
}

static void add_pair(struct buf *out, const struct config *c, const struct config_row *r)
{
	buf_addf(out, "%s = ", r->name);
	config_value_format(c, r, out);
	buf_add_c(out, '\n');
}

static void add_key(struct buf *out, const struct config *c,
		    const struct config *defaults, const struct config_row *r)
{
	buf_add_c(out, '\n');
	add_wrapped(out, "# ", r->help);
	add_facts(out, "# ", r);
	if (!differs(c, defaults, r))
		buf_add_c(out, '#');
	add_pair(out, c, r);
}

static void add_section(struct buf *out, const struct config *c, const struct config *defaults,
			const struct config_section *s)
{
	buf_addf(out, "\n[model %s]\n", s->name);
	for (int i = 0; i < config_n_rows; i++) {
		const struct config_row *r = &config_rows[i];
		/* Would the section have another value without a line of its own? */
		if (!r->section && config_is_per_model(r) &&
		    differs(s->config, config_is_own(r) ? defaults : c, r))
			add_pair(out, s->config, r);
	}
}

void config_format(const struct config *c, struct buf *out)
{
	struct config defaults = {0};
	arena_init(&defaults.arena);
	config_set_defaults(&defaults);
	buf_add_z(out, "# SPDX-License-Identifier: Apache-2.0\n#\n"
		  "# Settings of halod, explained in halod.conf(5). Lines are "
		  "key = value; a key\n"
		  "# that is commented out has its default. Each is a flag, too: "
		  "--key value.\n");
	for (int i = 0; i < config_n_rows; i++) {
		if (config_rows[i].section)
			buf_addf(out, "\n# --- %s ---\n", config_rows[i].section);
		else
			add_key(out, c, &defaults, &config_rows[i]);
	}
	for (int i = 0; i < c->n_sections; i++)
		add_section(out, c, &defaults, &c->sections[i]);
	config_deinit(&defaults);
}

static const struct config_section *find_section(const struct config *c, const char *name)
{
	for (int i = 0; i < c->n_sections; i++)
		if (strcmp(c->sections[i].name, name) == 0)
			return &c->sections[i];
	return NULL;
}

/* Appends the sections that only a has. is_both: and what differs in those that both have. */
static void add_sections(const struct config *a, const struct config *b, bool is_both,
			 struct buf *out)
{
	for (int i = 0; i < a->n_sections; i++) {
		const struct config_section *s = &a->sections[i];
		const struct config_section *other = find_section(b, s->name);
		if (!other)
			buf_addf(out, "%s[model %s]", out->n ? ", " : "", s->name);
		for (int k = 0; k < config_n_rows && other && is_both; k++) {
			const struct config_row *r = &config_rows[k];
			/* What differs above the sections, too, was told there. */
			if (!r->section && config_is_per_model(r) &&
			    (config_is_own(r) || !differs(a, b, r)) &&
			    differs(s->config, other->config, r))
				buf_addf(out, "%s[model %s] %s", out->n ? ", " : "", s->name,
					 r->name);
		}
	}
}

void config_changes_format(const struct config *a, const struct config *b, struct buf *out)
{
	for (int i = 0; i < config_n_rows; i++) {
		const struct config_row *r = &config_rows[i];
		if (!r->section && differs(a, b, r))
			buf_addf(out, "%s%s", out->n ? ", " : "", r->name);
	}
	add_sections(a, b, true, out);
	add_sections(b, a, false, out);
}

static const char *placeholder(enum config_type type)
{
	switch (type) {
	case INT: return " N";
	case REAL: return " X";
	case SIZE: return " SIZE";
	case TIME: return " TIME";
	case BOOL: return "";
	case CHOICES: return " WORD";
	case LIST: return " A,B";
	case TEXT: break;
	}
	return " TEXT";
}

/* "--[no-]mmap" for a key that is on by default, "--exact" for one that is off. */
static void add_flag(struct buf *out, const struct config_row *r)
{
	bool is_on = r->type == BOOL && strcmp(r->dflt, "on") == 0;
	buf_addf(out, "  --%s", is_on ? "[no-]" : "");
	for (const char *p = r->name; *p; p++)
		buf_add_c(out, *p == '_' ? '-' : *p);
	buf_addf(out, "%s\n", placeholder(r->type));
}

void config_help_format(struct buf *out)
{
	static const char lead[] = "        ";
	buf_add_z(out,
		  "Usage: halod [-c FILE] [--KEY VALUE]...\n"
		  "Serve language models over the OpenAI API.\n\n"
		  "  -c, --config FILE  read settings from FILE; flags override it\n"
		  "  --check-config     read the settings and all files that they name, report\n"
		  "                     faults as a start would, exit\n"
		  "  --print-config     print all settings as a file, exit\n"
		  "  -h, --help         print this, exit\n"
		  "  -V, --version      print the version, exit\n");
	for (int i = 0; i < config_n_rows; i++) {
		const struct config_row *r = &config_rows[i];
		if (r->section) {
			buf_addf(out, "\n%s:\n", r->section);
			continue;
		}
		add_flag(out, r);
		add_wrapped(out, lead, r->help);
		add_facts(out, lead, r);
	}
	buf_add_z(out, "\nhalod(8) explains signals and exit codes, "
		       "halod.conf(5) the settings.\n");
}
