/* SPDX-License-Identifier: Apache-2.0
 *
 * The test vectors of RFC 4648, section 10, and what is no base64.
 */
#include "base/base64.h"

#include "base/alloc.h"
#include "tests/tap.h"

int main(void)
{
	static const struct {
		const char *text, *want; /* NULL: refused */
	} cases[] = {{"", ""}, {"Zg==", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"},
		     {"Zm9vYg==", "foob"}, {"Zm9vYmE=", "fooba"}, {"Zm9vYmFy", "foobar"},
		     {"Zg", "f"}, {"Zm8", "fo"}, {"+/+/", "\xfb\xff\xbf"}, {"Z", NULL},
		     {"Zg=", NULL}, {"Zh==", NULL}, {"Zm9=", NULL}, {"Zm9v=", NULL},
		     {"Zm9v====", NULL}, {"=", NULL}, {"Z g=", NULL}, {"Zm\n8", NULL},
		     {"Zm-_", NULL}, {"Zg==Zg==", NULL}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf b = {0};
		bool good = base64_decode(str_of(cases[i].text), &b);
		ok(good == (cases[i].want != NULL) &&
			   (!good || str_is(buf_str(&b), cases[i].want)),
		   "\"%s\"", cases[i].text);
		buf_deinit(&b);
	}
	return tap_done();
}
