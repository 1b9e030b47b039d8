/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/status.h"
#include "tests/tap.h"

static const char *json_of(struct str s)
{
	static struct buf b;
	buf_clear(&b);
	buf_add_json(&b, s);
	return b.p;
}

static const char *num_of(double v)
{
	static struct buf b;
	buf_clear(&b);
	buf_add_json_num(&b, v);
	return b.p;
}

/* A fault's text stays UTF-8 where what leads there pushes a part of it out. */
static void test_fail_within(void)
{
	struct fail f;
	fail_set(&f, E_IO, "%s", "none");
	fail_within(&f, E_IO, "mmproj");
	is_str(f.text, "mmproj: none", "what led to a fault stands before it");
	fail_within(&f, E_IO, "mmproj");
	is_str(f.text, "mmproj: none", "once");
	fail_set(&f, E_IO, "%0*d\xC3\xA9", (int)sizeof f.text - 5, 0);
	fail_within(&f, E_IO, "x");
	ok(f.text[sizeof f.text - 3] == '0' && f.text[sizeof f.text - 2] == '\0',
	   "half a character at its end is cut off");
}

int main(void)
{
	struct buf b = {0};
	is_int(buf_str(&b).n, 0, "an empty buf has an empty view");
	for (int i = 0; i < 1000; i++)
		buf_addf(&b, "%d,", i);
	is_int(b.n, 3890, "growth keeps every byte");
	is_int(b.p[b.n], 0, "the buffer is terminated");
	buf_drop(&b, 3886);
	is_str(b.p, "999,", "drop removes from the front") ;
	buf_drop(&b, 100);
	is_int(b.n, 0, "dropping more than there is empties it");
	char *p = buf_take(&b);
	is_str(p, "", "take never gives NULL");
	free(p);
	buf_addf(&b, "%0300d", 7);
	is_int(b.n, 300, "addf longer than the first guess");
	buf_deinit(&b);

	is_str(json_of(STR("a\"\\\n\t\x01z")), "\"a\\\"\\\\\\n\\t\\u0001z\"",
	       "JSON escapes");
	is_str(json_of(STR("h\xC3\xA9\xF0\x9F\x98\x80")),
	       "\"h\xC3\xA9\xF0\x9F\x98\x80\"", "UTF-8 stays as it is");
	is_str(json_of(STR("a\xC3")), "\"a\xEF\xBF\xBD\"", "half a character is replaced");
	is_str(json_of(STR("\xED\xA0\x80")),
	       "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"", "a surrogate is three faults");
	is_str(json_of((struct str){"", 0}), "\"\"", "empty string");
	is_str(num_of(0.1), "0.1", "shortest form of 0.1");
	is_str(num_of(1e300 * 1e10), "null", "infinity is null");
	is_str(num_of(-0.000123456789), "-0.000123456789", "enough digits");

	is_int(str_find(STR("abcabc"), STR("ca"), 0), 2, "find");
	is_int(str_find(STR("abcabc"), STR("ab"), 1), 3, "find from an offset");
	is_int(str_find(STR("abc"), STR("x"), 0), -1, "not found");
	is_int(str_find(STR("abc"), STR(""), 3), 3, "the empty needle is everywhere");
	ok(str_is(str_trim(STR(" \ta b\r\n")), "a b") && str_trim(STR(" \n")).n == 0,
	   "white space is trimmed off both ends");
	ok(is_char_of('b', "abc") && !is_char_of('d', "abc") && !is_char_of('\0', "abc") &&
	   !is_char_of(0x100 + 'b', "abc"), "one of a set");
	ok(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")), "starts");
	ok(str_ends(STR("abc"), STR("bc")) && !str_ends(STR("c"), STR("bc")), "ends");
	test_fail_within();
	return tap_done();
}
