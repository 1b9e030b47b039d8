/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of one tokenizer against what Hugging Face `tokenizers` made of the same
 * texts (tests/golden/make_tokenizer_goldens.py).
 */
#include <jansson.h>

#include "model/tokenizer_hf.h"
#include "tests/tap.h"

static json_t *load(const char *name)
{
	json_t *v = json_load_file(tap_src(name), JSON_ALLOW_NUL, NULL);
	if (!ok(v != NULL, "%s is there", name))
		exit(tap_done());
	return v;
}

static struct tokenizer *create(const json_t *base, const json_t *variant)
{
	json_t *top = json_deep_copy(base);
	json_object_update(top, json_object_get(variant, "patch"));
	json_object_update(json_object_get(top, "model"),
			   json_object_get(variant, "model"));
	char *text = json_dumps(top, 0);
	struct tokenizer *t = NULL;
	struct fail fail = {0};
	const char *name = json_string_value(json_object_get(variant, "name"));
	enum status st = tokenizer_hf_parse(str_of(text), name, &t, &fail);
	ok(st == OK, "%s: loads %s", name, fail.text);
	json_decref(top);
	free(text);
	return t;
}

static bool same_ids(const struct ids *got, const json_t *want)
{
	bool same = got->n == json_array_size(want);
	for (size_t i = 0; same && i < got->n; i++)
		same = got->p[i] == json_integer_value(json_array_get(want, i));
	return same;
}

/* Decoded at once and token by token. */
static bool decodes_to(const struct tokenizer *t, const struct ids *ids,
		       bool skip_special, const json_t *want)
{
	struct str w = {json_string_value(want), json_string_length(want)};
	struct buf whole = {0}, parts = {0};
	struct detok d;
	tokenizer_decode(t, ids->p, ids->n, skip_special, &whole);
	detok_init_text(&d, t, skip_special);
	for (size_t i = 0; i < ids->n; i++)
		detok_push(&d, ids->p[i], &parts);
	detok_finish(&d, &parts);
	bool same = str_eq(buf_str(&whole), w) && str_eq(buf_str(&parts), w);
	buf_deinit(&whole);
	buf_deinit(&parts);
	return same;
}

static const json_t *or_else(const json_t *v, const json_t *fallback)
{
	return json_is_null(v) ? fallback : v;
}

static void check_variant(const json_t *base, const json_t *texts,
			  const json_t *variant, const json_t *first_ids)
{
	const char *name = json_string_value(json_object_get(variant, "name"));
	struct tokenizer *t = create(base, variant);
	if (!t)
		return;
	for (size_t i = 0; i < json_array_size(texts); i++) {
		const json_t *text = json_array_get(texts, i);
		const json_t *ids = json_object_get(variant, "ids");
		const json_t *decoded = json_object_get(variant, "decoded");
		const json_t *skipped = json_object_get(variant, "skipped");
		struct str s = {json_string_value(text),
				json_string_length(text)};
		struct ids got = {0};
		enum status st =
			tokenizer_encode(t, s, TRUST_TEMPLATE, &got, NULL);
		ids = or_else(json_array_get(ids, i),
			      json_array_get(first_ids, i));
		ok(st == OK && same_ids(&got, ids), "%s: ids of text %zu",
		   name, i);
		decoded = or_else(json_array_get(decoded, i), text);
		skipped = or_else(json_array_get(skipped, i), decoded);
		ok(decodes_to(t, &got, false, decoded) &&
		   decodes_to(t, &got, true, skipped),
		   "%s: text of ids %zu", name, i);
		ids_deinit(&got);
	}
	tokenizer_destroy(t);
}

static void check_file(const char *base_name, const char *name, size_t n_least)
{
	json_t *base = load(base_name), *all = load(name);
	const json_t *texts = json_object_get(all, "texts");
	const json_t *variants = json_object_get(all, "variants");
	const json_t *first = json_array_get(variants, 0);
	ok(json_array_size(variants) >= n_least && json_array_size(texts) > 40,
	   "there is something to compare");
	for (size_t i = 0; i < json_array_size(variants); i++)
		check_variant(base, texts, json_array_get(variants, i),
			      json_object_get(first, "ids"));
	json_decref(base);
	json_decref(all);
}

int main(void)
{
	check_file("tests/golden/tokenizer/base.json",
		   "tests/golden/tokenizer/variants.json", 61);
	check_file("tests/golden/tokenizer/fallback_base.json",
		   "tests/golden/tokenizer/fallback.json", 30);
	check_file("tests/golden/tokenizer/base.json",
		   "tests/golden/tokenizer/normal.json", 17);
	check_file("tests/golden/tokenizer/fallback_base.json",
		   "tests/golden/tokenizer/normal_fallback.json", 10);
	return tap_done();
}
