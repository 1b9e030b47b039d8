/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "output/jsonscan.h"
#include "tests/tap.h"

static const char *const good[] = {
	"0", "-0", "10", "-1.5e+3", "1E9", "0.25", "true", "false", "null", "\"\"",
	"\"a\\u00e9\\n\\/\\\\\"", "[]", "{}", " [ 1 , [ ] , { } ] ", "[1,2]\n",
	"{\"a\":{\"b\":[true,\"x\"]},\"c\":-1}", "\"\\ud83d\"", "7 \t",
};
static const char *const bad[] = {
	"", " ", "01", "-", "+1", "1.", ".5", "1e", "1e+", "tru", "nulll", "True", "\"",
	"\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[", "[1", "[1,]", "[,]", "[1 2]", "{",
	"{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\":1]", "[}", "1 2", "{}{}",
	"1]", "'a'",
};

int main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		ok(jsonscan_is_value(str_of(good[i])), "a value: %s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		ok(!jsonscan_is_value(str_of(bad[i])), "bad value %zu", i);

	struct buf deep = {0};
	for (int i = 0; i < JSONSCAN_MAX_DEPTH; i++)
		buf_add_z(&deep, i % 2 ? "[" : "{\"a\":");
	buf_add_z(&deep, "1");
	for (int i = JSONSCAN_MAX_DEPTH; i-- > 0;)
		buf_add_c(&deep, i % 2 ? ']' : '}');
	ok(jsonscan_is_value(buf_str(&deep)), "as deep as it may be");
	buf_clear(&deep);
	for (int i = 0; i <= JSONSCAN_MAX_DEPTH; i++)
		buf_add_c(&deep, '[');
	for (int i = 0; i <= JSONSCAN_MAX_DEPTH; i++)
		buf_add_c(&deep, ']');
	ok(!jsonscan_is_value(buf_str(&deep)), "one deeper");
	buf_deinit(&deep);

	/* In front of each byte of text: may it be cut there? */
	static const char text[] = "\"a\\n\\u00e9\\ud83d\\ude00b\\ud83dc\"";
	static const char cut[] = "yyynynnnnnynnnnnnnnnnnyynnnnnny";
	struct jsonscan s;
	jsonscan_init(&s);
	char got[sizeof text] = "";
	for (size_t i = 0; text[i]; i++) {
		got[i] = jsonscan_in_escape(&s) ? 'n' : 'y';
		jsonscan_push(&s, text[i]);
	}
	is_str(got, cut, "where a string may be cut");
	return tap_done();
}
