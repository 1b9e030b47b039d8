/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/traceparent.h"

#include <stddef.h>
#include <string.h>

#define LENGTH 55 /* "00-" 32 digits "-" 16 digits "-" 2 digits */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_hex(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (digit(p[i]) < 0)
			return false;
	return true;
}

static bool is_id(const char *p, size_t n)
{
	return is_hex(p, n) && strspn(p, "0") < n;
}

bool traceparent_parse(const char *text, struct traceparent *out)
{
	*out = (struct traceparent){0};
	size_t n = text ? strlen(text) : 0;
	if (n < LENGTH || !is_hex(text, 2) || strncmp(text, "ff", 2) == 0)
		return false;
	bool is_first = strncmp(text, "00", 2) == 0;
	if (n > LENGTH && (is_first || text[LENGTH] != '-'))
		return false;
	if (text[2] != '-' || text[35] != '-' || text[52] != '-' || !is_id(text + 3, 32) ||
	    !is_id(text + 36, 16) || !is_hex(text + 53, 2))
		return false;
	memcpy(out->trace_id, text + 3, 32);
	memcpy(out->parent_id, text + 36, 16);
	out->is_sampled = digit(text[54]) & 1;
	return true;
}
