/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct status_row {
	const char *name, *type, *code, *text;
	int http;
} rows[ORDER_COUNT] = {
	[ORDER_OK] = {"OK", "", "", "ok", 200},
#define STATUS(name, http, type, code, text) \
	[ORDER_##name] = {#name, type, code, text, http},
#include "base/status.def"
#undef STATUS
};

static const struct status_row *row_of(enum status s)
{
	assert(-s >= 0 && -s < ORDER_COUNT);
	return &rows[-s];
}

const char *status_name(enum status s) { return row_of(s)->name; }
const char *status_text(enum status s) { return row_of(s)->text; }
const char *status_type(enum status s) { return row_of(s)->type; }
const char *status_code(enum status s) { return row_of(s)->code; }
int status_http(enum status s) { return row_of(s)->http; }

/* snprintf may cut a text inside a UTF-8 character. Remove the partial character, because
 * the JSON writer needs valid UTF-8. */
static void cut_half_character(char *s, size_t n)
{
	size_t i = n;
	while (i > 0 && ((unsigned char)s[i - 1] & 0xC0) == 0x80)
		i--;
	if (i == 0)
		return;
	unsigned char lead = (unsigned char)s[i - 1];
	size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
	if (n - (i - 1) < need)
		s[i - 1] = '\0';
}

static void status_fill(struct fail *f, enum status code, const char *param,
			const char *fmt, va_list ap)
{
	if (!f)
		return;
	f->code = code;
	f->got = f->limit = 0;
	snprintf(f->param, sizeof f->param, "%s", param ? param : "");
	cut_half_character(f->param, strlen(f->param));
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	cut_half_character(f->text, strlen(f->text));
	for (char *p = f->text; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = ' ';
}

enum status fail_set(struct fail *f, enum status code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	status_fill(f, code, "", fmt, ap);
	va_end(ap);
	return code;
}

enum status fail_at(struct fail *f, enum status code, const char *param,
		    const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	status_fill(f, code, param, fmt, ap);
	va_end(ap);
	return code;
}

enum status fail_within(struct fail *f, enum status code, const char *what)
{
	char text[sizeof f->text];
	size_t n = strlen(what);
	if (!f || (strncmp(f->text, what, n) == 0 && f->text[n] == ':'))
		return code;
	memcpy(text, f->text, sizeof text);
	snprintf(f->text, sizeof f->text, "%s: %.*s", what,
		 (int)(sizeof text - n - 3), text);
	cut_half_character(f->text, strlen(f->text));
	return code;
}

enum status fail_default(struct fail *f, enum status code)
{
	if (f && f->code != code)
		fail_set(f, code, "%s", status_text(code));
	return code;
}
