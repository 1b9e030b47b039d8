/* SPDX-License-Identifier: Apache-2.0 */
#include "base/once.h"

#include <stdio.h>

#include "tests/tap.h"

static int n_told;
static char last[100];

static void tell(const char *word)
{
	n_told++;
	snprintf(last, sizeof last, "%s", word);
}

int main(void)
{
	static struct once o = {.max = 3, .max_bytes = 4, .lock = PTHREAD_MUTEX_INITIALIZER};
	once_tell(&o, STR("a"));
	is_int(n_told, 0, "nobody is told yet");
	once_set(&o, tell);
	once_tell(&o, STR("a"));
	once_tell(&o, STR("a"));
	is_int(n_told, 1, "a word is told of once");
	once_tell(&o, STR("abc\xc3\xa9"));
	is_str(last, "abc", "a long one is cut, at a whole character");
	once_tell(&o, STR("abc"));
	is_int(n_told, 2, "and is the same as what is told");
	once_tell(&o, STR(""));
	is_int(n_told, 3, "an empty one is one");
	once_tell(&o, STR("further"));
	is_int(n_told, 3, "beyond the bound nothing is told");
	return tap_done();
}
