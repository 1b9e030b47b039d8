/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of a GGUF file. One word ("qwen2") names the pre-tokenizer and stands for the
 * steps in the model's tokenizer.json (gguf_pretok.h). A word that is not in the table is
 * refused, because a guess could give other ids. Files of before May 2024 have no word. The
 * tokenizer type "llama" is SentencePiece: it has scores in place of merges, and no
 * pre-tokenizer. Control and user-defined tokens become the added tokens. Unused tokens become
 * ids without text.
 */
#include "base/alloc.h"
#include "model/gguf_model.h"
#include "model/gguf_pretok.h"
#include "model/model_templates.h"
#include "model/tokenizer_tekken.h"
#include "tokenizer/normalize.h"

#define KEY(name) "tokenizer.ggml." name

/* Token types, with their numbers in the format. */
enum { UNDEFINED, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct gguf_tokenizer_reader {
	const struct gguf *g;
	const char *path;
	struct arena arena;
	struct fail *fail;
	struct tokenizer_def def;
	struct pretok_step steps[GGUF_PRETOK_SPLITS + 1];
	bool adds_bos; /* where the file does not say */
	bool has_merges; /* true: a SentencePiece vocabulary that has merges */
};

static enum status gguf_tokenizer_bad(const struct gguf_tokenizer_reader *r, const char *key,
				      const char *what)
{
	return fail_at(r->fail, E_FORMAT, key, "%s: %s %s", r->path, key, what);
}

/* Read a required string that must be in the table of names. */
static enum status need_string(const struct gguf_tokenizer_reader *r, const char *key,
				struct str *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	if (!v)
		return fail_at(r->fail, E_MISSING, key, "%s: %s is missing", r->path, key);
	return gguf_string(v, out) ? OK : gguf_tokenizer_bad(r, key, "is not a string");
}

static enum status unknown(const struct gguf_tokenizer_reader *r, const char *key, struct str s)
{
	return fail_at(r->fail, E_UNSUPPORTED, key, "%s: %s \"%.*s\" is not supported",
		       r->path, key, (int)MIN(s.n, 60), s.p);
}

/* Read a boolean; `absent` if the key does not exist. */
static enum status read_switch(const struct gguf_tokenizer_reader *r, const char *key, bool absent,
			       bool *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	int64_t is = absent;
	if (v && (v->is_array || !gguf_integer(v, 0, &is)))
		return gguf_tokenizer_bad(r, key, "is not true or false");
	*out = is != 0;
	return OK;
}

/* Check the settings of SentencePiece. It has no pre-tokenizer, and only the
 * normalization "none" is supported. */
static enum status read_spm_kind(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *pre = gguf_find(r->g, KEY("pre"));
	struct str name;
	bool has_spaces_removed = false;
	r->adds_bos = true;
	if (pre && (!gguf_string(pre, &name) || !str_is(name, gguf_pretok_default)))
		return gguf_tokenizer_bad(r, KEY("pre"),
					  "is not \"default\", as SentencePiece needs");
	enum status st = read_switch(r, KEY("remove_extra_whitespaces"), false,
				     &has_spaces_removed);
	if (st == OK && has_spaces_removed)
		st = unknown(r, KEY("remove_extra_whitespaces"), STR("true"));
	if (st == OK && gguf_find(r->g, KEY("precompiled_charsmap")))
		st = unknown(r, KEY("precompiled_charsmap"), STR("(a table)"));
	if (st == OK)
		st = read_switch(r, KEY("add_space_prefix"), true, &r->def.strips_space);
	r->def.space_prefix = r->def.strips_space ? SPACE_EACH : SPACE_NEVER;
	return st;
}

/* A vocabulary of SentencePiece with merges. */
static void use_spaced(struct gguf_tokenizer_reader *r)
{
	r->def.is_spm = r->has_merges = true;
	r->def.space_prefix = SPACE_NEVER;
}

/* Read tokenizer.ggml.pre, the steps and settings of byte-level BPE. */
static enum status read_bpe_kind(struct gguf_tokenizer_reader *r, struct tokenizer_files *out)
{
	struct str name = str_of(gguf_pretok_default);
	const struct gguf_value *v = gguf_find(r->g, KEY("pre"));
	if (v && !gguf_string(v, &name))
		return gguf_tokenizer_bad(r, KEY("pre"), "is not a string");
	const struct gguf_pretok *pre = gguf_pretok_find(name);
	if (!pre)
		return unknown(r, KEY("pre"), name);
	if (str_is(name, gguf_pretok_default))
		out->note = "the file does not name its pre-tokenizer (" KEY("pre") "): the one "
			    "that older files of llama.cpp had is used, and answers may be "
			    "worse; a file converted anew names it";
	r->adds_bos = pre->flags & PRE_BOS;
	if (pre->flags & PRE_SPACED) {
		use_spaced(r);
		return OK;
	}
	static const struct normal_step nfc = {.kind = NORMAL_NFC};
	r->def.normal = &nfc;
	r->def.n_normal = pre->flags & PRE_NFC ? 1 : 0;
	r->def.ignore_merges = pre->flags & PRE_WHOLE;
	struct pretok_step *step = r->steps;
	for (int i = 0; i < GGUF_PRETOK_SPLITS && pre->splits[i]; i++)
		*step++ = (struct pretok_step){.kind = PRETOK_SPLIT,
					       .regex = str_of(pre->splits[i]),
					       .behavior = SPLIT_ISOLATED};
	*step++ = (struct pretok_step){.kind = PRETOK_BYTE_LEVEL};
	r->def.steps = r->steps;
	r->def.n_steps = (int)(step - r->steps);
	return OK;
}

static enum status read_kind(struct gguf_tokenizer_reader *r, struct tokenizer_files *out)
{
	struct str model;
	enum status st = need_string(r, KEY("model"), &model);
	if (st == OK && str_is(model, "gemma4")) {
		/* Prompts begin with bos, whatever the file says; llama.cpp does so too. */
		use_spaced(r);
		r->adds_bos = true;
		return OK;
	}
	r->def.is_spm = st == OK && str_is(model, "llama");
	if (r->def.is_spm)
		return read_spm_kind(r);
	if (st == OK && !str_is(model, "gpt2"))
		st = unknown(r, KEY("model"), model);
	return st == OK ? read_bpe_kind(r, out) : st;
}

static const struct gguf_value *find_array(const struct gguf_tokenizer_reader *r, const char *key,
					   bool of_strings)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	bool is = v && v->is_array && v->n < INT32_MAX &&
		  (v->type == GGUF_STRING) == of_strings;
	return is ? v : NULL;
}

static enum status read_tokens(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *tokens = find_array(r, KEY("tokens"), true);
	const struct gguf_value *types = find_array(r, KEY("token_type"), false);
	if (!tokens)
		return gguf_tokenizer_bad(r, KEY("tokens"), "is missing, or no array of strings");
	if (gguf_find(r->g, KEY("token_type")) && (!types || types->n != tokens->n))
		return gguf_tokenizer_bad(r, KEY("token_type"),
					  "has not one number for each token");
	size_t n = tokens->n;
	struct str *pieces = arena_alloc(&r->arena, n * sizeof *pieces);
	struct added_token *added = arena_alloc(&r->arena, n * sizeof *added);
	const char *at = tokens->p;
	for (size_t i = 0; i < n; i++) {
		struct str s = gguf_next_string(&at);
		int64_t type = NORMAL;
		if (types && (!gguf_integer(types, i, &type) || type < UNDEFINED || type > BYTE))
			return gguf_tokenizer_bad(r, KEY("token_type"), "has a type that is none");
		/* SentencePiece's unknown token counts as special, so that no text can
		 * produce it. */
		bool special = type == CONTROL || (type == UNKNOWN && r->def.is_spm);
		if (special || type == USER_DEFINED) {
			added[r->def.n_added++] = (struct added_token){
				.text = s, .id = (int32_t)i, .special = special};
		} else if (type != UNUSED) {
			pieces[i] = s;
		}
	}
	r->def.pieces = pieces;
	r->def.n_pieces = (int32_t)n;
	r->def.added = added;
	return OK;
}

static enum status read_scores(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *v = find_array(r, KEY("scores"), false);
	if (!v || v->n != (uint64_t)r->def.n_pieces)
		return gguf_tokenizer_bad(r, KEY("scores"),
					  "is missing, or not one for each token");
	float *scores = arena_alloc(&r->arena, v->n * sizeof *scores);
	for (uint64_t i = 0; i < v->n; i++) {
		double d;
		if (!gguf_number(v, i, &d))
			return gguf_tokenizer_bad(r, KEY("scores"), "has one that is no number");
		scores[i] = (float)d;
	}
	r->def.scores = scores;
	return OK;
}

static enum status read_merges(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *v = find_array(r, KEY("merges"), true);
	if (!v)
		return gguf_tokenizer_bad(r, KEY("merges"), "is missing, or no array of strings");
	struct merge *merges = arena_alloc(&r->arena, v->n * sizeof *merges);
	const char *at = v->p;
	for (size_t i = 0; i < v->n; i++) {
		struct str s = gguf_next_string(&at);
		ptrdiff_t space = str_find(s, STR(" "), 1);
		if (space < 0 || (size_t)space + 1 == s.n)
			return gguf_tokenizer_bad(r, KEY("merges"),
						  "has one that is no pair of pieces");
		merges[i].left = (struct str){s.p, (size_t)space};
		merges[i].right = (struct str){s.p + space + 1, s.n - (size_t)space - 1};
	}
	r->def.merges = merges;
	r->def.n_merges = (int32_t)v->n;
	return OK;
}

/* Read the token id under a key; -1 if the key does not exist. */
static enum status read_id(const struct gguf_tokenizer_reader *r, const char *key, int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	int64_t id = -1;
	*out = -1;
	if (!v)
		return OK;
	if (v->is_array || !gguf_integer(v, 0, &id) || id < 0 || id >= r->def.n_pieces)
		return gguf_tokenizer_bad(r, key, "is no token's id");
	*out = (int32_t)id;
	return OK;
}

/* Read whether a token is added at the start or end of a prompt, and which. */
static enum status read_ends(struct gguf_tokenizer_reader *r, const char *switch_key, bool absent,
			     int32_t id, const int32_t **out, int *n)
{
	bool is;
	enum status st = read_switch(r, switch_key, absent, &is);
	if (st != OK || !is || id < 0)
		return st;
	int32_t *p = arena_alloc(&r->arena, sizeof *p);
	*p = id;
	*out = p;
	*n = 1;
	return OK;
}

static char *token_text(const struct gguf_tokenizer_reader *r, int32_t id)
{
	struct str s = {0};
	for (int i = 0; id >= 0 && i < r->def.n_added; i++)
		if (r->def.added[i].id == id)
			s = r->def.added[i].text;
	if (id >= 0 && !s.p)
		s = r->def.pieces[id];
	return s.p ? xstrndup(s.p, s.n) : xstrdup("");
}

/* Reads the chat template under a key, if there is one. */
static enum status read_template(const struct gguf_tokenizer_reader *r, const char *key,
				 struct str *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	return v && !gguf_string(v, out) ? gguf_tokenizer_bad(r, key, "is not a string") : OK;
}

static enum status read_files(struct gguf_tokenizer_reader *r, struct tokenizer_files *out)
{
	int32_t bos = -1, eos = -1;
	struct str template = STR(""), tools = STR("");
	enum status st = read_kind(r, out);
	if (st == OK)
		st = read_tokens(r);
	if (st == OK)
		st = r->def.is_spm && !r->has_merges ? read_scores(r) : read_merges(r);
	if (st == OK)
		st = read_id(r, KEY("bos_token_id"), &bos);
	if (st == OK)
		st = read_id(r, KEY("eos_token_id"), &eos);
	if (st == OK)
		st = read_ends(r, KEY("add_bos_token"), r->adds_bos, bos,
			       &r->def.prefix, &r->def.n_prefix);
	if (st == OK)
		st = read_ends(r, KEY("add_eos_token"), false, eos, &r->def.suffix,
			       &r->def.n_suffix);
	if (st == OK)
		st = read_template(r, "tokenizer.chat_template", &template);
	if (st == OK)
		st = read_template(r, "tokenizer.chat_template.tool_use", &tools);
	if (st != OK)
		return st;
	struct fail why = {0};
	st = tokenizer_create(&r->def, &out->tokenizer, &why);
	if (st != OK)
		return fail_at(r->fail, st, why.param, "%s: its tokenizer: %s", r->path,
			       why.text);
	out->chat_template = tokenizer_tekken_named(template);
	if (!out->chat_template)
		out->chat_template = model_templates_join(template, tools);
	out->bos_text = token_text(r, bos);
	out->eos_text = token_text(r, eos);
	return OK;
}

enum status gguf_tokenizer_load(const struct gguf *g, const char *path,
				struct tokenizer_files *out, struct fail *fail)
{
	struct gguf_tokenizer_reader *r = xcalloc(1, sizeof *r);
	r->g = g;
	r->path = path;
	r->fail = fail;
	arena_init(&r->arena);
	enum status st = read_files(r, out);
	arena_deinit(&r->arena);
	free(r);
	return st;
}
