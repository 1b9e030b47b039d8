/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

void doctor_say(struct doctor *d, enum doctor_level level, const char *check,
		const char *fmt, ...)
{
	static const char *const names[] = {"ok", "warn", "bad"};
	va_list ap;
	printf("%-5s %-12s ", names[level], check);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	d->n_lines[level]++;
}

static char *path_of(const struct doctor *d, const char *fmt, va_list ap)
{
	char path[512];
	vsnprintf(path, sizeof path, fmt, ap);
	return xasprintf("%s%s", d->root, path);
}

char *doctor_path(const struct doctor *d, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *path = path_of(d, fmt, ap);
	va_end(ap);
	return path;
}

/* Reads the first line of `path`, and frees the path. */
static bool read_line(char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	bool is_good = f && fgets(out, (int)size, f);
	if (is_good)
		out[strcspn(out, "\n")] = '\0';
	else
		*out = '\0';
	if (f)
		fclose(f);
	free(path);
	return is_good;
}

bool doctor_line(const struct doctor *d, char *out, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *path = path_of(d, fmt, ap);
	va_end(ap);
	return read_line(path, out, size);
}

int64_t doctor_number(const struct doctor *d, const char *fmt, ...)
{
	char line[64], *end;
	va_list ap;
	va_start(ap, fmt);
	char *path = path_of(d, fmt, ap);
	va_end(ap);
	if (!read_line(path, line, sizeof line))
		return -1;
	long long v = strtoll(line, &end, 0);
	return end == line ? -1 : v;
}

int64_t doctor_field(struct str text, const char *key)
{
	size_t n = strlen(key);
	for (const char *p = text.p, *end = text.p + text.n; p < end;) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		line_end = line_end ? line_end : end;
		if ((size_t)(line_end - p) > n && memcmp(p, key, n) == 0 && p[n] == ' ') {
			char number[32];
			char *number_end;
			snprintf(number, sizeof number, "%.*s",
				 (int)MIN((size_t)(line_end - p) - n, sizeof number - 1),
				 p + n);
			long long v = strtoll(number, &number_end, 10);
			return number_end == number ? -1 : v;
		}
		p = line_end + 1;
	}
	return -1;
}

bool doctor_has_word(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = text; (p = strstr(p, word)); p += n)
		if ((p == text || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}
