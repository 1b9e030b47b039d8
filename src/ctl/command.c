/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/command.h"

#include <build-config.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "ctl/options.h"

static void print_help(const struct command_table *t, FILE *f)
{
	fprintf(f, "Usage: %s COMMAND [OPTION]...\n\n", t->program);
	for (int i = 0; i < t->n_rows; i++) {
		const struct command *c = &t->rows[i];
		char name[40];
		snprintf(name, sizeof name, "%s%s%s", c->name, c->sub ? " " : "",
			 c->sub ? c->sub : "");
		fprintf(f, "  %-14s %s\n", name, c->about);
	}
	fprintf(f, "\n%s COMMAND --help tells its options.\n", t->program);
}

/* Number of words of the command line that name c; 0: they name another command. */
static int n_words(const struct command *c, int argc, char **argv)
{
	if (strcmp(c->name, argv[1]) != 0)
		return 0;
	if (!c->sub)
		return 1;
	return argc > 2 && strcmp(c->sub, argv[2]) == 0 ? 2 : 0;
}

/* Prints the commands that begin with `name`, such as "bench", if its second word is missing or
 * unknown. False: no command begins with it. */
static bool print_halves(const struct command_table *t, const char *name, FILE *f)
{
	int n = 0;
	for (int i = 0; i < t->n_rows; i++)
		n += t->rows[i].sub && strcmp(t->rows[i].name, name) == 0;
	if (n == 0)
		return false;
	for (int i = 0; i < t->n_rows; i++)
		if (t->rows[i].sub && strcmp(t->rows[i].name, name) == 0)
			fprintf(f, "  %s %s %-8s %s\n", t->program, name,
				t->rows[i].sub, t->rows[i].about);
	return true;
}

/* The nearest name of a command, or of the second half of one; NULL: none is near. */
static const char *command_near(const struct command_table *t, const char *first,
				const char *second)
{
	struct near n;
	near_begin(&n, str_of(second ? second : first));
	for (int i = 0; i < t->n_rows; i++)
		if (!second)
			near_try(&n, t->rows[i].name);
		else if (t->rows[i].sub && strcmp(t->rows[i].name, first) == 0)
			near_try(&n, t->rows[i].sub);
	return n.best;
}

/* Says which word names no command, what may have been meant, and what there is. */
static void command_unknown(const struct command_table *t, int argc, char **argv)
{
	const char *first = argv[1], *second = NULL, *instead = NULL;
	for (int i = 0; i < t->n_rows && argc > 2; i++)
		if (t->rows[i].sub && strcmp(t->rows[i].name, first) == 0)
			second = argv[2];
	for (int i = 0; i < t->n_hints && !second; i++)
		if (strcmp(t->hints[i].word, first) == 0)
			instead = t->hints[i].instead;
	const char *near = instead ? NULL : command_near(t, first, second);
	fprintf(stderr, "%s: there is no command \"%s%s%s\"", t->program, first,
		second ? " " : "", second ? second : "");
	if (instead)
		fprintf(stderr, "; %s", instead);
	else if (near && strcmp(near, first) != 0)
		fprintf(stderr, "; did you mean %s%s%s?", second ? first : "", second ? " " : "",
			near);
	fputs("\n\n", stderr);
}

/* "help COMMAND": as COMMAND --help. */
static int command_help(const struct command_table *t, int argc, char **argv)
{
	char help[] = "--help", *words[4] = {argv[0]};
	int n = 1;
	for (int i = 2; i < argc && n < 3; i++)
		words[n++] = argv[i];
	words[n++] = help;
	return command_run(t, n, words);
}

int command_run(const struct command_table *t, int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	if (argc > 2 && strcmp(name, "help") == 0)
		return command_help(t, argc, argv);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
	    strcmp(name, "help") == 0) {
		print_help(t, stdout);
		return EXIT_OK;
	}
	if (strcmp(name, "--version") == 0) {
		printf("%s " PACKAGE_VERSION "\n", t->program);
		return EXIT_OK;
	}
	for (int i = 0; i < t->n_rows && *name; i++) {
		int n = n_words(&t->rows[i], argc, argv);
		if (n > 0)
			return t->rows[i].run(argc - n, argv + n);
	}
	if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0) &&
	    print_halves(t, name, stdout))
		return EXIT_OK;
	if (*name)
		command_unknown(t, argc, argv);
	if (!print_halves(t, name, stderr))
		print_help(t, stderr);
	return EXIT_USAGE;
}
