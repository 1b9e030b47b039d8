/* SPDX-License-Identifier: Apache-2.0
 *
 * Who wrote a text decides what its added tokens are, and nothing else.
 */
#include <jansson.h>

#include "base/utf8.h"
#include "model/tokenizer_hf.h"
#include "tests/tap.h"

enum { END = 700, THINK, NORM, END_X, ACUTE, WORD, LEFT, BAD, SPACES, SPECIAL_SPACES };

static const char added[] =
	"[{'id':700,'content':'<|im_end|>','special':true,'normalized':false},"
	"{'id':701,'content':'<think>','special':false,'normalized':false},"
	"{'id':702,'content':'<n>','special':true,'normalized':true},"
	"{'id':703,'content':'<|im_end|>x','special':false,'normalized':false},"
	"{'id':704,'content':'\u00e9\u00e9','special':true,'normalized':true},"
	"{'id':705,'content':'<w>','special':true,'normalized':false,"
	"'single_word':true},"
	"{'id':706,'content':'<l>','special':true,'normalized':false,"
	"'lstrip':true},"
	"{'id':707,'content':'<\uFFFD>','special':true,'normalized':false},"
	"{'id':708,'content':'  \\t','special':false,'normalized':false},"
	"{'id':709,'content':'\\t\\t ','special':true,'normalized':false}]";

/* base.json with these tokens; `special` is a piece made special, too. */
static struct tokenizer *create(const char *special, bool ignore_merges)
{
	json_t *top = json_load_file(
		tap_src("tests/golden/tokenizer/base.json"), 0, NULL);
	json_t *model = json_object_get(top, "model");
	char *text = strdup(added);
	for (char *p = text; *p; p++)
		if (*p == '\'')
			*p = '"';
	json_t *list = json_loads(text, 0, NULL);
	free(text);
	if (special)
		json_array_insert_new(list, 0, json_pack(
			"{s:O,s:s,s:b,s:b}", "id",
			json_object_get(json_object_get(model, "vocab"), special),
			"content", special, "special", 1, "normalized", 0));
	size_t i;
	json_t *token;
	json_t *none = json_pack("{s:b,s:b,s:b}", "lstrip", 0, "rstrip", 0,
				 "single_word", 0);
	json_array_foreach (list, i, token)
		json_object_update_missing(token, none);
	json_decref(none);
	json_object_set_new(top, "added_tokens", list);
	json_object_set_new(top, "normalizer", json_pack("{s:s}", "type", "NFC"));
	json_object_set_new(model, "ignore_merges", json_boolean(ignore_merges));
	char *whole = json_dumps(top, 0);
	struct tokenizer *t = NULL;
	struct fail fail = {0};
	ok(tokenizer_hf_parse(str_of(whole), "base.json", &t, &fail) == OK,
	   "loads %s", fail.text);
	free(whole);
	json_decref(top);
	return t;
}

/* Added tokens found in m, as letters by id, and "." for runs of other ids. */
static const char *shape_of(const struct tokenizer *t, const struct marked *m)
{
	static char out[256];
	struct ids ids = {0};
	size_t n = 0;
	if (tokenizer_encode_marked(t, m, &ids, NULL) != OK)
		return "failed";
	for (size_t i = 0; i < ids.n && n < sizeof out - 1; i++) {
		if (ids.p[i] >= END)
			out[n++] = "ETNXAWLBSC"[ids.p[i] - END];
		else if (n == 0 || out[n - 1] != '.')
			out[n++] = '.';
	}
	out[n] = '\0';
	ids_deinit(&ids);
	return out;
}

/* Texts by turns of template, model and user; NULL ends. */
static void check(const struct tokenizer *t, const char *want,
		  const char *template, const char *model, const char *user,
		  const char *template2)
{
	struct marked m = {0};
	marked_add(&m, str_of(template), TRUST_TEMPLATE);
	marked_add(&m, str_of(model), TRUST_MODEL);
	marked_add(&m, str_of(user), TRUST_USER);
	marked_add(&m, str_of(template2), TRUST_TEMPLATE);
	is_str(shape_of(t, &m), want, "T[%s] M[%s] U[%s] T[%s]", template,
	       model, user, template2);
	marked_deinit(&m);
}

static void test_marks(const struct tokenizer *t)
{
	check(t, "ETN", "<|im_end|><think><n>", "", "", "");
	check(t, ".T.", "", "<|im_end|><think><n>", "", "");
	check(t, ".", "", "", "<|im_end|><think><n>", "");
	/* White space controls nothing, unless it is special. */
	check(t, "S.S.S.", "  \tx", "  \tx", "  \tx", "");
	check(t, "C.", "\t\t x", "\t\t x", "\t\t x", "");
	check(t, ".E", "", "", "<|im_end|>", "<|im_end|>");
	check(t, ".", "<|im_", "", "end|>", "");
	check(t, ".", "", "", "<|im_end|", ">");
	check(t, ".", "<|im_", "end|>", "", "");
	check(t, ".", "", "<|im_", "", "end|>");
	check(t, "T", "", "<thi", "", "nk>");
	check(t, "T", "<thi", "nk>", "", "");
	check(t, "X", "<|im_end|>x", "", "", "");
	check(t, "E.", "<|im_end|>", "", "x", "");
	check(t, "X", "<|im_end|>", "x", "", "");
	check(t, ".T", "", "", "<", "<think>");
	check(t, ".", "", "", "<thin", "k>");
	check(t, "A", "e\u0301\u00e9", "", "", "");
	check(t, ".", "e\u0301e", "", "\u0301", "");
	check(t, ".", "", "", "e\u0301e\u0301", "");
	check(t, "N.", "<n>", "", "a\u0338", "");
	check(t, "W.W", "<w>", "", " ", "<w>");
	check(t, ".", "", "", "a", "<w>");
	check(t, ".L", "", "", "a  ", "<l>");
	check(t, "B", "<\xe2\x82>", "", "", "");
	check(t, ".", "<\xe2", "", "\x82", ">");
	check(t, "E.E", "<|im_end|>", "", "\xff\xfe", "<|im_end|>");
}

/* Plain text gives the same ids wherever its writers change. */
static void test_plain(const struct tokenizer *t)
{
	static const char text[] =
		"Hello, it's 12345 cafe\u0301 <thin \u1112\u1161\u11ab  \n\n "
		"\xe2\x82 x\u4e00\u0301";
	struct ids whole = {0};
	bool same = tokenizer_encode(t, STR(text), TRUST_USER, &whole, NULL) == OK;
	for (size_t i = 0; i < sizeof text - 1; i++) {
		struct marked m = {0};
		struct ids ids = {0};
		marked_add(&m, (struct str){text, i}, TRUST_USER);
		marked_add(&m, (struct str){text + i, 1}, TRUST_TEMPLATE);
		marked_add(&m, str_of(text + i + 1), TRUST_MODEL);
		same &= tokenizer_encode_marked(t, &m, &ids, NULL) == OK &&
			ids.n == whole.n &&
			memcmp(ids.p, whole.p, ids.n * sizeof *ids.p) == 0;
		marked_deinit(&m);
		ids_deinit(&ids);
	}
	ok(same, "the ids of plain text do not depend on its marks");
	ids_deinit(&whole);
}

/* A piece that merges lead to, made special: a user cannot write it. */
static void test_reachable(bool ignore_merges)
{
	struct tokenizer *t = create("the", ignore_merges);
	int32_t the = tokenizer_find(t, STR("the"));
	struct ids ids = {0};
	struct buf text = {0};
	bool found = false;
	ok(tokenizer_encode(t, STR("the"), TRUST_TEMPLATE, &ids, NULL) == OK &&
	   ids.n == 1 && ids.p[0] == the, "the template writes it");
	ids.n = 0;
	ok(tokenizer_encode(t, STR("the/the the"), TRUST_USER, &ids, NULL) == OK,
	   "a user tries");
	for (size_t i = 0; i < ids.n; i++)
		found |= ids.p[i] == the;
	ok(!found && ids.n > 3, "merging does not lead to a control token");
	tokenizer_decode(t, ids.p, ids.n, true, &text);
	is_str(text.p, "the/the the", "and no text is lost");
	buf_deinit(&text);
	ids_deinit(&ids);
	tokenizer_destroy(t);
}

static void test_edges(const struct tokenizer *t)
{
	struct ids ids = {0};
	struct marked none = {0};
	is_int(tokenizer_encode(t, (struct str){NULL, 0}, TRUST_USER, &ids,
				NULL), OK, "an empty text");
	is_int(tokenizer_encode_marked(t, &none, &ids, NULL), OK,
	       "an empty marked text");
	is_int(ids.n, 0, "has no ids");
	is_int(tokenizer_bytes(t, -1).n + tokenizer_bytes(t, 1 << 30).n, 0,
	       "ids out of range have no bytes");
	ok(!tokenizer_is_added(t, -1) && !tokenizer_is_special(t, 1 << 30),
	   "and are nothing");
	is_int(tokenizer_find(t, STR("no such piece")), -1, "find: none");

	/* every byte alone, then every byte behind a lead byte */
	struct buf one = {0}, all = {0};
	for (int lead = 0; lead < 3; lead++)
		for (int b = 0; b < 256; b++) {
			char s[2] = {"\xe2\xf0\xc3"[lead], (char)b};
			buf_add(&one, s, 2);
		}
	is_int(tokenizer_encode(t, buf_str(&one), TRUST_USER, &ids, NULL), OK,
	       "bytes that are not UTF-8");
	tokenizer_decode(t, ids.p, ids.n, false, &all);
	ok(str_find(buf_str(&all), STR("\uFFFD\uFFFD"), 0) >= 0,
	   "read as U+FFFD");
	buf_deinit(&one);
	buf_deinit(&all);
	ids_deinit(&ids);
}

/* Ids in any order, also ones that cut characters: parts equal the whole. */
static void test_detok(const struct tokenizer *t)
{
	struct buf whole = {0}, parts = {0};
	struct ids ids = {0};
	struct detok d;
	uint32_t x = 1;
	bool is_clean = true;
	for (int i = 0; i < 20000; i++) {
		x = x * 1664525u + 1013904223u;
		ids_add(&ids, (int32_t)(x >> 16) % 720 - 5);
	}
	ids_add(&ids, tokenizer_find(t, STR("â"))); /* a lead byte */
	detok_init(&d, t, true);
	for (size_t i = 0; i < ids.n; i++) {
		size_t before = parts.n;
		detok_push(&d, ids.p[i], &parts);
		struct str piece = {parts.p + before, parts.n - before};
		is_clean &= piece.n == 0 || utf8_check(piece) < 0;
	}
	detok_finish(&d, &parts);
	detok_finish(&d, &parts); /* nothing is left */
	tokenizer_decode(t, ids.p, ids.n, true, &whole);
	ok(is_clean, "what comes out is whole characters");
	ok(str_eq(buf_str(&whole), buf_str(&parts)), "parts equal the whole");

	struct buf raw = {0}, clean = {0};
	for (size_t i = 0; i < ids.n; i++)
		if (!tokenizer_is_special(t, ids.p[i]))
			buf_add_str(&raw, tokenizer_bytes(t, ids.p[i]));
	utf8_add_clean(&clean, buf_str(&raw));
	ok(str_eq(buf_str(&whole), buf_str(&clean)),
	   "which is the bytes with U+FFFD for malformed parts");
	buf_deinit(&raw);
	buf_deinit(&clean);
	buf_deinit(&whole);
	buf_deinit(&parts);
	ids_deinit(&ids);
}

int main(void)
{
	struct tokenizer *t = create(NULL, false);
	if (!t)
		return tap_done();
	test_marks(t);
	test_plain(t);
	test_edges(t);
	test_detok(t);
	tokenizer_destroy(t);
	test_reachable(false);
	test_reachable(true);
	return tap_done();
}
