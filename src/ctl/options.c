/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/near.h"
#include "base/utf8.h"

#define MAX_ROWS 40
#define LONG_BASE 256 /* getopt's value of row i: above every letter */

int options_fault(const struct option_set *set, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("haloctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry: haloctl %s --help\n", set->command);
	return EXIT_USAGE;
}

int options_failure(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("haloctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

/* The row of an argument without a name; NULL: the set has none. */
static const struct option_row *operand_of(const struct option_set *set)
{
	for (int i = 0; i < set->n_rows; i++)
		if (set->rows[i].kind == OPTION_OPERAND)
			return &set->rows[i];
	return NULL;
}

static void print_help(const struct option_set *set)
{
	const struct option_row *operand = operand_of(set);
	printf("Usage: haloctl %s%s%s [OPTION]...\n\n%s\n\n", set->command,
	       operand ? " " : "", operand ? operand->arg : "", set->about);
	for (int i = 0; i < set->n_rows; i++) {
		const struct option_row *r = &set->rows[i];
		char left[64];
		int n = r->letter ? snprintf(left, sizeof left, "-%c, ", r->letter)
				  : snprintf(left, sizeof left, "    ");
		snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", r->name,
			 r->arg ? " " : "", r->arg ? r->arg : "");
		/* printf counts bytes, and a terminal characters: "…" has three of the former. */
		struct str s = str_of(left);
		printf("  %-*s %s\n", 26 + (int)(s.n - utf8_count(s)), left, r->help);
	}
	printf("  -h, %-22s %s\n", "--help", "this text");
}

static bool options_store(const struct option_set *set, const struct option_row *r,
			  const char *text)
{
	char *end;
	double v;
	errno = 0;
	switch (r->kind) {
	case OPTION_FLAG:
		*(bool *)r->at = true;
		return true;
	case OPTION_TEXT:
	case OPTION_OPERAND:
		*(const char **)r->at = text;
		return true;
	case OPTION_INT:
		v = (double)(*(int64_t *)r->at = strtoll(text, &end, 10));
		break;
	default:
		v = *(double *)r->at = strtod(text, &end);
		break;
	}
	if (end != text && !*end && !errno && v >= r->min && v <= r->max)
		return true;
	options_fault(set, "--%s: \"%s\" is not %s from %.15g to %.15g", r->name,
		      text, r->kind == OPTION_INT ? "a whole number" : "a number",
		      r->min, r->max);
	return false;
}

/* Writes the table in getopt's two forms, short letters and long names. */
static void for_getopt(const struct option_set *set, char *letters,
		       struct option *longs)
{
	/* '+': stop at the first argument that is no option; ':': report a missing value. */
	*letters++ = '+';
	*letters++ = ':';
	for (int i = 0; i < set->n_rows; i++) {
		const struct option_row *r = &set->rows[i];
		int has_arg = r->kind == OPTION_FLAG ? no_argument
						     : required_argument;
		longs[i] = (struct option){r->name, has_arg, NULL, LONG_BASE + i};
		if (!r->letter)
			continue;
		*letters++ = r->letter;
		if (has_arg)
			*letters++ = ':';
	}
	*letters++ = 'h';
	*letters = '\0';
	longs[set->n_rows] =
		(struct option){"help", no_argument, NULL, LONG_BASE + set->n_rows};
}

static int row_of(const struct option_set *set, int c)
{
	if (c >= LONG_BASE)
		return c - LONG_BASE;
	int i = 0;
	while (i < set->n_rows && set->rows[i].letter != c)
		i++;
	return i; /* n_rows: help */
}

/* Says which option is unknown, and which may have been meant. */
static void options_unknown(const struct option_set *set, const char *given)
{
	struct near n;
	near_begin(&n, (struct str){given + 2, strcspn(given, "=") - 2});
	for (int i = 0; i < set->n_rows && strncmp(given, "--", 2) == 0; i++)
		near_try(&n, set->rows[i].name);
	options_fault(set, "unknown option \"%s\"%s%s%s", given, n.best ? "; did you mean --" : "",
		      n.best ? n.best : "", n.best ? "?" : "");
}

/* Parses options up to the first argument that is no option. False: *out_exit is set. */
static bool parse_some(const struct option_set *set, int argc, char **argv, int *out_exit)
{
	struct option longs[MAX_ROWS + 2] = {{0}};
	char letters[2 * MAX_ROWS + 4];
	for_getopt(set, letters, longs);
	*out_exit = EXIT_USAGE;
	for (int c; (c = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
		if (c == ':')
			options_fault(set, "%s needs a value", argv[optind - 1]);
		else if (c == '?')
			options_unknown(set, argv[optind - 1]);
		if (c == ':' || c == '?')
			return false;
		int i = row_of(set, c);
		if (i == set->n_rows) {
			print_help(set);
			*out_exit = EXIT_OK;
			return false;
		}
		if (!options_store(set, &set->rows[i], optarg))
			return false;
	}
	return true;
}

/* Is there such an option, and could its value be meant? A model that was given is no more. */
static bool lacks(const struct option_set *set, const char *name)
{
	for (int i = 0; i < set->n_rows; i++)
		if (strcmp(set->rows[i].name, name) == 0)
			return strcmp(name, "url") == 0 || !*(const char **)set->rows[i].at;
	return false;
}

bool options_parse(const struct option_set *set, int argc, char **argv,
		   int *out_exit)
{
	opterr = 0;
	optind = 0; /* glibc: start over */
	if (!parse_some(set, argc, argv, out_exit))
		return false;
	if (optind < argc && operand_of(set) &&
	    (!options_store(set, operand_of(set), argv[optind++]) ||
	     !parse_some(set, argc, argv, out_exit)))
		return false;
	if (optind == argc)
		return true;
	const char *word = argv[optind];
	if (strncmp(word, "http", 4) == 0 && lacks(set, "url"))
		options_fault(set, "\"%s\" is not expected; for a server, use --url %s", word,
			      word);
	else if (lacks(set, "model"))
		options_fault(set, "\"%s\" is not expected; for a model, use --model %s", word,
			      word);
	else
		options_fault(set, "\"%s\" is not expected", word);
	return false;
}

int options_list(const char *text, int64_t *out, int max)
{
	for (int n = 0; n < max; n++) {
		char *end;
		errno = 0;
		out[n] = strtoll(text, &end, 10);
		if (end == text || errno || out[n] < 1 || (*end && *end != ','))
			return 0;
		if (!*end)
			return n + 1;
		text = end + 1;
	}
	return 0;
}
