/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tokenizer_encoders.h"

#include <stdio.h>

#include "base/base64.h"
#include "json/jsonfile.h"

#define SPACE "\xE2\x96\x81"

static enum status tokenizer_encoders_bad(struct fail *fail, const char *place, const char *what)
{
	return fail_at(fail, E_FORMAT, place, "tokenizer.json: %s %s", place, what);
}

static enum status unsupported(struct fail *fail, const char *place, const char *what)
{
	return fail_at(fail, E_UNSUPPORTED, place, "tokenizer.json: %s: %s is not supported",
		       place, what && *what ? what : "this step");
}

static const char *string_of(const json_t *v, const char *key)
{
	const char *s = json_string_value(json_object_get(v, key));
	return s ? s : "";
}

static bool has(const json_t *v, const char *key, const char *want)
{
	return strcmp(string_of(v, key), want) == 0;
}

static enum status read_flag(const json_t *v, const char *key, const char *place, bool absent,
			     bool *out, struct fail *fail)
{
	const json_t *flag = jsonfile_get(v, key);
	char at[160];
	snprintf(at, sizeof at, "%s.%s", place, key);
	*out = flag ? json_is_true(flag) : absent;
	return !flag || json_is_boolean(flag) ? OK : tokenizer_encoders_bad(fail, at,
									    "is not true or false");
}

bool tokenizer_encoders_has(const char *type)
{
	return strcmp(type, "Unigram") == 0 || strcmp(type, "WordPiece") == 0;
}

/* --- vocabularies ------------------------------------------------------------------ */

/* Read a list of [piece, log probability]; the id of a piece is its index. */
static enum status read_unigrams(const json_t *model, struct arena *a,
				 struct tokenizer_def *def, struct fail *fail)
{
	const json_t *list = json_object_get(model, "vocab"), *pair;
	const json_t *unk = jsonfile_get(model, "unk_id");
	size_t n = json_array_size(list), i;
	if (!json_is_array(list) || n == 0 || n > INT32_MAX)
		return tokenizer_encoders_bad(fail, "model.vocab", "is not a list of pieces");
	if (json_is_true(json_object_get(model, "byte_fallback")))
		return unsupported(fail, "model.byte_fallback", "a unigram vocabulary with it");
	json_int_t unk_id = json_integer_value(unk);
	if (!json_is_integer(unk) || unk_id < 0 || unk_id >= (json_int_t)n)
		return tokenizer_encoders_bad(fail, "model.unk_id", "names no piece");
	struct str *pieces = arena_alloc(a, n * sizeof *pieces);
	double *log_probs = arena_alloc(a, n * sizeof *log_probs);
	json_array_foreach ((json_t *)(uintptr_t)list, i, pair) {
		const json_t *piece = json_array_get(pair, 0), *p = json_array_get(pair, 1);
		char place[48];
		snprintf(place, sizeof place, "model.vocab[%zu]", i);
		if (!json_is_string(piece) || !json_is_number(p))
			return tokenizer_encoders_bad(fail, place,
						      "is not a piece and its probability");
		pieces[i] = (struct str){json_string_value(piece), json_string_length(piece)};
		log_probs[i] = json_number_value(p);
	}
	def->pieces = pieces;
	def->log_probs = log_probs;
	def->n_pieces = (int32_t)n;
	def->unk_id = (int32_t)unk_id;
	def->kind = TOKENIZER_UNIGRAM;
	def->is_spm = true;
	return OK;
}

/* Read an object of pieces and their ids, which have no gaps. */
static enum status read_wordpieces(const json_t *model, struct arena *a,
				   struct tokenizer_def *def, struct fail *fail)
{
	json_t *vocab = json_object_get(model, "vocab"), *v;
	const json_t *most = jsonfile_get(model, "max_input_chars_per_word");
	size_t n = json_object_size(vocab);
	const char *key;
	if (!json_is_object(vocab) || n == 0 || n > INT32_MAX)
		return tokenizer_encoders_bad(fail, "model.vocab", "is not an object of pieces");
	if (!has(model, "continuing_subword_prefix", "##"))
		return unsupported(fail, "model.continuing_subword_prefix", "another one than ##");
	struct str *pieces = arena_alloc(a, n * sizeof *pieces);
	json_object_foreach (vocab, key, v) {
		json_int_t id = json_integer_value(v);
		char place[120];
		snprintf(place, sizeof place, "model.vocab[\"%.80s\"]", key);
		if (!json_is_integer(v) || id < 0 || id >= (json_int_t)n || pieces[id].p)
			return tokenizer_encoders_bad(
				fail, place, "has no id of its own below the number of pieces");
		pieces[id] = str_of(key);
	}
	json_int_t max_word = most ? json_integer_value(most) : 100;
	if ((most && !json_is_integer(most)) || max_word < 1 || max_word > 256)
		return unsupported(fail, "model.max_input_chars_per_word",
				   "what is not a number from 1 to 256");
	const char *unk = string_of(model, "unk_token");
	def->pieces = pieces;
	def->n_pieces = (int32_t)n;
	def->unk = str_of(*unk ? unk : "[UNK]");
	def->max_word = (int32_t)max_word;
	def->kind = TOKENIZER_WORDPIECE;
	return OK;
}

enum status tokenizer_encoders_model(const json_t *model, struct arena *a,
				     struct tokenizer_def *def, struct fail *fail)
{
	return has(model, "type", "Unigram") ? read_unigrams(model, a, def, fail)
					     : read_wordpieces(model, a, def, fail);
}

/* --- steps -------------------------------------------------------------------------- */

static enum status read_charsmap(const json_t *v, const char *place, struct arena *a,
				 struct tokenizer_def *def, struct fail *fail)
{
	struct buf bytes = {0};
	const json_t *text = jsonfile_get(v, "precompiled_charsmap");
	struct str s = {json_string_value(text), json_string_length(text)};
	enum status st = OK;
	if (!text)
		return OK;
	if (!json_is_string(text) || !base64_decode(s, &bytes))
		st = tokenizer_encoders_bad(fail, place,
					    "has a precompiled_charsmap that is no base64");
	def->charsmap = st == OK ? arena_str(a, buf_str(&bytes)) : (struct str){0};
	buf_deinit(&bytes);
	return st;
}

/* True for the rule that replaces several spaces by one; at this place U+2581 is a space. */
static bool is_squeeze(const json_t *v)
{
	const json_t *pattern = json_object_get(v, "pattern");
	return has(v, "type", "Replace") && has(pattern, "Regex", " {2,}") &&
	       (has(v, "content", " ") || has(v, "content", SPACE));
}

static enum status read_bert(const json_t *v, const char *place, struct bert_text *b,
			     struct fail *fail)
{
	enum status st = read_flag(v, "clean_text", place, true, &b->cleans, fail);
	if (st == OK)
		st = read_flag(v, "handle_chinese_chars", place, true, &b->spaces_han, fail);
	if (st == OK)
		st = read_flag(v, "lowercase", place, true, &b->lowers, fail);
	return st != OK ? st
			: read_flag(v, "strip_accents", place, b->lowers,
				    &b->strips_accents, fail);
}

enum status tokenizer_encoders_normalizer(const json_t *v, const char *place, struct arena *a,
					  struct tokenizer_def *def, struct fail *fail)
{
	struct space_rules *s = &def->spaces;
	if (def->kind == TOKENIZER_WORDPIECE)
		return has(v, "type", "BertNormalizer")
			       ? read_bert(v, place, &def->bert, fail)
			       : unsupported(fail, place, string_of(v, "type"));
	/* Only files that apply the character table before the rules of spaces are supported. */
	bool is_first = !s->strips_left && !s->strips_right && !s->squeezes;
	if (has(v, "type", "Precompiled") && is_first && !def->charsmap.n)
		return read_charsmap(v, place, a, def, fail);
	if (is_squeeze(v)) {
		s->squeezes = true;
		return OK;
	}
	if (!has(v, "type", "Strip") || s->squeezes)
		return unsupported(fail, place, string_of(v, "type"));
	enum status st = read_flag(v, "strip_left", place, true, &s->strips_left, fail);
	return st != OK ? st : read_flag(v, "strip_right", place, true, &s->strips_right, fail);
}

static enum status read_metaspace(const json_t *v, const char *place,
				  struct tokenizer_def *def, struct fail *fail)
{
	const char *scheme = string_of(v, "prepend_scheme");
	bool has_prefix;
	enum status st = read_flag(v, "add_prefix_space", place, true, &has_prefix, fail);
	if (st == OK)
		st = read_flag(v, "split", place, true, &def->splits_words, fail);
	if (st != OK)
		return st;
	scheme = *scheme ? scheme : has_prefix ? "always" : "never";
	/* After WhitespaceSplit, each word gets a space or none does. */
	bool is_always = strcmp(scheme, "always") == 0;
	if (!has(v, "replacement", SPACE) ||
	    (!is_always && (strcmp(scheme, "first") != 0 || def->spaces.splits)))
		return unsupported(fail, place, "this replacement or prepend_scheme");
	def->space_prefix = is_always ? SPACE_UNLESS : SPACE_FIRST;
	def->splits_words |= def->spaces.splits;
	def->spaces_late = true;
	return OK;
}

enum status tokenizer_encoders_pretok(const json_t *v, const char *place,
				      struct tokenizer_def *def, struct fail *fail)
{
	const char *type = string_of(v, "type");
	if (def->kind == TOKENIZER_WORDPIECE)
		return strcmp(type, "BertPreTokenizer") == 0 ? OK
							     : unsupported(fail, place, type);
	if (strcmp(type, "WhitespaceSplit") == 0 && !def->spaces_late) {
		def->spaces.splits = true;
		return OK;
	}
	if (strcmp(type, "Metaspace") == 0 && !def->spaces_late)
		return read_metaspace(v, place, def, fail);
	return unsupported(fail, place, type);
}

enum status tokenizer_encoders_check(const struct tokenizer_def *def, struct fail *fail)
{
	if (def->kind == TOKENIZER_UNIGRAM && !def->spaces_late)
		return unsupported(fail, "pre_tokenizer", "a unigram vocabulary without Metaspace");
	return OK;
}
