/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Schema to grammar: each keyword with documents that it allows and that it does
 * not, each one that is not supported by its name and path, and a table of random
 * schemas and documents judged by another validator (tests/golden/make_schemas.py); and
 * of the same form, schema_keywords.tsv by hand, and schema_clients.tsv by Zod and pydantic
 * (tests/golden/make_client_schemas.py).
 */
#include "schema/schema.h"

#include "base/file.h"
#include "json/json_fast.h"
#include "tests/tap.h"

static struct grammar_vocab *vocab;

static enum status compile(const char *schema, struct grammar **out, struct fail *f)
{
	struct buf list = {0};
	buf_addf(&list, "[%s]", schema);
	json_t *v = json_fast_load(buf_str(&list));
	if (!v) {
		printf("Bail out! not JSON: %s\n", schema);
		exit(1);
	}
	struct json_node at = {.v = json_array_get(v, 0)};
	enum status st = schema_grammar(&at, out, f);
	json_decref(v);
	buf_deinit(&list);
	return st;
}

static bool accepts(struct grammar *g, const char *text)
{
	struct grammar_state *s = grammar_state_create(g, vocab);
	bool is_in = grammar_state_accept(s, str_of(text)) == OK &&
		     grammar_state_may_end(s);
	grammar_state_destroy(s);
	return is_in;
}

static const struct {
	const char *schema;
	const char *yes[10], *no[10];
} cases[] = {
	/* types */
	{"{\"type\":\"null\"}", {"null"}, {"0", "\"\"", " null"}},
	{"{\"type\":\"boolean\"}", {"true", "false"}, {"null", "True"}},
	{"{\"type\":\"integer\"}", {"0", "-1", "123456789012345678"},
	 {"01", "1.5", "-", "+1", "-0", "1e3", "1234567890123456789"}},
	{"{\"type\":\"number\"}", {"0", "-1.5", "1e-7", "3.25E+10"},
	 {".5", "1.", "01", "1e999", "NaN"}},
	{"{\"type\":\"string\"}",
	 {"\"\"", "\"a\\n\\u00e9\\\"\"", "\"\xe2\x82\xac\"", "\"\\ud83d\\ude00\""},
	 {"\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\xff\"", "\"a"}},
	{"{\"type\":[\"string\",\"null\"]}", {"\"x\"", "null"}, {"1", "true"}},
	{"{\"type\":\"string\",\"nullable\":true}", {"\"x\"", "null"}, {"1"}},
	{"{}", {"1", "\"x\"", "[1, {\"a\": [null]}]", "{}"}, {"", "x", "[1,]", "{a:1}"}},
	{"true", {"1", "[]"}, {""}},
	{"{\"type\":\"object\"}", {"{}", "{\"a\": 1}", "{\"a\":{\"b\":[]}, \"c\":2}"},
	 {"[]", "{\"a\"}", "{\"a\":1,}", "{ \"a\":1}", "{\"a\":  1}"}},
	{"{\"type\":\"array\"}", {"[]", "[1]", "[1, \"a\",[]]"}, {"{}", "[,]", "[1,]"}},
	/* objects */
	{"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}},"
	 "\"required\":[\"a\"]}",
	 {"{\"a\": 1}", "{\"a\":1,\"b\":null}"},
	 {"{}", "{\"b\":null}", "{\"a\":null}", "{\"b\":null,\"a\":1}",
	  "{\"a\":1,\"c\":2}", "{\"a\":1,\"a\":2}", "1"}},
	{"{\"properties\":{\"a\":true,\"b\":true,\"c\":true},\"required\":[\"b\"]}",
	 {"{\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}", "{\"b\":1,\"c\":1}"},
	 {"{}", "{\"a\":1}", "{\"a\":1,\"c\":1}", "{\"c\":1}", "{,\"b\":1}"}},
	{"{\"properties\":{\"a\":true,\"b\":true}}",
	 {"{}", "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
	 {"{\"b\":1,\"a\":1}", "{\"x\":1}"}},
	{"{\"properties\":{\"a\":{\"type\":\"null\"},\"ab\":{\"type\":\"null\"}},"
	 "\"additionalProperties\":{\"type\":\"integer\"}}",
	 {"{}", "{\"a\":null}", "{\"b\":1}", "{\"a\":null,\"abc\":1,\"\":2}",
	  "{\"ab\":null, \"b\":3}", "{\"\xc3\xa9\":1}"},
	 {"{\"a\":1}", "{\"b\":null}", "{\"c\":1,\"ab\":2}", "{\"\\u0061\":1}",
	  "{\"x\":1,\"a\":1}"}},
	{"{\"properties\":{\"a\":true},\"additionalProperties\":true}",
	 {"{\"a\":1}", "{\"z\":1}"}, {"{\"z\":1,\"a\":2}"}},
	{"{\"properties\":{\"a\":true},\"additionalProperties\":false,"
	 "\"unevaluatedProperties\":false}", {"{}", "{\"a\":1}"}, {"{\"z\":1}"}},
	{"{\"required\":[\"a\"],\"type\":\"object\",\"additionalProperties\":"
	 "{\"type\":\"integer\"}}", {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
	 {"{}", "{\"b\":2}", "{\"a\":null}"}},
	{"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
	 {"{\"a\":1}", "{\"a\":1,\"b\":1}"}, {"{}", "{\"a\":1,\"b\":1,\"c\":1}"}},
	{"{\"properties\":{\"a\":true,\"b\":true},\"minProperties\":1}",
	 {"{\"a\":1}", "{\"b\":1}"}, {"{}"}},
	{"{\"properties\":{\"a\":false,\"b\":true}}", {"{}", "{\"b\":1}"},
	 {"{\"a\":1}"}},
	{"{\"properties\":{\"a\\\"\\n\":{\"type\":\"null\"}},\"required\":[\"a\\\"\\n\"]}",
	 {"{\"a\\\"\\n\":null}"}, {"{}"}},
	/* arrays */
	{"{\"items\":{\"type\":\"integer\"}}", {"[]", "[1]", "[1, 2]"},
	 {"[null]", "{}", "[1 ,2]"}},
	{"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2,\"maxItems\":3}",
	 {"[null,null]", "[null,null,null]"},
	 {"[]", "[null]", "[null,null,null,null]"}},
	{"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
	{"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}",
	 {"[]", "[1]", "[1,null]"}, {"[null]", "[1,1]", "[1,null,1]"}},
	{"{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"},"
	 "\"minItems\":2}", {"[1,null]", "[1,null,null]"}, {"[1]", "[1,1]", "[]"}},
	{"{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":false}", {"[]", "[1]"},
	 {"[1,1]"}},
	{"{\"prefixItems\":[true,true,true],\"maxItems\":2}", {"[]", "[1,1]"},
	 {"[1,1,1]"}},
	{"{\"type\":\"array\",\"uniqueItems\":false}", {"[1,1]"}, {"1"}},
	/* enum and const */
	{"{\"enum\":[\"a\",1,null,{\"b\":[1,2.5]}]}",
	 {"\"a\"", "1", "null", "{\"b\": [1, 2.5]}"}, {"\"b\"", "2", "{\"b\":[1]}"}},
	{"{\"const\":null}", {"null"}, {"0"}},
	{"{\"type\":\"string\",\"enum\":[\"x\\n\\\"\",2,\"xy\"]}",
	 {"\"x\\n\\\"\"", "\"xy\""}, {"2", "\"x\""}},
	{"{\"const\":0.1}", {"0.1"}, {"0", "0.10"}},
	/* items that differ */
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"type\":\"integer\","
	 "\"minimum\":1900,\"maximum\":2100}}", {"[1901, 2099]", "[2099, 1901, 2000]"},
	 {"[1901]", "[1901, 1901]", "[1901, 2101]"}},
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":10,\"items\":{\"type\":\"integer\","
	 "\"minimum\":1,\"maximum\":65535}}",
	 {"[1, 7000, 14000, 20000, 27000, 33000, 40000, 46000, 53000, 65535]"}, {"[1, 80, 443]"}},
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":3,\"items\":{\"type\":\"number\","
	 "\"minimum\":0,\"maximum\":1}}", {"[0.05, 0.95, 0.5]"},
	 {"[0.5, 0.5, 0.5]", "[0, 0.0, 1]"}},
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":3,\"items\":{\"type\":\"string\","
	 "\"pattern\":\"^usr_[a-z0-9]{4}$\"}}", {"[\"usr_zz00\", \"usr_0abc\", \"usr_m000\"]"},
	 {"[\"usr_m000\", \"usr_m000\", \"usr_z000\"]", "[\"usr_m000\"]"}},
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"type\":\"string\","
	 "\"pattern\":\"^2026-\",\"format\":\"date\"}}", {"[\"2026-12-01\", \"2026-01-31\"]"},
	 {"[\"2026-12-01\", \"2026-12-01\"]"}},
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"type\":\"array\","
	 "\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"integer\"}],\"minItems\":2,"
	 "\"items\":false}}", {"[[1, 5], [2, 5]]"}, {"[[1, 5], [1, 5]]", "[[1, 5]]"}},
	{"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"type\":\"object\","
	 "\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"],"
	 "\"additionalProperties\":false}}", {"[{\"a\": true}, {\"a\": false}]"},
	 {"[{\"a\": true}, {\"a\": true}]"}},
	{"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[1,2]},\"c\":"
	 "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"$ref\":\"#/$defs/n\"}}},"
	 "\"required\":[\"k\",\"c\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
	 {"{\"k\": 1, \"c\": [{\"k\": 2, \"c\": []}, {\"k\": 1, \"c\": []}]}"},
	 {"{\"k\": 1, \"c\": [{\"k\": 2, \"c\": []}, {\"k\": 2, \"c\": []}]}"}},
	/* maps that count */
	{"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\",\"maxLength\":8},"
	 "\"minProperties\":2,\"maxProperties\":4}",
	 {"{\"a\":\"x\",\"x\":\"\"}", "{\"a\":\"x\",\"x\":\"\",\"q\":\"\",\"y\":\"\"}"},
	 {"{\"a\":\"x\"}", "{\"a\":\"x\",\"a\":\"x\"}", "{}",
	  "{\"a\":\"\",\"x\":\"\",\"q\":\"\",\"y\":\"\",\"z\":\"\"}"}},
	{"{\"type\":\"object\",\"patternProperties\":{\"^x-[a-d]\":{\"type\":\"null\"}},"
	 "\"additionalProperties\":false,\"minProperties\":3}",
	 {"{\"x-b\":null,\"x-d\":null,\"x-a\":null}"}, {"{\"x-a\":null,\"x-b\":null}",
	  "{\"x-a\":null,\"x-a\":null,\"x-a\":null}"}},
	/* integers beyond 64 bits, as they were sent */
	{"{\"type\":\"integer\",\"minimum\":10000000000000000000}",
	 {"10000000000000000000", "18446744073709551615"},
	 {"9223372036854775807", "9999999999999999999", "0"}},
	{"{\"type\":\"integer\",\"minimum\":1e19,\"maximum\":1.00000000000000000001e19}",
	 {"10000000000000000000"}, {"9999999999999999999", "10000000000000000001"}},
	{"{\"type\":\"integer\",\"exclusiveMinimum\":9223372036854775807}",
	 {"9223372036854775808"}, {"9223372036854775807"}},
	{"{\"type\":\"integer\",\"maximum\":-9223372036854775809}",
	 {"-9223372036854775809"}, {"-9223372036854775808", "0"}},
	{"{\"type\":\"integer\",\"exclusiveMaximum\":-9223372036854775808}",
	 {"-9223372036854775809"}, {"-9223372036854775808"}},
	{"{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615}",
	 {"0", "9223372036854775808", "18446744073709551615"}, {"18446744073709551616", "-1"}},
	{"{\"type\":\"integer\",\"minimum\":9007199254740992.5,\"maximum\":9007199254740994.5}",
	 {"9007199254740993", "9007199254740994"}, {"9007199254740992", "9007199254740995"}},
	{"{\"enum\":[18446744073709551615,1.10,1e3]}", {"18446744073709551615", "1.10", "1e3"},
	 {"18446744073709551614", "1.8446744073709552e+19"}},
	{"{\"type\":\"integer\",\"enum\":[18446744073709551615,18446744073709551614,2.0,2.5],"
	 "\"maximum\":18446744073709551614}",
	 {"18446744073709551614", "2.0"}, {"18446744073709551615", "2.5"}},
	{"{\"type\":\"integer\",\"not\":{\"enum\":[9007199254740993,7.0,18446744073709551615]}}",
	 {"9007199254740992", "9007199254740994", "8"}, {"9007199254740993", "7"}},
	{"{\"type\":\"integer\",\"minimum\":10000000000000000,\"multipleOf\":3}",
	 {"10000000000000002", "10000000000000005"}, {"300000000000000", "9999999999999999", "3"}},
	{"{\"type\":\"integer\",\"minimum\":1e20,\"multipleOf\":7}",
	 {"100000000000000000005"}, {"99999999999999999998", "100000000000000000004"}},
	{"{\"const\":[18446744073709551615,18446744073709551614],\"uniqueItems\":true}",
	 {"[18446744073709551615, 18446744073709551614]"}, {"[]"}},
	{"{\"enum\":[[1,1.0],[1,2]],\"uniqueItems\":true}", {"[1, 2]"}, {"[1, 1.0]"}},
	/* combinations */
	{"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
	 {"1", "\"a\""}, {"\"ab\"", "null"}},
	{"{\"type\":\"object\",\"properties\":{\"a\":true},\"anyOf\":[{\"required\":[\"a\"]},"
	 "{\"properties\":{\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}]}",
	 {"{\"a\":1}", "{\"a\":1,\"b\":null}", "{\"b\":null}"}, {"{}", "{\"b\":1}"}},
	{"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", {"1", "null"},
	 {"\"x\""}},
	{"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
	 "{\"properties\":{\"k\":{\"const\":2},\"v\":{\"type\":\"null\"}},\"required\":"
	 "[\"k\",\"v\"]}]}", {"{\"k\":1}", "{\"k\":2,\"v\":null}"},
	 {"{\"k\":2}", "{\"k\":3}"}},
	{"{\"allOf\":[{\"type\":\"integer\",\"minimum\":3},{\"maximum\":5}]}",
	 {"3", "4", "5"}, {"2", "6"}},
	{"{\"allOf\":[{\"properties\":{\"a\":{\"type\":[\"integer\",\"null\"]}}},"
	 "{\"properties\":{\"a\":{\"type\":[\"integer\",\"string\"]}},\"required\":[\"a\"]}]}",
	 {"{\"a\":1}"}, {"{\"a\":null}", "{\"a\":\"x\"}", "{}"}},
	{"{\"allOf\":[{\"properties\":{\"a\":true},\"additionalProperties\":false},"
	 "{\"properties\":{\"b\":true}}]}", {"{}", "{\"a\":1}"}, {"{\"b\":1}"}},
	/* references */
	{"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"properties\":{\"v\":{\"type\":"
	 "\"integer\"},\"next\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"v\"]}}}",
	 {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
	 {"{\"next\":{\"v\":1}}", "{\"v\":1,\"next\":{}}"}},
	{"{\"items\":{\"$ref\":\"#\"},\"type\":\"array\"}", {"[]", "[[],[[]]]"}, {"[1]"}},
	{"{\"properties\":{\"a/b\":{\"type\":\"null\"},\"c%~\":{\"$ref\":"
	 "\"#/properties/a~1b\"},\"d\":{\"$ref\":\"#/properties/c%25~0\"}}}",
	 {"{\"c%~\":null}", "{\"d\":null}"}, {"{\"c%~\":1}", "{\"d\":1}"}},
	{"{\"$ref\":\"#/$defs/a\",\"minimum\":2,\"$defs\":{\"a\":{\"type\":\"integer\"}}}",
	 {"2"}, {"1"}},
	{"{\"anyOf\":[{\"$ref\":\"#/anyOf/1\"},{\"type\":\"null\"}]}", {"null"}, {"1"}},
	/* what is no schema has no id, unless no other has it; nor has a reference of draft 7 */
	{"{\"$defs\":{\"u\":{\"not\":{\"x\":[{\"$id\":\"/i\",\"type\":\"null\"}]}},\"r\":{"
	 "\"$id\":\"/i\",\"type\":\"string\"}},\"$ref\":\"/i\"}",
	 {"\"a\""}, {"null"}},
	{"{\"default\":{\"$id\":\"/i\",\"type\":\"null\"},\"examples\":[{\"$anchor\":\""
	 "a\"}],\"$defs\":{\"r\":{\"$id\":\"/i\",\"type\":\"integer\"}},\"$ref\":\"/i\"}",
	 {"1"}, {"null"}},
	{"{\"components\":{\"s\":{\"$id\":\"/i\",\"type\":\"integer\"}},\"$ref\":\"/i\"}",
	 {"1"}, {"null"}},
	{"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$id\":\"ht"
	 "tp://h/b/\",\"definitions\":{\"f\":{\"$id\":\"http://h/f.json\",\"type\":"
	 "\"string\"},\"g\":{\"$id\":\"f.json\",\"type\":\"number\"}},\"allOf\":[{\"$id"
	 "\":\"http://h/\",\"$ref\":\"f.json\"}]}",
	 {"1"}, {"\"a\""}},
	{"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$id\":\"http://h/a/x\","
	 "\"$ref\":\"http://h/a/b\",\"definitions\":{\"b\":{\"$id\":\"b\",\"type\":\"integer\"}}}",
	 {"1"}, {"\"a\""}},
	/* a dynamic anchor is counted once, wherever it is */
	{"{\"$defs\":{\"r\":{\"$dynamicAnchor\":\"n\",\"type\":\"integer\"}},"
	 "\"$dynamicRef\":\"#n\"}", {"1"}, {"null"}},
	{"{\"components\":{\"s\":{\"$dynamicAnchor\":\"n\",\"type\":\"integer\"}},"
	 "\"$dynamicRef\":\"#n\"}", {"1"}, {"null"}},
	/* strings */
	{"{\"minLength\":2,\"maxLength\":3}", {"\"ab\"", "\"a\\u00e9b\"", "\"\xf0\x9f\x98\x80x\""},
	 {"\"a\"", "\"abcd\"", "\"\xc3\xa9\"", "1"}},
	{"{\"pattern\":\"^[a-z]+$\"}", {"\"abc\""}, {"\"\"", "\"A\"", "\"ab1\""}},
	{"{\"pattern\":\"b+\"}", {"\"b\"", "\"abba\"", "\"\\\"b\\n\""}, {"\"a\"", "\"\""}},
	{"{\"pattern\":\"^a|b$\"}", {"\"a1\"", "\"1b\""}, {"\"ba\""}},
	{"{\"pattern\":\"^[\\\"\\\\\\\\\\n]$\"}", {"\"\\\"\"", "\"\\\\\"", "\"\\n\""},
	 {"\"a\"", "\"\n\""}},
	{"{\"pattern\":\"^\\\\w{1,9}$\",\"minLength\":3,\"maxLength\":4}",
	 {"\"abc\"", "\"abcd\""}, {"\"ab\"", "\"abcde\""}},
	{"{\"pattern\":\"^(ab){1,2}$\",\"maxLength\":4}", {"\"ab\"", "\"abab\""},
	 {"\"a\""}},
	{"{\"format\":\"date\"}",
	 {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\"", "\"2023-04-30\""},
	 {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"",
	  "\"2023-00-01\"", "\"2023-1-1\"", "\"0000-01-01\""}},
	{"{\"format\":\"time\"}", {"\"23:59:59Z\"", "\"00:00:00.5+02:00\""},
	 {"\"24:00:00Z\"", "\"12:60:00Z\"", "\"12:00:00\"", "\"12:00Z\""}},
	{"{\"format\":\"date-time\"}", {"\"2024-02-29T12:30:00Z\""},
	 {"\"2024-02-30T12:30:00Z\"", "\"2024-02-29 12:30:00Z\""}},
	{"{\"format\":\"uuid\"}", {"\"123e4567-e89b-12d3-A456-426614174000\""},
	 {"\"123e4567e89b12d3a456426614174000\"", "\"g23e4567-e89b-12d3-a456-426614174000\""}},
	{"{\"format\":\"email\"}", {"\"a.b@example.com\""},
	 {"\"a@b\"", "\"@b.c\"", "\"a b@c.de\"", "\"a@-b.de\""}},
	{"{\"format\":\"ipv4\"}", {"\"127.0.0.1\"", "\"255.250.199.9\""},
	 {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
	/* formats that exclude each other, as far as every reader of them would say */
	{"{\"oneOf\":[{\"type\":\"string\",\"format\":\"ipv4\"},{\"type\":\"string\","
	 "\"format\":\"ipv6\"}]}", {"\"127.0.0.1\"", "\"::1\""}, {"\"x\"", "\"\""}},
	{"{\"type\":\"string\",\"oneOf\":[{\"format\":\"none-such\"},{\"format\":\"ipv4\"}]}",
	 {"\"x\"", "\"a1\""}, {"\"127.0.0.1\"", "\"1\""}},
	{"{\"oneOf\":[{\"type\":\"string\",\"format\":\"date\"},{\"type\":\"string\","
	 "\"format\":\"date-time\"}]}", {"\"2024-02-29\"", "\"2024-02-29T12:30:00Z\""},
	 {"\"x\""}},
	{"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"format\":\"date\"}]}",
	 {"\"x\"", "\"2024-02-29T\""}, {"\"2024-02-29\"", "\"20240229\""}},
	/* draft 4 has no "date", so each text of the other format would match both */
	{"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"oneOf\":[{\"type\":"
	 "\"string\",\"format\":\"date\"},{\"type\":\"string\",\"format\":\"date-time\"}]}",
	 {"\"2024-02-29\""}, {"\"2024-02-29T12:30:00Z\""}},
	{"{\"type\":\"string\",\"not\":{\"format\":\"email\"}}", {"\"x\"", "\"\""},
	 {"\"a@example.com\"", "\"@\""}},
	/* at most four words, 64 characters: each word pays for 16, 32, 48 or 64 */
	{"{\"pattern\":\"^$|(^(?:\\\\S+\\\\s+){0,3}\\\\S+$)\",\"minLength\":1,"
	 "\"maxLength\":64}", {"\"a\"", "\"ab c d e\"", "\"a2345678901234 b\"",
	 "\"a23456789012345678901234567890 b c\"",
	 "\"a234567890123456789012345678901234567890123456789012345678901234\""},
	 {"\"\"", "\" a\"", "\"a b c d e\"", "\"a23456789012345678901234567890 b c d\"",
	  "\"a2345678901234567890123456789012345678901234567890123456789012345\"",
	  "\"a2345678901234567890123456789012345678 b23456789012345678901234567\""}},
	{"{\"pattern\":\"^(?:[a-z]+-)*[a-z]+$\",\"maxLength\":70}", {"\"a\"", "\"a-b-c-d-e-f\""},
	 {"\"\"", "\"a-\"",
	  "\"a23456789-a23456789-a23456789-a23456789-a23456789-a23456789-a23456789-a\"",
	  "\"abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-a\""}},
	/* a pointer from within a resource: first in it, then in the whole document */
	{"{\"definitions\":{\"r\":{\"id\":\"s/r\",\"definitions\":{\"f\":{\"enum\":[1]}},"
	 "\"items\":{\"anyOf\":[{\"$ref\":\"#/definitions/r/definitions/f\"},"
	 "{\"$ref\":\"#/definitions/f\"}]}},\"f\":{\"enum\":[2]}},\"$ref\":"
	 "\"#/definitions/r\"}", {"[1]", "[1,1]"}, {"[2]", "[\"1\"]"}},
	/* numbers */
	{"{\"type\":\"integer\",\"minimum\":8,\"maximum\":123}",
	 {"8", "9", "10", "99", "100", "119", "123"}, {"7", "124", "130", "0", "200", "-8"}},
	{"{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":3}",
	 {"-12", "-1", "0", "2", "-10"}, {"-13", "3", "-0", "-20"}},
	{"{\"type\":\"integer\",\"exclusiveMinimum\":1.5,\"maximum\":3.9}", {"2", "3"},
	 {"1", "4"}},
	{"{\"type\":\"integer\",\"minimum\":9000000000000000000}",
	 {"9000000000000000000", "9223372036854775807"},
	 {"9223372036854775808", "8999999999999999999"}},
	{"{\"type\":\"integer\",\"maximum\":-5}", {"-5", "-6", "-100"}, {"-4", "0", "5"}},
	{"{\"type\":\"integer\",\"format\":\"int32\"}", {"2147483647", "-2147483648"},
	 {"2147483648", "-2147483649"}},
	{"{\"type\":\"number\",\"minimum\":0.5,\"maximum\":1.25}",
	 {"0.5", "0.51", "0.9", "1", "1.0", "1.2", "1.25", "1.249"},
	 {"0.49", "0", "1.26", "1.3", "2", "-1", "0.4999"}},
	{"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
	 {"0.1", "0.001", "0.99"}, {"0", "1", "0.0", "1.0", "-0.5"}},
	{"{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":2}",
	 {"-1.5", "-1.49", "-0.3", "0", "0.5", "1.99", "2"},
	 {"-1.51", "-2", "2.1", "3", "-0"}},
	{"{\"type\":\"number\",\"exclusiveMinimum\":100.5}",
	 {"100.51", "101", "99999", "100.6"}, {"100.5", "100", "100.4999", "100.50", "9"}},
	{"{\"type\":\"number\",\"maximum\":-0.25}", {"-0.25", "-0.3", "-1", "-17.5"},
	 {"-0.2", "0", "1", "-0"}},
	{"{\"type\":\"number\",\"minimum\":3,\"maximum\":3}", {"3", "3.0",
	 "3.00"}, {"2.9", "3.1", "3.", "3.01"}},
	{"{\"type\":\"number\",\"minimum\":-9}", {"-9.0", "-8.995", "1000.12345"},
	 {"-9.005", "-9.01"}},
};

static void test_cases(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct grammar *g = NULL;
		struct fail f = {0};
		if (!ok(compile(cases[i].schema, &g, &f) == OK, "%s %s", cases[i].schema,
			f.text))
			continue;
		for (int k = 0; k < 10 && cases[i].yes[k]; k++)
			ok(accepts(g, cases[i].yes[k]), "allows item %d", k);
		for (int k = 0; k < 10 && cases[i].no[k]; k++)
			ok(!accepts(g, cases[i].no[k]), "not item %d", k);
		grammar_unref(g);
	}
}

/* --- relaxed objects ------------------------------------------------------------ */

static const struct {
	const char *schema;
	const char *yes[6], *no[8];
} relaxed[] = {
	{"{\"properties\":{\"a\":{\"type\":\"string\"},\"b-c\":{\"type\":\"integer\"}}}",
	 {"{}", "{a:'|~x \"'~ y'|~}", "{a:'|~'|~, b-c:1}", "{b-c: 2}"},
	 {"{a:\"x\"}", "{'|~a'|~:'|~x'|~}", "{d:1}", "{a:x}", "{a:'|~x'|~'|~}"}},
	{"{\"properties\":{\"a b\":{\"type\":\"null\"}},\"required\":[\"a b\"]}",
	 {"{'|~a b'|~:null}"}, {"{}", "{a b:null}"}},
	{"{\"properties\":{\"ab\":{\"type\":\"null\"}},\"additionalProperties\":true}",
	 {"{}", "{ab:null}", "{a:1}", "{abc:[1,{d:'|~'|~}]}", "{x:{},y:true}"},
	 {"{ab:1}", "{:1}", "{a b:1}", "{\"a\":1}"}},
	{"{\"properties\":{\"a\":{\"enum\":[\"x'y\",{\"k\":\"v\"},\"p'|~q\",3]}}}",
	 {"{a:'|~x'y'|~}", "{a:{k: '|~v'|~}}", "{a:3}"}, {"{a:'|~p'|~q'|~}", "{a:x}"}},
	{"{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^[a-z'|]+$\",\"minLength\""
	 ":2}}}", {"{a:'|~xy'|~}", "{a:'|~x|'|~}"}, {"{a:'|~x'|~}", "{a:'|~x'y'|~}"}},
	{"{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
	 "\"maxLength\":2}}}}", {"{a:['|~x'|~, '|~yz'|~]}", "{a:[]}"},
	 {"{a:['|~xyz'|~]}", "{a:['|~'''|~]}"}},
	{"{\"patternProperties\":{\"^x\":{\"type\":\"integer\"}}}", {"{'|~xy'|~:1}"},
	 {"{'|~xy'|~:null}"}},
};

static enum status build_relaxed(const char *schema, struct grammar **out, struct fail *f)
{
	const struct schema_relaxed words = {.mark = STR("'|~"), .text = "'|~"};
	struct grammar_build *b = grammar_build_create();
	uint32_t root = grammar_build_rule(b, STR("call"));
	json_t *v = json_loads(schema, 0, NULL);
	struct json_node at = {.v = v};
	grammar_part part;
	size_t work = 0;
	enum status st = schema_build_relaxed(b, &at, &words, &work, &part, f);
	if (st == OK) {
		grammar_build_set_rule(b, root, part);
		st = grammar_build_finish(b, root, out, f);
	}
	json_decref(v);
	grammar_build_destroy(b);
	return st;
}

static void test_relaxed(void)
{
	struct fail f = {0};
	struct grammar *g = NULL;
	for (size_t i = 0; i < sizeof relaxed / sizeof *relaxed; i++) {
		if (build_relaxed(relaxed[i].schema, &g, &f) != OK) {
			ok(false, "%s: %s", relaxed[i].schema, f.text);
			continue;
		}
		for (int k = 0; k < 6 && relaxed[i].yes[k]; k++)
			ok(accepts(g, relaxed[i].yes[k]), "relaxed: %s", relaxed[i].yes[k]);
		for (int k = 0; k < 8 && relaxed[i].no[k]; k++)
			ok(!accepts(g, relaxed[i].no[k]), "not relaxed: %s", relaxed[i].no[k]);
		grammar_unref(g);
	}
	ok(build_relaxed("{\"properties\":{\"a'|~\":{}}}", &g, &f) == E_INVAL,
	   "a name with the mark: %s", f.text);
}

static const struct {
	const char *schema, *param, *says;
} errors[] = {
	{"{\"uniqueItems\":true,\"type\":\"array\",\"items\":{\"type\":\"string\"},"
	 "\"minItems\":11}", "items", "more than 10 items"},
	{"{\"contains\":{\"type\":\"null\"},\"uniqueItems\":true,\"minItems\":2}", "", "beside"},
	{"{\"properties\":{\"a\":{\"type\":\"object\",\"not\":{\"format\":\"regex\"}}"
	 "},\"required\":[\"a\"]}",
	 "properties.a.not", "cannot be held to"},
	{"{\"multipleOf\":0}",
	 "multipleOf", "no step"},
	{"{\"type\":\"array\",\"items\":{},\"contains\":{\"const\":1},\"allOf\":[{"
	 "\"contains\":{\"const\":2},\"maxContains\":1}]}",
	 "allOf[0]", "maxContains"},
	{"{\"properties\":{\"a\":{\"$dynamicRef\":\"#x\"}}}",
	 "properties.a.$dynamicRef", "not there"},
	{"{\"properties\":{\"a\":{\"$ref\":\"/i\"},\"b\":{\"enum\":[{\"$id\":\"/i\"}]},"
	 "\"c\":{\"const\":{\"$id\":\"/i\"}}}}",
	 "properties.a.$ref", "not there"},
	{"{\"components\":{\"s\":{\"$dynamicAnchor\":\"n\"},\"t\":{\"$dynamicAnchor\":\"n\"}},"
	 "\"properties\":{\"a\":{\"$dynamicRef\":\"#n\"}}}",
	 "properties.a.$dynamicRef", "has 2 places"},
	{"{\"pattern\":\"(\"}",
	 "pattern", "not closed"},
	{"{\"pattern\":\"a?\\\\bx\"}",
	 "pattern", "word boundary"},
	{"{\"patternProperties\":{\"(\":{}}}",
	 "patternProperties.(", "not closed"},
	{"{\"propertyNames\":{\"not\":{\"format\":\"date\"}},\"type\":\"object\"}",
	 "propertyNames.not", "format"},
	{"{\"enum\":[3.5],\"unevaluatedItems\":{\"type\":\"null\"},\"anyOf\":[{\""
	 "enum\":[\"a\"],\"format\":\"date\"}]}",
	 "", "no value"},
	{"{\"enum\":[\"a\"],\"format\":\"date\"}",
	 "", "judged"},
	{"{\"enum\":3}",
	 "enum", "must be a list"},
	{"{\"type\":\"strin\"}",
	 "type", "name of a JSON type"},
	{"{\"type\":[\"string\",3]}",
	 "type[1]", "must be"},
	{"{\"properties\":{\"a\":3}}",
	 "properties.a", "must be a schema"},
	{"{\"properties\":[]}",
	 "properties", "must be"},
	{"{\"anyOf\":[]}",
	 "anyOf", "at least one"},
	{"{\"anyOf\":{}}",
	 "anyOf", "must be"},
	{"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":1}]}",
	 "oneOf[1].minimum", "no integers"},
	{"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"format\":\"regex\""
	 "}]}",
	 "", "no value"},
	{"{\"$ref\":\"#/nope\"}",
	 "$ref", "not there"},
	{"{\"$ref\":\"http://x/y\"}",
	 "$ref", "not there"},
	{"{\"$ref\":\"#\"}",
	 "", "refers to itself"},
	{"{\"anyOf\":[{\"$ref\":\"#\"}]}",
	 "", ""},
	{"{\"minLength\":-1}",
	 "minLength", "must be"},
	{"{\"minLength\":2000000}",
	 "", "above"},
	{"{\"type\":\"array\",\"minItems\":2000000}",
	 "", "above"},
	{"false",
	 "", "no value"},
	{"{\"not\":true}",
	 "", "no value"},
	{"{\"type\":\"object\",\"minProperties\":3,\"properties\":{\"a\":true}}",
	 "", "no value"},
	{"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}",
	 "", "no value"},
	{"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
	 "", "no value"},
	{"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}",
	 "", "no value"},
	{"{\"allOf\":[{\"properties\":{\"foo\":{}},\"required\":[\"foo\"]},{\"une"
	 "valuatedProperties\":false}]}",
	 "", "no value"},
	{"3",
	 "", "must be a schema"},
	{"{\"type\":\"number\",\"minimum\":1e-30}",
	 "minimum", "too many digits"},
	{"{\"type\":\"integer\",\"minimum\":1e40}", "minimum", "too many digits"},
	{"{\"type\":\"integer\",\"maximum\":-1e40}", "maximum", "too many digits"},
	{"{\"type\":\"number\",\"minimum\":1e14,\"multipleOf\":0.1}", "minimum",
	 "too many digits"},
};

static void test_errors(void)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct grammar *g = NULL;
		struct fail f = {0};
		enum status st = compile(errors[i].schema, &g, &f);
		ok(st == E_INVAL, "%s is refused", errors[i].schema);
		is_str(f.param, errors[i].param, "at its place");
		ok(strstr(f.text, errors[i].says), "in words: %s", f.text);
		if (st == OK)
			grammar_unref(g);
	}
}

static char told[200];

static void on_ignored(const char *keyword)
{
	strncat(told, keyword, sizeof told - strlen(told) - 2);
	strcat(told, ";");
}

static void test_ignored(void)
{
	struct grammar *g;
	struct fail f;
	schema_set_on_ignored(on_ignored);
	for (int i = 0; i < 2; i++) {
		is_int(compile("{\"requird\":[],\"type\":\"string\",\"format\":\"colour\","
			       "\"x-mine\":1,\"title\":\"t\"}", &g, &f), OK,
		       "a keyword that nobody knows");
		grammar_unref(g);
	}
	is_str(told, "requird;format: colour;", "is said once");
	schema_set_on_ignored(NULL);
}

/* allOf of twice itself, over and over: a clear end, soon. */
static void test_hostile(void)
{
	struct buf b = {0};
	struct grammar *g = NULL;
	struct fail f = {0};
	buf_add_z(&b, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
	for (int i = 0; i < 60; i++)
		buf_addf(&b, "\"a%d\":{\"allOf\":[{\"$ref\":\"#/$defs/a%d\"},"
			 "{\"$ref\":\"#/$defs/a%d\"}]},", i, i + 1, i + 1);
	buf_add_z(&b, "\"a60\":{\"type\":\"null\"}}}");
	is_int(compile(b.p, &g, &f), E_INVAL, "2^60 schemas at one place: %s", f.text);
	buf_clear(&b);
	buf_add_z(&b, "{\"allOf\":[");
	for (int i = 0; i < 30; i++)
		buf_addf(&b, "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}",
			 i ? "," : "", i, i);
	buf_add_z(&b, "]}");
	is_int(compile(b.p, &g, &f), E_LIMIT, "2^30 alternatives: %s", f.text);
	buf_clear(&b);
	buf_add_z(&b, "{\"allOf\":[{\"type\":\"object\"}");
	for (int i = 0; i < 900; i++)
		buf_addf(&b, ",{\"anyOf\":[{\"minLength\":%d},{\"maxLength\":%d}]}", i, i);
	buf_add_z(&b, "]}");
	is_int(compile(b.p, &g, &f), E_LIMIT, "2^900 alternatives: %s", f.text);
	buf_clear(&b);
	buf_add_z(&b, "{\"properties\":{");
	for (int i = 0; i < 200; i++)
		buf_addf(&b, "%s\"a%d\":{\"uniqueItems\":true,\"items\":{\"type\":\"object\","
			 "\"properties\":{\"b%d\":{\"type\":\"string\"}}}}", i ? "," : "", i, i);
	buf_add_z(&b, "}}");
	is_int(compile(b.p, &g, &f), OK, "200 arrays of items that differ");
	ok(accepts(g, "{\"a0\":[{\"b0\":\"a\"},{\"b0\":\"z\"}],\"a199\":[{\"b199\":\"a\"},"
		      "{\"b199\":\"d\"}]}"), "whose items are written");
	ok(!accepts(g, "{\"a199\":[{\"b199\":\"d\"},{\"b199\":\"d\"}]}"), "and differ");
	grammar_unref(g);
	g = NULL;
	buf_clear(&b);
	for (int k = 0; k < 2; k++) {
		buf_add_z(&b, k ? "]},{\"enum\":[0" : "{\"allOf\":[{\"enum\":[0");
		for (int i = 1; i < 9000; i++)
			buf_addf(&b, ",%d", k ? -i : i);
	}
	buf_add_z(&b, "]}]}");
	is_int(compile(b.p, &g, &f), E_LIMIT, "enums times enums: %s", f.text);
	buf_deinit(&b);
}

/* Of a table: what must be accepted is, and what is not valid never. */
static void test_goldens(const char *path, int min_schemas, int min_docs)
{
	struct buf map = {0};
	struct fail f = {0};
	struct grammar *g = NULL;
	int n_schemas = 0, n_docs = 0, n_wide = 0, n_narrow = 0, n_failed = 0;
	if (file_read(tap_src(path), 1 << 20, &map, &f) != OK) {
		ok(false, "%s", f.text);
		return;
	}
	for (size_t at = 0, end; at < map.n; at = end + 1) {
		ptrdiff_t nl = str_find(buf_str(&map), STR("\n"), at);
		end = nl < 0 ? map.n : (size_t)nl;
		char line[8192];
		snprintf(line, sizeof line, "%.*s", (int)(end - at), map.p + at);
		if (line[0] == 'S') {
			grammar_unref(g);
			g = NULL;
			n_schemas++;
			if (compile(line + 2, &g, &f) != OK && ++n_failed)
				printf("# %s: %s\n", line + 2, f.text);
			continue;
		}
		n_docs++;
		bool is_in = g && accepts(g, line + 3);
		bool is_narrow = g && line[0] == '1' && !is_in;
		bool is_wide = line[1] == '0' && is_in;
		n_narrow += is_narrow;
		n_wide += is_wide;
		if (is_narrow || is_wide)
			printf("# %s %s\n", is_wide ? "wide" : "narrow", line + 3);
	}
	grammar_unref(g);
	buf_deinit(&map);
	ok(n_schemas >= min_schemas && n_docs >= min_docs, "%d schemas, %d documents", n_schemas,
	   n_docs);
	is_int(n_failed, 0, "all schemas compile");
	is_int(n_wide, 0, "nothing invalid is allowed");
	is_int(n_narrow, 0, "nothing that can be written is refused");
}

int main(void)
{
	static const struct str none = {"a", 1};
	vocab = grammar_vocab_create(&none, 1);
	test_cases();
	test_relaxed();
	test_errors();
	test_ignored();
	test_hostile();
	test_goldens("tests/golden/schemas.tsv", 100, 1001);
	test_goldens("tests/golden/schema_keywords.tsv", 50, 200);
	test_goldens("tests/golden/schema_clients.tsv", 120, 230);
	grammar_vocab_destroy(vocab);
	return tap_done();
}
