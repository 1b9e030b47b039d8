/* SPDX-License-Identifier: Apache-2.0
 *
 * Grows a small model's tokenizer to a large vocabulary. No merge makes a new piece, so
 * text is encoded as before. A model with random weights may choose a new piece. It
 * decodes to a made-up word, so the output is as long as text.
 */
#include <jansson.h>
#include <stdio.h>

#include "bench/synth.h"

/* The made-up word of an id: a space (in the alphabet of byte-level BPE) and four syllables,
 * different for each id. */
static void word_of(int32_t id, char *out, size_t size)
{
	static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
	char syllables[12];
	int n = 0;
	for (int i = 0; i < 4; i++) {
		syllables[n++] = consonants[id % 14];
		syllables[n++] = vowels[id / 14 % 5];
		id /= 70;
	}
	snprintf(out, size, "\xC4\xA0%.*s", n, syllables);
}

static bool grow(json_t *root, int32_t n_vocab, int32_t *out_has)
{
	json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
	json_t *added = json_object_get(root, "added_tokens"), *v;
	size_t i;
	/* Added tokens enter the vocabulary with their own texts and ids. */
	json_array_foreach (added, i, v) {
		const char *text = json_string_value(json_object_get(v, "content"));
		if (text && !json_object_get(vocab, text))
			json_object_set_new(vocab, text,
					    json_incref(json_object_get(v, "id")));
	}
	*out_has = (int32_t)json_object_size(vocab);
	if (!json_is_object(vocab) || *out_has > n_vocab)
		return false;
	for (int32_t id = *out_has; id < n_vocab; id++) {
		char word[32];
		word_of(id, word, sizeof word);
		json_object_set_new(vocab, word, json_integer(id));
	}
	return true;
}

enum status synth_tokenizer_grow(const char *from, int32_t n_vocab, json_t **out,
				 struct fail *fail)
{
	json_error_t error;
	json_t *root = json_load_file(from, 0, &error);
	*out = NULL;
	if (!root)
		return fail_set(fail, E_FORMAT, "%s: %s", from, error.text);
	int32_t has = 0;
	enum status st = OK;
	if (!grow(root, n_vocab, &has))
		st = fail_set(fail, E_LIMIT, "%s has %d tokens, the model %d", from, has,
			      n_vocab);
	else if (json_object_size(json_object_get(json_object_get(root, "model"),
						  "vocab")) != (size_t)n_vocab)
		st = fail_set(fail, E_LIMIT, "%s: some of its tokens are words that "
			      "would be added", from);
	if (st == OK)
		*out = root;
	else
		json_decref(root);
	return st;
}

enum status synth_tokenizer(const char *from, int32_t n_vocab, const char *to,
			    struct fail *fail)
{
	json_t *root;
	enum status st = synth_tokenizer_grow(from, n_vocab, &root, fail);
	if (st == OK && json_dump_file(root, to, JSON_COMPACT) != 0)
		st = fail_set(fail, E_IO, "%s: cannot write", to);
	json_decref(root);
	return st;
}
