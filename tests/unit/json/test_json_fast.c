/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast reader against jansson, on usual bodies and on random ones with random faults. What
 * it reads is what jansson reads; it reads all that is usual; it reads nothing that jansson
 * refuses.
 */
#include "json/json_fast.h"

#include "tests/tap.h"

static uint32_t state = 5;
static uint32_t draw(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static json_t *slowly(struct str text)
{
	return json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

/* Also the order of keys, and whether a number is an integer. */
static bool is_same(const json_t *a, const json_t *b)
{
	char *x = json_dumps(a, 0), *y = json_dumps(b, 0);
	bool same = x && y && strcmp(x, y) == 0 && json_equal(a, b);
	free(x);
	free(y);
	return same;
}

static void test_usual(void)
{
	static const char *const bodies[] = {
		"{}",
		" { \"a\" : [ ] , \"b\" : { } }\r\n\t",
		"{\"messages\":[{\"role\":\"user\",\"content\":\"caf\xC3\xA9 \\u00e9 "
		"\\ud83d\\ude00 \\\"\\\\\\/\\b\\f\\n\\r\\t\"}],\"stream\":true,\"n\":null,"
		"\"x\":false}",
		("{\"n\":[0,-0,1,-1,999999999999999999,-999999999999999999,1.5,-0.25,1e3,1E-3,"
		"1.5e+2,9223372036854775807,-9223372036854775808]}"),
		"{\"nul\":\"a\\u0000b\",\"\":1,\"caf\\u00e9\":2}",
		"{\"a\":{\"a\":{\"a\":[[[1],2],3]}}}", "[]", "[{\"a\":[]}]",
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		json_t *got = json_fast_load(str_of(bodies[i]));
		json_t *want = slowly(str_of(bodies[i]));
		ok(got && want && is_same(got, want), "usual: %.50s", bodies[i]);
		json_decref(got);
		json_decref(want);
	}
}

/* Whose equal integers are one value, and others of the same slot are not. */
static void test_long_list(void)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"ids\":[0");
	for (int i = 0; i < 20000; i++)
		buf_addf(&b, ",%s%u", draw(4) ? "" : "-", draw(300) << (draw(3) * 8));
	buf_add_z(&b, "],\"n\":7}");
	json_t *got = json_fast_load(buf_str(&b)), *want = slowly(buf_str(&b));
	ok(got && is_same(got, want), "a long list");
	json_decref(got);
	json_decref(want);
	b.p[b.n - 2] = ',';
	ok(!json_fast_load(buf_str(&b)), "with a fault behind it");
	buf_deinit(&b);
}

static void test_odd(void)
{
	static const char *const bodies[] = {
		"", " ", "1", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{,}",
		"{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{\"a\\u0000\":1}", "{\"a\":01}",
		"{\"a\":-}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":+1}", "{\"a\":1e}",
		"{\"a\":1e999}",
		"{\"a\":tru}", "{\"a\":truex}", "{\"a\":nul",
		"{\"a\":\"\\ud83d\"}", "{\"a\":\"\\ud83d\\u0041\"}", "{\"a\":\"\\ude00\"}",
		"{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\u12g4\"}", "{\"a\":\"\n\"}",
		"{\"a\":\"\xff\"}", "{\"a\":\"\xED\xA0\x80\"}", "{\"a\":\"\xC0\x80\"}",
		"{\"a\":\"\\",
		"{\"a\":[1,]}", "{\"a\":[1 2]}", "{\"a\":[1}", "{\"a\" 1}", "{} {}", "{}x", "{a:1}",
		"{\"a\":\"x}", "{\"a\":1}\f", "{\"a\":0x10}", "{\"a\":1_000}", "{\"a\":'b'}",
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		json_t *got = json_fast_load(str_of(bodies[i]));
		ok(!got, "left to jansson: %s", bodies[i]);
		json_decref(got);
	}
	struct buf deep = {0};
	buf_add_z(&deep, "{\"a\":");
	for (int i = 0; i < 100000; i++)
		buf_add_c(&deep, '[');
	ok(!json_fast_load(buf_str(&deep)), "and so is what is nested too deeply");
	buf_deinit(&deep);
}

/* --- random ------------------------------------------------------------------------- */

static void add_value(struct buf *b, int depth);

static void add_string(struct buf *b)
{
	static const char *const parts[] = {"a", "key", " ", "\xC3\xA9", "\xF0\x9F\x98\x80",
					    "\\n", "\\\"", "\\u0041", "\\ud83d\\ude00", "\\\\",
					    "long enough for a run of its own", "/", "{[,:]}"};
	buf_add_c(b, '"');
	for (uint32_t n = draw(5); n > 0; n--)
		buf_add_z(b, parts[draw(sizeof parts / sizeof *parts)]);
	buf_add_c(b, '"');
}

static void add_list(struct buf *b, int depth, bool is_object)
{
	buf_add_c(b, is_object ? '{' : '[');
	for (uint32_t i = 0, n = draw(5); i < n; i++) {
		buf_add_z(b, i ? (draw(3) ? "," : " , ") : "");
		if (is_object && draw(20))
			buf_addf(b, "\"k%u\":", i);
		else if (is_object) {
			add_string(b);
			buf_add_c(b, ':');
		}
		add_value(b, depth - 1);
	}
	buf_add_c(b, is_object ? '}' : ']');
}

static void add_value(struct buf *b, int depth)
{
	static const char *const words[] = {"true", "false", "null", "0", "-7", "12.5", "1e3"};
	switch (draw(depth > 0 ? 6 : 4)) {
	case 0: add_string(b); break;
	case 1: buf_addf(b, "%u", draw(1u << 24)); break;
	case 2:
	case 3: buf_add_z(b, words[draw(sizeof words / sizeof *words)]); break;
	default: add_list(b, depth, draw(2));
	}
}

/* A byte less, more or other. */
static void harm(struct buf *b)
{
	static const char bytes[] = "\"\\{}[]:,0-1.eutf \n\xC3\xFF";
	size_t at = draw((uint32_t)b->n);
	char c = bytes[draw(sizeof bytes - 1)];
	if (draw(3) == 0 && b->n > 1) {
		memmove(b->p + at, b->p + at + 1, b->n - at - 1);
		b->n--;
	} else {
		b->p[at] = c;
	}
}

static void test_random(void)
{
	int n_read = 0, n_whole = 0, n_wrong = 0, n_refused = 0;
	enum { ROUNDS = 30000 };
	for (int i = 0; i < ROUNDS; i++) {
		struct buf b = {0};
		add_list(&b, 5, true);
		bool is_whole = draw(2);
		for (uint32_t n = is_whole ? 0 : 1 + draw(3); n > 0; n--)
			harm(&b);
		json_t *want = slowly(buf_str(&b)), *got = json_fast_load(buf_str(&b));
		n_whole += want != NULL;
		n_read += got != NULL;
		n_refused += !want;
		bool is_wrong = got && (!want || !is_same(got, want));
		if (is_wrong)
			printf("# %.*s\n", (int)b.n, b.p);
		n_wrong += is_wrong;
		json_decref(want);
		json_decref(got);
		buf_deinit(&b);
	}
	is_int(n_wrong, 0, "nothing is read that jansson reads otherwise or refuses");
	ok(n_refused > ROUNDS / 10, "%d had faults", n_refused);
	is_int(n_read, n_whole, "all others are read");
}

int main(void)
{
	test_usual();
	test_long_list();
	test_odd();
	test_random();
	return tap_done();
}
