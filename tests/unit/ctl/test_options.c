/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include "base/alloc.h"
#include "tests/tap.h"

static struct {
	bool flag;
	const char *text;
	int64_t count;
	double number;
	const char *place;
} v;
static const struct option_row rows[] = {
	{"flag", 'f', OPTION_FLAG, &v.flag, 0, 0, NULL, "a flag"},
	{"text", 't', OPTION_TEXT, &v.text, 0, 0, "TEXT", "a text"},
	{"count", 0, OPTION_INT, &v.count, 1, 10, "N", "a count"},
	{"number", 'x', OPTION_NUMBER, &v.number, -1, 1, "X", "a number"},
};
static const struct option_set set = {"try", "A test.", rows, ARRAY_LEN(rows)};
static const struct option_row more[] = {
	{"flag", 'f', OPTION_FLAG, &v.flag, 0, 0, NULL, "a flag"},
	{"in", 'i', OPTION_OPERAND, &v.place, 0, 0, "DIR", "a place"},
};
static const struct option_set with_operand = {"try", "A test.", more, ARRAY_LEN(more)};

/* -1: go on; else the exit status. Words are separated by blanks. */
static int parse_by(const struct option_set *by, const char *line)
{
	static char copy[200];
	char *argv[20] = {"try"};
	int argc = 1, rc;
	snprintf(copy, sizeof copy, "%s", line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	v.flag = false;
	v.text = NULL;
	v.count = 0;
	v.number = 0;
	v.place = NULL;
	return options_parse(by, argc, argv, &rc) ? -1 : rc;
}

static int parse(const char *line)
{
	return parse_by(&set, line);
}

static void operands(void)
{
	is_int(parse_by(&with_operand, "here -f"), -1, "an operand before options");
	is_str(v.place, "here", "is known");
	ok(v.flag, "and what is behind it");
	is_int(parse_by(&with_operand, "-f here"), -1, "an operand behind options");
	is_str(v.place, "here", "is known");
	is_int(parse_by(&with_operand, "-i here"), -1, "an operand by its name");
	is_str(v.place, "here", "is known");
	is_int(parse_by(&with_operand, "here there"), EXIT_USAGE, "two of them");
}

int main(void)
{
	is_int(parse(""), -1, "nothing");
	is_int(parse("-f --text abc --count=7 -x -0.5"), -1, "everything");
	ok(v.flag && v.text && !strcmp(v.text, "abc") && v.count == 7 &&
		   v.number == -0.5, "arrives");
	is_int(parse("--bogus"), EXIT_USAGE, "an unknown option");
	is_int(parse("-q"), EXIT_USAGE, "an unknown letter");
	is_int(parse("--text"), EXIT_USAGE, "a value left out");
	is_int(parse("word"), EXIT_USAGE, "a word that is no option");
	is_int(parse("--count 11"), EXIT_USAGE, "too large");
	is_int(parse("--count 0"), EXIT_USAGE, "too small");
	is_int(parse("--count 3x"), EXIT_USAGE, "not a number");
	is_int(parse("--count 99999999999999999999"), EXIT_USAGE, "out of int64");
	is_int(parse("-x nan"), EXIT_USAGE, "NaN");
	is_int(parse("--flag=1"), EXIT_USAGE, "a value for a flag");
	int64_t list[3];
	is_int(options_list("128,512", list, 3), 2, "a list");
	ok(list[0] == 128 && list[1] == 512, "its numbers");
	is_int(options_list("1,2,3,4", list, 3), 0, "too many");
	is_int(options_list("1,,2", list, 3) + options_list("1,", list, 3) +
		       options_list("0", list, 3) + options_list("", list, 3) +
		       options_list("1;2", list, 3), 0, "malformed lists");
	operands();
	return tap_done();
}
