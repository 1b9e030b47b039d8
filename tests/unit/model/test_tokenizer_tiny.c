/* SPDX-License-Identifier: Apache-2.0
 *
 * halo-tiny's tokenizer against 450 texts that Hugging Face's made ids of.
 */
#include <jansson.h>

#include "model/tokenizer_hf.h"
#include "tests/tap.h"

/* Ids of the text, and the text of the ids at once and one by one. */
static void check_case(const struct tokenizer *t, const json_t *c, size_t i_case)
{
	const json_t *text = json_object_get(c, "text");
	const json_t *want = json_object_get(c, "ids");
	struct str s = {json_string_value(text), json_string_length(text)};
	struct ids got = {0};
	struct fail fail = {0};
	enum status st = tokenizer_encode(t, s, TRUST_TEMPLATE, &got, &fail);
	bool same = st == OK && got.n == json_array_size(want);
	for (size_t i = 0; same && i < got.n; i++)
		same = got.p[i] == json_integer_value(json_array_get(want, i));
	ok(same, "ids of text %zu", i_case);

	struct buf whole = {0}, parts = {0};
	struct detok d;
	tokenizer_decode(t, got.p, got.n, false, &whole);
	detok_init(&d, t, false);
	for (size_t i = 0; i < got.n; i++)
		detok_push(&d, got.p[i], &parts);
	detok_finish(&d, &parts);
	ok(str_eq(buf_str(&whole), buf_str(&parts)),
	   "decoding in parts equals decoding at once");
	buf_deinit(&whole);
	buf_deinit(&parts);
	ids_deinit(&got);
}

int main(void)
{
	struct tokenizer_files f = {0};
	struct fail fail = {0};
	enum status st = tokenizer_hf_load(tap_src("models/halo-tiny"), &f,
					   &fail);
	if (!ok(st == OK, "halo-tiny loads %s", fail.text))
		return tap_done();
	json_t *cases = json_load_file(
		tap_src("models/halo-tiny/tokenizations.json"), JSON_ALLOW_NUL,
		NULL);
	is_int(json_array_size(cases), 450, "there are 450 cases");
	for (size_t i = 0; i < json_array_size(cases); i++)
		check_case(f.tokenizer, json_array_get(cases, i), i);
	is_int(tokenizer_n_ids(f.tokenizer), 3072, "number of ids");
	is_int(tokenizer_find(f.tokenizer, STR("<|im_end|>")), 3065, "find");
	ok(tokenizer_is_special(f.tokenizer, 3065) &&
	   !tokenizer_is_special(f.tokenizer, 3070) &&
	   tokenizer_is_added(f.tokenizer, 3070) &&
	   !tokenizer_is_added(f.tokenizer, 100), "special and added");
	ok(strlen(f.chat_template) > 100, "the chat template is there");
	is_str(f.bos_text, "", "no bos");
	ok(f.eos_text[0] != '\0', "eos is %s", f.eos_text);
	json_decref(cases);
	tokenizer_files_deinit(&f);
	return tap_done();
}
