/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates tokenizer.json to struct tokenizer_def. A setting that could change an id is
 * either understood, or refused with its place in the file
 * ("pre_tokenizer.pretokenizers[1]"). Settings that do not change ids (truncation,
 * padding, offsets) are ignored.
 *
 * The definition consists of views into the JSON tree of jansson. Both live until the
 * tokenizer has copied what it needs.
 */
#include "model/tokenizer_hf.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "json/jsonfile.h"
#include "model/model_templates.h"
#include "model/tokenizer_encoders.h"
#include "model/tokenizer_tekken.h"
#include "tokenizer/normalize.h"

/* The largest file we know, with 262,144 tokens, has 33 MB. */
#define MAX_FILE_BYTES ((size_t)64 << 20)
#define MAX_STEPS 64

struct tokenizer_reader {
	struct arena arena;
	struct strmap vocab; /* text of a piece -> id */
	struct tokenizer_def def;
	struct pretok_step steps[MAX_STEPS];
	struct normal_step normal[MAX_STEPS];
	bool has_spaces; /* a step replaces spaces by U+2581 */
	int n_decoders;  /* SentencePiece decoders read so far */
	struct fail *fail;
};

static enum status tokenizer_hf_bad(struct tokenizer_reader *r, const char *place, const char *what)
{
	return fail_at(r->fail, E_FORMAT, place, "tokenizer.json: %s %s", place,
		       what);
}

static enum status unsupported(struct tokenizer_reader *r, const char *place,
			       const char *what)
{
	return fail_at(r->fail, E_UNSUPPORTED, place,
		       "tokenizer.json: %s: %s is not supported", place, what);
}

static struct str str_value(const json_t *v)
{
	return (struct str){json_string_value(v), json_string_length(v)};
}

/* The string "type" of an object; "" if absent. */
static const char *type_of(const json_t *v)
{
	const char *s = json_string_value(json_object_get(v, "type"));
	return s ? s : "";
}

/* Read boolean `key` of object; `absent` is its default. */
static enum status read_bool(struct tokenizer_reader *r, const json_t *object,
			     const char *place, const char *key, bool absent,
			     bool *out)
{
	const json_t *v = jsonfile_get(object, key);
	if (v && !json_is_boolean(v)) {
		char at[120];
		snprintf(at, sizeof at, "%s.%s", place, key);
		return tokenizer_hf_bad(r, at, "is not true or false");
	}
	*out = v ? json_is_true(v) : absent;
	return OK;
}

/* --- model ----------------------------------------------------------------- */

static enum status check_piece(struct tokenizer_reader *r, const char *spelling,
			       const json_t *v)
{
	/* Ids index arrays, so the largest may not far exceed the number of pieces. */
	size_t n = r->vocab.n;
	json_int_t most = (json_int_t)(n + n / 2 + 65536);
	char place[120];
	snprintf(place, sizeof place, "model.vocab[\"%.80s\"]", spelling);
	if (!json_is_integer(v))
		return tokenizer_hf_bad(r, place, "is not an integer");
	json_int_t id = json_integer_value(v);
	if (id < 0 || id >= most)
		return tokenizer_hf_bad(r, place, "is out of range");
	return OK;
}

static enum status read_vocab(struct tokenizer_reader *r, json_t *model)
{
	json_t *vocab = json_object_get(model, "vocab");
	if (!json_is_object(vocab))
		return tokenizer_hf_bad(r, "model.vocab", "is not an object");
	const char *key;
	json_t *v;
	int32_t n = 0;
	strmap_init(&r->vocab, json_object_size(vocab));
	json_object_foreach (vocab, key, v)
		strmap_put(&r->vocab, str_of(key), 0);
	json_object_foreach (vocab, key, v) {
		enum status st = check_piece(r, key, v);
		if (st != OK)
			return st;
		int32_t id = (int32_t)json_integer_value(v);
		strmap_put(&r->vocab, str_of(key), (uint32_t)id);
		n = MAX(n, id + 1);
	}
	struct str *pieces = arena_alloc(&r->arena, (size_t)n * sizeof *pieces);
	json_object_foreach (vocab, key, v) {
		struct str *p = &pieces[json_integer_value(v)];
		if (p->p) {
			char place[120];
			snprintf(place, sizeof place, "model.vocab[\"%.80s\"]",
				 key);
			return tokenizer_hf_bad(r, place, "has the id of another piece");
		}
		*p = str_of(key);
	}
	r->def.pieces = pieces;
	r->def.n_pieces = n;
	return OK;
}

/* Read a merge: "a b", or ["a", "b"] in newer files. */
static bool read_merge(const json_t *v, struct merge *out)
{
	if (json_is_array(v)) {
		const json_t *a = json_array_get(v, 0);
		const json_t *b = json_array_get(v, 1);
		*out = (struct merge){str_value(a), str_value(b)};
		return json_array_size(v) == 2 && json_is_string(a) &&
		       json_is_string(b);
	}
	if (!json_is_string(v))
		return false;
	struct str s = str_value(v);
	ptrdiff_t space = str_find(s, STR(" "), 0);
	if (space < 0 || str_find(s, STR(" "), (size_t)space + 1) >= 0)
		return false;
	out->left = (struct str){s.p, (size_t)space};
	out->right = (struct str){s.p + space + 1, s.n - (size_t)space - 1};
	return true;
}

static enum status read_merges(struct tokenizer_reader *r, const json_t *model)
{
	const json_t *list = json_object_get(model, "merges");
	if (!json_is_array(list))
		return tokenizer_hf_bad(r, "model.merges", "is not a list");
	size_t n = json_array_size(list);
	struct merge *merges = arena_alloc(&r->arena, n * sizeof *merges);
	int32_t n_merges = 0;
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		/* skip the header line of a merges.txt */
		if (json_is_string(v) &&
		    str_starts(str_value(v), STR("#version")))
			continue;
		if (!read_merge(v, &merges[n_merges++])) {
			char place[48];
			snprintf(place, sizeof place, "model.merges[%zu]", i);
			return tokenizer_hf_bad(r, place, "is not a pair of pieces");
		}
	}
	r->def.merges = merges;
	r->def.n_merges = n_merges;
	return OK;
}

/* Refuse BPE settings that would change ids in ways unknown here. */
static enum status check_model(struct tokenizer_reader *r, const json_t *model)
{
	static const char *const texts[] = {"continuing_subword_prefix",
					    "end_of_word_suffix"};
	char place[64];
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const json_t *v = jsonfile_get(model, texts[i]);
		snprintf(place, sizeof place, "model.%s", texts[i]);
		if (v && !(json_is_string(v) && json_string_length(v) == 0))
			return unsupported(r, place, "anything but null");
	}
	const json_t *dropout = jsonfile_get(model, "dropout");
	if (dropout && !(json_is_number(dropout) &&
			 json_number_value(dropout) == 0))
		return unsupported(r, "model.dropout", "anything but null");
	/* byte_fallback marks a converted SentencePiece vocabulary, which is not
	 * byte-level. */
	return read_bool(r, model, "model", "byte_fallback", false, &r->def.is_spm);
}

static enum status read_encoder(struct tokenizer_reader *r, const json_t *model)
{
	enum status st = tokenizer_encoders_model(model, &r->arena, &r->def, r->fail);
	strmap_init(&r->vocab, st == OK ? (size_t)r->def.n_pieces : 1);
	for (int32_t id = 0; st == OK && id < r->def.n_pieces; id++)
		strmap_put(&r->vocab, r->def.pieces[id], (uint32_t)id);
	return st;
}

static bool is_encoder(const struct tokenizer_reader *r)
{
	return r->def.kind != TOKENIZER_BPE;
}

static enum status read_model(struct tokenizer_reader *r, json_t *top)
{
	json_t *model = json_object_get(top, "model");
	if (!json_is_object(model))
		return tokenizer_hf_bad(r, "model", "is not an object");
	const char *type = type_of(model);
	if (tokenizer_encoders_has(type))
		return read_encoder(r, model);
	if (*type && strcmp(type, "BPE") != 0)
		return unsupported(r, "model.type", type);
	const json_t *unk = jsonfile_get(model, "unk_token");
	if (unk && !json_is_string(unk))
		return tokenizer_hf_bad(r, "model.unk_token", "is not a string");
	if (unk)
		r->def.unk = str_value(unk);
	enum status st = check_model(r, model);
	if (st == OK)
		st = read_bool(r, model, "model", "fuse_unk", false,
			       &r->def.fuse_unk);
	if (st == OK)
		st = read_bool(r, model, "model", "ignore_merges", false,
			       &r->def.ignore_merges);
	if (st == OK)
		st = read_vocab(r, model);
	return st == OK ? read_merges(r, model) : st;
}

/* --- added tokens ---------------------------------------------------------- */

static enum status read_added_token(struct tokenizer_reader *r, const json_t *v,
				    const char *place, struct added_token *out)
{
	const json_t *content = json_object_get(v, "content");
	const json_t *id = json_object_get(v, "id");
	if (!json_is_string(content))
		return tokenizer_hf_bad(r, place, "has no content");
	if (!json_is_integer(id) || json_integer_value(id) < 0 ||
	    json_integer_value(id) >= INT32_MAX)
		return tokenizer_hf_bad(r, place, "has no id, or one out of range");
	out->text = str_value(content);
	out->id = (int32_t)json_integer_value(id);
	struct {
		const char *key;
		bool *value;
	} flags[] = {
		{"special", &out->special},
		{"lstrip", &out->lstrip},
		{"rstrip", &out->rstrip},
		{"single_word", &out->single_word},
		{"normalized", &out->normalized},
	};
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(flags) && st == OK; i++) {
		if (!jsonfile_get(v, flags[i].key))
			return tokenizer_hf_bad(r, place, "lacks one of its five flags");
		st = read_bool(r, v, place, flags[i].key, false,
			       flags[i].value);
	}
	return st;
}

/* Check an added token's id. Hugging Face assigns these ids itself: the vocabulary's id
 * if the text is there, else the next number after the vocabulary. If the file had another
 * number, halod and Hugging Face would give different ids. In a vocabulary with holes, library
 * versions count differently, so the file's number is accepted. */
static enum status check_added_id(struct tokenizer_reader *r, const char *place,
				  const struct added_token *a, int32_t *next)
{
	uint32_t known;
	int32_t want = strmap_get(&r->vocab, a->text, &known) ? (int32_t)known
							      : (*next)++;
	bool has_holes = r->def.n_pieces != (int32_t)r->vocab.n;
	if (a->id == want || (has_holes && want >= (int32_t)r->vocab.n))
		return OK;
	return fail_at(r->fail, E_FORMAT, place,
		       "tokenizer.json: %s, \"%.60s\", has id %d where %d is "
		       "expected", place, a->text.p, a->id, want);
}

static enum status read_added(struct tokenizer_reader *r, const json_t *top)
{
	const json_t *list = jsonfile_get(top, "added_tokens");
	if (!list)
		return OK;
	if (!json_is_array(list))
		return tokenizer_hf_bad(r, "added_tokens", "is not a list");
	size_t n = json_array_size(list);
	struct added_token *added = arena_alloc(&r->arena, n * sizeof *added);
	int32_t next = (int32_t)r->vocab.n;
	enum status st = OK;
	int n_added = 0;
	for (size_t i = 0; i < n && st == OK; i++) {
		char place[48];
		snprintf(place, sizeof place, "added_tokens[%zu]", i);
		struct added_token *a = &added[n_added];
		st = read_added_token(r, json_array_get(list, i), place, a);
		if (st != OK || a->text.n == 0)
			continue; /* an added token without text is ignored */
		st = check_added_id(r, place, a, &next);
		n_added++;
	}
	r->def.added = added;
	r->def.n_added = n_added;
	return st;
}

/* --- steps of SentencePiece tokenizers -------------------------------------- */

/* Two ways to turn a text's spaces into U+2581: the normalizers Replace and Prepend, or
 * the pre-tokenizer Metaspace. Decoding always uses the same list of decoders. */

#define SPACE "\xE2\x96\x81"

static bool has_string(const json_t *v, const char *key, const char *want)
{
	const char *s = json_string_value(json_object_get(v, key));
	return s && strcmp(s, want) == 0;
}

static bool is_replace(const json_t *v, const char *from, const char *to)
{
	return strcmp(type_of(v), "Replace") == 0 && has_string(v, "content", to) &&
	       has_string(json_object_get(v, "pattern"), "String", from);
}

/* Reads a Replace or a Prepend. */
static enum status read_text_step(struct tokenizer_reader *r, const json_t *v, const char *place,
				  struct normal_step *step)
{
	const json_t *pattern = json_object_get(v, "pattern");
	const json_t *regex = json_object_get(pattern, "Regex");
	const json_t *literal = json_object_get(pattern, "String");
	const json_t *content = json_object_get(
		v, step->kind == NORMAL_PREPEND ? "prepend" : "content");
	bool has_pattern = json_is_string(regex) || json_string_length(literal);
	if (!json_is_string(content) || (step->kind == NORMAL_REPLACE && !has_pattern))
		return tokenizer_hf_bad(r, place, "has no text, or no pattern");
	step->content = str_value(content);
	step->is_literal = !json_is_string(regex);
	step->pattern = str_value(step->is_literal ? literal : regex);
	return OK;
}

static enum status read_normal(struct tokenizer_reader *r, const json_t *v, const char *place)
{
	static const struct {
		const char *type;
		enum normal_kind kind;
	} kinds[] = {
		{"NFC", NORMAL_NFC}, {"NFD", NORMAL_NFD}, {"NFKC", NORMAL_NFKC},
		{"NFKD", NORMAL_NFKD}, {"Lowercase", NORMAL_LOWER},
		{"StripAccents", NORMAL_STRIP_ACCENTS}, {"Strip", NORMAL_STRIP},
		{"Replace", NORMAL_REPLACE}, {"Prepend", NORMAL_PREPEND}};
	size_t i = 0;
	while (i < ARRAY_LEN(kinds) && strcmp(type_of(v), kinds[i].type) != 0)
		i++;
	if (i == ARRAY_LEN(kinds))
		return unsupported(r, place, *type_of(v) ? type_of(v) : "this step");
	if (r->def.n_normal == MAX_STEPS)
		return unsupported(r, place, "a longer sequence");
	struct normal_step *step = &r->normal[r->def.n_normal++];
	step->kind = kinds[i].kind;
	r->def.normal = r->normal;
	if (step->kind == NORMAL_REPLACE || step->kind == NORMAL_PREPEND)
		return read_text_step(r, v, place, step);
	if (step->kind != NORMAL_STRIP)
		return OK;
	enum status st = read_bool(r, v, place, "strip_left", true, &step->left);
	return st == OK ? read_bool(r, v, place, "strip_right", true, &step->right) : st;
}

static enum status on_spm_normalizer(struct tokenizer_reader *r, const json_t *v,
				     const char *place)
{
	bool is_first = !r->has_spaces && r->def.space_prefix == SPACE_NEVER;
	if (is_replace(v, " ", SPACE))
		r->has_spaces = true;
	else if (strcmp(type_of(v), "Prepend") == 0 && has_string(v, "prepend", SPACE))
		r->def.space_prefix = SPACE_EACH;
	else if (is_first)
		return read_normal(r, v, place);
	else
		return unsupported(r, place, *type_of(v) ? type_of(v) : "this step");
	return OK;
}

static enum status read_metaspace(struct tokenizer_reader *r, const json_t *v, const char *place)
{
	static const struct {
		const char *name;
		enum space_prefix kind;
	} schemes[] = {
		{"always", SPACE_UNLESS}, {"first", SPACE_FIRST}, {"never", SPACE_NEVER}};
	bool has_prefix;
	enum status st = read_bool(r, v, place, "add_prefix_space", true, &has_prefix);
	if (st == OK)
		st = read_bool(r, v, place, "split", true, &r->def.splits_words);
	if (st != OK)
		return st;
	if (!has_string(v, "replacement", SPACE))
		return unsupported(r, place, "this replacement");
	const json_t *scheme = jsonfile_get(v, "prepend_scheme");
	const char *name = scheme ? json_string_value(scheme)
				  : has_prefix ? "always" : "never";
	for (size_t i = 0; name && i < ARRAY_LEN(schemes); i++)
		if (strcmp(schemes[i].name, name) == 0) {
			r->def.space_prefix = schemes[i].kind;
			r->def.spaces_late = r->has_spaces = true;
			return OK;
		}
	return unsupported(r, place, "this prepend_scheme");
}

static enum status on_spm_pre_tokenizer(struct tokenizer_reader *r, const json_t *v,
					const char *place)
{
	const char *type = type_of(v);
	if (strcmp(type, "Metaspace") == 0 && !r->has_spaces &&
	    r->def.space_prefix == SPACE_NEVER)
		return read_metaspace(r, v, place);
	/* After the normalizer no space is left, so splitting at spaces has no effect. */
	if (strcmp(type, "Split") == 0 && r->has_spaces && !r->def.spaces_late &&
	    has_string(json_object_get(v, "pattern"), "String", " ") &&
	    !json_is_true(json_object_get(v, "invert")))
		return OK;
	return unsupported(r, place, *type ? type : "this step");
}

/* The decoders must be Replace, ByteFallback, Fuse, and optionally a Strip of the first
 * space. */
static enum status on_spm_decoder(struct tokenizer_reader *r, const json_t *v, const char *place)
{
	static const char *const types[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
	int i = r->n_decoders++;
	bool is_known = i < (int)ARRAY_LEN(types) && strcmp(type_of(v), types[i]) == 0;
	if (is_known && i == 0)
		is_known = is_replace(v, SPACE, " ");
	if (is_known && i == 3)
		is_known = has_string(v, "content", " ") &&
			   json_integer_value(json_object_get(v, "start")) == 1 &&
			   json_integer_value(json_object_get(v, "stop")) == 0;
	if (!is_known)
		return unsupported(r, place, type_of(v));
	r->def.strips_space = i == 3;
	return OK;
}

static enum status check_spm(struct tokenizer_reader *r)
{
	if (!r->has_spaces)
		return unsupported(r, "model.byte_fallback",
				   "a vocabulary whose spaces are not U+2581");
	if (r->n_decoders < 3)
		return unsupported(r, "decoder", "less than Replace, ByteFallback, Fuse");
	return OK;
}

/* --- normalizer, pre-tokenizer, decoder, post-processor -------------------- */

/* Call `each` for v. If v is a Sequence, call it for all its members (under `key`), also
 * within nested sequences. */
typedef enum status (*part_fn)(struct tokenizer_reader *r, const json_t *v,
			       const char *place);

static enum status read_parts(struct tokenizer_reader *r, const json_t *v,
			      const char *place, const char *key, part_fn each)
{
	if (!json_is_object(v))
		return tokenizer_hf_bad(r, place, "is not an object");
	if (strcmp(type_of(v), "Sequence") != 0)
		return each(r, v, place);
	const json_t *list = json_object_get(v, key);
	if (!json_is_array(list))
		return tokenizer_hf_bad(r, place, "is a Sequence without its list");
	enum status st = OK;
	/* Recursion is bounded by the depth of the JSON, which the parser limits. */
	for (size_t i = 0; i < json_array_size(list) && st == OK; i++) {
		char at[120];
		snprintf(at, sizeof at, "%.80s.%s[%zu]", place, key, i);
		st = read_parts(r, json_array_get(list, i), at, key, each);
	}
	return st;
}

static enum status on_normalizer(struct tokenizer_reader *r, const json_t *v,
				 const char *place)
{
	if (is_encoder(r))
		return tokenizer_encoders_normalizer(v, place, &r->arena, &r->def, r->fail);
	if (r->def.is_spm)
		return on_spm_normalizer(r, v, place);
	return read_normal(r, v, place);
}

static enum status on_decoder(struct tokenizer_reader *r, const json_t *v,
			      const char *place)
{
	if (is_encoder(r)) /* an encoder writes no text, so it needs no decoder */
		return OK;
	if (r->def.is_spm)
		return on_spm_decoder(r, v, place);
	return strcmp(type_of(v), "ByteLevel") == 0
		       ? OK
		       : unsupported(r, place, type_of(v));
}

/* What becomes of the matches of a step. */
static enum status read_behavior(struct tokenizer_reader *r, const json_t *v, const char *place,
				 struct pretok_step *step)
{
	static const char *const behaviors[] = {
		[SPLIT_REMOVED] = "Removed",
		[SPLIT_ISOLATED] = "Isolated",
		[SPLIT_MERGED_PREVIOUS] = "MergedWithPrevious",
		[SPLIT_MERGED_NEXT] = "MergedWithNext",
		[SPLIT_CONTIGUOUS] = "Contiguous",
	};
	const char *name = json_string_value(json_object_get(v, "behavior"));
	size_t b = 0;
	while (b < ARRAY_LEN(behaviors) &&
	       !(name && strcmp(behaviors[b], name) == 0))
		b++;
	if (b == ARRAY_LEN(behaviors))
		return unsupported(r, place, "this behavior");
	step->behavior = (enum pretok_behavior)b;
	return OK;
}

static enum status read_split(struct tokenizer_reader *r, const json_t *v,
			      const char *place, struct pretok_step *step)
{
	step->kind = PRETOK_SPLIT;
	const json_t *pattern = json_object_get(v, "pattern");
	const json_t *regex = json_object_get(pattern, "Regex");
	const json_t *literal = json_object_get(pattern, "String");
	if (!json_is_string(regex) && !json_is_string(literal))
		return tokenizer_hf_bad(r, place, "has no pattern.Regex or pattern.String");
	step->is_literal = !json_is_string(regex);
	step->regex = str_value(step->is_literal ? literal : regex);
	enum status st = read_behavior(r, v, place, step);
	return st == OK ? read_bool(r, v, place, "invert", false, &step->invert) : st;
}

/* One character of Unicode's punctuation, or of ASCII's, which Unicode counts as symbols in
 * part. Without a behavior it is Isolated. */
static enum status read_punctuation(struct tokenizer_reader *r, const json_t *v,
				    const char *place, struct pretok_step *step)
{
	step->kind = PRETOK_SPLIT;
	step->regex = STR("[\\p{P}$+<=>^`|~]");
	step->behavior = SPLIT_ISOLATED;
	return json_object_get(v, "behavior") ? read_behavior(r, v, place, step) : OK;
}

static enum status on_pre_tokenizer(struct tokenizer_reader *r, const json_t *v,
				    const char *place)
{
	if (is_encoder(r))
		return tokenizer_encoders_pretok(v, place, &r->def, r->fail);
	if (r->def.is_spm)
		return on_spm_pre_tokenizer(r, v, place);
	if (r->def.n_steps == MAX_STEPS)
		return unsupported(r, place, "a longer sequence");
	struct pretok_step *step = &r->steps[r->def.n_steps++];
	const char *type = type_of(v);
	if (strcmp(type, "Split") == 0)
		return read_split(r, v, place, step);
	if (strcmp(type, "Punctuation") == 0)
		return read_punctuation(r, v, place, step);
	if (strcmp(type, "Digits") == 0) {
		step->kind = PRETOK_DIGITS;
		return read_bool(r, v, place, "individual_digits", false,
				 &step->individual_digits);
	}
	if (strcmp(type, "ByteLevel") != 0)
		return unsupported(r, place, *type ? type : "this step");
	step->kind = PRETOK_BYTE_LEVEL;
	enum status st = read_bool(r, v, place, "use_regex", true,
				   &step->use_regex);
	return st != OK ? st
			: read_bool(r, v, place, "add_prefix_space", true,
				    &step->add_prefix_space);
}

/* Read the ids of one {"SpecialToken": {"id": NAME}} of a template. */
static enum status template_ids(struct tokenizer_reader *r, const json_t *processor,
				const json_t *item, const char *place,
				struct ids *out)
{
	const char *name = json_string_value(json_object_get(
		json_object_get(item, "SpecialToken"), "id"));
	const json_t *list = json_object_get(
		json_object_get(json_object_get(processor, "special_tokens"),
				name ? name : ""),
		"ids");
	if (!name || !json_is_array(list))
		return tokenizer_hf_bad(r, place, "names a token without ids");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *id = json_array_get(list, i);
		if (!json_is_integer(id) || json_integer_value(id) < 0 ||
		    json_integer_value(id) >= INT32_MAX)
			return tokenizer_hf_bad(r, place, "has an id out of range");
		ids_add(out, (int32_t)json_integer_value(id));
	}
	return OK;
}

static int32_t *keep_ids(struct tokenizer_reader *r, struct ids *ids, int *out_n)
{
	int32_t *p = arena_alloc(&r->arena, ids->n * sizeof *p);
	if (ids->n)
		memcpy(p, ids->p, ids->n * sizeof *p);
	*out_n = (int)ids->n;
	ids_deinit(ids);
	return p;
}

/* Read TemplateProcessing's `single`: special tokens around one text "A". */
static enum status read_template(struct tokenizer_reader *r, const json_t *v,
				 const char *place)
{
	const json_t *single = json_object_get(v, "single");
	struct ids before = {0}, behind = {0};
	int n_texts = 0;
	enum status st = json_is_array(single) && !r->def.prefix
				 ? OK
				 : tokenizer_hf_bad(r, place, "has no single template, or "
						 "is a second one");
	for (size_t i = 0; i < json_array_size(single) && st == OK; i++) {
		const json_t *item = json_array_get(single, i);
		if (!json_object_get(item, "Sequence"))
			st = template_ids(r, v, item, place,
					  n_texts ? &behind : &before);
		else
			n_texts++;
	}
	if (st == OK && n_texts != 1)
		st = tokenizer_hf_bad(r, place, "has not one text in its single template");
	r->def.prefix = keep_ids(r, &before, &r->def.n_prefix);
	r->def.suffix = keep_ids(r, &behind, &r->def.n_suffix);
	return st;
}

/* Read BertProcessing: "cls" before a text, "sep" after it, each given as [token, id]. */
static enum status read_bert_processing(struct tokenizer_reader *r, const json_t *v,
					const char *place)
{
	const json_t *cls = json_array_get(json_object_get(v, "cls"), 1);
	const json_t *sep = json_array_get(json_object_get(v, "sep"), 1);
	struct ids before = {0}, behind = {0};
	json_int_t first = json_integer_value(cls), last = json_integer_value(sep);
	if (!json_is_integer(cls) || !json_is_integer(sep) || first < 0 || last < 0 ||
	    first >= INT32_MAX || last >= INT32_MAX || r->def.prefix)
		return tokenizer_hf_bad(r, place,
					"has no ids of cls and sep, or is a second template");
	ids_add(&before, (int32_t)first);
	ids_add(&behind, (int32_t)last);
	r->def.prefix = keep_ids(r, &before, &r->def.n_prefix);
	r->def.suffix = keep_ids(r, &behind, &r->def.n_suffix);
	return OK;
}

static enum status on_post_processor(struct tokenizer_reader *r, const json_t *v,
				     const char *place)
{
	const char *type = type_of(v);
	if (strcmp(type, "ByteLevel") == 0)
		return OK; /* only trims offsets, which are not used here */
	if (strcmp(type, "TemplateProcessing") == 0)
		return read_template(r, v, place);
	if (strcmp(type, "BertProcessing") == 0)
		return read_bert_processing(r, v, place);
	return unsupported(r, place, *type ? type : "this processor");
}

static enum status read_pipeline(struct tokenizer_reader *r, const json_t *top)
{
	const struct {
		const char *name, *members;
		part_fn each;
		bool needed;
	} stages[] = {
		{"normalizer", "normalizers", on_normalizer, false},
		{"pre_tokenizer", "pretokenizers", on_pre_tokenizer, !r->def.is_spm},
		{"post_processor", "processors", on_post_processor, false},
		{"decoder", "decoders", on_decoder, !is_encoder(r)},
	};
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(stages) && st == OK; i++) {
		const json_t *v = jsonfile_get(top, stages[i].name);
		if (v)
			st = read_parts(r, v, stages[i].name,
					stages[i].members, stages[i].each);
		else if (stages[i].needed)
			st = unsupported(r, stages[i].name, "null");
	}
	r->def.steps = r->steps;
	if (is_encoder(r))
		return st == OK ? tokenizer_encoders_check(&r->def, r->fail) : st;
	return st == OK && r->def.is_spm ? check_spm(r) : st;
}

static enum status build(json_t *top, struct tokenizer **out,
			 struct fail *fail)
{
	struct tokenizer_reader *r = xcalloc(1, sizeof *r);
	r->fail = fail;
	arena_init(&r->arena);
	enum status st = read_model(r, top);
	if (st == OK)
		st = read_added(r, top);
	if (st == OK)
		st = read_pipeline(r, top);
	if (st == OK) {
		struct fail why = {0};
		st = tokenizer_create(&r->def, out, &why);
		if (st != OK)
			fail_at(fail, st, why.param, "tokenizer.json: %s",
				why.text);
	}
	strmap_deinit(&r->vocab);
	arena_deinit(&r->arena);
	free(r);
	return st;
}

enum status tokenizer_hf_parse(struct str json, const char *name,
			       struct tokenizer **out, struct fail *fail)
{
	json_t *top = NULL;
	enum status st = jsonfile_parse(json, name, JSON_TEXT_PYTHON, &top, fail);
	if (st == OK)
		st = build(top, out, fail);
	json_decref(top);
	return st;
}

/* --- tokenizer_config.json ------------------------- */

static char *copy(const json_t *string)
{
	const char *s = json_string_value(string);
	return xstrdup(s ? s : "");
}

/* The text of a token, given as a string or as {"content": text, …}. */
static char *token_text(const json_t *config, const char *key)
{
	const json_t *v = json_object_get(config, key);
	return copy(json_is_object(v) ? json_object_get(v, "content") : v);
}

/* Says which file would help where tokenizer.json is missing. */
static enum status fail_no_json(const char *dir, struct fail *fail)
{
	static const char *const others[] = {"tokenizer.model", "vocab.json",
					     "tiktoken.model"};
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		char *path = file_join(dir, others[i]);
		bool is = file_exists(path);
		free(path);
		if (is)
			return fail_set(fail, E_MISSING, "there is no %s/tokenizer.json, only %s: "
					"AutoTokenizer.from_pretrained and save_pretrained of "
					"Transformers write it", dir, others[i]);
	}
	return fail_set(fail, E_MISSING, "there is no %s/tokenizer.json: fetch it from where the "
			"model came from", dir);
}

/* The folder's templates, else the one that the tokenizer's file gave. */
static enum status load_templates(const char *dir, const json_t *config,
				  struct tokenizer_files *f, struct fail *fail)
{
	char *own = f->chat_template, *found = NULL;
	enum status st = model_templates_load(dir, config, &found, fail);
	bool is_own = own && !(found && found[0]);
	f->chat_template = is_own ? own : found;
	free(is_own ? found : own);
	return st;
}

enum status tokenizer_hf_load(const char *dir, struct tokenizer_files *out,
			      struct fail *fail)
{
	struct tokenizer_files f = {0};
	json_t *top = NULL, *config = NULL;
	enum status st = jsonfile_load(dir, "tokenizer.json", MAX_FILE_BYTES,
				       &top, fail);
	bool is_tekken = st == E_MISSING && tokenizer_tekken_has(dir);
	if (is_tekken)
		st = tokenizer_tekken_load(dir, &f, fail);
	else if (st == E_MISSING)
		st = fail_no_json(dir, fail);
	if (st == OK && !is_tekken)
		st = build(top, &f.tokenizer, fail);
	if (st == OK) {
		st = jsonfile_load(dir, "tokenizer_config.json", MAX_FILE_BYTES,
				   &config, fail);
		if (st == E_MISSING)
			st = OK; /* no such file: no token texts and no template */
	}
	if (st == OK)
		st = load_templates(dir, config, &f, fail);
	if (st == OK && !is_tekken) {
		f.bos_text = token_text(config, "bos_token");
		f.eos_text = token_text(config, "eos_token");
	}
	if (st == OK)
		*out = f;
	else
		tokenizer_files_deinit(&f);
	json_decref(top);
	json_decref(config);
	return st;
}

void tokenizer_files_deinit(struct tokenizer_files *f)
{
	tokenizer_destroy(f->tokenizer);
	free(f->chat_template);
	free(f->bos_text);
	free(f->eos_text);
	*f = (struct tokenizer_files){0};
}
