/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_read.h"

#include "base/utf8.h"
#include "tests/tap.h"

static void test_bodies(void)
{
	static const struct {
		const char *body;
		enum status status;
		const char *says;
	} rows[] = {
		{"{}", OK, ""},
		{" {\"a\": [1, 2.5, null, \"x\"]}\n", OK, ""},
		{"", E_JSON, "line 1"},
		{"{", E_JSON, "line 1, column 1"},
		{"{\"a\":1,}", E_JSON, "column"},
		{"{\"a\":\n\n1 2}", E_JSON, "line 3"},
		{"{} {}", E_JSON, "end of file expected"},
		{"{\"a\":1,\"a\":2}", E_JSON, "duplicate"},
		{"{\"a\":\"\xff\"}", E_JSON, "not valid UTF-8"},
		{"\xff\xfe", E_JSON, "UTF-8"},
		{"{\"a\":\"\\ud83d\"}", E_JSON, "half of a surrogate pair"},
		{"{\"a\":\"\\ude00x\"}", E_JSON, "half of a surrogate pair"},
		{"{\"a\":99999999999999999999}", OK, ""},
		{"{\"a\":[99999999999999999999,]}", E_JSON, "column"},
		{"{\"a\":1e999}", E_JSON, "too large"},
		{"{\"a\":NaN}", E_JSON, "invalid token"},
		{"[]", E_INVAL, "must be a JSON object"},
		{"null", E_JSON, ""},
		{"{\"a\":\"\\u0000\"}", OK, ""},
		{"{\"a\\u0000b\":1}", E_JSON, "NUL"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_t *v = NULL;
		struct fail fail = {0};
		enum status st = json_read_parse(str_of(rows[i].body), &v, &fail);
		bool good = st == rows[i].status && strstr(fail.text, rows[i].says);
		ok(good, "body %zu: %s", i, rows[i].says);
		if (!good)
			printf("# %s: %s\n", status_name(st), fail.text);
		if (st == OK)
			json_decref(v);
	}
}

/* Integers beyond 64 bits become floats; all else stays. */
static void test_wide_integers(void)
{
	json_t *v = NULL;
	struct fail fail = {0};
	struct buf big = {0};
	const char *s = NULL;
	double up = 0, down = 0, part = 0;
	long long most = 0;
	is_int(json_read_parse(STR(
		"{\"s\":\"99999999999999999999 \\\" 99999999999999999999\",\"n\":["
		"18446744073709551615,-99999999999999999999,1.99999999999999999999e1,"
		"9223372036854775807]}"), &v, &fail), OK, "wide integers");
	is_int(json_unpack(v, "{s:s,s:[f,f,f,I]}", "s", &s, "n", &up, &down, &part, &most), 0,
	       "the types are right");
	is_str(s, "99999999999999999999 \" 99999999999999999999", "a string stays");
	ok(up == 18446744073709551615.0 && down == -99999999999999999999.0 &&
	   part == 1.99999999999999999999e1 && most == INT64_MAX,
	   "the numbers are right");
	json_decref(v);
	buf_add_z(&big, "{\"a\":");
	for (int i = 0; i < 400; i++)
		buf_add_c(&big, '9');
	buf_add_c(&big, '}');
	is_int(json_read_parse(buf_str(&big), &v, &fail), E_JSON, "400 digits: %s", fail.text);
	buf_deinit(&big);
}

/* {"a":[[[…]]]} with n levels in all. */
static enum status parse_nested(int n, struct fail *fail)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"a\":");
	for (int i = 1; i < n; i++)
		buf_add_c(&b, '[');
	for (int i = 1; i < n; i++)
		buf_add_c(&b, ']');
	buf_add_c(&b, '}');
	json_t *v = NULL;
	enum status st = json_read_parse(buf_str(&b), &v, fail);
	if (st == OK)
		json_decref(v);
	buf_deinit(&b);
	return st;
}

static void test_depth(void)
{
	struct fail fail;
	is_int(parse_nested(JSON_READ_MAX_DEPTH - 1, &fail), OK, "deep enough");
	is_int(parse_nested(JSON_READ_MAX_DEPTH + 1, &fail), E_JSON, "too deep");
	ok(strstr(fail.text, "nested"), "says so: %s", fail.text);
	is_int(parse_nested(1000000, &fail), E_JSON, "absurdly deep");
	ok(strstr(fail.text, "nested"), "says so: %s", fail.text);
}

static json_t *parse(const char *body)
{
	json_t *v = NULL;
	struct fail fail;
	if (json_read_parse(str_of(body), &v, &fail) != OK)
		printf("Bail out! %s\n", fail.text);
	return v;
}

static void test_values(void)
{
	json_t *v = parse("{\"b\":true,\"i\":100.0,\"j\":-7,\"n\":2,\"s\":\"h\\u00e9\","
			  "\"null\":null,\"l\":[1,2]}");
	struct json_node root = json_read_root(v), at;
	bool b = false;
	int64_t i = 5;
	double d = 0;
	struct str s = {0};
	size_t n;
	at = json_read_get(&root, "b");
	is_int(json_read_bool(&at, &b, NULL), OK, "bool");
	ok(b, "is true");
	at = json_read_get(&root, "i");
	is_int(json_read_int(&at, 0, 100, &i, NULL), OK, "100.0 is an integer");
	is_int(i, 100, "and read");
	at = json_read_get(&root, "null");
	is_int(json_read_int(&at, 0, 100, &i, NULL), OK, "null is absent");
	is_int(i, 100, "and leaves the value");
	at = json_read_get(&root, "nothing");
	is_int(json_read_need(&at, NULL), E_INVAL, "needed");
	at = json_read_get(&root, "j");
	is_int(json_read_int(&at, INT64_MIN, INT64_MAX, &i, NULL), OK, "negative");
	is_int(i, -7, "read");
	at = json_read_get(&root, "n");
	is_int(json_read_num(&at, 0, 2, &d, NULL), OK, "an integer is a number");
	is_near(d, 2, 0, "read");
	at = json_read_get(&root, "s");
	is_int(json_read_str(&at, &s, NULL), OK, "string");
	ok(str_is(s, "h\xc3\xa9"), "read");
	at = json_read_get(&root, "l");
	is_int(json_read_list(&at, 2, &n, NULL), OK, "list");
	is_int(n, 2, "of two");
	is_int(json_read_list(&at, 1, &n, NULL), E_INVAL, "of one at most");
	json_decref(v);
}

static void test_faults(void)
{
	json_t *v = parse("{\"messages\":[{},{},{\"role\":3}],\"x\":{\"y\":[1.5]},"
			  "\"t\":-1,\"big\":1e300}");
	struct json_node root = json_read_root(v);
	struct json_node messages = json_read_get(&root, "messages");
	struct json_node third = json_read_item(&messages, 2);
	struct json_node role = json_read_get(&third, "role");
	struct fail f;
	struct str s;
	int64_t i = 0;
	double d = 0;
	is_int(json_read_str(&role, &s, &f), E_INVAL, "a number is no string");
	is_str(f.param, "messages[2].role", "path");
	is_str(f.text, "`messages[2].role` must be a string, not an integer",
	       "message");

	struct json_node x = json_read_get(&root, "x");
	struct json_node y = json_read_get(&x, "y");
	struct json_node item = json_read_item(&y, 0);
	is_int(json_read_int(&item, 0, 9, &i, &f), E_INVAL, "1.5 is no integer");
	is_str(f.param, "x.y[0]", "path");
	struct json_node deep = json_read_get(&item, "z");
	is_int(json_read_need(&deep, &f), E_INVAL, "a field of a number is absent");
	is_str(f.text, "`x.y[0].z` is required", "message");

	struct json_node t = json_read_get(&root, "t");
	is_int(json_read_num(&t, 0, 100, &d, &f), E_INVAL, "out of range");
	is_str(f.text, "`t` must be between 0 and 100, got -1", "message");
	struct json_node big = json_read_get(&root, "big");
	is_int(json_read_int(&big, INT64_MIN, INT64_MAX, &i, &f), E_INVAL,
	       "1e300 is no integer");
	is_int(json_read_str(&role, &s, NULL), E_INVAL, "without words");
	json_decref(v);
}

/* A key is the client's: the message keeps whole characters of it. */
static void test_long_path(void)
{
	struct buf body = {0};
	buf_add_z(&body, "{\"a");
	for (int i = 0; i < 400; i++)
		buf_add_z(&body, "\xc3\xa9");
	buf_add_z(&body, "\":1}");
	json_t *v = parse(body.p);
	const char *key = json_object_iter_key(json_object_iter(v));
	struct json_node root = json_read_root(v);
	struct json_node at = json_read_get(&root, key);
	struct fail f;
	struct str s;
	is_int(json_read_str(&at, &s, &f), E_INVAL, "refused");
	ok(utf8_check(str_of(f.text)) < 0, "the message is UTF-8");
	ok(utf8_check(str_of(f.param)) < 0, "so is the path");
	ok(strstr(f.text, "must be a string"), "and says what is wrong");
	ok(str_is(json_read_clip(STR("a\xc3\xa9"), 2), "a"), "clipped");
	ok(str_is(json_read_clip(STR("a\xc3\xa9"), 3), "a\xc3\xa9"), "not clipped");
	json_decref(v);
	buf_deinit(&body);
}

int main(void)
{
	test_bodies();
	test_wide_integers();
	test_depth();
	test_values();
	test_faults();
	test_long_path();
	return tap_done();
}
