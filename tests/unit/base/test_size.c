/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <stddef.h>

#include "base/alloc.h"
#include "tests/tap.h"

int main(void)
{
	static const struct {
		const char *text;
		int64_t want; /* -2: refused */
	} cases[] = {{"0", 0}, {"17", 17}, {"2K", 2048}, {"3M", 3 << 20},
		     {"4G", INT64_C(4) << 30}, {"1T", INT64_C(1) << 40}, {"auto", -1},
		     {"", -2}, {"-1", -2}, {"1.5G", -2}, {"4GB", -2}, {"G", -2}, {"4g", -2},
		     {" 4", -2}, {"automatic", -2}, {"9999999999999999999", -2},
		     {"9000000000G", -2}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t n = -3;
		bool good = size_parse_auto(cases[i].text, &n);
		is_int(good ? n : -2, cases[i].want, "\"%s\"", cases[i].text);
	}
	int64_t n;
	ok(!size_parse("auto", &n), "a size is not auto");
	return tap_done();
}
