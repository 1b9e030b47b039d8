/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers of encoders against what Hugging Face `tokenizers` makes of the same texts
 * (tests/golden/make_encoders.py), and who wrote a text.
 */
#include <jansson.h>

#include "model/tokenizer_hf.h"
#include "tests/tap.h"

/* tokenizer.json of case i; those without a vocabulary have that of the first. */
static struct tokenizer *create(const json_t *cases, size_t i, struct fail *fail)
{
	json_t *top = json_deep_copy(
		json_object_get(json_array_get(cases, i), "tokenizer"));
	json_t *model = json_object_get(top, "model");
	const json_t *first = json_object_get(json_array_get(cases, 0), "tokenizer");
	if (json_is_null(json_object_get(model, "vocab")))
		json_object_set(model, "vocab",
				json_object_get(json_object_get(first, "model"), "vocab"));
	char *text = json_dumps(top, 0);
	struct tokenizer *t = NULL;
	if (tokenizer_hf_parse(str_of(text), "tokenizer.json", &t, fail) != OK)
		t = NULL;
	json_decref(top);
	free(text);
	return t;
}

static void check_text(const struct tokenizer *t, const char *name, const json_t *text,
		       const json_t *want)
{
	struct marked m = {0};
	struct ids got = {0};
	marked_add(&m, (struct str){json_string_value(text), json_string_length(text)},
		   TRUST_TEMPLATE);
	enum status st = tokenizer_encode_alone(t, &m, &got, NULL);
	bool same = st == OK && got.n == json_array_size(want);
	for (size_t i = 0; same && i < got.n; i++)
		same = got.p[i] == json_integer_value(json_array_get(want, i));
	ok(same, "%s: \"%.40s\"", name, json_string_value(text));
	for (size_t i = 0; !same && i < got.n; i++)
		printf("# %zu: %d, not %lld\n", i, (int)got.p[i],
		       (long long)json_integer_value(json_array_get(want, i)));
	marked_deinit(&m);
	ids_deinit(&got);
}

/* A control token that a user wrote is text. */
static void check_trust(const struct tokenizer *t, const char *name, const char *token)
{
	struct ids got = {0};
	enum status st = tokenizer_encode(t, str_of(token), TRUST_USER, &got, NULL);
	bool has_it = false;
	for (size_t i = 0; i < got.n; i++)
		has_it |= got.p[i] == tokenizer_find(t, str_of(token));
	ok(st == OK && got.n > 0 && !has_it, "%s: %s of a user is text", name, token);
	ids_deinit(&got);
}

static void check_case(const json_t *all, size_t i)
{
	const json_t *cases = json_object_get(all, "cases"), *one = json_array_get(cases, i);
	const json_t *texts = json_object_get(all, "texts"), *ids = json_object_get(one, "ids");
	const char *name = json_string_value(json_object_get(one, "name"));
	struct fail fail = {0};
	struct tokenizer *t = create(cases, i, &fail);
	if (!ok(t != NULL, "%s: loads %s", name, fail.text))
		return;
	for (size_t k = 0; k < json_array_size(texts); k++)
		check_text(t, name, json_array_get(texts, k), json_array_get(ids, k));
	check_trust(t, name, strncmp(name, "xlm", 3) == 0 ? "</s>" : "[SEP]");
	tokenizer_destroy(t);
}

/* What is not known is refused with its place. */
static void check_refused(const char *change, const char *place)
{
	static const char form[] =
		"{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"u\", 0.0]]%s},"
		" \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\"},"
		" \"normalizer\": %s}";
	char text[600];
	struct fail fail = {0};
	struct tokenizer *t = NULL;
	bool of_model = change[0] == ',';
	snprintf(text, sizeof text, form, of_model ? change : "", of_model ? "null" : change);
	enum status st = tokenizer_hf_parse(str_of(text), "tokenizer.json", &t, &fail);
	ok(st != OK && strstr(fail.text, place), "refused: %s: %s", change, fail.text);
	tokenizer_destroy(t);
}

int main(void)
{
	json_t *all = json_load_file(tap_src("tests/golden/tokenizer/encoders.json"),
				     JSON_ALLOW_NUL, NULL);
	if (!ok(all != NULL, "the goldens are there"))
		return tap_done();
	ok(json_array_size(json_object_get(all, "cases")) == 7 &&
	   json_array_size(json_object_get(all, "texts")) > 30, "there is something to compare");
	for (size_t i = 0; i < json_array_size(json_object_get(all, "cases")); i++)
		check_case(all, i);
	json_decref(all);
	check_refused(", \"byte_fallback\": true", "byte_fallback");
	check_refused("{\"type\": \"Lowercase\"}", "Lowercase");
	check_refused("{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"!\"}", "base64");
	check_refused("{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}", "trie");
	return tap_done();
}
