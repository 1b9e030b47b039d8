/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_digits.h"

#include "base/alloc.h"
#include "json/json_fast.h"
#include "json/json_read.h"
#include "tests/tap.h"

#define MANY 1000

static const char *const texts[] = {
	"0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
	"-9223372036854775809", "18446744073709551615", "12345678901234567890",
	"1.10", "1.1", "1.0", "-0.0", "1e5", "1E5", "1e+06", "100000.0", "0.1",
	"0.10000000000000000555", "1e-400", "1234567890123456789012345678901234567890"};

static void test_texts(void)
{
	struct buf body = {0};
	buf_add_z(&body, "{\"a\":[");
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		buf_addf(&body, "%s%s", i ? "," : "", texts[i]);
	buf_add_z(&body, "],\"b\":{\"\":\"x\\u0000\",\"c\":[true,false,null,{}]}}");
	json_t *v, *copy;
	struct buf out = {0};
	is_int(json_read_parse(buf_str(&body), &v, NULL), OK, "numbers of all kinds");
	json_digits_write(v, false, &out);
	is_str(out.p, body.p, "are written as they came");
	copy = json_digits_copy(v);
	json_decref(v);
	buf_clear(&out);
	json_digits_write(copy, false, &out);
	is_str(out.p, body.p, "also from a copy, when the first is gone");
	buf_clear(&out);
	json_digits_write(json_array_get(json_object_get(copy, "a"), 8), true, &out);
	json_digits_write(json_object_get(copy, "b"), true, &out);
	is_str(out.p, "1.10{\"\": \"x\\u0000\", \"c\": [true, false, null, {}]}", "with spaces");
	json_decref(copy);
	buf_deinit(&out);
	buf_deinit(&body);
	ok(!json_digits_new(STR("1e400")) && !json_digits_new(STR("1x")), "no numbers");
}

/* Values come and go; the texts of those that stay are right. */
static void test_many(void)
{
	json_t *kept = json_array();
	size_t n_bad = 0;
	for (int i = 0; i < 50 * MANY; i++) {
		char text[40];
		snprintf(text, sizeof text, "%d.50", i);
		json_t *v = json_digits_new(str_of(text));
		if (i % 50 == 0)
			json_array_append(kept, v);
		json_decref(v);
	}
	for (int i = 0; i < MANY; i++) {
		char text[40];
		snprintf(text, sizeof text, "%d.50", 50 * i);
		n_bad += !str_is(json_digits_text(json_array_get(kept, (size_t)i)), text);
	}
	is_int((long)n_bad, 0, "a text stays with its value");
	json_decref(kept);
	json_t *plain = json_real(2.5);
	ok(!json_digits_text(plain).p, "a plain number has none");
	json_decref(plain);
}

static void test_order(void)
{
	static const char *const rising[] = {
		"-1e30", "-9223372036854775809", "-9223372036854775808", "-2.5", "-0.001", "0",
		"1e-300", "0.1", "0.10000000000000000555", "1", "1.00000000000000000001",
		"9.5", "10",
		"9007199254740992", "9007199254740993", "9223372036854775807",
		"9223372036854775808", "18446744073709551614", "18446744073709551615", "1e20"};
	size_t n = ARRAY_LEN(rising), n_bad = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			json_t *a = json_digits_new(str_of(rising[i]));
			json_t *b = json_digits_new(str_of(rising[k]));
			int c = json_digits_compare(a, b);
			bool good = i < k ? c < 0 : i > k ? c > 0 : c == 0;
			if (!good && !n_bad++)
				printf("# %s, %s\n", rising[i], rising[k]);
			json_decref(a);
			json_decref(b);
		}
	is_int((long)n_bad, 0, "numbers of any size have their order");

	static const struct {
		const char *a, *b;
		bool same;
	} pairs[] = {{"[1]", "[1.0]", true}, {"[100]", "[1e2]", true}, {"[0]", "[-0.0]", true},
		     {"[1.10]", "[1.1]", true},
		     {"{\"a\":[1],\"b\":\"c\"}", "{\"b\":\"c\",\"a\":[1.0]}", true},
		     {"[18446744073709551615]", "[18446744073709551614]", false},
		     {"[1]", "[true]", false}, {"[1]", "[\"1\"]", false}, {"[1]", "[1,1]", false},
		     {"{\"a\":1}", "{\"b\":1}", false}, {"{\"a\":1}", "{\"a\":1,\"b\":1}", false}};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		json_t *a = json_fast_load(str_of(pairs[i].a));
		json_t *b = json_fast_load(str_of(pairs[i].b));
		ok(json_digits_equal(a, b) == pairs[i].same, "%s and %s", pairs[i].a, pairs[i].b);
		json_decref(a);
		json_decref(b);
	}
}

static void test_round(void)
{
	static const struct {
		const char *text, *down, *up;
	} rows[] = {
		{"7", "7", "7"}, {"7.0", "7", "7"}, {"7.5", "7", "8"}, {"-7.5", "-8", "-7"},
		{"0.001", "0", "1"}, {"-0.001", "-1", "0"}, {"0.0", "0", "0"},
		{"1.5e1", "15", "15"},
		{"9007199254740993.5", "9007199254740993", "9007199254740994"},
		{"18446744073709551615", "18446744073709551615", "18446744073709551615"},
		{"-18446744073709551615.25", "-18446744073709551616", "-18446744073709551615"},
		{"1e37", "10000000000000000000000000000000000000",
		 "10000000000000000000000000000000000000"},
		{"1e99", "100000000000000000000000000000000000000",
		 "100000000000000000000000000000000000000"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char down[JSON_WIDE_BYTES], up[JSON_WIDE_BYTES];
		json_t *v = json_digits_new(str_of(rows[i].text));
		json_digits_of_wide(json_digits_round(v, false), down);
		json_digits_of_wide(json_digits_round(v, true), up);
		is_str(down, rows[i].down, "%s, at or below", rows[i].text);
		is_str(up, rows[i].up, "%s, at or above", rows[i].text);
		is_int(json_digits_is_integer(v), strcmp(down, up) == 0, "an integer or not");
		json_decref(v);
	}
}

int main(void)
{
	test_texts();
	test_many();
	test_order();
	test_round();
	return tap_done();
}
