/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_text.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "tests/tap.h"

static void check(const char *text, enum json_text_mode mode, const char *want, const char *fact)
{
	json_error_t e;
	json_t *v = json_text_load(str_of(text), mode, &e);
	char *got = v ? json_dumps(v, JSON_COMPACT) : NULL;
	bool same = want ? got && strcmp(got, want) == 0 : !got;
	ok(same, "%s, %s: %s", text, mode == JSON_TEXT_PYTHON ? "as Python" : "strictly", fact);
	if (!same)
		printf("# %s\n", got ? got : e.text);
	free(got);
	json_decref(v);
}

#define INF "{\"__float__\":\"Infinity\"}"
#define MINUS_INF "{\"__float__\":\"-Infinity\"}"

static void test_modes(void)
{
	static const struct {
		const char *text, *python, *strict; /* NULL: refused */
	} rows[] = {
		{"{\"a\":1}", "{\"a\":1}", "{\"a\":1}"},
		{"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}", NULL},
		{"\xEF\xBB\xBF{\"a\":1}", "{\"a\":1}", NULL},
		{"{\"a\":NaN}", "{\"a\":{\"__float__\":\"NaN\"}}", NULL},
		{"{\"a\":[0.0, Infinity]}", "{\"a\":[0.0," INF "]}", NULL},
		{"{\"a\":-Infinity}", "{\"a\":" MINUS_INF "}", NULL},
		{"{\"a\":1e999,\"b\":-1e999}", "{\"a\":" INF ",\"b\":" MINUS_INF "}", NULL},
		{"{\"a\":1000000000000000019884624838656}", "{\"a\":1e30}", "{\"a\":1e30}"},
		{"{\"a\":[-9223372036854775808,-9223372036854775809]}",
		 "{\"a\":[-9223372036854775808,-9.2233720368547758e18]}",
		 "{\"a\":[-9223372036854775808,-9.2233720368547758e18]}"},
		{"{\"a\":\"NaN Infinity 99999999999999999999\",\"b\":NaN}",
		 "{\"a\":\"NaN Infinity 99999999999999999999\",\"b\":{\"__float__\":\"NaN\"}}",
		 NULL},
		{"{\"a\":\"\\\\\",\"b\":Infinity}", "{\"a\":\"\\\\\",\"b\":" INF "}", NULL},
		{"{\"a\":\"\\\"Infinity\",\"b\":NaN}",
		 "{\"a\":\"\\\"Infinity\",\"b\":{\"__float__\":\"NaN\"}}", NULL},
		{"{\"a\":\"\\ud83dx\\udc00\\ud83d\\ude00\"}",
		 "{\"a\":\"\xEF\xBF\xBDx\xEF\xBF\xBD\xF0\x9F\x98\x80\"}", NULL},
		/* Python refuses these, too. */
		{"{\"a\":nan}", NULL, NULL}, {"{\"a\":+1}", NULL, NULL},
		{"{\"a\":inf}", NULL, NULL}, {"{\"a\":NaNN}", NULL, NULL},
		{"{\"a\":01}", NULL, NULL}, {"{\"a\":1,}", NULL, NULL},
		{"{'a':1}", NULL, NULL}, {"{\"a\":1} // x", NULL, NULL},
		{"{\"a\":\"\xff\"}", NULL, NULL}, {"{\"a\":\"\t\"}", NULL, NULL},
		{"", NULL, NULL}, {"{\"a\":\"\\", NULL, NULL}, {"{\"a\":\"\\ud83d", NULL, NULL},
		{"{\"a\":Infinity", NULL, NULL}, {"-", NULL, NULL},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		check(rows[i].text, JSON_TEXT_PYTHON, rows[i].python, "its value");
		check(rows[i].text, JSON_TEXT_STRICT, rows[i].strict, "its value");
	}
}

/* An integer of any number of digits. */
static void test_digits(void)
{
	for (int n = 18; n < 1000; n += 97) {
		struct buf b = {0};
		json_error_t e;
		buf_add_z(&b, "{\"a\":");
		for (int i = 0; i < n; i++)
			buf_add_c(&b, '9');
		buf_add_c(&b, '}');
		json_t *v = json_text_load(buf_str(&b), JSON_TEXT_PYTHON, &e);
		const json_t *a = json_object_get(v, "a");
		ok(json_is_number(a) || json_text_odd_float(a), "%d digits", n);
		json_decref(v);
		buf_deinit(&b);
	}
}

static void test_files(void)
{
	struct fail fail = {0};
	json_t *v = NULL;
	is_int(jsonfile_parse(STR("{\"a\":NaN,\n\n\"b\":]}"), "f.json", JSON_TEXT_PYTHON, &v,
			      &fail), E_FORMAT, "a fault behind what Python adds");
	ok(strstr(fail.text, "f.json, line 3"), "has its line: %s", fail.text);
	is_int(jsonfile_parse(STR("{\"a\":1,\"a\":2}"), "f.json", JSON_TEXT_STRICT, &v,
			      &fail), E_FORMAT, "a file whose format refuses duplicates");
	if (jsonfile_parse(STR("{\"a\":[Infinity,{\"x\":1}]}"), "f.json", JSON_TEXT_PYTHON, &v,
			   &fail) != OK)
		return;
	const json_t *a = json_object_get(v, "a");
	is_str(jsonfile_type(json_array_get(a, 0)), "Infinity", "a message names Infinity");
	is_str(jsonfile_type(json_array_get(a, 1)), "an object", "other objects are objects");
	json_decref(v);
}

int main(void)
{
	test_modes();
	test_digits();
	test_files();
	return tap_done();
}
