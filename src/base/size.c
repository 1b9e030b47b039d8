/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool size_parse(const char *text, int64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;
	if (errno || (*end && (!unit || end[1])) || n > INT64_C(1) << (62 - shift))
		return false;
	*out = (int64_t)n << shift;
	return true;
}

bool size_parse_auto(const char *text, int64_t *out)
{
	if (strcmp(text, "auto") != 0)
		return size_parse(text, out);
	*out = -1;
	return true;
}

void size_format(char *out, size_t size, int64_t n_bytes)
{
	if (n_bytes >= 1 << 30)
		snprintf(out, size, "%.2f GiB", (double)n_bytes / (1 << 30));
	else
		snprintf(out, size, "%.1f MiB", (double)n_bytes / (1 << 20));
}
